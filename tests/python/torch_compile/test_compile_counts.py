"""How often programs of a few lines are compiled, where a compile too many would be ours: all calls of a program take the compiles that its
own branches make, none of them a graph break, and a second pass takes none. Results, views and errors are eager's."""

import pytest
import torch
from harness import assert_same_form, bits, seeded

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")

SIZES = (7, 5, 1, 0, 11, 2)


def randn(*shape):
    return torch.randn(*shape, generator=seeded(shape))


# --- a size that the data tell, in a question that the inputs' own sizes decide

def joined(x):
    """What is kept, and a row for each of x: empty only where x is."""
    rows = torch.cat([x[x > 0], x.flatten()])
    return rows if rows.numel() == 0 else rows.softmax(0)


def longer(x):
    """Three more than what is kept: decided without looking at any size."""
    rows = torch.cat([x[x > 0], x.new_zeros(3)])
    return rows * 2 if rows.shape[0] > 2 else rows * 3


def counted(x):
    found = (x > 0).nonzero().shape[0] + x.shape[0]
    return x + 1 if found >= 1 else x + 2


# --- numbers in an index. A negative one counts from the end, which is another rule, and another compile

def by_tensor(x, n):
    return x[torch.tensor(n)] * 2


def by_argument_tensor(x, n):
    return x[n] * 2, x[n, None, ...], x[..., n]


def in_the_middle(x, n):
    cube = x[:, None] * x[None]
    return cube[:, n], cube[:, None, n, 1:], cube[..., n, :], cube[n, :, n], cube[n, torch.tensor([0, 0]), n]


def written(x, n):
    y = x * 2
    y[n] = 1
    y[:, n] += 5
    y[n, n] = y[n, 0]
    return y


def through_a_view(x, n):
    y = x * 2
    y[n].add_(1)
    y[:, n].mul_(3)
    return y


def computed(table, t):
    """The position is known at run time only."""
    before = t - 1
    return table[before] * 2, table[:, before] + 1


# --- texts with sizes in them

def asserted(x, n):
    height, width = x.shape
    torch._assert(height >= n, f"height {height} is less than {n}")
    torch._assert(width >= 0, f"width {width:>4} of {height + 1:03d}")
    return x * 2


def read(x, n):
    return x * 2, f"{x.shape[0]:4}|{n:03d}|{n!r}|{x.shape[0] / 2:.2f}|{x.shape[1]}"


# --- where an argument starts in its storage

OFFSETS = {
    "unread": (lambda x: (x * 2, x.sum(0)), 1),
    "truth": (lambda x: x * (2 if x.storage_offset() else 3), 2),
    "equal": (lambda x: x * (2 if x.storage_offset() == 3 else 5), 2),
    "of a view": (lambda x: x * (2 if x[1:].storage_offset() == 3 else 5), 2),
    "value": (lambda x: x * x.storage_offset(), 1),
}
READ_AS_NUMBERS = {
    "text": lambda x: x * int(f"{x.storage_offset()}1"),
    "range": lambda x: x + sum(i for i in range(x.storage_offset())),
}
STARTS = ((0, 3, 1, 0, 4, 2, 5), (3, 0, 1, 4, 7), (1, 3, 0))


def slices(starts):
    return [lambda n=n, start=start: (torch.arange(2.0 * n + start)[start:].view(n, 2),) for n, start in enumerate(starts, 4)]


# --- what a frame sees inside of an object: a cache whose tensors come into being, grow, and then slide

class Cache:
    def __init__(self, layers):
        self.layers = [Layer() for _ in range(layers)]


class Layer:
    def __init__(self):
        self.window, self.seen, self.rows = 4, 0, None

    def update(self, x):
        self.rows = torch.cat([x.new_zeros(x.shape[0], 2, 0, 3) if self.rows is None else self.rows, x], 2)
        whole, self.rows = self.rows, self.rows[:, :, -self.window + 1:]
        self.seen += x.shape[2]
        return whole


def step(x, cache):
    for layer in cache.layers:
        x = x + layer.update(x).sum(2, keepdim=True) * (2 if layer.seen > layer.window else 1)
    return x


def square(n):
    return randn(n + 3, n + 3)


def ours(program):
    return torch.compile(program, backend="escapement")


def same(got, wanted):
    for mine, theirs in zip(got, wanted, strict=True) if isinstance(wanted, tuple) else ((got, wanted),):
        torch.testing.assert_close(bits(mine.detach()).view(mine.dtype), bits(theirs.detach()).view(mine.dtype), rtol=1e-6, atol=1e-6)
        assert_same_form(mine, theirs)


def count(program, calls, compiles):
    """`calls`: functions that make the arguments of one call."""
    compiled = ours(program)
    for _ in range(2):
        for call in calls:
            same(compiled(*call()), program(*call()))
        seen = LEDGER.counters()
        assert (seen["compiles"], seen["graph_breaks"], seen["refused_calls"], seen["skipped_frames"]) == (compiles, 0, 0, 0), seen
    assert not escapement.stats().get("eager_calls")


@pytest.mark.parametrize("program,compiles", ((joined, 2), (longer, 1), (counted, 2)), ids=lambda value: getattr(value, "__name__", value))
def test_a_size_of_the_data(program, compiles):
    count(program, [lambda n=n: (randn(n, 3),) for n in SIZES], compiles)


INDEXED = (by_argument_tensor, in_the_middle, written, through_a_view)


@pytest.mark.parametrize("program", INDEXED, ids=lambda program: program.__name__)
@pytest.mark.parametrize("kind", (int, torch.tensor), ids=("int", "tensor"))
def test_a_number_in_an_index(program, kind):
    count(program, [lambda n=n: (square(n), kind(n)) for n in SIZES], 1)
    count(program, [lambda n=n: (square(n), kind(-n)) for n in (1, 2, 3)], 2)


def test_a_tensor_made_of_an_argument():
    count(by_tensor, [lambda n=n: (square(n), n) for n in SIZES], 1)


def test_a_position_known_at_run_time():
    count(computed, [lambda n=n: (square(n), torch.tensor(n)) for n in SIZES], 1)


def test_a_number_out_of_range_is_eagers_error():
    for program in (by_argument_tensor, written, computed):
        compiled = ours(program)
        same(compiled(square(2), torch.tensor(3)), program(square(2), torch.tensor(3)))
        for wrong in (8, -9):
            with pytest.raises(IndexError):
                program(square(2), torch.tensor(wrong))
            with pytest.raises(IndexError):
                compiled(square(2), torch.tensor(wrong))


def test_gradients_of_a_number_in_an_index():
    def program(x, n):
        return (x[n] * x[:, n]).sum()

    compiled = ours(program)
    for n in SIZES:
        mine, theirs = square(n).requires_grad_(), square(n).requires_grad_()
        compiled(mine, torch.tensor(n)).backward()
        program(theirs, torch.tensor(n)).backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert LEDGER.counters()["compiles"] == 1


def test_a_text_that_nobody_reads():
    count(asserted, [lambda n=n: (randn(n, 3), n) for n in SIZES], 1)
    compiled = ours(asserted)
    for program in (asserted, compiled):
        with pytest.raises(AssertionError, match="height 5 is less than 7"):
            program(randn(5, 3), 7)


def test_a_text_that_is_read():
    compiled = ours(read)
    for n in (2, 12, 1, 0, 345):
        (mine, text), (theirs, wanted) = compiled(randn(n, 2), n), read(randn(n, 2), n)
        same(mine, theirs)
        assert text == wanted


@pytest.mark.parametrize("starts", STARTS, ids=str)
@pytest.mark.parametrize("name", OFFSETS)
def test_where_an_argument_starts(name, starts):
    program, compiles = OFFSETS[name]
    count(program, slices(starts), compiles)


@pytest.mark.parametrize("name", READ_AS_NUMBERS)
def test_a_start_that_is_read_as_a_number(name):
    program = READ_AS_NUMBERS[name]
    for starts in STARTS:
        torch._dynamo.reset()
        compiled = ours(program)
        for call in slices(starts):
            same(compiled(*call()), program(*call()))


def test_a_cache_that_grows_and_slides():
    """Nothing there, rows in a tensor, rows in a slice: three keys, and each first with a batch of 1."""
    compiled = ours(step)
    for _ in range(2):
        for batch in (1, 3, 2, 1):
            caches = Cache(2), Cache(2)
            for length in (2, 1, 1, 1, 1, 1, 1, 1):
                x = randn(batch, 2, length, 3)
                same(compiled(x, caches[0]), step(x, caches[1]))
        seen = LEDGER.counters()
        assert (seen["graph_breaks"], seen["refused_calls"], seen["skipped_frames"]) == (0, 0, 0), seen
        assert seen["compiles"] <= 8, seen


def test_what_was_compiled_before_by_another_backend():
    """Dynamo keeps what it found out about operators; nothing of that may hide ours."""
    torch.compile(by_argument_tensor, backend="eager")(square(5), torch.tensor(2))
    torch._dynamo.reset()
    count(by_argument_tensor, [lambda n=n: (square(n), torch.tensor(n)) for n in SIZES], 1)


NEW_AXES = {
    "in front": lambda x, n: x[None, n], "two": lambda x, n: x[None, None, n, :], "behind": lambda x, n: x[n, None], "in the middle": lambda x, n: x[:, None, n], "around": lambda x, n: x[None, n, None, ...],
    "between": lambda x, n: x[n, None, n], "behind dots": lambda x, n: x[..., None, n], "twice": lambda x, n: x[None, n, None, :, n], "with a part": lambda x, n: x[None, :, n, 1:],
}


@pytest.mark.parametrize("name", NEW_AXES)
@torch.no_grad()
def test_new_axes_in_front_of_a_number(name):
    """Each has the stride that eager gives it: it steps over what a number behind it takes away."""
    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(NEW_AXES[name], backend="escapement")
    for size, n in ((5, 1), (7, 3), (4, 2), (13, 0), (5, 4)):
        x = torch.randn(size, size + 1, 6)
        ours, eager = compiled(x, n), NEW_AXES[name](x, n)
        assert torch.equal(ours, eager) and ours.stride() == eager.stride() and ours.storage_offset() == eager.storage_offset(), (ours.stride(), eager.stride())
    assert escapement.stats()["dynamo"]["compiles"] == 1
