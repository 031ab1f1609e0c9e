"""What a program asserts of its data, in every form that it has for that: the exception, its text and what was written before it are eager's, also where
the program catches it; and where it does not, the assertion is no graph break."""

import asserting_programs as programs
import pytest
import torch
from asserting_programs import LOG, program

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")

CONDITIONS = {
    "tensor": lambda x: (x > 0).all(),
    "element": lambda x: x[0, 0] > 0,
    "number of a tensor": lambda x: x.sum().item() > 0,
    "truth of a tensor": lambda x: (x > 0).all().item(),
    "made a bool": lambda x: bool((x > 0).all()),
    "made an int": lambda x: int(x.sum()) > 0,
    "count": lambda x: (x > 0).nonzero().shape[0] > 0,
    "two counts": lambda x: (x > 0).nonzero().shape[0] >= (x < 0).nonzero().shape[0],
    "not": lambda x: not (x < 0).any(),
    "list": lambda x: x.sum().tolist() > 0,
    "both": lambda x: (x > 0).all() and x.sum() > 0,
    "integer": lambda x: x.sum().long().item() > 3,
}
BRANCHES = "not", "both", "list"     # on the data, before anything is asserted: a graph break
OF_NUMBERS = [name for name in CONDITIONS if name not in ("tensor", "element", *BRANCHES)]

# Where the program has nothing to do when one fails: one graph each.
PLAIN = {
    "assert": "assert condition(x)",
    "message": "assert condition(x), 'a message'",
    "empty message": "assert condition(x), ''",
    "lines": "assert condition(x), 'two\\nlines: %s {}'",
    "no grad": "with torch.no_grad():\n  assert condition(x), 'a message'",
    "after a write": "x.add_(0)\n assert condition(x), 'a message'\n x.add_(1)",
    "in a function": "inner(condition(x))",
}
CHECKS = {
    "check": "torch._check(condition(x))",
    "check with a message": "torch._check(condition(x), lambda: 'a message')",
    "value": "torch._check_value(condition(x), lambda: 'a message')",
    "index": "torch._check_index(condition(x), lambda: 'a message')",
    "type": "torch._check_type(condition(x))",
    "not implemented": "torch._check_not_implemented(condition(x), message=lambda: 'a message')",
    "with": "torch._check_with(KeyError, condition(x), lambda: 'a message')",
}
CHECKS_OF_TENSORS = {
    "all": "torch._check_tensor_all(condition(x), lambda: 'a message')",
    "all with": "torch._check_tensor_all_with(ValueError, condition(x), lambda: 'a message')",
}
CAUGHT = {
    "except": "try:\n  assert condition(x), 'a message'\n except AssertionError as error: return x * 7, str(error)",
    "another except": "try:\n  assert condition(x), 'a message'\n except RuntimeError as error: return x * 7, str(error)",
    "except of a caller": "try: inner(condition(x))\n except AssertionError: return x * 7",
    "suppress": "with contextlib.suppress(AssertionError):\n  assert condition(x), 'a message'\n  x = x * 3",
    "finally": "try:\n  assert condition(x), 'a message'\n finally: LOG.append(1)",
    "own context": "with watching():\n  assert condition(x), 'a message'",
    "made message": "assert condition(x), f'of {x.shape}'",
    "number for a message": "assert condition(x), 7",
    "torch._assert": "torch._assert(condition(x), 'a message')",
    "raise": "if not condition(x): raise ValueError('a message')",
    "check in try": "try:\n  torch._check_value(bool(condition(x)), lambda: 'a message')\n except ValueError as error: return x * 7, str(error)",
    "made message of a check": "torch._check_value(bool(condition(x)), lambda: f'of {x.shape}')",
    "own exception": "torch._check_with(Own, bool(condition(x)), lambda: 'a message')",
}
def outcome(function, size, value):
    LOG.clear()
    x = torch.full((size, 3), float(value))
    try:
        answer = function(x)
    except Exception as error:
        answer = type(error), str(error)
    return str(answer), x.tolist(), list(LOG), torch.is_grad_enabled()


def compare(form, condition, **options):
    body = program(form, condition)
    compiled = torch.compile(body, backend="escapement", **options)
    for size, value in ((4, 1), (4, -1), (2, 1), (2, -1), (1, 2), (7, -1)):
        assert outcome(compiled, size, value) == outcome(body, size, value), (size, value)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("form", PLAIN)
def test_assert(form, condition):
    compare(PLAIN[form], CONDITIONS[condition])
    if condition not in BRANCHES:
        seen = LEDGER.counters()
        assert (seen["compiles"], seen["graph_breaks"], seen["refused_calls"], seen["skipped_frames"]) == (1, 0, 0, 0)
        assert seen["specialised_dims"] == 0 and escapement.stats()["launches"] > 0


@pytest.mark.parametrize("condition", OF_NUMBERS)
@pytest.mark.parametrize("form", CHECKS)
def test_checks(form, condition):
    compare(CHECKS[form], CONDITIONS[condition])
    assert LEDGER.counters()["graph_breaks"] == 0 and LEDGER.counters()["compiles"] == 1


@pytest.mark.parametrize("form", CHECKS_OF_TENSORS)
def test_checks_of_tensors(form):
    compare(CHECKS_OF_TENSORS[form], lambda x: x > 0)
    assert LEDGER.counters()["graph_breaks"] == 0 and LEDGER.counters()["compiles"] == 1


@pytest.mark.parametrize("condition", ["tensor", "number of a tensor", "made an int", "count", "not", "both"])
@pytest.mark.parametrize("form", CAUGHT)
def test_where_the_program_has_its_own_way(form, condition):
    compare(CAUGHT[form], CONDITIONS[condition])


@pytest.mark.parametrize("condition", [name for name in CONDITIONS if name not in BRANCHES])
@pytest.mark.parametrize("form", ["message", "no grad"])
def test_in_one_graph(form, condition):
    compare(PLAIN[form], CONDITIONS[condition], fullgraph=True)


@pytest.mark.parametrize("condition", ["tensor", "number of a tensor", "made an int", "count"])
def test_in_training(condition):
    body = program(PLAIN["message"], CONDITIONS[condition])
    compiled = torch.compile(body, backend="escapement")
    for size, value in ((4, 1), (5, -1), (2, 1), (1, -1)):
        for run in (body, compiled):
            x = torch.full((size, 3), float(value), requires_grad=True)
            if value < 0:
                with pytest.raises(AssertionError, match="^a message$"):
                    run(x)
            else:
                run(x).sum().backward()
                assert torch.equal(x.grad, torch.full_like(x, 2.0))


def test_of_a_size_whose_budget_is_spent():
    compiled = torch.compile(programs.of_a_size, backend="escapement")
    for size in (5, 7, 2, 9, 3, 11, 14, 2, 3, 1, 20):
        assert outcome(compiled, size, 1) == outcome(programs.of_a_size, size, 1), size


@pytest.mark.parametrize("fullgraph", [False, True])
def test_what_is_asserted_is_known(fullgraph):
    """A slice that the assertion says fits is no question of the framework's."""
    compiled = torch.compile(programs.known, backend="escapement", fullgraph=fullgraph)
    for size, count in ((5, 2), (7, 0), (1, 1), (4, 9), (4, -1), (3, 3)):
        for run in (programs.known, compiled):
            x, counts = torch.ones(size), torch.tensor([count, 0])
            if 0 <= count <= size:
                assert run(x, counts).shape == (count,)
            else:
                with pytest.raises(IndexError, match="^below$" if count < 0 else "^above$"):
                    run(x, counts)
    assert LEDGER.counters()["compiles"] == 1 and LEDGER.counters()["graph_breaks"] == 0


def test_where_a_graph_break_is_an_error():
    """It stays in the graph, though the program would catch it."""
    body = program(CAUGHT["except"], CONDITIONS["tensor"])
    with torch._dynamo.error_on_graph_break(True):
        compiled = torch.compile(body, backend="escapement")
        assert outcome(compiled, 4, 1) == outcome(body, 4, 1)
        with pytest.raises(AssertionError, match="^a message$"):
            compiled(-torch.ones(4, 3))


def test_the_first_that_fails_is_raised():
    compiled = torch.compile(programs.in_a_row, backend="escapement")
    for value in (1, -3, -1, 5, 2):
        assert outcome(compiled, 2, value) == outcome(programs.in_a_row, 2, value), value
    assert LEDGER.counters()["graph_breaks"] == 0


def test_run_eagerly_it_raises_the_same():
    """A graph that is not compiled has the same assertions in it."""
    body = program(PLAIN["message"], CONDITIONS["tensor"])
    compiled = torch.compile(body, backend="escapement", options={"disable": True})
    assert outcome(compiled, 4, -1) == outcome(body, 4, -1)
    assert LEDGER.counters()["fallbacks"] == {"disabled": 1}


def switches():
    return (torch.is_grad_enabled(), torch._C._is_fwd_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled(),
            torch.nn.attention._cur_sdpa_kernel_backends(with_priority=True), torch._C._functorch.maybe_current_level(),
            depth_of_autocast())


def depth_of_autocast():
    """At none the weights that it has converted are forgotten."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("disabled", [False, True])
@pytest.mark.parametrize("name", ["switched", "switched_on", "attention_chosen", "no_forward_gradients", "autocast", "of_each_row"])
def test_what_was_switched_is_switched_back(name, disabled, grad, training):
    """An operator raises while something is switched: what the caller has is as before."""
    body = getattr(programs, name)
    compiled = torch.compile(body, backend="escapement", options={"disable": disabled})
    with torch.set_grad_enabled(grad):
        before = switches()
        for index in ([0, 1], [0, 9], [1, 1]):
            x, index = torch.ones(4, 4, requires_grad=training), torch.tensor(index)
            try:
                torch.testing.assert_close(compiled(x, index), body(x, index))
            except (IndexError, RuntimeError):
                assert 9 in index
            assert switches() == before
