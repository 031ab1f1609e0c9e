"""examples/server: a process on the loopback interface, asked over HTTP by a bounded number of clients. Its results are eager's, its batches
have no padding, it is ready only when warm, and SIGTERM loses nothing that was accepted."""

import http.client
import json
import random
import struct
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from server_process import PROGRAM, Client, Plain, Server, close, expected, export, export_tagger, metrics, needs_program
from torch.export import Dim

pytestmark = needs_program


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    return export_tagger(tmp_path_factory.mktemp("server"))


def test_requests_of_many_lengths_at_once(tagger):
    model, path = tagger
    with Server(path) as server:
        assert server.before_ready in (200, 503)
        server.wait_until_ready()

        def client(number):
            connection, generator = Client(server.port), random.Random(number)
            good = 0
            for _ in range(25):
                values = torch.randn(generator.choice([0, 1, 2, 3, 7, 16, 33, 120]), 16)
                status, results = connection.infer("tagger", values=values)
                good += status == 200 and close(results, expected(model, values))
            return good

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(client, range(8))) == 200
        found = metrics(server.port)
        assert found['server_requests_total{status="200"}'] == found['server_batched_requests_total{module="tagger"}'] == 200
        assert found['server_batches_total{module="tagger"}'] <= 200 and found['server_queued_requests{module="tagger"}'] == 0
        assert found['escapement_recordings_total{module="tagger"}'] == 1
        assert found['escapement_calls_total{module="tagger"}'] == found['server_batches_total{module="tagger"}'] + 3
        assert not [name for name in found if name.startswith("escapement_eager_calls_total")]
        status, rest = server.terminate()
        assert status == 0 and "drained after 200 answers" in rest


def test_what_waits_is_answered_together(tagger):
    """While one long request runs, others queue: the next batch holds several of them, and each gets its own rows."""
    model, path = tagger
    with Server(path) as server:
        server.wait_until_ready()
        batches = 0
        for _ in range(20):
            values = [torch.randn(n, 16) for n in (3, 5, 8, 1, 13, 2, 21, 34)]
            clients = [Client(server.port) for _ in values]
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(lambda c, v: c.infer("tagger", values=v), clients, values))
            assert all(status == 200 and close(results, expected(model, v)) for (status, results), v in zip(answers, values))
            found = metrics(server.port)
            if found['server_largest_batch{module="tagger"}'] > 1:
                break
        assert found['server_largest_batch{module="tagger"}'] > 1


def test_the_protocol(tagger):
    model, path = tagger
    with Server(path, "--name", "other") as server:
        server.wait_until_ready()
        client = Client(server.port)
        assert client.json("GET", "/v2/health/live") == (200, {"live": True})
        assert client.json("GET", "/v2/health/ready") == (200, {"ready": True})
        assert client.json("GET", "/v2/models/other/ready") == (200, {"name": "other", "ready": True})
        assert "binary_tensor_data" in client.json("GET", "/v2")[1]["extensions"]
        status, about = client.json("GET", "/v2/models/other")
        assert about["inputs"] == [{"name": "values", "datatype": "FP32", "shape": [-1, 16]}]
        assert [out["shape"] for out in about["outputs"]] == [[-1, 3], [-1, 4]]
        assert client.json("GET", "/v2/models/none")[0] == 404

        values = torch.randn(5, 16)
        header = json.dumps({"inputs": [{"name": "values", "shape": [5, 16], "datatype": "FP32", "parameters": {"binary_data_size": 320}}],
                             "parameters": {"binary_data_output": True}})
        body = header.encode() + values.numpy().tobytes()
        length = "Inference-Header-Content-Length"
        status, headers, answer = client.ask("POST", "/v2/models/other/infer", body, {length: str(len(header))})
        assert status == 200
        outputs, at, results = json.loads(answer[: int(headers[length])])["outputs"], int(headers[length]), []
        for out in outputs:
            size = out["parameters"]["binary_data_size"]
            results.append(torch.tensor(struct.unpack(f"<{size // 4}f", answer[at: at + size])).reshape(out["shape"]))
            at += size
        assert at == len(answer) and close(results, expected(model, values))


@pytest.mark.parametrize("change, message", [
    ({"shape": [2, 15]}, "fewer data"), ({"shape": [2, 17]}, "is 17, expected 16"), ({"shape": [2, -1]}, "no list of sizes"),
    ({"shape": [1 << 40, 16]}, "too large"), ({"shape": [32]}, "has 1 dims; the exported program takes 2"), ({"datatype": "FP64"}, "expected FP32"),
    ({"data": [[0.0] * 16] * 3}, "more data"), ({"data": ["a"] * 32}, "no numbers"), ({"name": "x"}, "no input 'x'"),
    ({"data": None}, "no numbers"), ({"parameters": {"binary_data_size": 5}}, "binary_data_size"), ({"shape": "x"}, "no list of sizes")])
def test_a_bad_request_is_its_own_error(tagger, bad_server, change, message):
    model, client = tagger[0], Client(bad_server.port)
    given = {"name": "values", "shape": [2, 16], "datatype": "FP32", "data": [0.0] * (34 if change.get("shape") == [2, 17] else 32)}
    if change.get("shape") == [2, 15]:
        given["data"] = [0.0] * 29
    status, answer = client.json("POST", "/v2/models/tagger/infer", {"inputs": [{**given, **change}]})
    assert status == 400 and message in answer["error"]
    values = torch.randn(3, 16)
    assert close(client.infer("tagger", values=values)[1], expected(model, values))


@pytest.fixture(scope="module")
def bad_server(tagger):
    with Server(tagger[1]) as server:
        yield server.wait_until_ready()


@pytest.mark.parametrize("body", ["", "{", "[]", "{}", '{"inputs": 3}', '{"inputs": [3]}', '{"inputs": []}', "[" * 100_000])
def test_a_body_that_is_no_request(bad_server, body):
    status, answer = Client(bad_server.port).ask("POST", "/v2/models/tagger/infer", body)[::2]
    assert status == 400 and json.loads(answer)["error"]


def test_a_model_without_lengths_runs_requests_one_by_one(tmp_path):
    path = tmp_path / "plain.pt2"
    export(Plain(), (torch.randn(4, 6),), ({0: Dim("n", max=64)},), path)
    with Server(path) as server:
        server.wait_until_ready()
        values = [torch.randn(n, 6) for n in (1, 4, 2, 64)]
        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda v: Client(server.port).infer("plain", x=v), values))
        assert all(status == 200 and close(results, [Plain()(v)]) for (status, results), v in zip(answers, values))
        assert Client(server.port).infer("plain", x=torch.randn(65, 6))[0] == 400
        assert metrics(server.port)['server_largest_batch{module="plain"}'] == 1


def test_sigterm_answers_what_was_accepted(tagger):
    """Every client asks until it is refused; then the server has given exactly the answers that the clients have."""
    model, path = tagger
    with Server(path) as server:
        server.wait_until_ready()
        counts, wrong, enough = [0] * 8, [], threading.Event()

        def client(number):
            connection = Client(server.port)
            while True:
                values = torch.randn(1 + number * 5, 16)
                try:
                    status, results = connection.infer("tagger", values=values)
                except (OSError, http.client.HTTPException):
                    return                                   # the connection was closed, or refused
                if status == 503:
                    return
                if status != 200 or not close(results, expected(model, values)):
                    wrong.append(status)
                counts[number] += 1
                if sum(counts) > 40:
                    enough.set()

        clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
        for thread in clients:
            thread.start()
        assert enough.wait(60)
        status, rest = server.terminate()
        for thread in clients:
            thread.join()
        assert status == 0 and wrong == []
        assert f"drained after {sum(counts)} answers" in rest


def test_a_model_that_cannot_be_loaded(tmp_path):
    (tmp_path / "bad.pt2").write_bytes(b"no archive")
    done = subprocess.run([PROGRAM, "--model", tmp_path / "bad.pt2", "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "no zip archive" in done.stderr


def test_a_port_that_is_taken(tagger):
    with Server(tagger[1]) as server:
        for option, port in (("--port", server.port), ("--control-port", server.control_port)):
            arguments = [PROGRAM, "--model", tagger[1], *(["--port", "0"] if option != "--port" else []), option, str(port)]
            done = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and f"cannot listen on 127.0.0.1:{port}" in done.stderr
