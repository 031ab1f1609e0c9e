"""What an operator raises for the values that it meets, or for dtypes that the tracer does not look at, is caught where the program catches it: a factor that does not exist,
an index that is out of range. Each program is called with data that raise and data that do not."""

import queue

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")
F = torch.nn.functional


def factor_with_jitter(a):
    for power in range(-3, 2):
        try:
            return torch.linalg.cholesky(a + 10.0**power * torch.eye(a.shape[0])), power
        except RuntimeError:
            continue
    return a, None


def inverse_or_pseudo_inverse(a):
    try:
        return torch.linalg.inv(a)
    except torch.linalg.LinAlgError:
        return torch.linalg.pinv(a)


def old_names(a):
    try:
        return torch.cholesky(a)
    except RuntimeError:
        return a.inverse() if a.shape[0] > 3 else a * 0


def caught(expression):
    names = {"torch": torch, "F": F}
    exec(f"def program(x, i):\n    y = x * 2\n    try:\n        return y + {expression}\n    except (IndexError, RuntimeError):\n        return y - 1\n", names)
    return names["program"]


INDICES = {
    "item": "x[i].sum()", "item of an axis": "x[:, i].sum()", "gather": "x.gather(0, i[:, None]).sum()", "index_select": "x.index_select(0, i).sum()",
    "take": "x.take(i * 3).sum()", "take_along_dim": "torch.take_along_dim(x, i[:, None], 0).sum()", "embedding": "F.embedding(i, x).sum()",
    "scatter": "torch.zeros_like(x).scatter(0, i[:, None], 1.0)", "scatter_add": "torch.zeros_like(x).scatter_add(0, i[:, None], x[:1, :1].expand(i.shape[0], 1))",
    "index_add": "torch.zeros_like(x).index_add(0, i, torch.ones(i.shape[0], x.shape[1]))", "index_fill": "x.index_fill(0, i, 3.0)",
    "index_put": "x.index_put((i,), torch.zeros(()))", "one_hot": "F.one_hot(i, 4).sum()", "cross_entropy": "F.cross_entropy(x[:1].expand(i.shape[0], -1), i)",
    "nll_loss": "F.nll_loss(x[:1].expand(i.shape[0], -1), i)", "embedding_bag": "F.embedding_bag(i[None], x).sum()",
}
SQUARES = [torch.eye(4) * 2, -torch.eye(3) * 0.5, torch.zeros(3, 3), torch.eye(5), -torch.eye(2) * 0.05]


def outcome(call, arguments):
    try:
        return call(*arguments)
    except Exception as error:
        return type(error)


def same(compiled, program, *calls):
    with torch.no_grad():
        for arguments in calls:
            ours, eager = (outcome(call, [a.clone() for a in arguments]) for call in (compiled, program))
            assert type(ours) is type(eager), (ours, eager)
            if not isinstance(eager, type):
                torch.testing.assert_close(ours, eager)
            else:
                assert ours is eager


WAYS = {"torch.compile": lambda f: torch.compile(f, backend="escapement"), "call mode": escapement.jit, "replay mode": lambda f: escapement.jit(f, mode="replay")}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [factor_with_jitter, inverse_or_pseudo_inverse, old_names])
def test_matrices(program, way):
    same(WAYS[way](program), program, *[(a,) for a in SQUARES])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", INDICES)
def test_indices(name, way):
    program, calls = caught(INDICES[name]), []
    for rows, index in ((5, [0, 2]), (5, [9]), (3, [1]), (3, [0, 7, 1]), (2, [0])):
        torch.manual_seed(rows)
        calls.append((torch.randn(rows, 3), torch.tensor(index)))
    same(WAYS[way](program), program, *calls)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("product", ["x @ i.float().double()[:, None]", "torch.mm(x, x.t().double())", "F.linear(x, x.double())", "torch.matmul(x.t(), i)", "x[0].dot(x[0].double())"])
def test_products_of_two_dtypes(product, way):
    program = caught(f"({product}).sum()")
    same(WAYS[way](program), program, (torch.ones(2, 2), torch.tensor([1, 1])), (torch.ones(3, 3), torch.tensor([1, 1, 0])))


def test_a_product_of_two_dtypes_comes_behind_its_effects():
    seen = []

    def program(x):
        seen.append(x.shape[0])
        return x @ x.t().double()

    compiled = torch.compile(program, backend="escapement")
    for size in (3, 4):
        with pytest.raises(RuntimeError, match="dtype"):
            compiled(torch.ones(size, 2))
    assert seen == [3, 4]


def test_what_nobody_catches_is_compiled():
    compiled = torch.compile(lambda x, i: F.embedding(i, x) * 2 + x[i], backend="escapement")
    with torch.no_grad():
        for rows, width in ((5, 3), (1, 1), (0, 3), (13, 7)):
            x, i, before = torch.randn(rows, width), torch.arange(rows), escapement.stats().get("launches", 0)
            torch.testing.assert_close(compiled(x, i), x[i] * 3)
            assert escapement.stats().get("launches", 0) > before or rows in (0, 5)   # the first call, of 5 rows, is the recording
    seen = LEDGER.counters()
    assert (seen["compiles"], seen["graph_breaks"], seen["specialised_dims"]) == (1, 0, 0)


def test_under_autocast_products_are_compiled():
    def program(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return torch.mm(x, w)

    compiled = torch.compile(program, backend="escapement")
    with torch.no_grad():
        for rows in (5, 3):
            x, w = torch.randn(rows, 3), torch.randn(3, 2).bfloat16()
            torch.testing.assert_close(compiled(x, w), program(x, w))
    assert LEDGER.counters()["compiles"] == 1 and LEDGER.counters()["graph_breaks"] == 0


class Empty(Exception):
    pass


class Singular(RuntimeError):
    pass


OTHER = TypeError
NONE_CATCHES = ["TypeError", "(TypeError, KeyError)", "(TypeError, (KeyError, AttributeError)) as error", "Empty", "Singular", "queue.Empty",
                "KeyError:\n        return x\n    except TypeError"]
ONE_CATCHES = ["IndexError", "LookupError", "(TypeError, IndexError)", "Exception as error", "BaseException", "KeyError:\n        return x\n    except IndexError",
               "TypeError:\n        return x\n    except", "OTHER", "errors[0]"]


def under(clause, errors=(IndexError,)):
    names = {"F": F, "queue": queue, "Empty": Empty, "Singular": Singular, "OTHER": OTHER}
    exec(f"def program(x, i, errors):\n    try:\n        return F.embedding(i, x) * 2\n    except {clause}:\n        return x * 0\n", names)
    return lambda x, i: names["program"](x, i, errors)


@pytest.mark.parametrize("clause", NONE_CATCHES)
def test_handlers_of_other_errors_leave_the_layers_compiled(clause):
    """As transformers' models have it around their layers: `except TypeError`."""
    compiled = torch.compile(under(clause), backend="escapement")
    with torch.no_grad():
        for rows, width in ((5, 3), (1, 1), (0, 3), (13, 7)):
            x, before = torch.randn(rows, width), escapement.stats().get("launches", 0)
            torch.testing.assert_close(compiled(x, torch.arange(rows)), x * 2)
            assert escapement.stats().get("launches", 0) > before or rows in (0, 5)   # the first call, of 5 rows, is the recording
        with pytest.raises(IndexError):
            compiled(torch.randn(3, 2), torch.tensor([3]))
    seen = LEDGER.counters()
    assert (seen["compiles"], seen["graph_breaks"], seen["specialised_dims"]) == (1, 0, 0)


def says_more(x, i):
    try:
        return F.embedding(i, x) * 2
    except (IndexError, RuntimeError) as error:
        if i.numel() > 0 and x.shape[0] <= int(i.max()):
            raise ValueError("a position that is too large") from error
        raise error


def passes_it_on(x, i):
    try:
        return F.embedding(i, x) * 2
    except Exception:
        print("it failed")
        raise


@pytest.mark.parametrize("program", [says_more, passes_it_on])
def test_handlers_that_only_say_more_leave_the_layers_compiled(program):
    """As PyTorch Geometric has it around its scatters. The error is the operator's."""
    compiled = torch.compile(program, backend="escapement", fullgraph=True)
    with torch.no_grad():
        for rows, width in ((5, 3), (1, 1), (0, 3), (13, 7)):
            x, before = torch.randn(rows, width), escapement.stats().get("launches", 0)
            torch.testing.assert_close(compiled(x, torch.arange(rows)), x * 2)
            assert escapement.stats().get("launches", 0) > before or rows in (0, 5)
        with pytest.raises((IndexError, ValueError)):
            compiled(torch.randn(3, 2), torch.tensor([3]))
    seen = LEDGER.counters()
    assert (seen["compiles"], seen["graph_breaks"], seen["specialised_dims"]) == (1, 0, 0)


def turned_into_another(x, i):
    try:
        return says_more(x, i)
    except ValueError:
        return x - 1


def turned_into_its_own(x, i):
    try:
        try:
            return F.embedding(i, x) * 2
        except IndexError:
            raise Empty
    except Empty:
        return x - 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("program", [turned_into_another, turned_into_its_own])
def test_what_another_handler_makes_of_it_is_caught(program, way):
    same(WAYS[way](program), program, *[(torch.ones(3, 2), torch.tensor(index)) for index in ([0, 2], [3], [1, 0, 2])])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("clause", ONE_CATCHES)
def test_handlers_that_catch(clause, way):
    program = under(clause)
    same(WAYS[way](program), program, *[(torch.ones(3, 2), torch.tensor(index)) for index in ([0, 2], [3], [1, 0, 2])])


def test_operators_of_the_program_raise_what_they_like():
    with torch.library._scoped_library("caught_by_value", "FRAGMENT"):
        @torch.library.custom_op("caught_by_value::root", mutates_args=())
        def root(x: torch.Tensor) -> torch.Tensor:
            if bool((x < 0).any()):
                raise Empty
            return x.sqrt()

        root.register_fake(torch.empty_like)

        def program(x):
            y = x * 2
            try:
                return root(y)
            except Empty:
                return y.abs()

        same(torch.compile(program, backend="escapement"), program, (torch.ones(3),), (torch.ones(4),), (-torch.ones(4),), (torch.ones(5),))
