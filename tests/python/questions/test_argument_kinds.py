"""What a program asks of the kind of tensor that it was given, in call mode: QUESTIONS of arguments that are views or not, were made in inference
mode or not, require gradients, have one, stand in a graph, were written. Each question is returned and branched on, first asked of each kind in
turn, at several sizes, against eager. Recordings are counted: one for all sizes of a kind, and no more for kinds that the answer does not tell apart.
"""

import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SIZES = (3, 1, 0, 5)


def inference(n):
    with torch.inference_mode():
        return torch.ones(n, 2)


def with_gradient(n):
    x = torch.ones(n, 2, requires_grad=True)
    x.grad = torch.ones(n, 2)
    return x


def node(n):
    with torch.inference_mode(False), torch.enable_grad():
        return torch.ones(n, 2, requires_grad=True) * 1


def ordinary(make):
    """Made as outside of the mode in which it is used."""
    def made(n):
        with torch.inference_mode(False):
            return make(n)
    return made


KINDS = {
    "plain": ordinary(lambda n: torch.ones(n, 2)),
    "view": ordinary(lambda n: torch.ones(n + 1, 2)[1:]),
    "inference": inference,
    "requires grad": ordinary(lambda n: torch.ones(n, 2, requires_grad=True)),
    "has grad": ordinary(with_gradient),
    "node": node,
    "written": ordinary(lambda n: torch.ones(n, 2).add_(0)),
}
# question -> kinds that it tells from others without ending the recording: so many recordings at most, beside one
FREE, VIEW, GRAD, LEAF, HAS_GRAD = 0, 1, 1, 1, 1
EAGER = None   # asked of some kind it ends the recording
QUESTIONS = {
    "x.dim()": FREE,
    "x._is_view()": VIEW,
    "x.is_inference()": FREE,
    "torch.is_inference(x)": FREE,
    "x.requires_grad": GRAD,
    "x.is_leaf": EAGER,
    "x.grad_fn is None": EAGER,
    "x.output_nr": EAGER,
    "x.retains_grad": EAGER,
    "x.grad is None": EAGER,
    "x._base is None": EAGER,
    "attempt(lambda: x._version)": EAGER,
    "(x._is_view(), x.requires_grad)": VIEW + GRAD,
    "x[0:]._is_view()": FREE,
    "x[0:]._base is x": EAGER,
    "x[0:].t()._base is x": EAGER,
    "x[0:]._base is None": EAGER,
    "x.t().is_inference()": FREE,
    "x[0:].requires_grad": GRAD,
    "(x * 2)._is_view()": FREE,
    "(x * 2)._base is None": FREE,
    "based(x * 2)": FREE,
    "(x * 2).is_inference()": FREE,
    "(x * 2).requires_grad": FREE,
    "(x * 2).is_leaf": FREE,
    "attempt(lambda: (x * 2)._version)": FREE,
    "attempt(lambda: (x * 2).add_(1)._version)": FREE,
    "attempt(lambda: (x * 2)[0:].add_(1)._version)": FREE,
    "x.detach()._is_view()": FREE,
    "x.data._is_view()": FREE,
    "x.data.requires_grad": FREE,
    "x.view(-1)._is_view()": FREE,
    "x.reshape(-1)._is_view()": FREE,
    "x.contiguous()._is_view()": VIEW,
    "attempt(lambda: x.detach_() is x)": EAGER,
    "x.unbind(1)[0]._is_view()": FREE,
    "x.expand_as(x)._is_view()": FREE,
}


def attempt(ask):
    try:
        return ask()
    except RuntimeError:
        return "raised"


def based(y):
    view = y[0:]
    return view._base is y or view._base is None and y.is_inference(), view.t()._base is view._base


def program(question, branch):
    code = compile(question, question, "eval")

    def returning(x):
        return eval(code, {**globals(), "x": x}), x * 2

    def branching(x):
        return x * 2 if eval(code, {**globals(), "x": x}) else x - 1

    return branching if branch else returning


def run(function, kinds, mode):
    jitted = escapement.jit(function, max_recordings=64)
    for _ in range(2):
        for kind in kinds:
            for n in SIZES:
                with mode():
                    x = KINDS[kind](n)
                    expected, found = function(x), jitted(x)
                if isinstance(expected, tuple):
                    assert found[0] == expected[0] and type(found[0]) is type(expected[0]), (kind, n, found[0], expected[0])
                    expected, found = expected[1], found[1]
                assert torch.equal(found, expected) and found.is_inference() == expected.is_inference(), (kind, n)
    return jitted.info()


def ran_eagerly(info):
    return bool(info["eager"]) or any(region["fallbacks"] for region in info["regions"])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference_mode"])
@pytest.mark.parametrize("branch", [False, True], ids=["returned", "branched"])
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_eagers(question, branch, mode):
    names = list(KINDS)
    for first in range(len(names)):
        info = run(program(question, branch), names[first:] + names[:first], mode)
        if QUESTIONS[question] is not EAGER:
            assert not ran_eagerly(info), info
            assert info["recordings"] <= 2 + QUESTIONS[question] * 2, info["recordings"]   # made in inference mode or not, and what was asked


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_recording_serves_a_kind(kind, question):
    info = run(program(question, False), [kind], torch.no_grad)
    assert ran_eagerly(info) or info["recordings"] == 1, info["recordings"]
    if kind == "plain" and "x._version" not in question:
        assert not ran_eagerly(info), info
