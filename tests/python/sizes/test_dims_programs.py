"""What a program may do to declared dims, and what is said where it does more: breaches with line and relation,
mismatches with eager's own exception, integers that operators need as constants.
"""

import re

import pytest
import torch
import torch.nn.functional as F
from dims_support import add, compiles, dim_lines, double, fallbacks, line_of, rand, recordings, run

import escapement
from escapement import Dim, DimError

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


# --- what a program may not do to a named dim

def test_pinned_by_a_branch():
    def body(x):
        if x.size(0) > 4:
            return x * 2
        return x + 1

    compiled = escapement.compile(body, dims={"x": [Dim("n", 2, 8)]})
    for _ in range(2):   # not only the first time
        with pytest.raises(DimError) as error:
            compiled(rand(6))
        text = str(error.value)
        assert "x.size(0) (n) must stay dynamic for all of n in [2, 8]" in text and "the program depends on n > 4" in text
        assert line_of(body) in text and "if x.size(0) > 4" in text and "Remedy" in text
    assert compiles() == 0


@pytest.mark.parametrize("low, high, k", [(5, 8, 6), (0, 4, 3), (5, None, 900)])
def test_a_branch_that_the_range_decides_is_no_branch(low, high, k):
    def body(x):
        if x.size(0) > 4:
            return x * 2
        return x + 1

    compiled = escapement.compile(body, dims={"x": [Dim("n", low, high)]})
    for size in {low, k, high if high is not None else 77}:
        run(compiled, body, rand(size))
    assert compiles() == 1 and escapement.stats()["dynamo"]["escapes"] == 0


def test_pinned_by_an_exact_read():
    def body(x):
        return sum(x[i] for i in range(x.size(0)))

    with pytest.raises(DimError, match=r"the program pins it: n == 4. It relies on L\['x'\].size\(0\) == 4 at ") as error:
        escapement.compile(body, dims={"x": [Dim("n", 2, 8)]})(rand(4))
    assert "test_dims_programs.py" in str(error.value)


def test_pinned_by_a_broadcast_against_a_constant():
    def body(x):
        return x + torch.ones(4)

    with pytest.raises(DimError, match=r"the program pins it: n == 4") as error:
        escapement.compile(body, dims={"x": [Dim("n", 2, 8)]})(rand(4))
    assert line_of(body) in str(error.value)


def test_a_range_of_one_value_may_be_pinned_to_it():
    def body(x):
        return x + torch.ones(4)

    compiled = escapement.compile(body, dims={"x": [Dim("n", 4, 4)]})
    run(compiled, body, rand(4))
    with pytest.raises(DimError, match="x.size.0. is 1, but it is declared as n in .4, 4."):
        compiled(rand(1))


def test_two_names_that_the_program_ties():
    with pytest.raises(DimError) as error:
        escapement.compile(add, dims={"x": [Dim("dx", 2, 8)], "y": [Dim("dy", 2, 9)]})(rand(4), rand(4))
    text = str(error.value)
    assert re.search(r"x\.size\(0\) \(dx\), y\.size\(0\) \(dy\) must stay dynamic .* dx and dy are tied: d[xy] == d", text)
    assert line_of(add) in text


def test_all_breaches_are_named_at_once():
    def body(x, y):
        return (x + torch.ones(4))[:, None] * \
            (y + torch.ones(5))

    with pytest.raises(DimError) as error:
        escapement.compile(body, dims={"x": [Dim("n", 2, 9)], "y": [Dim("m", 2, 9)]})(rand(4), rand(5))
    assert "n == 4" in str(error.value) and "m == 5" in str(error.value)


def test_pinned_after_a_graph_break():
    def body(x):
        y = x * 2
        torch._dynamo.graph_break()
        if x.size(0) > 4:
            return y
        return y + 1

    with pytest.raises(DimError, match="depends on n > 4"):
        escapement.compile(body, dims={"x": [Dim("n", 2, 8)]})(rand(6))


def test_pinned_inside_a_called_function_and_a_module():
    def inner(t):
        return t * 2 if t.shape[0] % 2 == 0 else t

    class Model(torch.nn.Module):
        def forward(self, x):
            return inner(x)

    with pytest.raises(DimError) as error:
        escapement.compile(Model(), dims={"x": [Dim("n", 2, 8)]})(rand(4))
    assert line_of(inner) in str(error.value)


def test_an_integer_argument_that_decides_a_branch():
    def body(x, k):
        if k > 2:
            return x * k
        return x - k

    with pytest.raises(DimError, match=r"^k \(k\) must stay dynamic for all of k in \[1, 4\], but .* depends on k > 2"):
        escapement.compile(body, dims={"k": Dim("k", 1, 4)})(rand(5), 3)
    compiled = escapement.compile(body, dims={"k": Dim("k", 3, 9)})
    for k in (3, 4, 9):
        run(compiled, body, rand(5), k)
    assert compiles() == 1


def test_divisibility_is_part_of_a_derived_dim():
    def body(x):
        if x.size(0) % 2 == 0:
            return x * 2
        return x

    compiled = escapement.compile(body, dims={"x": [2 * Dim("n", 1, 50)]})
    for k in (4, 6, 100):
        run(compiled, body, rand(k))
    assert compiles() == 1
    with pytest.raises(DimError, match="depends on"):
        escapement.compile(body, dims={"x": [Dim("n", 2, 50)]})(rand(4))


def test_a_branch_against_an_unnamed_dim_leaves_the_named_one_free():
    def body(x, y):
        return x * 2 if x.size(0) > y.size(0) else x * 3

    compiled = escapement.compile(body, dims={"x": [Dim("n", 2, 9)]})
    for a, b in ((5, 3), (9, 2), (3, 5), (2, 9), (4, 4)):
        run(compiled, body, rand(a), rand(b))
    assert compiles() == 2


def convolve(x, w):
    return F.conv2d(x, w)


def test_a_choice_of_an_operator_is_reported_and_refused_only_if_strict():
    """torch chooses a memory format by batch < 16: two versions serve the range, which is no fault of the program."""
    batch = Dim("batch", 1, 64)
    compiled = escapement.compile(convolve, dims={"x": {0: batch}})
    report = escapement.explain(compiled)(rand(2, 3, 8, 8), rand(4, 3, 3, 3))
    wanted = "x.size(0) is batch in [1, 64], this version relies on L['x'].size(0) < 16"
    assert any(wanted in line for line in dim_lines(report))
    for n in (2, 20, 64, 15):
        run(compiled, convolve, rand(n, 3, 8, 8), rand(4, 3, 3, 3))
    assert compiles() == 2
    with pytest.raises(DimError, match="depends on batch < 16"):
        escapement.compile(convolve, dims={"x": {0: batch}}, strict=True)(rand(2, 3, 8, 8), rand(4, 3, 3, 3))


# --- what eager refuses, eager refuses

def eager_error(fn, *args):
    with pytest.raises(Exception) as error:
        fn(*args)
    return type(error.value), str(error.value)


@pytest.mark.parametrize("fn, good, bad", [
    (add, ((4,), (4,)), ((4,), (5,))),
    (torch.matmul, ((2, 3), (3, 4)), ((2, 3), (4, 4))),
    (lambda x, y: torch.cat([x, y]) * 2, ((2, 3), (4, 3)), ((2, 3), (4, 5))),
    (lambda x, y: x.view(-1, 3) + y, ((6,), (3,)), ((7,), (3,))),
    (lambda x, y: torch.bmm(x, y), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (3, 4, 5)))])
@pytest.mark.parametrize("how", ["plain", "dims"])
def test_a_mismatch_raises_what_eager_raises(fn, good, bad, how):
    def body(x, y):
        return fn(x, y)

    dims = {"x": {0: Dim("n", 1, 99)}}
    compiled = escapement.compile(body, dims=dims) if how == "dims" else torch.compile(body, backend="escapement")
    good, bad = ([rand(*sizes) for sizes in pair] for pair in (good, bad))
    run(compiled, body, *good)
    before = compiles()
    for _ in range(2):
        assert eager_error(compiled, *bad) == eager_error(body, *bad)
    run(compiled, body, *good)
    assert compiles() == before and escapement.stats()["dynamo"]["skipped_frames"] >= 2   # counted, for each frame on the way
    assert not fallbacks()


def test_effects_before_the_mismatch_happen_once():
    def body(x, y, log):
        log.append("before")
        torch._dynamo.graph_break()
        log.append("after")
        return x + y

    compiled = torch.compile(body, backend="escapement")
    compiled(rand(3), rand(3), [])
    log = []
    with pytest.raises(RuntimeError, match="must match the size"):
        compiled(rand(3), rand(4), log)
    assert log == ["before", "after"]


def test_one_graph_or_strict_leave_the_error_to_torch():
    for options in ({"fullgraph": True}, {"options": {"strict": True}}):
        with pytest.raises(torch._dynamo.exc.TorchRuntimeError):
            torch.compile(add, backend="escapement", **options)(rand(3), rand(4))
    assert fallbacks() == {}


# --- integers that operators need as constants

def test_every_operator_that_needs_a_constant_is_listed_at_once():
    def body(x, n):
        y = torch.softmax(x, dim=n)
        z = F.softmax(x, n)
        return y + z + x.sum(n, keepdim=True) + n + torch.topk(x, n)[0].sum()

    with pytest.raises(DimError) as error:
        escapement.compile(body, dims={"n": Dim("n", 0, 2)})(rand(2, 3, 4), 1)
    text = str(error.value)
    for op in ("softmax", "sum"):
        assert f"dim of {op} is L['n'], and has to be a constant, at " in text
    assert [line_of(body, offset) in text for offset in (1, 2, 3)] == [True] * 3
    assert "topk" not in text and "add" not in text and compiles() == 0


def test_without_a_contract_they_are_reported():
    def body(x, n):
        return torch.softmax(x, dim=n)

    report = str(escapement.explain(body)(rand(2, 3, 4), 1))
    assert f"constant: dim of softmax is L['n'], and has to be a constant, at {__file__}" in report
    assert line_of(body) in report


@pytest.mark.parametrize("fn, values", [
    (lambda x, n: torch.topk(x, k=n)[0], (4, 5, 6, 7)), (lambda x, n: torch.topk(x, k=x.size(0) - n)[0], (4, 5, 6, 7)),
    (lambda x, n: torch.roll(x, n, 0) * 2, (2, 3, 9)), (lambda x, n: x.repeat(n) * 2, (2, 3, 9)),
    (lambda x, n: x[::n] * 2, (2, 3, 9, 20)),
    (lambda x, n: x[1:8:n] + 1, (2, 3, 9, 20))])
def test_an_integer_that_may_vary_is_taken_at_run_time(fn, values):
    compiled = torch.compile(fn, backend="escapement")
    for n in values:
        run(compiled, fn, rand(9), n)
    assert (compiles(), recordings()) == (1, 1)


@pytest.mark.parametrize("how", ["stride", "padding", "dilation"])
def test_windows_of_a_convolution_are_taken_at_run_time(how):
    def body(x, w, n):
        return F.conv2d(x, w, **{how: n}) * 2

    compiled = torch.compile(body, backend="escapement")
    for n in (2, 1, 3):
        run(compiled, body, rand(1, 2, 19, 19), rand(3, 2, 5, 5), n)
    assert recordings() == compiles() <= 2
