"""`out=`: an argument that has the result's sizes is written, any other is given them. Recorded at each of the pairs of sizes first, served
at the others."""

import random
import warnings

import pytest
import torch

import escapement


def whole(x):
    return torch.zeros(x.shape, dtype=torch.long)


OPERATORS = {
    "neg": lambda a, b: torch.neg(b, out=a), "add": lambda a, b: torch.add(b, b, out=a), "where": lambda a, b: torch.where(b > 0, b, b, out=a),
    "fmod": lambda a, b: torch.fmod(b, 2, out=a), "sum": lambda a, b: torch.sum(b, 0, keepdim=True, out=a),
    "amax": lambda a, b: torch.amax(b, 1, keepdim=True, out=a) if b.numel() else a, "cumsum": lambda a, b: torch.cumsum(b, 0, out=a),
    "matmul": lambda a, b: torch.matmul(b, b.mT, out=a), "mm": lambda a, b: torch.mm(b, b.mT, out=a) if b.dim() == 2 else a,
    "addmm": lambda a, b: torch.addmm(b[:, :1], b, b.mT, out=a) if b.dim() == 2 else a, "bmm": lambda a, b: torch.bmm(b[None], b.mT[None], out=a),
    "cat": lambda a, b: torch.cat([b, b], out=a), "stack": lambda a, b: torch.stack([b, b], out=a),
    "sort": lambda a, b: torch.sort(b, out=(a, whole(a)))[0], "max": lambda a, b: torch.max(b, 0, out=(a, whole(a)))[0] if b.numel() else a,
    "index_select": lambda a, b: torch.index_select(b, 0, torch.arange(b.shape[0]), out=a), "gather": lambda a, b: torch.gather(b, 0, whole(b), out=a),
    "eye": lambda a, b: torch.eye(b.shape[0], b.shape[1], out=a), "zeros": lambda a, b: torch.zeros(b.shape, out=a),
    "full": lambda a, b: torch.full(b.shape, 3.0, out=a), "arange": lambda a, b: torch.arange(b.shape[0], out=a),
    "of another dtype": lambda a, b: torch.add(b.int(), 1, out=a), "norm": lambda a, b: torch.norm(b, 2, 0, out=a),
    "over its operand": lambda a, b: (torch.mul(b, b, out=b[..., 0]), a)[1], "over the target": lambda a, b: torch.mul(a, a, out=a[:1]),
    "own": lambda a, b: torch.neg(b, out=torch.zeros(a.shape)), "nothing": lambda a, b: torch.neg(b, out=torch.empty(0)),
}
PAIRS = [((1, 0), (1, 0)), ((0, 0), (1, 0)), ((0, 0), (0, 0)), ((2, 3), (2, 3)), ((0, 3), (1, 3)), ((1, 3), (1, 3)), ((1, 1), (1, 3)), ((3, 3), (1, 3)),
         ((0,), (2, 3)), ((2, 3), (2, 0)), ((2, 0), (2, 3)), ((0, 2), (2, 0)), ((4, 4), (4, 4)), ((2, 3), (3, 2)), ((6,), (2, 3)), ((2, 2), (2, 5)), ((3,), (5, 3))]


def outcome(function, target, source):
    a = torch.zeros(target)
    try:
        result = function(a, torch.ones(source))
    except (RuntimeError, IndexError):
        return "raises"
    return result.shape, a.shape, result is a, result.flatten().tolist(), a.flatten().tolist()


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_sizes_are_the_results(operator, mode):
    function = OPERATORS[operator]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(len(PAIRS)):
            pairs = [PAIRS[seed], *random.Random(seed).sample(PAIRS, len(PAIRS))]
            compiled = escapement.jit(function, mode=mode)
            for target, source in pairs:
                wanted = outcome(function, target, source)
                assert outcome(compiled, target, source) == wanted, (pairs[0], target, source)


@pytest.mark.parametrize("operator", ["neg", "add", "mm", "addmm", "fmod", "zeros", "full"])
def test_targets_that_fit_are_compiled(operator):
    with torch.no_grad():
        compiled = escapement.jit(OPERATORS[operator])
        for n in (3, 5, 2, 7):
            assert outcome(compiled, (n, n), (n, n)) == outcome(OPERATORS[operator], (n, n), (n, n))
        assert compiled.info()["recordings"] == 1 and not compiled.info()["regions"][0]["fallbacks"]
