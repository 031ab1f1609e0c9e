"""Loading in C++: options as a struct, bytes instead of a path, names, calls on another thread; and what an error says to do about a program
that holds graphs. tests/cpp_api/loading.cpp holds the checks of C++; here are the models."""
import os
import subprocess
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from harness import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "load_exported"), reason="needs the compiled core")

PROGRAM = Path(os.environ.get("ESCAPEMENT_BUILD", "build")) / "tests" / "loading"
N = Dim("n", max=4096)


class Program(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class Pair(torch.nn.Module):
    def forward(self, x, y):
        return x + y, x * y


class Twice(torch.nn.Module):
    def forward(self, x):
        y = x * 2
        return y, y


class Count(torch.nn.Module):
    def forward(self, x, k):
        return x * k, k + 1


class Slow(torch.nn.Module):
    def forward(self, x):
        for _ in range(50):
            x = torch.tanh(x @ x)
        return x


class Never(torch.nn.Module):
    """A sparse tensor inside is not compiled."""

    def forward(self, x):
        return x.to_sparse().to_dense() * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("loading")
    rows, others, row = torch.ones(4, 3), torch.ones(4, 3), torch.ones(4)   # one tensor twice would be one input
    programs = {"pair": (Pair(), (rows, others), ({0: N}, {0: N})), "twice": (Twice(), (row,), ({0: N},)),
                "count": (Count(), (row, 3), ({0: N}, Dim.DYNAMIC)), "slow": (Slow(), (torch.ones(128, 128),), None),
                "never": (Never(), (row,), None)}
    for name, (module, inputs, shapes) in programs.items():
        torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes), path / f"{name}.pt2")
    module = core().load_exported(str(path / "pair.pt2"))
    module(rows, others)
    module.save(str(path / "pair.package"))
    return path


def test_loading(folder):
    done = subprocess.run([PROGRAM], env=os.environ | {"MODELS": str(folder)}, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def exported(module, inputs, path, decomposed):
    program = torch.export.export(module, inputs)
    torch.export.save(program.run_decompositions({}) if decomposed else program, path)
    return str(path)


class Mapped(torch.nn.Module):
    def forward(self, x):
        return torch.vmap(lambda row: row * 2 + row.sum())(x)


class Branch(torch.nn.Module):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))


class Autocast(torch.nn.Module):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x


def test_what_decompositions_would_mend_says_so_and_is_mended_by_them(tmp_path):
    x = torch.arange(16.0).reshape(4, 4)
    with pytest.raises(RuntimeError, match=r"ep\.run_decompositions\(\{\}\)` before torch\.export\.save"):
        core().load_exported(exported(Mapped(), (x,), tmp_path / "mapped.pt2", False))
    model = core().load_exported(exported(Mapped(), (x,), tmp_path / "decomposed.pt2", True))
    assert torch.equal(model(x)[0], Mapped()(x)) and torch.equal(model(x)[0], Mapped()(x))


def test_a_branch_says_that_decompositions_leave_it(tmp_path):
    for decomposed in (False, True):
        with pytest.raises(RuntimeError, match=r"ep\.run_decompositions\(\{\}\)`.*not branches and loops"):
            core().load_exported(exported(Branch(), (torch.ones(3),), tmp_path / f"{decomposed}.pt2", decomposed))


@pytest.mark.parametrize("decomposed", [False, True])
def test_autocast_blocks_load_either_way(tmp_path, decomposed):
    x = torch.randn(4, 4)
    model = core().load_exported(exported(Autocast(), (x,), tmp_path / "autocast.pt2", decomposed))
    for _ in range(2):
        found = model(x)[0]
        assert found.dtype == torch.bfloat16 and torch.allclose(found.float(), Autocast()(x).float(), atol=0.1)
