"""What a program asks of tensors, shapes and numbers (host_questions.py) in escapement.jit: each row, from several first shapes, with
sizes 0, 1 and primes, against eager. The recordings are counted, so that a row cannot pass by recording each call again.
"""

import functools

import pytest
import torch

import escapement
import host_questions as questions

pytestmark = pytest.mark.usefixtures("fresh")

ARGUMENT = questions.SUBJECTS["argument"]
ROUNDS = 2
MANY = 64   # recordings: none of these tests is to reach replay mode by the budget


def same(ours, host):
    if isinstance(host, torch.Tensor):
        return isinstance(ours, torch.Tensor) and ours.dtype == host.dtype and ours.shape == host.shape and torch.allclose(ours, host, 0, 0, True)
    if type(ours) is not type(host):
        return False
    if isinstance(host, dict):
        ours, host = [*ours.items()], [*host.items()]
    if isinstance(host, (list, tuple)):
        return len(ours) == len(host) and all(map(same, ours, host))
    return ours == host or ours != ours and host != host


def outcome(function, arguments):
    """The result, or the kind of error."""
    try:
        with torch.no_grad():
            return function(*arguments)
    except Exception as error:
        return "raised", type(error)


def calls(order):
    return [(questions.given(shape),) for shape in questions.SHAPES[order]]


def answers(question, subject, order):
    """Eager's, of all calls."""
    return [outcome(lambda *args: questions.returning(question, subject)(*args)[1], args) for args in calls(order)]


def run(question, program, order, mode):
    """The compiled function, after each call of the order was made and compared."""
    jitted = escapement.jit(program, mode=mode, max_recordings=MANY)
    for _ in range(ROUNDS):
        for args in calls(order):
            ours, host = outcome(jitted, args), outcome(program, args)
            assert same(ours, host), (question.name, order, tuple(args[0].shape), ours, host)
    return jitted


def asked(question):
    """(subject's name, subject, order): what may depend on a layout is asked of all subjects, each from another first shape."""
    orders = list(questions.SHAPES)
    if question.of != "x" or question.how == "fixed":
        return [("argument", ARGUMENT, order) for order in (orders[:1] if question.how == "fixed" else orders)]
    start = sum(map(ord, question.name))
    return [(name, subject, orders[(start + place) % len(orders)]) for place, (name, subject) in enumerate(questions.SUBJECTS.items())]


def of_rows(test):
    return pytest.mark.parametrize("question", questions.TENSOR + questions.SHAPE + questions.NUMBERS, ids=lambda question: question.name)(test)


def went_eagerly(info):
    return bool(info["eager"]) or any(region["fallbacks"] for region in info["regions"])


@functools.cache
def splits(name, order):
    """Recordings that the subject itself needs: of slices, squeezes, copies whose layout depends on sizes."""
    question, subject = questions.TENSOR[0], questions.SUBJECTS[name]
    return run(question, questions.returning(question, subject), order, "call").info()["recordings"]


def check_count(question, info, answers, base, branch, calls_made):
    """Of a tensor no more recordings than answers; for a symbol that is only handed back, none beside the subject's own. Where several
    numbers decide, none for a call that was made before."""
    if question.how == "escape" or went_eagerly(info):
        return
    free = question.how == "fixed" or question.how == "symbol" and not branch
    many = question.how == "parts" or question.of != "x"
    allowed = base if free else calls_made if many else base - 1 + answers
    assert info["recordings"] <= allowed, (question.name, info["recordings"], allowed)


@of_rows
def test_call_mode(question):
    for name, subject, order in asked(question):
        expected = answers(question, subject, order)
        count, base = len(set(map(repr, expected))), splits(name, order)
        programs = questions.returning(question, subject), questions.branching(question, expected[0], subject)
        for branch, program in enumerate(programs):
            check_count(question, run(question, program, order, "call").info(), count, base, bool(branch), len(expected))
