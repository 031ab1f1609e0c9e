"""Operators whose results have another rank at sizes 0 and 1, behind an effect: when the call shows it, there is no way back to another version."""

import pytest
import torch

from answered import Counted

OPERATORS = {
    "cov": lambda x: torch.cov(x), "corrcoef": lambda x: torch.corrcoef(x), "lstsq": lambda x: torch.linalg.lstsq(x + 1, x)[1],
    "squeeze": lambda x: x.squeeze(), "unbind": lambda x: torch.stack(x.unbind()) if len(x) else x, "addmv": lambda x: torch.addmv(x.sum(1), x, x.sum(0)),
    "split": lambda x: x.split(2)[-1], "chunk": lambda x: x.chunk(2)[-1], "diag": lambda x: torch.diag(x), "nonzero": lambda x: x.nonzero(),
}
EFFECTS = {"draws": lambda x: torch.rand_like(x), "writes": lambda x: x.add_(1)}
SIZES = ((1, 1), (0, 0), (3, 3), (1, 3), (3, 1), (5, 2), (7, 3), (3, 3))


def same(ours, eager):
    return ours.shape == eager.shape and torch.allclose(ours, eager, 1e-3, 1e-4, equal_nan=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_behind_an_effect(name, effect, mode):
    def program(x):
        drawn = EFFECTS[effect](x)
        return drawn * 1, OPERATORS[name](x)

    function = Counted(program, mode=mode)
    for seed, sizes in function.twice([*enumerate(SIZES)]):
        x = torch.randn(sizes, generator=torch.Generator().manual_seed(seed))
        outcomes = []
        for run in (program, function):
            torch.manual_seed(seed)
            mine = x.clone()
            try:
                outcomes.append((*run(mine), mine))
            except Exception as error:
                outcomes.append(type(error))
        eager, ours = outcomes
        assert ours is eager if isinstance(eager, type) else all(map(same, ours, eager)), (sizes, ours, eager)
    function.expect(*("call_layout eager_segments ran_at_once",) if (mode, effect) == ("replay", "draws") else ())   # nothing is drawn where nothing is


CONVOLUTIONS = {
    "conv1d": lambda a, w: torch.conv1d(a, w),
    "conv_transpose1d": lambda a, w: torch.conv_transpose1d(a, w),
    "conv2d": lambda a, w: torch.conv2d(a.unsqueeze(0), w.unsqueeze(0)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.parametrize("shapes", [[(1, 2, 3), (1, 0, 3), (2, 0, 3), (0, 2, 3), (3, 3, 4), (1, 1, 0)], [(1, 0, 3), (1, 2, 3), (0, 1, 3), (1, 1, 1)]])
def test_a_convolution_without_channels_has_sizes_of_its_own(name, shapes):
    def program(a, w):
        a.add_(1)   # what follows must be known to fit
        return CONVOLUTIONS[name](a, w)

    def outcome(function, shape):
        a = torch.ones(shape)
        try:
            return function(a, torch.ones(shape)).shape, a
        except RuntimeError:
            return None, a

    with torch.no_grad():
        compiled = Counted(program)
        for shape in compiled.twice(shapes):
            (wanted, a), (found, b) = outcome(program, shape), outcome(compiled, shape)
            assert wanted == found and torch.equal(a, b), shape
        compiled.expect()


REDUCED = {"equal": lambda a, b: torch.equal(a, b), "all": lambda a, b: bool((a == b).all()), "any": lambda a, b: bool((a != b).any()),
           "sum": lambda a, b: float((a * b).sum()) > 0}


@pytest.mark.parametrize("name", REDUCED)
def test_a_size_that_is_checked_behind_a_kernel_may_be_nothing(name):
    """The size is known to be 1 where it was read, which is behind the reduction: that one must not read the element there is not."""
    def program(a):
        x = a.clamp(max=100)
        once = torch.unique_consecutive(x)
        seen = REDUCED[name](once, x) if once.shape == x.shape else None
        return seen, once.shape[0] in (1, 2), x

    for order in ((1, 0, 0, 2, 1), (2, 0, 1, 5, 0)):
        compiled = Counted(program)
        for n in compiled.twice(order):
            with torch.inference_mode():
                (*wanted, x), (*found, y) = program(torch.arange(float(n))), compiled(torch.arange(float(n)))
                assert wanted == found and torch.equal(x, y), (order, n)
        compiled.expect()
