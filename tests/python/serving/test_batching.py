"""Dynamic batching of the C++ library (include/escapement/batcher.h). tests/cpp_api/batching.cpp holds the checks; here are the models."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from torch.export import Dim

PROGRAM = Path(os.environ.get("ESCAPEMENT_BUILD", "build")) / "tests" / "batching"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="needs the compiled library")
CHECKS = ["rows_of_many", "what_is_joined", "by_lengths", "integers", "results_are_the_callers", "forms", "programs_that_write", "a_bad_request_fails_alone", "too_many",
          "deadlines", "closed", "callbacks_that_ask", "callbacks_that_throw", "moved_from", "ends_in_its_callback", "after_fork", "weights"]


class Rows(torch.nn.Module):
    def forward(self, x, y):
        return torch.softmax(x, -1) + y[:, None], x.sum(-1) * torch.sigmoid(y)


class Tagger(torch.nn.Module):
    def forward(self, values, lengths):
        sequence = torch.searchsorted(lengths.cumsum(0), torch.arange(values.shape[0]), right=True)
        return values.sum(-1).tanh(), torch.zeros(lengths.shape[0], 4).index_add(0, sequence, values)


class Pick(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(11, 3))

    def forward(self, ids):
        return self.table[ids] * 2


class Counted(Pick):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, ids):
        self.n.add_(ids.numel())
        return super().forward(ids)


class Written(torch.nn.Module):
    def forward(self, x):
        x.add_(1)
        return x * 2


class Through(torch.nn.Module):
    def forward(self, x):
        y = torch.nn.functional.dropout(x.view(-1), 0.5, training=False)
        y[:1].mul_(3)
        return x * 2


class Fresh(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x):
        return torch.relu_(self.linear(x)).add_(1).view(-1, 4)


class Logged(Tagger):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def forward(self, values, lengths):
        self.n.add_(1)
        return super().forward(values, lengths)


class Times(torch.nn.Module):
    def forward(self, x, k: int):
        return x * k


class Whole(torch.nn.Module):
    def forward(self, x):
        return x.sum(0)


N, S, T, R = Dim("n", max=64), Dim("s", max=64), Dim("t", max=4096), Dim("r", max=64)
MODELS = {"rows": (Rows(), (torch.randn(3, 5), torch.randn(3)), ({0: N, 1: S}, {0: N})),
          "tagger": (Tagger(), (torch.randn(5, 4), torch.tensor([2, 3])), ({0: T}, {0: R})),
          "pick": (Pick(), (torch.arange(4),), ({0: N},)),
          "counted": (Counted(), (torch.arange(4),), ({0: N},)),
          "written": (Written(), (torch.ones(4),), ({0: N},)),
          "through": (Through(), (torch.ones(4),), ({0: N},)),
          "fresh": (Fresh(), (torch.ones(4, 3),), ({0: N},)),
          "logged": (Logged(), (torch.randn(5, 4), torch.tensor([2, 3])), ({0: T}, {0: R})),
          "times": (Times(), (torch.randn(4), 3), ({0: N}, Dim.DYNAMIC)),
          "whole": (Whole(), (torch.randn(4, 2),), ({0: N},))}
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64, "I32": torch.int32,
          "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool}


def write_safetensors(path, tensors):
    """By hand: the format is eight bytes, a JSON header, and the data."""
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("batching")
    for name, (model, inputs, dims) in MODELS.items():
        torch.export.save(torch.export.export(model, inputs, dynamic_shapes=dims), folder / f"{name}.pt2")
    tensors = {name: (name, [2, 1], bytes(torch.tensor([[1], [2]]).to(dtype).view(torch.uint8).flatten().tolist())) for name, dtype in DTYPES.items()}
    tensors["BOOL"] = ("BOOL", [2, 1], b"\x00\x07")   # what is not 0 is true
    write_safetensors(folder / "weights.safetensors", {**tensors, "none": ("F32", [0, 3], b""), "scalar": ("F32", [], b"\x00" * 4)})
    write_safetensors(folder / "u64.safetensors", {"a": ("U64", [1], b"\x00" * 8)})
    return folder


@pytest.mark.parametrize("check", CHECKS)
def test_batching(folder, check):
    done = subprocess.run([PROGRAM, check, folder], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_check_is_run():
    text = (Path(__file__).parents[2] / "cpp_api" / "batching.cpp").read_text()
    assert re.findall(r'\{"(\w+)", \1\}', text) == CHECKS
