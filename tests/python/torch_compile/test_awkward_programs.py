"""Programs that are hard to trace (awkward_programs.py), compiled: results, prints and exceptions are eager's. Where a program cannot be
traced it runs eagerly; nobody sees an exception that the program itself does not raise."""

import pytest
import torch
from awkward_programs import PROGRAMS

pytestmark = pytest.mark.usefixtures("fresh")

SHAPES = ((5, 3), (1, 3), (7, 1), (2, 3), (0, 3), (1, 1), (3, 5))


def outcome(function, shape):
    x = torch.arange(1.0, 1 + shape[0] * shape[1]).view(shape)
    try:
        return function(x), x
    except Exception as error:
        return type(error), x


def same(ours, eager):
    if isinstance(eager, torch.Tensor):
        assert isinstance(ours, torch.Tensor) and ours.shape == eager.shape and ours.dtype == eager.dtype and type(ours) is type(eager)
        torch.testing.assert_close(ours.detach(), eager.detach(), rtol=1e-5, atol=1e-6, equal_nan=True)
    elif isinstance(eager, (tuple, list)):
        assert type(ours) is type(eager) and len(ours) == len(eager), (ours, eager)
        for mine, theirs in zip(ours, eager):
            same(mine, theirs)
    elif isinstance(eager, dict):
        same(list(ours), list(eager))
        same(list(ours.values()), list(eager.values()))
    else:
        assert ours == eager and type(ours) is type(eager), (ours, eager)


@pytest.mark.parametrize("name", PROGRAMS)
def test_awkward(name, capsys):
    eager, compiled = PROGRAMS[name](), torch.compile(PROGRAMS[name](), backend="escapement")
    for shape in SHAPES:
        wanted, wanted_print = outcome(eager, shape), capsys.readouterr().out
        got, got_print = outcome(compiled, shape), capsys.readouterr().out
        same(got, wanted)
        assert got_print == wanted_print
