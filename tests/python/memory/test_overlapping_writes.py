"""Writes whose elements lie in one place, or which reach the caller's memory by a view that a library call made: what comes of them is
eager's, and is there once, whatever ends the call.

Where no stride is 0 ATen refuses nothing, and goes through the elements in an order of its own: such writes are left to it.
"""

import pytest
import torch

from answered import Counted

MODES = ("call", "replay")
pytestmark = pytest.mark.usefixtures("fresh")


def line(n):
    return torch.arange(n).remainder(5).float() - 1


def chosen(x):
    v = x.as_strided((2, 2), (1, 1))
    v.mul_(torch.clamp(v, -9, 9))
    return v


def unfolded(x):
    v = x.unfold(0, 3, 1)
    v.mul_(torch.clamp(v, -9, 9))
    return x + 0


def of_own(x):
    v = (x * 2).as_strided((3, 2), (1, 2))
    v[1:].mul_(torch.clamp(v[1:], -9, 9))
    return v


def squared(x):
    x.mul_(torch.clamp(x, -9, 9))
    return x + 0


VIEWS = {"chosen strides": (chosen, line), "unfolded": (unfolded, line), "of its own": (of_own, line),
         "an argument that overlaps": (squared, lambda n: line(n).unfold(0, 3, 1)),
         "one that does not": (squared, lambda n: line(4 * n).view(n, 4)[:, ::2]),
         "now one, now the other": (squared, lambda n: line(n).unfold(0, 3, 1) if n % 2 else line(3 * n).unfold(0, 3, 3))}
SIZES = (7, 7, 5, 8, 13, 6, 9, 31)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", VIEWS)
@torch.no_grad()
def test_elements_in_one_place(name, mode):
    program, make = VIEWS[name]
    made = Counted(program, mode=mode)
    for n in made.twice(SIZES):
        mine, theirs = make(n), make(n)
        assert torch.equal(made(mine), program(theirs)) and torch.equal(mine, theirs), n
    made.expect()
    if mode == "call":
        assert made.info()["recordings"] <= 2 and not made.info()["eager"], made.info()


def behind_a_view(x):
    x.view(-1).mul_(2)
    index = torch.remainder((x.t() @ x).to(torch.int64), x.size(0)).abs()
    return x.scatter_add(0, index, x)   # refused where there are more columns than rows


def behind_a_call(x):
    x.view(-1).mul_(2)
    found = x.nonzero()
    return x[found.size(0):found.size(0) + 1].squeeze(0) + x.view(-1)[found.size(0)]   # out of bounds where nothing is 0


REFUSING = {"scatter_add": behind_a_view, "an element": behind_a_call}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REFUSING)
@torch.no_grad()
def test_what_is_refused_behind_a_write_was_written_once(name, mode):
    program = REFUSING[name]
    made = Counted(program, mode=mode)
    # the first with a stride, so that `view` is ATen's
    for rows, columns, step in made.twice(((4, 3, 2), (2, 4, 1), (2, 4, 2), (5, 3, 1), (3, 5, 2), (7, 1, 1), (1, 7, 1))):
        mine, theirs = (torch.arange(rows * columns * step).float().view(rows, columns * step)[:, ::step] for _ in range(2))
        outcomes = []
        for run, x in ((made, mine), (program, theirs)):
            try:
                outcomes.append(run(x))
            except (RuntimeError, IndexError) as error:
                outcomes.append(type(error))
        ours, eager = outcomes
        assert torch.equal(mine, theirs), (rows, columns, step)
        assert ours is eager if isinstance(eager, type) else torch.equal(ours, eager), (rows, columns, step)
    # A row that the data choose can be checked behind the write only, so such a version is none.
    made.expect(*("data_dependent_guard", "ran_at_once too_many_recordings") if (name, mode) == ("an element", "call") else ())


# --- parts of expanded axes

# A part of one element keeps the stride 0 of the axis that it was cut from; an axis that was expanded to one element has a new axis's.
PARTS = {
    "row": lambda v: v[1:2], "first": lambda v: v[:1], "rest": lambda v: v[1:], "narrow": lambda v: v.narrow(0, 1, 1), "transposed": lambda v: v.t()[:, 1:2].t(),
    "unsqueezed": lambda v: v.unsqueeze(0)[:, 1:2].squeeze(0), "whole": lambda v: v, "again": lambda v: v.expand(2, *v.shape)[0, 1:2],
}
# How many rows there are decides what eager does with an argument of one element, behind the write.
# Where there is nothing our library call's result has other strides than eager's: that call goes on with the program itself.
LEFT = {("rest", "call"): ("too_many_recordings", "data_dependent_guard", "nothing"), ("whole", "call"): ("data_dependent_guard",)}


def tried(function, *args):
    try:
        return function(*args)
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_an_expanded_axis_written_over_itself(part, mode):
    def write(x, rows):
        v = x.expand(rows, *x.shape)
        whole = PARTS[part](v)
        whole.copy_(PARTS[part](v))
        return whole.stride(), whole.sum()

    compiled = Counted(write, mode=mode)
    for n, rows in compiled.twice(((0, 2), (5, 2), (3, 2), (4, 3), (1, 2), (5, 2), (3, 1), (3, 2))):
        ours, eager = line(n), line(n)
        with torch.no_grad():
            found, wanted = tried(compiled, ours, rows), tried(write, eager, rows)
        assert found == wanted and torch.equal(ours, eager), (n, rows, found, wanted)
    compiled.expect(*LEFT.get((part, mode), ()))


# Two rows of one place: ATen takes the pair for one view, or refuses it, by their strides.
ROWS = {"expanded": lambda x: x.expand(1, *x.shape), "cut": lambda x: x.expand(2, *x.shape)[1:2], "cut twice": lambda x: x.expand(3, *x.shape)[1:][:1],
        "new": lambda x: x.unsqueeze(0), "again": lambda x: x.expand(2, *x.shape)[:1].expand(1, *x.shape), "seen": lambda x: x.view(1, -1)}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ROWS)
@pytest.mark.parametrize("target", ROWS)
def test_a_row_written_over_itself(target, source, mode):
    def write(x):
        ROWS[target](x).copy_(ROWS[source](x))
        return x.sum()

    compiled = Counted(write, mode=mode)
    for n in compiled.twice((5, 3, 1, 0, 4, 5)):
        with torch.no_grad():
            found, wanted = tried(compiled, line(n)), tried(write, line(n))
        assert found == wanted, (n, found, wanted)
    compiled.expect()


# One part of an argument by two ways. The strides of its axes of size 1 are its caller's, and which of them a view keeps differs from view to view.
WAYS = {"itself": lambda x: x, "view_as": lambda x: x.view_as(x), "expand_as": lambda x: x.expand_as(x), "detach": lambda x: x.detach(), "there and back": lambda x: x.unsqueeze(0).squeeze(0),
        "turned twice": lambda x: x.t().t(), "rows": lambda x: x[0:], "unflattened": lambda x: x.unflatten(1, (-1, 1)).squeeze(2), "reshaped": lambda x: x.unsqueeze(-1).view(x.shape)}
ARGUMENTS = {"contiguous": lambda n, m: line(n * m).view(n, m), "transposed": lambda n, m: line(n * m).view(m, n).t(), "wide": lambda n, m: line(3 * n * m).view(n, 3 * m)[:, :m],
             "apart": lambda n, m: line(2 * n * m).view(n, 2 * m)[:, ::2], "expanded": lambda n, m: line(m).expand(n, m), "standing": lambda n, m: line(n).unsqueeze(1).expand(n, m)}
WRITES = {"copy_": lambda a, b: a.copy_(b), "out": lambda a, b: torch.mul(b, 2, out=a), "add_": lambda a, b: a.add_(b)}
MANY = ((2, 3), (1, 3), (3, 1), (1, 1), (0, 2), (2, 0), (4, 5), (1, 2), (5, 1))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize("write", WRITES)
def test_one_part_by_two_ways(write, argument, mode):
    for target, source in ((t, s) for t in WAYS for s in WAYS if t != s):
        def program(x):
            WRITES[write](WAYS[target](x), WAYS[source](x))
            return x.sum()

        compiled = Counted(program, mode=mode)
        for sizes in compiled.twice(MANY):
            ours, eager = ARGUMENTS[argument](*sizes), ARGUMENTS[argument](*sizes)
            with torch.no_grad():
                found, wanted = tried(compiled, ours), tried(program, eager)
            assert found == wanted and torch.equal(ours, eager), (target, source, sizes, found, wanted)


# The same for operators that are ATen's, which ask it for themselves: their other operand is the argument by another way, or another argument of its memory.
CALLS = {"index_put_": lambda a, b: a.__setitem__(b > 0, 2.0), "mask": lambda a, b: a.masked_fill_(b, True), "addcmul_": lambda a, b: a.addcmul_(b, b), "index_copy_": lambda a, b: a.index_copy_(0, torch.arange(a.shape[0]), b),
         "atan2_": lambda a, b: a.atan2_(b), "put by mask": lambda a, b: a.__setitem__(b, 3)}


@pytest.mark.parametrize("argument", ("contiguous", "transposed", "apart"))
@pytest.mark.parametrize("call", CALLS)
def test_operators_of_atens(call, argument):
    masks = call in ("mask", "put by mask")
    for way in WAYS:
        def program(x, y):
            CALLS[call](x, WAYS[way](y))
            return x + 0

        compiled = Counted(program, mode="call")
        for n, m in compiled.twice(MANY):
            ours, eager = ((ARGUMENTS[argument](n, m) > 0) if masks else ARGUMENTS[argument](n, m) for _ in range(2))
            with torch.no_grad():
                found, wanted = tried(compiled, ours, ours.t().t()), tried(program, eager, eager.t().t())
            assert type(found) is type(wanted) and torch.equal(ours, eager), (way, n, m, found, wanted)
