"""examples/server and its clients at their worst: slow, greedy, broken, gone. Each row says what one does and what must come back; health
answers meanwhile, nothing stays held, and SIGTERM ends the process in its stated time."""

import gzip
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from server_process import Client, Server, close, expected, export, export_tagger, metrics, needs_program

pytestmark = needs_program

PATH = "/v2/models/tagger/infer"
SHORT = ("--header-ms", "1500", "--body-ms", "1500", "--write-ms", "1500", "--drain-ms", "2000", "--body-kb", "8192")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    return export_tagger(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def server(tagger):
    """One for all rows; when they are over, nothing of them is left, and it ends as if nothing had been."""
    with Server(tagger[1], *SHORT) as process:
        yield process.wait_until_ready()
        wait_for(lambda: metrics(process.control_port)["server_held_bytes"] == 0)
        status, rest = process.terminate()
        assert status == 0 and "drained after" in rest


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to be within 30 s")


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def head(*fields, path=PATH, method="POST"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *fields, "", ""]).encode()


def request(rows=2):
    body = json.dumps({"inputs": [{"name": "values", "shape": [rows, 16], "datatype": "FP32", "data": [0.5] * 16 * rows}]}).encode()
    return head(f"Content-Length: {len(body)}") + body


def read_all(connection):
    """What comes until the server closes the connection."""
    text = b""
    try:
        while more := connection.recv(65536):
            text += more
    except ConnectionResetError:
        pass
    return text


def statuses(text):
    """Of all answers in `text`; each must be whole, and an error the protocol's JSON."""
    found = []
    while text:
        header, text = text.split(b"\r\n\r\n", 1)
        fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in header.decode().split("\r\n")[1:])}
        body, text = text[: int(fields["content-length"])], text[int(fields["content-length"]):]
        found.append(int(header.split()[1]))
        assert found[-1] == 200 or json.loads(body)["error"]
        assert found[-1] != 503 or int(fields["retry-after"]) >= 1
    return found


def sent(port, *parts, half_close=False):
    with connect(port) as connection:
        try:
            for part in parts:
                connection.sendall(part)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass                                             # it was refused before all of it was sent
        return statuses(read_all(connection))


CLOSE = "Connection: close"
TINY_CHUNK = b"1;" + b"x" * 4000 + b"\r\n[\r\n"
ROWS = {
    "garbage": ([b"\x00\xff" * 50 + b"\r\n\r\n"], [400]),
    "another protocol": ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300)], [400]),
    "http/2": ([b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"], [400]),
    "no path": ([head(CLOSE, path="/nowhere")], [404]),
    "a path that is not encoded well": ([head(CLOSE, path="/v2/models/%zz", method="GET")], [404]),
    "another method": ([head(CLOSE, "Content-Length: 0", method="DELETE")], [405]),
    "a header without end": ([head() [:-2] + b"X: " + b"y" * 100_000], [431]),
    "a thousand fields": ([head(*[f"X{i}: {'y' * 50}" for i in range(1000)])], [431]),
    "a length that is none": ([head("Content-Length: -5")], [400]),
    "two lengths": ([head("Content-Length: 5", "Content-Length: 6") + b"12345"], [400]),
    "a length and chunks": ([head("Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n"], [400]),
    "a length beyond the limit": ([head("Content-Length: 99999999999")], [413]),
    "chunks beyond the limit": ([head("Transfer-Encoding: chunked")] + [b"10000\r\n" + b" " * 65536 + b"\r\n"] * 200, [413]),
    "tiny chunks with long extensions": ([head("Transfer-Encoding: chunked")] + [TINY_CHUNK * 16] * 400, [413]),
    "chunks that are none": ([head("Transfer-Encoding: chunked"), b"zz\r\n"], [400]),
    "another transfer coding": ([head("Transfer-Encoding: gzip, chunked"), b"0\r\n\r\n"], [501]),
    "a bomb": ([head("Content-Encoding: gzip", f"Content-Length: {len(gzip.compress(bytes(1 << 20)))}"), gzip.compress(bytes(1 << 20))], [415]),
    "an unknown expectation": ([head("Expect: a miracle", "Content-Length: 5")], [417]),
    "a body that ends early": ([head("Content-Length: 100"), b"{"], [400]),
    "half closed after the request": ([request()], [200]),
    "many requests at once": ([request() * 20], [200] * 20),
    "many good ones, then garbage": ([request() * 3 + b"\x01\x02\r\n\r\n"], [200] * 3 + [400]),
    "a length of JSON that is none": ([head(CLOSE, "Inference-Header-Content-Length: 5x", "Content-Length: 2"), b"{}"], [400]),
    "a length of JSON beyond the body": ([head(CLOSE, "Inference-Header-Content-Length: 3", "Content-Length: 2"), b"{}"], [400]),
}


@pytest.mark.parametrize("what", ROWS)
def test_what_a_client_sends(server, what):
    parts, answers = ROWS[what]
    assert sent(server.port, *parts, half_close=True) == answers
    assert server.healthy()


BODIES = {
    "an id that is not UTF-8": b'{"id":"\xff"}',
    "a name that is not UTF-8": b'{"inputs":[{"name":"\xc3\x28"}]}',
    "half of a surrogate": b'{"id":"\\ud800"}',
    "four million brackets": b"[" * (4 << 20),
    "a million nested objects": b'{"a":' * (1 << 20),
    "nested data": b'{"inputs":[{"name":"values","data":' + b"[" * (1 << 20),
    "a million parameters": b'{"parameters":{"x":[' + b"0," * (1 << 20) + b"0]}}",
    "one long string that is not UTF-8": b'{"id":"' + b"x" * (4 << 20) + b'\xff"}',
    "one long name": b'{"' + b"x,\\\"" * (1 << 20) + b'":[]}',
    "one long number": b'{"id":' + b"1" * (4 << 20) + b"}",
    "four million spaces": b" " * (4 << 20) + b"}",
    "a huge shape": b'{"inputs":[{"name":"values","shape":[4000000,16],"datatype":"FP32","data":[0]}]}',
    "a name twice": b'{"inputs":[],"inputs":[]}',
    "what follows": b'{"inputs":[]} {}',
}


@pytest.mark.parametrize("what", BODIES)
def test_what_a_body_holds(server, what):
    body = BODIES[what]
    before = server.peak_bytes()
    assert sent(server.port, head(CLOSE, f"Content-Length: {len(body)}"), body) == [400]
    assert server.peak_bytes() - before < 64 << 20
    assert server.healthy()


def test_a_request_waits_for_leave_to_send_its_body(server):
    header, body = request().split(b"\r\n\r\n", 1)
    with connect(server.port) as connection:
        connection.sendall(header + b"\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert statuses(read_all(connection)) == [200]


@pytest.mark.parametrize("start", [b"P", head()[:20], head("Content-Length: 1000")])
def test_slow_clients_are_told_so_and_keep_nobody_waiting(tagger, server, start):
    """More of them than the server has threads, each sending a byte now and then, until their time is over."""
    slow = [connect(server.port) for _ in range(100)]
    for connection in slow:
        connection.sendall(start)
    for _ in range(5):
        for connection in slow:
            connection.sendall(b" " if start.endswith(b"\r\n\r\n") else b"x")
        assert server.healthy()
        values = torch.randn(3, 16)
        assert close(Client(server.port).infer("tagger", values=values)[1], expected(tagger[0], values))
    assert [statuses(read_all(connection)) for connection in slow] == [[408]] * 100
    for connection in slow:
        connection.close()


def test_a_client_that_says_nothing_is_let_go(server):
    with connect(server.port) as connection:
        assert read_all(connection) == b""


def test_a_client_that_does_not_read_is_let_go(server):
    with connect(server.port) as connection:
        connection.settimeout(10)
        with pytest.raises(OSError):                          # the server reads no further before its answers are taken
            for _ in range(2000):
                connection.sendall(request(1000))
        assert server.healthy()
        wait_for(lambda: metrics(server.control_port)["server_connections"] == 0)


def test_clients_that_go_away(tagger, server):
    """Some reset the connection at every stage of a request; others are not disturbed."""
    whole = request()
    for cut in [0, 10, 60, 100, len(whole) - 1, len(whole)] * 20:
        connection = connect(server.port)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        connection.sendall(whole[:cut])
        connection.close()
    values = torch.randn(3, 16)
    assert close(Client(server.port).infer("tagger", values=values)[1], expected(tagger[0], values))
    wait_for(lambda: metrics(server.control_port)["server_connections"] == 0)


def test_a_connection_is_good_for_many_requests(server):
    client = Client(server.port)
    opened = metrics(server.control_port)["server_connections_total"]
    assert {client.json("GET", "/v2/health/live")[0] for _ in range(1000)} == {200}
    assert metrics(server.control_port)["server_connections_total"] == opened + 1


def test_connections_beyond_the_limit_are_told_so(tagger):
    with Server(tagger[1], "--connections", "8") as server:
        server.wait_until_ready()
        busy = [connect(server.port) for _ in range(8)]
        for connection in busy:
            connection.sendall(head("Content-Length: 100"))
        wait_for(lambda: metrics(server.control_port)["server_connections"] == 8)
        time.sleep(0.2)                                       # what they sent has arrived
        assert sent(server.port) == [503]
        assert Client(server.control_port).json("GET", "/v2/health/ready")[0] == 200
        busy.pop().close()
        wait_for(lambda: metrics(server.control_port)["server_connections"] < 8)
        resting = Client(server.port)                         # between two requests it gives way
        assert resting.json("GET", "/v2/health/ready")[0] == 200
        assert Client(server.port).json("GET", "/v2/health/ready")[0] == 200
        assert server.terminate()[0] == 0


def test_silent_clients_shut_nobody_out(tagger):
    with Server(tagger[1], "--connections", "8") as server:
        server.wait_until_ready()
        silent = [connect(port) for port in (server.port, server.control_port) for _ in range(400)]
        assert server.healthy()
        assert server.terminate()[0] == 0
        assert {read_all(connection) for connection in silent} == {b""}


def test_what_all_hold_together_has_an_end(tagger):
    """Each sends 1 MB of a body and no more: the third is refused at once, and finds room when they are gone."""
    with Server(tagger[1], "--memory-mb", "2") as server:
        server.wait_until_ready()
        part = head("Content-Length: 2000000") + b" " * 1000000   # two of them leave room for the answers that tell what is held
        greedy = [connect(server.port) for _ in range(2)]
        for connection in greedy:
            connection.sendall(part)
        wait_for(lambda: metrics(server.control_port)["server_held_bytes"] >= 2000000)
        assert sent(server.port, part) == [503]
        for connection in greedy:
            connection.close()
        wait_for(lambda: metrics(server.control_port)["server_held_bytes"] == 0)
        assert sent(server.port, request(), half_close=True) == [200]


class Slow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(768, 768) / 768**0.5)

    def forward(self, x):
        for _ in range(20):
            x = torch.tanh(x @ self.weight)
        return x


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    path = tmp_path_factory.mktemp("slow") / "slow.pt2"
    export(Slow(), (torch.randn(256, 768),), None, path)
    header = json.dumps({"inputs": [{"name": "x", "shape": [256, 768], "datatype": "FP32", "parameters": {"binary_data_size": 786432}}],
                         "parameters": {"binary_data_output": True}})
    return path, (header.encode() + bytes(786432), {"Inference-Header-Content-Length": str(len(header))})


def ask_slow(port, work):
    status, headers, body = Client(port).ask("POST", "/v2/models/slow/infer", *work)
    assert status == 200 or (json.loads(body)["error"] and (status != 503 or int(headers["Retry-After"]) >= 1))
    return status


def test_a_full_queue_refuses_at_once(slow):
    path, work = slow
    with Server(path, "--queue", "2") as server, ThreadPoolExecutor(24) as pool:
        server.wait_until_ready()
        found = []
        while 503 not in found:
            found = list(pool.map(lambda _: ask_slow(server.port, work), range(24)))
            assert set(found) <= {200, 503} and 200 in found
        assert server.healthy() and ask_slow(server.port, work) == 200
        assert server.terminate()[0] == 0


def test_a_deadline_counts_from_arrival(slow):
    path, work = slow
    with Server(path, "--timeout-ms", "1") as server, ThreadPoolExecutor(8) as pool:
        server.wait_until_ready()
        assert set(pool.map(lambda _: ask_slow(server.port, work), range(8))) <= {503, 504}
        assert server.healthy() and server.terminate()[0] == 0


# --- the end

def test_sigterm_waits_for_slow_clients_no_longer_than_stated(tagger):
    with Server(tagger[1], "--drain-ms", "300") as server:
        server.wait_until_ready()
        slow = [connect(server.port) for _ in range(20)]
        for connection in slow:
            connection.sendall(head("Content-Length: 1000") + b"{")
        assert server.healthy()
        status, rest = server.terminate()
        assert status == 0 and "cut after 0 answers" in rest
        assert {read_all(connection) for connection in slow} == {b""}


def test_idle_clients_do_not_hold_the_drain(tagger):
    with Server(tagger[1], "--drain-ms", "100000") as server:
        server.wait_until_ready()
        idle = [Client(server.port) for _ in range(20)]
        assert {client.json("GET", "/v2/health/live")[0] for client in idle} == {200}
        silent = [connect(server.port) for _ in range(20)]
        silent[0].sendall(b"POST /v2")
        status, rest = server.terminate()
        assert status == 0 and "drained after 0 answers" in rest


def test_while_it_drains_new_requests_are_refused(tagger):
    with Server(tagger[1], "--drain-ms", "100000") as server:
        server.wait_until_ready()
        header, body = request().split(b"\r\n\r\n", 1)
        accepted = connect(server.port)
        accepted.sendall(header + b"\r\n\r\n" + body[:5])
        wait_for(lambda: metrics(server.control_port)["server_held_bytes"] > 0)
        server.process.terminate()
        wait_for(lambda: Client(server.control_port).json("GET", "/v2/health/ready")[0] == 503)
        assert sent(server.port, request()) == [503]
        assert Client(server.port).json("GET", "/v2/health/live")[0] == 200
        accepted.sendall(body[5:])
        assert statuses(read_all(accepted)) == [200]
        status, rest = server.wait_for_the_end()
        assert status == 0 and "drained after 1 answers" in rest


def test_a_second_signal_ends_it_at_once(tagger):
    with Server(tagger[1], "--drain-ms", "100000") as server:
        server.wait_until_ready()
        with connect(server.port) as connection:
            connection.sendall(head("Content-Length: 1000") + b"{")
            wait_for(lambda: metrics(server.control_port)["server_held_bytes"] > 0)
            server.process.terminate()
            wait_for(lambda: Client(server.control_port).json("GET", "/v2/health/ready")[0] == 503)
            assert server.terminate()[0] == 0


def test_a_signal_before_it_is_ready(tagger):
    with Server(tagger[1]) as server:
        assert server.terminate()[0] == 0


def test_a_reader_of_its_output_that_goes_away(tagger):
    with Server(tagger[1]) as server:
        server.wait_until_ready()
        server.process.stdout.close()
        server.process.terminate()
        assert server.process.wait(timeout=60) == 0
