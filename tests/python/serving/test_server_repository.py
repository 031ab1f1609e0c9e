"""examples/server with a folder of models: settings beside each, models loaded, replaced and unloaded while others answer, new weights,
batches by rows; and who may change what."""

import json
import os
import random
import shutil
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from server_process import PROGRAM, Client, Server, close, export, export_tagger, expected, metrics, needs_program
from torch.export import Dim

pytestmark = needs_program

CONTROL = ("--repository-control", "1")


class Scaled(torch.nn.Module):
    """Rows on their own: (n, s, 4) -> (n, s), one (n,)."""

    def __init__(self, by):
        super().__init__()
        self.by = torch.nn.Parameter(torch.tensor([float(by)]))

    def forward(self, x, y):
        return torch.softmax(x, -1).amax(-1) * self.by, (x.sum((1, 2)) + y) * self.by


def export_scaled(path, by):
    n, s = Dim("n", max=64), Dim("s", max=128)
    export(Scaled(by), (torch.randn(3, 5, 4), torch.randn(3)), ({0: n, 1: s}, {0: n}), path)
    return Scaled(by)


def of_scaled(model, x, y):
    with torch.no_grad():
        return model(x, y)


@pytest.fixture()
def folder(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    export_tagger(folder)
    export_scaled(folder / "scaled.pt2", 2)
    (folder / "scaled.json").write_text(json.dumps({"batching": "rows", "max_batch": 8, "output_names": ["most", "all"], "version": "3"}))
    (folder / "notes.txt").write_text("no model")
    return folder


def change(server, name, what, body=None, port=None):
    return Client(port or server.control_port).json("POST", f"/v2/repository/models/{name}/{what}", body)


def index(server, body=None):
    return {row["name"]: row for row in Client(server.port).json("POST", "/v2/repository/index", body)[1]}


def test_a_folder_of_models(folder):
    with Server(folder) as server:
        server.wait_until_ready()
        rows = index(server)
        assert {name: (row["version"], row["state"]) for name, row in rows.items()} == {"scaled": ("3", "READY"), "tagger": ("1", "READY")}
        client, x, y = Client(server.port), torch.randn(2, 7, 4), torch.randn(2)
        about = client.json("GET", "/v2/models/scaled/versions/3")[1]
        assert [out["shape"] for out in about["outputs"]] == [[-1, -1], [-1]] and client.json("GET", "/v2/models/scaled/versions/1")[0] == 404
        assert client.infer("scaled", x=x, y=y)[0] == 200 and close(client.infer("scaled", x=x, y=y)[1], of_scaled(Scaled(2), x, y))
        values = torch.randn(5, 16)
        assert client.infer("tagger", values=values)[0] == 200
        assert client.infer("notes", values=values)[0] == 404
        assert change(server, "tagger", "unload")[0] == change(server, "tagger", "load")[0] == 403   # not without --repository-control
        assert server.healthy()


def test_rows_of_many_requests_are_one_call(folder):
    """Of several lengths: those of equal length are joined, each gets its own rows, and some batch holds several."""
    model = Scaled(2)
    with Server(folder) as server:
        server.wait_until_ready()

        def client(number):
            connection, numbers, good = Client(server.port), random.Random(number), 0
            for _ in range(40):
                n, s = numbers.choice([0, 1, 2, 5]), numbers.choice([1, 6])
                x, y = torch.randn(n, s, 4), torch.randn(n)
                status, results = connection.infer("scaled", x=x, y=y)
                good += status == 200 and close(results, of_scaled(model, x, y))
            return good

        for _ in range(10):
            with ThreadPoolExecutor(8) as pool:
                assert sum(pool.map(client, range(8))) == 320
            found = metrics(server.port)
            if found['server_largest_batch{module="scaled"}'] > 1:
                break
        assert 1 < found['server_largest_batch{module="scaled"}'] <= 8
        assert found['server_batches_total{module="scaled"}'] < found['server_batched_requests_total{module="scaled"}']
        status, answer = Client(server.port).infer("scaled", x=torch.randn(2, 3, 4), y=torch.randn(3))
        assert status == 400 and "y" in answer["error"]


def test_models_come_go_and_are_replaced_while_clients_ask(folder):
    """No request is lost or answered by half a model: each answer is the old model's or the new one's."""
    models = {2: Scaled(2), 5: Scaled(5)}
    with Server(folder, *CONTROL) as server:
        server.wait_until_ready()
        wrong, seen, done = [], set(), threading.Event()

        def client(number):
            connection = Client(server.port)
            while not done.is_set():
                x, y = torch.randn(1 + number, 6, 4), torch.randn(1 + number)
                status, results = connection.infer("scaled", x=x, y=y)
                by = [by for by, model in models.items() if status == 200 and close(results, of_scaled(model, x, y))]
                seen.update(by)
                if not by:
                    wrong.append((status, results))

        clients = [threading.Thread(target=client, args=(i,)) for i in range(4)]
        for thread in clients:
            thread.start()
        for by in (5, 2, 5):
            export_scaled(folder / "next", by)
            os.replace(folder / "next", folder / "scaled.pt2")
            assert change(server, "scaled", "load") == (200, {})
            x, y = torch.randn(2, 3, 4), torch.randn(2)
            assert close(Client(server.port).infer("scaled", x=x, y=y)[1], of_scaled(models[by], x, y))
        done.set()
        for thread in clients:
            thread.join()
        assert wrong == [] and seen == {2, 5}
        assert change(server, "scaled", "unload") == (200, {})
        row = index(server)["scaled"]
        assert (row["state"], row["reason"]) == ("UNAVAILABLE", "unloaded") and "scaled" not in index(server, {"ready": True})
        assert Client(server.port).infer("scaled", x=x, y=y)[0] == 404 and change(server, "scaled", "unload")[0] == 404
        assert Client(server.port).json("GET", "/v2/models/scaled/ready")[0] == 404 and server.healthy()
        assert change(server, "scaled", "load")[0] == 200 and Client(server.port).infer("scaled", x=x, y=y)[0] == 200


def test_a_model_that_appears(folder):
    with Server(folder, *CONTROL) as server:
        server.wait_until_ready()
        shutil.copy(folder / "tagger.pt2", folder / "second ü.pt2")
        client, values = Client(server.port), torch.randn(3, 16)
        assert client.json("GET", "/v2/models/second%20%c3%bc")[0] == 404
        assert change(server, "second%20%c3%bc", "load")[0] == 200
        assert client.infer("second%20%c3%bc", values=values)[0] == 200
        status, answer = change(server, "third", "load")
        assert status == 404 and "no file" in answer["error"]
        for name in ("..%2Ftagger", "%2e%2e%2ftagger", "tagger.pt2", "notes", "."):   # names are looked for among the entries, no path is made
            assert change(server, name, "load")[0] == 404


def test_a_file_that_cannot_be_loaded_changes_nothing(folder):
    with Server(folder, *CONTROL) as server:
        server.wait_until_ready()
        client, x, y = Client(server.port), torch.randn(2, 7, 4), torch.randn(2)
        for damage in (lambda: (folder / "scaled.json").write_text('{"batchign": "rows"}'),
                       lambda: (folder / "scaled.json").write_text('{"batching": "columns"}'),
                       lambda: (folder / "scaled.json").write_text('{"max_batch": 0}'),
                       lambda: (folder / "scaled.json").write_text("[" * 1000),
                       lambda: (folder / "scaled.json").write_text('{"batching": "lengths"}'),
                       lambda: (folder / "scaled.json").write_text('{"output_names": ["a"]}'),
                       lambda: ((folder / "scaled.json").write_text("{}"), (folder / "next").write_bytes(b"no archive"),
                                os.replace(folder / "next", folder / "scaled.pt2"))):
            damage()
            status, answer = change(server, "scaled", "load")
            assert status == 400 and answer["error"]
            assert index(server)["scaled"]["state"] == "READY" and index(server)["scaled"]["reason"] == answer["error"]
            assert close(client.infer("scaled", x=x, y=y)[1], of_scaled(Scaled(2), x, y))
        (folder / "scaled.package").write_bytes(b"")
        assert "one name" in change(server, "scaled", "load")[1]["error"]


def test_new_weights(folder):
    from_file = torch.tensor([7.0])
    header = json.dumps({"by": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (folder / "seven.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + from_file.numpy().tobytes())
    (folder / "bad.safetensors").write_bytes(b"\xff" * 40)
    with Server(folder, *CONTROL) as server:
        server.wait_until_ready()
        client, x, y = Client(server.port), torch.randn(2, 7, 4), torch.randn(2)
        assert close(client.infer("scaled", x=x, y=y)[1], of_scaled(Scaled(2), x, y))
        assert change(server, "scaled", "load", {"parameters": {"weights": "seven.safetensors"}}) == (200, {})
        assert close(client.infer("scaled", x=x, y=y)[1], of_scaled(Scaled(7), x, y))
        for file, status in (("none.safetensors", 404), ("../models/seven.safetensors", 404), ("scaled.pt2", 404), ("bad.safetensors", 400)):
            assert change(server, "scaled", "load", {"parameters": {"weights": file}})[0] == status
        for body in ({"parameters": {"config": "{}"}}, {"parameters": 3}, [], {"parameters": {"weights": 3}}):
            assert change(server, "scaled", "load", body)[0] == 400
        assert change(server, "tagger", "load", {"parameters": {"weights": "seven.safetensors"}})[0] == 400   # has no such weight
        assert close(client.infer("scaled", x=x, y=y)[1], of_scaled(Scaled(7), x, y))
        assert metrics(server.port)['escapement_weight_swaps_total{module="scaled"}'] == 1


def test_only_the_control_port_changes_the_repository(folder):
    with Server(folder, *CONTROL) as server:
        server.wait_until_ready()
        assert change(server, "tagger", "unload", port=server.port)[0] == 404
        assert Client(server.control_port).json("GET", "/v2/repository/models/tagger/load")[0] == 405
        assert change(server, "tagger", "reload")[0] == 404
        assert close(Client(server.port).infer("tagger", values=torch.ones(2, 16))[1], expected(export_tagger(folder)[0], torch.ones(2, 16)))


@pytest.mark.parametrize("files, message", [({}, "there is no model"), ({"a.pt2": b"x"}, "no zip archive"),
                                            ({"a.pt2": b"x", "a.package": b"x"}, "one name")])
def test_a_folder_that_cannot_be_served(tmp_path, files, message):
    for name, text in files.items():
        (tmp_path / name).write_bytes(text)
    done = subprocess.run([PROGRAM, "--models", tmp_path, "--port", "0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and message in done.stderr


@pytest.mark.parametrize("arguments, message", [(("--batching", "columns"), "no such value"), (("--repository-control", "2"), "no such value")])
def test_options_that_are_none(tmp_path, arguments, message):
    done = subprocess.run([PROGRAM, "--models", tmp_path, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and message in done.stderr
