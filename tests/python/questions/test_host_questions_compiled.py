"""What a program asks of tensors, shapes and numbers (host_questions.py) under torch.compile: each row, with sizes 0, 1 and primes and with
numbers of all kinds, against eager, whatever Dynamo itself would answer. Several rows are one program, so that all of them take minutes;
the quick part is a slice of them, one row a program, which also branches on the answer.
"""

import collections
import dataclasses
import types

import pytest
import torch

import escapement
import host_questions as questions
import question_programs as programs
from test_host_questions import outcome, same

pytestmark = pytest.mark.usefixtures("fresh")
ORDERS = list(questions.SHAPES)
GROUP = 4    # rows of a program
SLICE = 37   # of so many rows one is quick

# Rows that torch's tracer answers wrongly for everybody, in a way that no guard of ours can show.
KNOWN = {
    "f.hex()": "a float is guarded by ==, and 0.0 == -0.0",
    "x.is_set_to(x.view(x.shape))": "strides of a tensor without elements",
    "x.unsqueeze(-1).stride()": "strides of a tensor without elements",
    "torch.empty_like(x).stride()": "strides of a tensor without elements",
    "hash(v)": "NaN hashes as the object that it is",
    "a in range(3, 9)": "a constant in a range is counted: 1 for True",
}


def compiled(program):
    torch._dynamo.reset()
    return torch.compile(program, backend="escapement")


def several(rows, subject):
    """One program that answers all rows; what a row raises is its answer."""
    asked = [(row.ask, programs.arguments_of(row.of, subject)) for row in rows]

    def program(x, n=3, f=1.5):
        return x * 2, tuple([ask(*arguments(x, n, f)) for ask, arguments in asked])

    return program


def compare(program, calls, names):
    ours = compiled(program)
    for args in calls:
        mine, eager = outcome(ours, args), outcome(program, args)
        assert same(mine, eager), (names, tuple(args[0].shape), args[1:], mine, eager)
    assert not any("internal_error" in name for name, count in escapement.stats().items() if count)


def rows_of(kind):
    return [row for row in questions.ALL if row.of == kind and row.name not in KNOWN]


def groups():
    for kind in ("x", "s", "ab", "vkt", "nf"):
        rows = rows_of(kind)
        for start in range(0, len(rows), GROUP):
            yield pytest.param(rows[start:start + GROUP], start // GROUP, id=f"{kind} {start}")


@pytest.mark.slow
@pytest.mark.parametrize("rows, number", list(groups()))
def test_all_rows(rows, number):
    subject = list(questions.SUBJECTS.values())[number % len(questions.SUBJECTS)] if rows[0].of == "x" else questions.SUBJECTS["argument"]
    calls = programs.arguments(rows[0], ORDERS[number % len(ORDERS)])
    if any(word in row.name for row in rows for word in programs.SMALL_ONLY):
        calls = [args for args in calls if abs(args[1]) < 100] if rows[0].of == "nf" else calls
    compare(several(rows, subject), calls, [row.name for row in rows])


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in questions.ALL[::SLICE] if row.name not in KNOWN])
def test_a_row_returned_and_branched_on(row):
    calls = programs.arguments(row, ORDERS[len(row.name) % len(ORDERS)])
    subject = questions.SUBJECTS["argument"]
    pivot = outcome(lambda *args: questions.returning(row, subject)(*args)[1], calls[0])
    compare(questions.returning(row, subject), calls, row.name)
    compare(questions.branching(row, pivot, subject), calls, row.name)


# --- rows of Python's arithmetic that Dynamo has its own idea of (traced_numbers.py, raising.py), each at the calls that tell

def attempt(function, *args):
    try:
        return function(*args)
    except ArithmeticError as error:
        return type(error).__name__
    except ValueError:
        return "ValueError"


SIZES = [(torch.zeros(shape),) for shape in ((5, 7), (1, 7), (0, 1), (5, 1), (1, 1), (2, 3), (3, 0), (0, 0))]
VALUES = [(x,) for x in programs.data()]
PYTHONS = {
    "a product of more than 64 bits": (lambda x, n: (x * 2, n * n - 2, -n, n << 30), [(torch.ones(2), n) for n in (3, 2 ** 40, -2 ** 62, 2 ** 63 - 1, 5)]),
    "an argument of more than 64 bits": (lambda x, n: (x * 2, n + 1), [(torch.ones(2), n) for n in (3, 2 ** 63, 2 ** 70, -2 ** 70, 5)]),
    "an integer too large for a tensor": (lambda x, n: x * (n * n), [(torch.ones(2), n) for n in (3, 2 ** 40, 5)]),
    "properties": (lambda x: (x * 2, x.shape[0].real, x.shape[0].imag + 1, x.shape[0].numerator, x.shape[0].denominator), SIZES),
    "divmod": (lambda x: (x * 2, attempt(divmod, x.shape[0], x.shape[1])), SIZES),
    "round to tens": (lambda x: (x * 2, round(x.shape[0], -1), round(x.shape[0], 1)), SIZES),
    "extremes of an integer and a float": (lambda x: (x * 2, min(x.shape[0], 2.5), max(x.shape[0] / 2, 1)), SIZES),
    "a size among sizes": (lambda x: (x * 2, 3 in x.shape, 1 in x.shape, 7 not in x.shape), SIZES),
    "a tensor in a list": (lambda x: (x * 2, x in [x], x not in [1, x]), SIZES),
    "a power under except": (lambda x: (x * 2, attempt(pow, x.shape[0], x.shape[1] - 2)), SIZES),
    "a complex power": (lambda x: (x * 2, attempt(pow, x.shape[0] - 2, 0.5)), SIZES),
    "a truth value is True": (lambda x: (x * 2, (x > 3).any().item() is True, (x.shape[0] > 2) is not False), VALUES),
    "a truth value as a number": (lambda x: x * float((x > 3).any().item()), VALUES),
    "int of a number under except": (lambda x: (x * 2, attempt(int, (x.sum() / 4).item())), VALUES),
    "floor of a number under except": (lambda x: (x * 2, attempt(lambda n: n // 2, attempt(round, x.sum().item()) or 1)), VALUES[:3]),
}

@dataclasses.dataclass
class Held:
    a: object


HOLDERS = {
    "a namespace": lambda n: types.SimpleNamespace(a=n), "a dataclass": Held, "a tensor in a dataclass": lambda n: Held(torch.ones(n)), "an OrderedDict": lambda n: collections.OrderedDict(a=n),
    "values of a dict": lambda n: {"a": n}.values(),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_the_text_of_an_object_is_this_calls(name):
    compare(lambda x, o: (x * 2, str(o), f"{o}"), [(torch.ones(2), HOLDERS[name](n)) for n in (3, 5, 2, 3)], name)


@pytest.mark.parametrize("name", PYTHONS)
def test_numbers_are_pythons(name):
    program, calls = PYTHONS[name]
    compare(program, calls, name)


def test_a_power_that_overflows_inside_try():
    """It is raised where the program catches it, or not at all where the graph is not run; below the limit one graph serves."""
    def program(x, n, f):
        try:
            power = f ** n
        except OverflowError:
            power = -7.0
        return x * 2, power

    ours = compiled(program)
    for n, f in ((3, 1.5), (4, 2.5), (2000, 1e6), (5, 1.5), (-2, 1e200), (3000, 1e9), (2, 0.5), (2, float("inf")), (0, float("nan")), (7, 3.5)):
        for size in (2, 1, 0, 7):
            args = torch.ones(size), n, f
            assert same(outcome(ours, args), outcome(program, args)), (n, f, size)
    assert escapement.stats()["recordings"] == 1
