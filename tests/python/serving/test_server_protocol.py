"""examples/server by the text of the Open Inference Protocol (KServe v2) and of its binary extension: every path, what a request may ask for,
what is refused and how; then the same through a client that others wrote."""

import json
import math

import pytest
import torch
from server_process import Client, Server, export, needs_program
from torch.export import Dim

pytestmark = needs_program

LENGTH = "Inference-Header-Content-Length"
TYPES = {"FP32": torch.float32, "FP64": torch.float64, "FP16": torch.float16, "BF16": torch.bfloat16, "INT64": torch.int64,
         "INT32": torch.int32, "INT16": torch.int16, "INT8": torch.int8, "UINT8": torch.uint8, "BOOL": torch.bool}


class Every(torch.nn.Module):
    """Each input comes back, so that what was read can be seen."""

    def forward(self, fp32, fp64, fp16, bf16, int64, int32, int16, int8, uint8, flag):
        return (torch.log(fp32), fp64 * 1, fp16 * 1, bf16 * 1, int64 + 0, int32 + 0, int16 + 0, int8 + 0, uint8 + 0, flag.logical_not())


NAMES = ("fp32", "fp64", "fp16", "bf16", "int64", "int32", "int16", "int8", "uint8", "flag")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    path = tmp_path_factory.mktemp("protocol") / "every.pt2"
    inputs = tuple(torch.ones(3).to(dtype) for dtype in TYPES.values())
    export(Every(), inputs, [{0: Dim("n", max=1000)}] * len(TYPES), path)
    with Server(path, "--name", "every one ü") as process:
        yield process.wait_until_ready()


@pytest.fixture()
def client(server):
    return Client(server.port)


MODEL = "/v2/models/every%20one%20%c3%bc"


def inputs(**changed):
    plain = {name: {"name": name, "shape": [2], "datatype": datatype, "data": [True, False] if datatype == "BOOL" else [1, 2]}
             for name, datatype in zip(NAMES, TYPES)}
    return [{**item, **changed.get(name, {})} for name, item in plain.items()]


def ask(client, body, path=MODEL + "/infer"):
    return client.json("POST", path, body)


def output_names(client):
    return [item["name"] for item in client.json("GET", MODEL)[1]["outputs"]]


def test_paths(client):
    about = client.json("GET", MODEL)
    assert about == client.json("GET", MODEL + "/versions/1") and about[1]["versions"] == ["1"] and about[1]["name"] == "every one ü"
    assert [item["datatype"] for item in about[1]["inputs"]] == list(TYPES) and about[1]["inputs"][0]["shape"] == [-1]
    ready = (200, {"name": "every one ü", "ready": True})
    assert client.json("GET", MODEL + "/ready") == client.json("GET", MODEL + "/versions/1/ready") == ready
    assert client.json("GET", "/v2/health/live?x=1")[0] == 200
    assert set(client.json("GET", "/v2")[1]) == {"name", "version", "extensions"}
    body = {"inputs": inputs()}
    assert ask(client, body)[0] == ask(client, body, MODEL + "/versions/1/infer")[0] == 200
    for path in ("/versions/2", "/versions/2/ready", "/versions", "/nothing", "/versions/1/nothing", "/"):
        assert client.json("GET", MODEL + path)[0] == 404
    assert ask(client, body, MODEL + "/versions/2/infer")[0] == ask(client, body, "/v2/models/other/infer")[0] == 404


def test_methods(client):
    status, headers, body = client.ask("POST", "/v2", "")
    assert status == 405 and headers["Allow"] == "GET, HEAD" and json.loads(body)["error"]
    status, headers, body = client.ask("GET", MODEL + "/infer")
    assert status == 405 and headers["Allow"] == "POST" and json.loads(body)["error"]
    status, headers, body = client.ask("HEAD", "/v2/health/ready")
    assert (status, body) == (200, b"") and headers["Content-Length"] == "14"


def test_the_repository(client):
    row = {"name": "every one ü", "version": "1", "state": "READY", "reason": ""}
    assert client.json("POST", "/v2/repository/index") == client.json("POST", "/v2/repository/index", {"ready": True}) == (200, [row])
    assert client.json("POST", "/v2/repository/index", {"ready": 3})[0] == client.json("POST", "/v2/repository/index", [])[0] == 400


def test_the_control_port_infers_nothing(server):
    control = Client(server.control_port)
    assert control.json("GET", MODEL + "/ready")[0] == 200
    assert ask(control, {"inputs": inputs()})[0] == 404


def test_every_datatype_as_json(client):
    status, answer = ask(client, {"id": "é", "inputs": inputs(bf16={"data": [[0.5], [-3.140625]]}, fp64={"data": [0.1, 1e300]},
                                                              int64={"data": [2**63 - 1, -(2**63)]})})
    assert status == 200 and answer["id"] == "é" and answer["model_name"] == "every one ü" and answer["model_version"] == "1"
    assert [out["datatype"] for out in answer["outputs"]] == list(TYPES)
    data = [out["data"] for out in answer["outputs"]]
    assert data == [[0, 0.6931472], [0.1, 1e300], [1, 2], [0.5, -3.140625], [2**63 - 1, -(2**63)], [1, 2], [1, 2], [1, 2], [1, 2],
                    [False, True]]


def test_every_datatype_as_bytes(client):
    tensors = [torch.tensor([1, 0] if dtype == torch.bool else [1, 3]).to(dtype) for dtype in TYPES.values()]
    raw = [bytes(tensor.view(torch.uint8).tolist()) for tensor in tensors]
    items = [{"name": name, "shape": [2], "datatype": datatype, "parameters": {"binary_data_size": len(part)}}
             for name, datatype, part in zip(NAMES, TYPES, raw)]
    header = json.dumps({"inputs": items[::-1], "parameters": {"binary_data_output": True}}).encode()
    status, headers, body = client.ask("POST", MODEL + "/infer", header + b"".join(raw[::-1]), {LENGTH: str(len(header))})
    answer, rest = json.loads(body[: int(headers[LENGTH])]), body[int(headers[LENGTH]):]
    assert status == 200 and not any("data" in out for out in answer["outputs"])
    assert [out["parameters"]["binary_data_size"] for out in answer["outputs"]] == [len(part) for part in raw]
    assert rest[8:-2] == b"".join(raw[1:-1]) and rest[-2:] == b"\x00\x01"


def test_only_what_is_asked_for(client):
    names = output_names(client)
    asked = [{"name": names[4]}, {"name": names[1], "parameters": {"binary_data": True}}, {"name": names[9]}]
    status, headers, body = client.ask("POST", MODEL + "/infer", json.dumps({"inputs": inputs(), "outputs": asked}))
    answer = json.loads(body[: int(headers[LENGTH])])
    assert status == 200 and [out["name"] for out in answer["outputs"]] == [names[4], names[1], names[9]]
    assert answer["outputs"][0]["data"] == [1, 2] and body[int(headers[LENGTH]):] == bytes(torch.tensor([1.0, 2.0]).double().view(torch.uint8).tolist())
    status, answer = ask(client, {"inputs": inputs(), "outputs": [], "parameters": {"binary_data_output": False}})
    assert status == 200 and len(answer["outputs"]) == 10


def test_what_json_cannot_say_comes_as_bytes_only(client):
    """log(-1) is NaN, log(0) infinite."""
    name = output_names(client)[0]
    for data in ([-1, 1], [0, 1]):
        body = {"inputs": inputs(fp32={"data": data}), "outputs": [{"name": name}]}
        status, answer = ask(client, body)
        assert status == 400 and "binary_data" in answer["error"]
        body["outputs"][0]["parameters"] = {"binary_data": True}
        status, headers, text = client.ask("POST", MODEL + "/infer", json.dumps(body))
        found = torch.frombuffer(bytearray(text[int(headers[LENGTH]):]), dtype=torch.float32)
        assert status == 200 and found[1] == 0 and (math.isnan(found[0]) if data[0] else found[0] == -math.inf)


@pytest.mark.parametrize("changed, message", [
    ({"fp32": {"data": [1e39, 0]}}, "range"), ({"fp16": {"data": [70000, 0]}}, "range"), ({"bf16": {"data": [1e39, 0]}}, "range"),
    ({"int8": {"data": [128, 0]}}, "range"), ({"uint8": {"data": [-1, 0]}}, "range"), ({"int16": {"data": [32768, 0]}}, "range"),
    ({"int32": {"data": [2**31, 0]}}, "range"), ({"int64": {"data": [2**63, 0]}}, "no numbers"), ({"flag": {"data": [2, 0]}}, "range"),
    ({"int64": {"data": [1.5, 0]}}, "no numbers"), ({"int32": {"data": [True, 0]}}, "no numbers"), ({"fp32": {"data": [True, 0]}}, "no numbers"),
    ({"fp32": {"data": [[1, 2], "3"]}}, "no numbers"), ({"fp32": {"data": {"a": 1}}}, "no numbers"), ({"fp32": {"data": [None, 0]}}, "no numbers"),
    ({"fp32": {"shape": [2.0]}}, "no list of sizes"), ({"fp32": {"shape": [2**64]}}, "no list of sizes"), ({"fp32": {"shape": [2**62, 8]}}, "too large"),
    ({"fp32": {"shape": [2**30]}}, "fewer data"), ({"fp32": {"parameters": {"binary_data_size": 8}}}, "both data"),
    ({"fp32": {"parameters": {"shared_memory_region": "x"}}}, "not supported"), ({"fp32": {"parameters": 3}}, "no object")])
def test_inputs_that_are_refused(client, changed, message):
    status, answer = ask(client, {"inputs": inputs(**changed)})
    assert status == 400 and message in answer["error"]


@pytest.mark.parametrize("body, message", [
    ({"outputs": [{"name": "none"}]}, "no output 'none'"), ({"outputs": [{}]}, "name"), ({"outputs": 3}, "no list"), ({"outputs": [[]]}, "name"),
    ({"outputs": [{"name": 0, "parameters": {"classification": 2}}]}, "not supported"), ({"outputs": [{"name": 0}, {"name": 0}]}, "twice"),
    ({"outputs": [{"name": 0, "parameters": {"binary_data": 3}}]}, "boolean"), ({"parameters": {"sequence_id": 3}}, "not supported"),
    ({"id": 3}, "string"), ({"inputs": {}}, "no list"), ({"inputs": [{}]}, "name"), ({"inputs": []}, "missing")])
def test_requests_that_are_refused(client, body, message):
    for output in body["outputs"] if isinstance(body.get("outputs"), list) else []:
        if output and output.get("name") == 0:
            output["name"] = output_names(client)[0]
    status, answer = ask(client, {"inputs": inputs(), **body})
    assert status == 400 and message in answer["error"]


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e400", "-1e400", "01", "+1", "1.", "0x10", "'1'", "nan"])
def test_numbers_that_are_none(client, text):
    body = json.dumps({"inputs": inputs(fp64={"data": "HERE"})}).replace('"HERE"', f"[{text}, 1]")
    status, _, answer = client.ask("POST", MODEL + "/infer", body)
    assert status == 400 and json.loads(answer)["error"]


@pytest.mark.parametrize("sizes, cut", [([7], 0), ([9], 1), ([8], -1), (["8"], 0), ([-8], 0), ([8.0], 0)])
def test_bytes_that_are_refused(client, sizes, cut):
    """Of one input as bytes: too few, too many, and sizes that are none."""
    header = json.dumps({"inputs": inputs(fp32={"parameters": {"binary_data_size": sizes[0]}})})
    header = json.dumps({"inputs": [{k: v for k, v in item.items() if k != "data" or item["name"] != "fp32"} for item in json.loads(header)["inputs"]]})
    body = header.encode() + bytes(8 + cut if cut else 8)
    status, _, answer = client.ask("POST", MODEL + "/infer", body, {LENGTH: str(len(header))})
    assert status == 400 and json.loads(answer)["error"]


def test_a_client_of_others(server):
    """tritonclient is the reference client of the protocol and its binary extension."""
    triton = pytest.importorskip("tritonclient.http")
    name = "every one ü"
    client = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(name) and client.is_model_ready(name, "1")
    assert not client.is_model_ready(name, "2") and not client.is_model_ready("none")
    assert client.get_server_metadata()["name"] == "escapement"
    assert client.get_model_repository_index() == [{"name": name, "version": "1", "state": "READY", "reason": ""}]
    about = client.get_model_metadata(name)
    tensors = [torch.tensor([1, 0] if dtype == torch.bool else [1, 3]).to(dtype) for dtype in TYPES.values()]
    for binary in (True, False):
        given = []
        for item, tensor in zip(about["inputs"], tensors):
            given.append(triton.InferInput(item["name"], [2], item["datatype"]))
            if item["datatype"] == "BF16":
                given[-1].set_data_from_numpy(tensor.float().numpy().astype(pytest.importorskip("ml_dtypes").bfloat16), binary_data=True)
            else:
                given[-1].set_data_from_numpy(tensor.numpy(), binary_data=binary or item["datatype"] == "FP16")
        asked = [triton.InferRequestedOutput(item["name"], binary_data=binary) for item in about["outputs"]]
        result = client.infer(name, given, outputs=asked if binary else None, request_id="7", model_version="1")
        assert result.get_response()["id"] == "7" and result.get_response()["model_version"] == "1"
        for item, tensor in list(zip(about["outputs"], tensors))[1:-1]:
            assert torch.equal(torch.from_numpy(result.as_numpy(item["name"]).astype("float64")).to(tensor.dtype), tensor)
        assert result.as_numpy(about["outputs"][-1]["name"]).tolist() == [False, True]
    with pytest.raises(triton.InferenceServerException, match="no output 'none'"):
        client.infer(name, given, outputs=[triton.InferRequestedOutput("none")])
    with pytest.raises(triton.InferenceServerException, match="compressed"):
        client.infer(name, given, request_compression_algorithm="gzip")
    with pytest.raises(triton.InferenceServerException, match="no model"):
        client.get_model_metadata("none")
