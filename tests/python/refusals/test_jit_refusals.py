"""What eager refuses is refused: calls that a recording was not made from, and whose results nobody may have wanted."""

import pytest
import torch
import torch.nn.functional as F

import escapement
from escapement.core import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "Region"), reason="needs the compiled core")


LOOKUPS = {
    "index": lambda x, i: x[i], "index_select": lambda x, i: x.index_select(0, i), "gather": lambda x, i: x.gather(0, i[:, None]),
    "embedding": lambda x, i: F.embedding(i, x),
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", LOOKUPS)
def test_an_unused_lookup_refuses_what_eager_refuses(name, mode):
    function = lambda x, i: (LOOKUPS[name](x, i), x + 1)[1]  # noqa: E731
    jitted = escapement.jit(function, mode=mode)
    for rows, positions in ((3, [0, 1]), (5, [4]), (3, []), (2, [1, 1])):
        x, i = torch.ones(rows, 2), torch.tensor(positions, dtype=torch.long)
        assert torch.equal(jitted(x, i), x + 1)
    for rows, positions in ((3, [0, 3]), (1, [-2]), (0, [0])):
        x, i = torch.ones(rows, 2), torch.tensor(positions, dtype=torch.long)
        with pytest.raises(Exception) as eager:
            function(x, i)
        with pytest.raises(type(eager.value)):
            jitted(x, i)
    if mode == "call":
        assert jitted.info()["recordings"] <= 2


# function, calls that it takes, calls that it refuses: sizes of the arguments
SIZES = {
    "layer_norm": (lambda x: F.layer_norm(x, (5,)), [[(2, 5)], [(3, 7, 5)], [(0, 5)]], [[(2, 6)], [(3, 1)], [(0, 6)], [(5, 0)]]),
    "layer_norm of one": (lambda x: F.layer_norm(x, (1,)), [[(2, 1)], [(0, 1)]], [[(2, 6)], [(0, 0)]]),
    "native_layer_norm": (lambda x: torch.native_layer_norm(x, (1,), None, None, 1e-5)[0], [[(2, 1)]], [[(2, 3)], [(0, 0)]]),
    "rms_norm": (lambda x: F.rms_norm(x, (5,)), [[(2, 5)], [(7, 5)]], [[(2, 6)], [(3, 1)]]),
    "layer_norm with a weight": (lambda x, w: F.layer_norm(x, (5,), w), [[(2, 5), (5,)]], [[(2, 6), (5,)], [(2, 5), (1,)], [(2, 1), (1,)]]),
    "group_norm": (lambda x: F.group_norm(x, 2), [[(2, 4, 3)], [(2, 6, 3)], [(1, 2, 5)]], [[(2, 5, 3)], [(2, 1, 3)]]),
    "batch_norm": (lambda x, m, v: F.batch_norm(x, m, v), [[(2, 4), (4,), (4,)], [(3, 1), (1,), (1,)]], [[(2, 5), (1,), (1,)], [(2, 1), (5,), (5,)]]),
    "batch_norm of no features": (lambda x, m, v, w, b: torch.batch_norm(x, w, b, m, v, False, 0.1, 1e-5, False),
                                  [[(2, 4), (4,), (4,), (4,), (4,)]], [[(2, 0), (0,), (0,), (0,), (0,)]]),
    "index_select of nothing": (lambda x: x.index_select(0, torch.zeros(2, dtype=torch.long)), [[(3, 2)], [(1, 5)]], [[(0, 2)], [(0, 7)]]),
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_eager_refuses(name, mode):
    function, taken, refused = SIZES[name]
    jitted = escapement.jit(function, mode=mode)
    for _ in range(2):
        for sizes in taken:
            arguments = [torch.ones(size) for size in sizes]
            torch.testing.assert_close(jitted(*arguments), function(*arguments), rtol=1e-5, atol=1e-5)
        for sizes in refused:
            arguments = [torch.ones(size) for size in sizes]
            with pytest.raises(Exception) as eager:
                function(*arguments)
            with pytest.raises(type(eager.value)):
                jitted(*arguments)


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_a_product_that_makes_its_target_fit(mode):
    """addbmm_ gives what it writes other sizes, where it broadcasts."""
    def function(x, a, b):
        y = x * 2
        y.addbmm_(a, b)
        return y

    jitted = escapement.jit(function, mode=mode)
    for rows, n in ((5, 5), (1, 5), (5, 5), (1, 1), (2, 2), (1, 3)):
        x, a = torch.ones(rows, n), torch.ones(2, n, n)
        assert torch.equal(jitted(x, a, a), function(x, a, a))


def shifted(v):
    """Memory with gaps: ATen does not refuse, and reads of one what it has just written of the other."""
    v[1:].add_(v[:-1])
    return v


# Writes onto what they read, and onto themselves, which ATen refuses where there are such elements.
OVERLAPS = {
    "shifted": lambda v: v[1:].add_(v[:-1]), "shifted back": lambda v: v[:-1].mul_(v[1:]), "copied": lambda v: v[1:].copy_(v[:-1]),
    "expanded": lambda v: v[:1].expand(v.shape[0]).add_(1), "out": lambda v: torch.add(v[1:], v[:-1], out=v[1:]),
    "strided": lambda v: torch.as_strided(v, (v.shape[0] // 2,), (2,)), "along a diagonal": lambda v: shifted(torch.outer(v, v).diagonal()),
    "unfolded": lambda v: v[:1].expand(v.shape[0]).unfold(0, 1, 2)[1:].fill_(0) if len(v) else v,
    "clamped": lambda v: v[1:].clamp_(max=v[:-1]), "stepped": lambda v: v[::2].add_(v[:(v.shape[0] + 1) // 2]), "far": lambda v: v[2:].add_(v[:-2]),
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("first", [1, 0, 3])
@pytest.mark.parametrize("name", OVERLAPS)
def test_overlapping_writes(name, first, wanted, mode):
    """Whether anybody wants what was written or not; recorded where there is nothing to overlap or where it is refused."""
    def program(x):
        v = x * 1
        other = OVERLAPS[name](v)
        return (v, other * 1) if wanted else x

    function = escapement.jit(program, mode=mode)
    for size in (first, 3, 2, 0, 5, 1, 4, 7):
        x = torch.arange(float(size))
        outcomes = []
        for run in (program, function):
            try:
                outcomes.append(run(x.clone()))
            except Exception as error:
                outcomes.append(type(error))
        eager, ours = outcomes
        same = ours is eager if isinstance(eager, type) else all(map(torch.equal, ours, eager)) if wanted else torch.equal(ours, eager)
        assert same, (size, ours, eager)


@pytest.mark.parametrize("index", [-1, 0, 1, 5])
def test_an_index_of_a_0d_tensor(index):
    function = escapement.jit(lambda x: x.sum()[index])
    for size in (0, 1, 3):
        with pytest.raises(IndexError):
            function(torch.ones(size))


ACCEPTED_SOMEWHERE = {
    "softmax of integers": lambda x: x.int().softmax(-1), "log_softmax of integers": lambda x: x.long().log_softmax(0), "softmax of bools": lambda x: (x > 0).softmax(0),
    "softmax as integers": lambda x: x.softmax(0, dtype=torch.int32), "log_softmax as bools": lambda x: x.log_softmax(0, dtype=torch.bool), "logsumexp over no axis": lambda x: x.logsumexp([]),
    "gelu_backward of two dtypes": lambda x: torch.ops.aten.gelu_backward(x.double(), x), "gelu_backward of two sizes": lambda x: torch.ops.aten.gelu_backward(x[:1], x),
}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", ACCEPTED_SOMEWHERE)
def test_what_eager_accepts_of_nothing_or_of_one_element_only(name, mode):
    def outcome(function, rows, columns):
        try:
            return function(torch.ones(rows, columns)).tolist()
        except RuntimeError as error:   # NotImplementedError is one
            return type(error)

    program, sizes = ACCEPTED_SOMEWHERE[name], [(0, 2), (1, 1), (4, 4), (3, 4), (0, 3), (2, 1), (4, 4)]
    for first in range(3):
        with torch.no_grad():
            compiled = escapement.jit(program, mode=mode)
            for shape in (*sizes[first:], *sizes[:first]):
                assert outcome(compiled, *shape) == outcome(program, *shape), (first, shape)
            assert "internal_error" not in str(compiled.info())
