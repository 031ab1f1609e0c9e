"""Servers side by side under one load: python bench/serving.py PROGRAM [PROGRAM ...], each a build of examples/server.

Requests of several lengths go to a tagger whose rows are batched, and to a stack of linear layers that takes one request at a time, as JSON
and as bytes. The programs run at once and take turns of a few seconds, so that what else the machine does meets all of them; the table gives
requests a second (median of the turns) against the first program, p50 and p99 in milliseconds, and the microseconds of processor time that
the server spent on a request, which other load on the machine changes least."""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.export import Dim

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "python" / "serving"))
from server_process import Tagger, export  # noqa: E402


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])

    def forward(self, x):
        return self.body(x)


def export_models(folder):
    torch.manual_seed(0)
    total, count = Dim("total", max=100_000), Dim("count", max=1000)
    export(Tagger().eval(), (torch.randn(9, 16), torch.tensor([4, 5])), ({0: total}, {0: count}), folder / "tagger.pt2")
    export(Stack().eval(), (torch.randn(4, 256),), ({0: Dim("n", max=4096)},), folder / "stack.pt2")


def request(model, name, values, binary):
    item = {"name": name, "shape": list(values.shape), "datatype": "FP32"}
    if not binary:
        body, field = json.dumps({"inputs": [{**item, "data": values.flatten().tolist()}]}).encode(), ""
    else:
        item["parameters"] = {"binary_data_size": values.nbytes}
        header = json.dumps({"inputs": [item], "parameters": {"binary_data_output": True}}).encode()
        body, field = header + values.numpy().tobytes(), f"Inference-Header-Content-Length: {len(header)}\r\n"
    return f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\n{field}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Client(asyncio.Protocol):
    """Asks again as soon as it is answered, until the turn is over; connects again where the server closes."""

    def __init__(self, load):
        self.load, self.text = load, b""

    def connection_made(self, transport):
        self.transport = transport
        self.ask()

    def ask(self):
        if time.perf_counter() >= self.load.end:
            return self.finish()
        self.start, self.text = time.perf_counter(), b""
        self.transport.write(random.choice(self.load.requests))

    def data_received(self, data):
        self.text += data
        header, end, body = self.text.partition(b"\r\n\r\n")
        if not end or len(body) < int(header.lower().split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0]):
            return
        self.load.count(header[9:12], time.perf_counter() - self.start)
        if b"connection: close" in header.lower():
            return self.transport.close()
        self.ask()

    def finish(self):
        self.done = True
        self.transport.close()

    def connection_lost(self, error):
        self.load.lost(self)


class Load:
    """One turn: `clients` at once for some seconds."""

    def __init__(self, port, requests, clients, seconds):
        self.port, self.requests, self.clients, self.seconds = port, requests, clients, seconds
        self.times, self.failed, self.open, self.cpu = [], 0, clients, 0.0

    def count(self, status, took):
        self.times.append(took)
        self.failed += status != b"200"

    def lost(self, client):
        if getattr(client, "done", False) or time.perf_counter() >= self.end:
            self.open -= 1
        else:
            asyncio.ensure_future(self.connect())

    def connect(self):
        return asyncio.get_running_loop().create_connection(lambda: Client(self), "127.0.0.1", self.port)

    async def run(self):
        self.end = time.perf_counter() + self.seconds
        for _ in range(self.clients):
            await self.connect()
        while self.open:
            await asyncio.sleep(0.01)
        return self


class Server:
    def __init__(self, program, path):
        self.process = subprocess.Popen([program, "--model", path, "--port", "0", "--threads", "1"], text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        for line in self.process.stdout:
            if line.startswith("listening on"):
                self.port = int(line.rsplit(":", 1)[1])
            if line.startswith("ready"):
                return

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(servers, requests, clients, turns, seconds):
    loads = [[] for _ in servers]
    for _ in range(turns):
        for found, server in zip(loads, servers):
            before = server.cpu()
            found.append(asyncio.run(Load(server.port, requests, clients, seconds).run()))
            found[-1].cpu = server.cpu() - before
    return loads


def report(name, clients, loads, seconds):
    first = None
    for number, found in enumerate(loads):
        rate = statistics.median(len(load.times) / seconds for load in found)
        first = first or rate
        times = sorted(took for load in found for took in load.times)
        p50, p99 = (1000 * times[int(len(times) * part)] for part in (0.5, 0.99))
        print(f"{name:14} c={clients:<3} program {number}: {rate:8.0f}/s {rate / first:5.2f}x  p50 {p50:7.2f} p99 {p99:7.2f}"
              f"  cpu {1e6 * sum(load.cpu for load in found) / len(times):6.0f} us  failed {sum(load.failed for load in found)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        export_models(Path(name))
        for model, item, width, lengths in (("tagger", "values", 16, (1, 3, 7, 16, 33)), ("stack", "x", 256, (1, 4, 16, 64))):
            servers = [Server(program, Path(name) / f"{model}.pt2") for program in arguments.programs]
            for binary in (False, True):
                requests = [request(model, item, torch.randn(rows, width), binary) for rows in lengths]
                for clients in (1, 16, 64):
                    loads = measure(servers, requests, clients, arguments.turns, arguments.seconds)
                    report(f"{model} {'bytes' if binary else 'json'}", clients, loads, arguments.seconds)
            for server in servers:
                server.process.kill()


if __name__ == "__main__":
    main()
