"""Runs tools/scalar_eval, the reference meaning of a pointwise op, on torch tensors."""
import os
import pathlib
import subprocess

import pytest
import torch

NAMES = {
    torch.bool: "b8", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
}


def find_tool():
    """$ESCAPEMENT_SCALAR_EVAL, else the newest one in a build folder of this checkout."""
    given = os.environ.get("ESCAPEMENT_SCALAR_EVAL")
    if given:
        return given
    root = pathlib.Path(__file__).resolve().parents[3]
    found = [*root.glob("build*/tools/scalar_eval"), *root.glob("build*/scalar_eval")]
    if not found:
        pytest.skip("tools/scalar_eval is not built")
    return str(max(found, key=lambda path: path.stat().st_mtime))


def raw(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def run(op, *operands, result=None, values=()):
    """The op's result for tensors of one length; values are attrs.value and attrs.value2, None for none."""
    result = result or operands[0].dtype
    words = [op, ",".join(NAMES[t.dtype] for t in operands), NAMES[result]]
    words += ["_" if v is None else repr(v) for v in values]
    done = subprocess.run([find_tool(), *words], input=b"".join(map(raw, operands)), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return torch.frombuffer(bytearray(done.stdout), dtype=result)
