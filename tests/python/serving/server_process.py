"""What the tests of examples/server share: models, the process on the loopback interface, and a client of it."""

import http.client
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import torch
from torch.export import Dim

PROGRAM = Path(os.environ.get("ESCAPEMENT_BUILD", "build")) / "examples" / "server"
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason="examples/server is not built: libboost-dev nlohmann-json3-dev")


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
    """`path`: a model, or a folder of them."""

    def __init__(self, path, *arguments):
        what = "--models" if Path(path).is_dir() else "--model"
        self.process = subprocess.Popen([PROGRAM, what, path, "--port", "0", "--threads", "1", *arguments], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.control_port = int(self.read_until("health and metrics on").rsplit(":", 1)[1])
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
        return self.wait_for_the_end()

    def wait_for_the_end(self):
        return self.process.wait(timeout=60), self.process.stdout.read()

    def healthy(self):
        """Health at the model's port and at the control port, by connections of their own."""
        return [Client(port).json("GET", "/v2/health/ready")[0] for port in (self.port, self.control_port)] == [200, 200]

    def peak_bytes(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.split("VmHWM:")[1].split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def export_tagger(folder):
    torch.manual_seed(0)
    model, path = Tagger().eval(), folder / "tagger.pt2"
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
