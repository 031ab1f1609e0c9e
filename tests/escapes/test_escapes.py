"""Sixty programs with one planted escape, or none: the ledger says exactly which, no more than three compiles a function and key over
two hundred random shapes, none when they come again, and eager's results in every call.
"""

import inspect
import random
import types

import escapement
import pytest
import torch
from escapement.ledger import LEDGER
from programs import PROGRAMS

CALLS = 200
SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 10, 11, 13, 16, 17, 23, 31, 32)
FIRST = types.SimpleNamespace(a=5, b=7, c=11, n=3, one_or_a=5)


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.name)
def program(request):
    torch._dynamo.reset()
    escapement.reset()
    torch.manual_seed(0)
    yield request.param
    torch._dynamo.reset()


def random_sizes(generator):
    sizes = {name: generator.choice(SIZES) for name in "abc"}
    return types.SimpleNamespace(**sizes, n=generator.randrange(7), one_or_a=generator.choice((1, sizes["a"])))


def stepped(value):
    """The same tensor as every second element of a wider one."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    return torch.stack([value, value], -1).flatten(-2)[..., ::2]


def outcome(function, args):
    try:
        with torch.no_grad():
            return function(*args)
    except Exception as error:
        return error


def check_equal(found, expected, args):
    shapes = [tuple(arg.shape) if isinstance(arg, torch.Tensor) else arg for arg in args]
    if isinstance(expected, Exception):
        assert type(found) is type(expected), (shapes, found, expected)
        return
    assert not isinstance(found, Exception), (shapes, found)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, equal_nan=True, msg=lambda text: f"{shapes}: {text}")


def markers(program):
    """The lines marked `# escape`, in the program and its helpers, as they run."""
    found = []
    for function in (*program.helpers, program.function):
        lines, first = inspect.getsourcelines(type(function) if isinstance(function, torch.nn.Module) else function)
        found += [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# escape")]
    return found


def entries(program):
    """What host code asked; what operators asked only where the program plants that."""
    operators = any(kind == "framework" for kind, _, _ in program.entries)
    return [escape for function in LEDGER.functions() for compiled in function.compiles
            for escape in (*compiled.escapes, *(compiled.guards if operators else ()))]


def test_the_ledger_names_what_escapes(program):
    compiled = torch.compile(program.function, backend="escapement")
    args = program.make(FIRST)
    check_equal(outcome(compiled, args), outcome(program.function, args), args)
    found = [(e.kind, e.relation, " -> ".join(e.path), e.place.line) for e in entries(program)]
    assert found == [(*entry, line) for entry, line in zip(program.entries, markers(program), strict=True)]
    assert all(e.place.file == __file__.replace("test_escapes", "programs") and "# escape" in e.place.text for e in entries(program))


def test_compiles_are_few_and_end(program):
    compiled = torch.compile(program.function, backend="escapement")
    generator = random.Random(program.name)
    calls = [program.make(FIRST)] + [program.make(random_sizes(generator)) for _ in range(CALLS)]
    if not program.fixed:
        calls[3::4] = [tuple(map(stepped, args)) for args in calls[3::4]]
    for _ in range(2):
        settled = LEDGER.counters()["compiles"]
        for args in calls:
            expected = outcome(program.function, args)
            assert program.raises or not isinstance(expected, Exception), expected
            check_equal(outcome(compiled, args), expected, args)
    assert LEDGER.counters()["compiles"] == settled
    for function in LEDGER.functions():
        for budget in function.budgets.values():
            assert budget.compiled <= program.most, (function.name, [c.cause for c in function.compiles])


def test_there_are_sixty():
    assert len(PROGRAMS) >= 60 and len({program.name for program in PROGRAMS}) == len(PROGRAMS)
