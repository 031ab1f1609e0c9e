"""torch's structured control flow under the backend: each side or body is compiled once, whatever the sizes and however often it runs. One
recording of the outer graph and of each body for all calls, run by kernels of ours, no fallback, results eager's."""

import pytest
import torch
from torch._higher_order_ops import while_loop
from torch._higher_order_ops.map import map as mapped
from torch._higher_order_ops.scan import scan

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")
LENGTHS = [5, 4, 7, 2, 13, 3, 11]
W = torch.arange(4.0)


def rows(n):
    return torch.arange(n * 4.0).reshape(n, 4) / 7 - 1


def cond_value(x):
    return torch.cond(x.sum() > 3, lambda y: y * 2, lambda y: y - 1, (x,)) + 1


def cond_closure(x):
    scale = x.mean(-1, keepdim=True)
    return torch.cond(x.sum() > 3, lambda y: y * scale + W, lambda y: y - scale, (x,))


def cond_size(x):
    return torch.cond(x.shape[0] > 4, lambda y: y * 2, lambda y: y - 1, (x,)) + x


def cond_many(x):
    first, second = torch.cond(x.sum() > 3, lambda a, b: (a + b, a.sum()), lambda a, b: (a - b, b.sum()), (x, x * 2))
    return first + second


def cond_nested(x):
    def inner(y):
        return torch.cond(y.sum() > 30, lambda z: z * 3, lambda z: z + 3, (y,))
    return torch.cond(x.sum() > 3, inner, lambda y: y - 1, (x,))


def map_reduce(x):
    return mapped(lambda row, w: (row * w).sum(-1) + 1, x, W) * 2


def map_tree(x):
    return mapped(lambda pair, w: {"a": pair[0] + w, "b": (pair[0] * pair[1]).sum()}, (x, x + 1), W)


def map_then_add(x):
    return mapped(lambda row: row.softmax(-1), x) + x


def map_in_cond(x):
    return torch.cond(x.sum() > 3, lambda y: mapped(lambda row: row * row.sum(), y), lambda y: y - 1, (x,))


def cond_in_map(x):
    return mapped(lambda row: torch.cond(row.sum() > 3, lambda r: r * 2, lambda r: r - 1, (row,)), x)


def scan_forward(x):
    last, all_of_them = scan(lambda carry, row: (carry * 0.5 + row, (carry * row).sum()), torch.zeros(x.shape[1]), x)
    return last + all_of_them.sum(), all_of_them * 2


def scan_reverse(x):
    return scan(lambda carry, row: (carry + row, carry * 2), torch.zeros(x.shape[1]), x, reverse=True)


def scan_columns(x):
    return scan(lambda carry, column: (carry + column, carry * 2), torch.zeros(x.shape[1]), x.t().contiguous(), dim=1)


def scan_tree(x):
    def step(carry, pair):
        return {"sum": carry["sum"] + pair[0] * W, "most": torch.maximum(carry["most"], pair[1])}, carry["sum"] - pair[1]
    return scan(step, {"sum": torch.zeros(x.shape[1]), "most": torch.zeros(x.shape[1])}, (x, x * 2))


def while_value(x):
    return while_loop(lambda i, y: (y.sum() < 500) & (i < 9), lambda i, y: (i + 1, y * 2 + 1), (torch.tensor(0), x))


def while_size(x):
    return while_loop(lambda i, y: i < x.shape[0], lambda i, y: (i + 1, y * 2 + 1), (0, x))


def while_never(x):
    return while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


# name -> program, graphs and bodies of each compile
PROGRAMS = {program.__name__: (program, bodies) for program, bodies in (
    (cond_value, 2), (cond_closure, 2), (cond_size, 2), (cond_many, 2), (cond_nested, 4), (map_reduce, 1), (map_tree, 1), (map_then_add, 1),
    (map_in_cond, 3), (cond_in_map, 3), (scan_forward, 1), (scan_reverse, 1), (scan_columns, 1), (scan_tree, 1), (while_value, 2),
    (while_size, 2), (while_never, 2))}


def regions():
    return [region.info() for function in LEDGER.functions() for region in function.regions()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_recording_for_all_lengths(name):
    program, bodies = PROGRAMS[name]
    compiled, before = torch.compile(program, backend="escapement"), escapement.stats()
    with torch.no_grad():
        for length in LENGTHS:
            for x in (rows(length), -rows(length)):
                torch.testing.assert_close(compiled(x), program(x))
    after, infos = escapement.stats(), regions()
    assert (after["dynamo"]["compiles"], after["dynamo"]["fallbacks"]) == (1, {})
    assert len(infos) == bodies + 1
    assert all(info["recordings"] <= 1 and not info["fallbacks"] and not info["misses"] for info in infos), infos
    assert all(info["recordings"] == len(info["versions"]) for info in infos)
    assert after["launches"] > before.get("launches", 0)
    assert after["recordings"] - before.get("recordings", 0) == sum(info["recordings"] for info in infos)


@pytest.mark.parametrize("name", ["map_reduce", "map_then_add", "scan_forward", "cond_in_map", "while_value", "while_size"])
def test_length_one(name):
    """Seen first or later, the one graph serves it."""
    program, _ = PROGRAMS[name]
    for lengths in ((5, 1, 3), (1, 5, 3)):
        torch._dynamo.reset()
        compiled = torch.compile(program, backend="escapement")
        with torch.no_grad():
            for length in lengths:
                torch.testing.assert_close(compiled(rows(length)), program(rows(length)))
        counted = escapement.stats()["dynamo"]
        assert counted["compiles"] <= (1 if lengths[0] == 5 else 2) and counted["fallbacks"] == {}
        assert all(info["recordings"] <= 1 and not info["fallbacks"] for info in regions())


@pytest.mark.parametrize("program", [map_reduce, scan_forward])
def test_length_zero_is_the_same_error(program):
    compiled = torch.compile(program, backend="escapement")
    with torch.no_grad():
        compiled(rows(3))
        with pytest.raises(Exception) as ours:
            compiled(rows(0))
        with pytest.raises(Exception) as eager:
            program(rows(0))
    assert type(ours.value) is type(eager.value) and str(ours.value) == str(eager.value)


def test_the_bodies_run_compiled():
    """Every step of the loop is a hit of the body's only version, and launches a kernel."""
    compiled = torch.compile(map_reduce, backend="escapement")
    with torch.no_grad():
        compiled(rows(3))
        before = escapement.stats()
        compiled(rows(11))
    after = escapement.stats()
    assert after["hits"] - before["hits"] == 11 + 1
    assert after["launches"] - before["launches"] >= 11 + 1


def test_random_numbers_of_a_body_are_eagers():
    def program(x):
        return mapped(lambda row: torch.dropout(row, 0.5, True) + torch.rand_like(row), x) * 2

    compiled = torch.compile(program, backend="escapement")
    with torch.no_grad():
        for length in LENGTHS:
            torch.manual_seed(length)
            expected, left = program(rows(length)), torch.rand(1)
            torch.manual_seed(length)
            torch.testing.assert_close(compiled(rows(length)), expected)
            assert torch.equal(torch.rand(1), left)
    assert escapement.stats()["dynamo"]["compiles"] == 1


def test_a_body_that_writes_what_it_closes_over():
    seen = torch.zeros(4)

    def program(x):
        before = seen * 1

        def body(i, y):
            seen.add_(y[0])
            return i + 1, y * 2

        _, y = while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))
        return y + before, seen * 2

    compiled, results = torch.compile(program, backend="escapement"), []
    for function in (program, compiled):
        seen.zero_()
        with torch.no_grad():
            results.append([[part.clone() for part in function(rows(length))] for length in LENGTHS])
    torch.testing.assert_close(results[1], results[0])


def test_behind_a_write():
    def program(x, y):
        y.add_(1)
        return torch.cond(y.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))

    compiled = torch.compile(program, backend="escapement")
    with torch.no_grad():
        for length in LENGTHS:
            for sign in (1, -9):
                ours, eager = torch.full((3,), float(sign)), torch.full((3,), float(sign))
                torch.testing.assert_close(compiled(rows(length), ours), program(rows(length), eager))
                assert torch.equal(ours, eager)
    assert all(info["recordings"] == 1 and not info["fallbacks"] for info in regions())


def test_under_autocast_bodies_are_recorded_in_place():
    def program(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return torch.cond(x.sum() > 3, lambda y: y @ w, lambda y: -y @ w, (x,))

    compiled, w = torch.compile(program, backend="escapement"), torch.randn(4, 4)
    with torch.no_grad():
        for length in LENGTHS:
            for x in (rows(length), -rows(length)):
                torch.testing.assert_close(compiled(x, w), program(x, w))


@pytest.mark.parametrize("program", [cond_value, cond_closure, map_reduce, map_then_add, scan_forward])
def test_training(program):
    compiled = torch.compile(program, backend="escapement")

    def gradient(function, x):
        result = function(x)
        (result[0] if isinstance(result, tuple) else result).sum().backward()
        return x.grad

    for length in (5, 3, 7):
        torch.testing.assert_close(gradient(compiled, rows(length).requires_grad_()), gradient(program, rows(length).requires_grad_()))
