"""Hooks of modules that are registered or removed between calls of a compiled module: the next call has them or has them not, as eagerly."""

import pytest
import torch
from torch import nn
from torch.nn.modules import module as of_all

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


def only(kind, change):
    return lambda module, *rest: change(*rest) if isinstance(module, kind) else None


def doubled_gradient(weight):
    weight.grad.mul_(2)


HOOKS = {
    "forward": lambda model: model[1].register_forward_hook(lambda module, args, result: result * 2),
    "forward, first": lambda model: model[1].register_forward_hook(lambda module, args, result: result * 2, prepend=True),
    "forward, always": lambda model: model[1].register_forward_hook(lambda module, args, result: result * 2, always_call=True),
    "forward, keywords": lambda model: model[1].register_forward_hook(lambda module, args, kwargs, result: result * 2, with_kwargs=True),
    "before forward": lambda model: model[1].register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "before forward, keywords": lambda model: model[1].register_forward_pre_hook(lambda module, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True),
    "backward": lambda model: model[1].register_full_backward_hook(lambda module, grads, outer: (grads[0] * 2,)),
    "before backward": lambda model: model[1].register_full_backward_pre_hook(lambda module, outer: (outer[0] * 2,)),
    "outermost": lambda model: model.register_forward_hook(lambda module, args, result: result * 2),
    "before the outermost": lambda model: model.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "of all": lambda model: of_all.register_module_forward_hook(only(nn.Tanh, lambda args, result: result * 2)),
    "before all": lambda model: of_all.register_module_forward_pre_hook(only(nn.Tanh, lambda args: (args[0] * 2,))),
    "backward, of all": lambda model: of_all.register_module_full_backward_hook(only(nn.Tanh, lambda grads, outer: (grads[0] * 2,))),
    "before backward, of all": lambda model: of_all.register_module_full_backward_pre_hook(only(nn.Tanh, lambda outer: (outer[0] * 2,))),
    "of a parameter": lambda model: model[0].weight.register_hook(lambda grad: grad * 2),
    "after a parameter's gradient": lambda model: model[0].weight.register_post_accumulate_grad_hook(doubled_gradient),
}
CASES = [(name, gradients) for name in HOOKS for gradients in (False, True) if gradients or not ("backward" in name or "parameter" in name)]


def calls(model, call, gradients):
    results = []
    for rows in (3, 5, 1):
        x = torch.linspace(-1, 1, rows * 4).view(rows, 4).requires_grad_(gradients)
        model.zero_grad()
        results.append(call(x))
        if gradients:
            results[-1].square().sum().backward()
            results += [x.grad, *(parameter.grad.clone() for parameter in model.parameters())]
    return results


def with_and_without(register, compiled, gradients):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    call = torch.compile(model, backend="escapement") if compiled else model
    with torch.set_grad_enabled(gradients):
        results = calls(model, call, gradients)
        handle = register(model)
        try:
            results += calls(model, call, gradients)
        finally:
            handle.remove()
        return results + calls(model, call, gradients)


@pytest.mark.parametrize("name,gradients", CASES)
def test_as_eager(name, gradients):
    wanted = with_and_without(HOOKS[name], False, gradients)
    given = with_and_without(HOOKS[name], True, gradients)
    assert len(wanted) == len(given)
    for number, pair in enumerate(zip(given, wanted)):
        torch.testing.assert_close(*pair, msg=lambda text: f"{number}: {text}")  # noqa: B023
    assert escapement.stats()["launches"]


def test_without_hooks_there_is_one_compile():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)))
    call = torch.compile(model, backend="escapement")
    calls(model, call, True)
    assert escapement.stats()["dynamo"]["compiles"] == 1
