"""examples/server: a process on the loopback interface, asked over HTTP by a bounded number of clients. Its results are eager's, its batches
have no padding, it is ready only when warm, and SIGTERM loses nothing that was accepted."""

import http.client
import json
import os
import random
import signal
import struct
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.export import Dim

PROGRAM = Path(os.environ.get("ESCAPEMENT_BUILD", "build")) / "examples" / "server"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="examples/server is not built: libcpp-httplib-dev nlohmann-json3-dev")


class Tagger(torch.nn.Module):
    """Rows of several sequences, one after the other: a tag for each row, and a class for each sequence by attention pooling."""

    def __init__(self, width=16):
        super().__init__()
        self.body, self.norm = torch.nn.Linear(width, 32), torch.nn.LayerNorm(32)
        self.score, self.tag, self.head = torch.nn.Linear(32, 1), torch.nn.Linear(32, 3), torch.nn.Linear(32, 4)

    def forward(self, values, lengths):
        h = self.norm(torch.nn.functional.gelu(self.body(values)))
        sequence = torch.searchsorted(lengths.cumsum(0), torch.arange(values.shape[0]), right=True)
        weight = torch.exp(4 * torch.tanh(self.score(h)))
        n = lengths.shape[0]
        total = torch.zeros(n, 1).index_add(0, sequence, weight)
        pooled = torch.zeros(n, 32).index_add(0, sequence, weight * h) / total.clamp(min=1e-6)
        return self.tag(h), torch.softmax(self.head(pooled), -1)


class Plain(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1) * x.shape[0]


def export(model, inputs, dims, path):
    torch.export.save(torch.export.export(model, inputs, dynamic_shapes=dims), path)


class Client:
    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def ask(self, method, path, body=None, headers=None):
        self.connection.request(method, path, body, headers or {})
        response = self.connection.getresponse()
        return response.status, response.headers, response.read()

    def json(self, method, path, body=None):
        status, _, text = self.ask(method, path, json.dumps(body) if body is not None else None)
        return status, json.loads(text)

    def infer(self, model, **inputs):
        body = {"id": "7", "inputs": [{"name": k, "shape": list(v.shape), "datatype": "FP32", "data": v.tolist()} for k, v in inputs.items()]}
        status, answer = self.json("POST", f"/v2/models/{model}/infer", body)
        if status != 200:
            return status, answer
        assert answer["id"] == "7"
        return status, [torch.tensor(out["data"], dtype=torch.float32).reshape(out["shape"]) for out in answer["outputs"]]


class Server:
    def __init__(self, path, *arguments):
        self.process = subprocess.Popen([PROGRAM, "--model", path, "--port", "0", "--threads", "1", *arguments], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.port = int(self.read_until("listening on").rsplit(":", 1)[1])
        self.before_ready = Client(self.port).json("GET", "/v2/health/ready")[0]

    def read_until(self, start):
        for line in self.process.stdout:
            if line.startswith(start):
                return line
        raise AssertionError(f"the server ended with {self.process.wait()} before it said {start!r}")

    def wait_until_ready(self):
        self.read_until("ready")
        return self

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)
        rest = self.process.stdout.read()
        return self.process.wait(timeout=60), rest

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    torch.manual_seed(0)
    model = Tagger().eval()
    path = tmp_path_factory.mktemp("server") / "tagger.pt2"
    total, count = Dim("total", max=100_000), Dim("count", max=1000)
    export(model, (torch.randn(9, 16), torch.tensor([4, 5])), ({0: total}, {0: count}), path)
    return model, path


def expected(model, values):
    with torch.no_grad():
        return model(values, torch.tensor([len(values)]))


def close(results, wanted):
    return len(results) == len(wanted) and all(a.shape == b.shape and torch.allclose(a, b, 1e-4, 1e-5) for a, b in zip(results, wanted))


def metrics(port):
    text = Client(port).ask("GET", "/metrics")[2].decode()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


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
        assert found['server_requests_total{status="200"}'] == found["server_batched_requests_total"] == 200
        assert found["server_batches_total"] <= 200 and found["server_queued_requests"] == 0
        assert found['escapement_recordings_total{module="tagger"}'] == 1
        assert found['escapement_calls_total{module="tagger"}'] == found["server_batches_total"] + 3
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
            if found["server_largest_batch"] > 1:
                break
        assert found["server_largest_batch"] > 1


def test_the_protocol(tagger):
    model, path = tagger
    with Server(path, "--name", "other") as server:
        server.wait_until_ready()
        client = Client(server.port)
        assert client.json("GET", "/v2/health/live") == (200, {"live": True})
        assert client.json("GET", "/v2/health/ready") == client.json("GET", "/v2/models/other/ready") == (200, {"ready": True})
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
    ({"shape": [2, 15]}, "fewer data"), ({"shape": [2, 17]}, "not that of the model"), ({"shape": [2, -1]}, "no list of sizes"),
    ({"shape": [1 << 40, 16]}, "too large"), ({"shape": [32]}, "not that of the model"), ({"datatype": "FP64"}, "expected FP32"),
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
        assert metrics(server.port)["server_largest_batch"] == 1


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
