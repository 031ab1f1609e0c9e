"""What a program asks of the kind of a tensor that it was given (test_argument_kinds.py), through torch.compile: each question is returned and branched on, of each kind in turn,
against eager. Dynamo itself answers most of them from the first tensor that it sees and guards nothing.
"""

import linecache

import pytest
import torch
from test_argument_kinds import KINDS as KINDS_IN_CALL_MODE
from test_argument_kinds import QUESTIONS as QUESTIONS_IN_CALL_MODE
from test_argument_kinds import attempt, based, ordinary

import escapement  # noqa: F401  (the backend)

pytestmark = pytest.mark.usefixtures("fresh")


def with_attribute(n):
    x = torch.ones(n, 2)
    x.mark = 3
    return x


def with_hook(n):
    x = torch.ones(n, 2, requires_grad=True)
    x.register_hook(lambda g: g)
    return x


def retaining(n):
    x = torch.ones(n, 2, requires_grad=True) * 1
    x.retain_grad()
    return x


KINDS = {
    **KINDS_IN_CALL_MODE,
    "parameter": ordinary(lambda n: torch.nn.Parameter(torch.ones(n, 2))),
    "buffer": ordinary(lambda n: torch.nn.Buffer(torch.ones(n, 2))),
    "has an attribute": ordinary(with_attribute),
    "has a hook": ordinary(with_hook),
    "retains its gradient": ordinary(retaining),
    "second of two": ordinary(lambda n: torch.ones(n, 4, requires_grad=True).split(2, 1)[1]),
    "view of a leaf": ordinary(lambda n: torch.ones(n + 1, 2, requires_grad=True)[1:]),
    "view of another rank": ordinary(lambda n: torch.ones(2, n, 2)[1]),
}
QUESTIONS = [*QUESTIONS_IN_CALL_MODE, *(
    "x._backward_hooks is None", "x._post_accumulate_grad_hooks is None", "x.requires_grad and not x.is_leaf", "str(x.grad_fn is not None)",
    "x.grad_fn is not None and x.grad_fn.name()", "type(x.grad_fn).__name__", "x._base is not None and x._base.shape[0] > x.shape[0]", "x._base is not None and x._base.dim()",
    "isinstance(x, torch.nn.Parameter)", "isinstance(x, torch.nn.Buffer)", "isinstance(x, (torch.nn.Buffer, torch.nn.Parameter))", "type(x) is torch.Tensor", "x.__class__.__name__",
    "x.contiguous().is_leaf", "x.to(x.dtype).grad_fn is None", "x.reshape(x.shape).is_leaf", "x.expand(x.shape).is_leaf", "x.contiguous().retains_grad", "x.contiguous() is x", "x.float() is x",
    "hasattr(x, 'mark')", "getattr(x, 'mark', 0)", "'mark' in vars(x)", "x.is_shared()", "x.storage_offset()", "x.stride()", "x.is_pinned()", "x.is_conj()", "x.element_size()")]
LEFT = {"attempt(lambda: x.detach_() is x)"}   # an argument whose kind the program changes: refused by Dynamo for some


def program(question, branch):
    text = f"def asked(x):\n    " + (f"return x * 2 if {question} else x - 1" if branch else f"return {question}, x * 2")
    name = f"<asked: {question} {branch}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"torch": torch, "attempt": attempt, "based": based}
    exec(compile(text, name, "exec"), space)
    return space["asked"]


def outcome(function, x):
    try:
        return function(x)
    except RuntimeError:
        return "raised"


def same(ours, eagers):
    if isinstance(eagers, tuple):
        return type(ours[0]) is type(eagers[0]) and ours[0] == eagers[0] and torch.equal(ours[1], eagers[1])
    return torch.equal(ours, eagers) if isinstance(eagers, torch.Tensor) else ours == eagers


@pytest.mark.parametrize("branch,mode", [(False, torch.enable_grad), (True, torch.no_grad)], ids=["returned, with gradients", "branched, without"])
@pytest.mark.parametrize("question", [question for question in QUESTIONS if question not in LEFT])
def test_the_answer_is_eagers(question, branch, mode):
    names, wrong = list(KINDS), []
    for first in ("plain", "node"):
        torch._dynamo.reset()
        function = program(question, branch)
        compiled = torch.compile(function, backend="escapement")
        for kind in (first, *(name for name in names if name != first)):
            with mode():
                eagers, ours = outcome(function, KINDS[kind](3)), outcome(compiled, KINDS[kind](3))
            if not same(ours, eagers):
                wrong.append((first, kind, ours, eagers))
    assert not wrong
