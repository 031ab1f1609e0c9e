"""Where a program may put the tensors and sizes that it makes or is given, other than into its result: later calls put others there, as in eager."""

import collections
import contextvars
import copy
import functools
import pickle
import threading
import types

import pytest
import torch
from torch import nn

import escapement

VARIABLE = contextvars.ContextVar("variable", default=None)
COLUMNS = 4


class Holder:
    tensor = None


def things():
    torch.manual_seed(0)
    return types.SimpleNamespace(
        plain=torch.ones(3, COLUMNS), view=torch.zeros(12).view(3, COLUMNS), parameter=nn.Parameter(torch.ones(3, COLUMNS)), linear=nn.Linear(COLUMNS, COLUMNS),
        list=[], dict={}, queue=collections.deque(maxlen=2), holder=Holder(), local=threading.local(), set=set(), lazy=nn.Sequential(nn.LazyLinear(2), nn.LazyLinear(3)))


def put(target, name, value):
    setattr(target, name, value)


@functools.lru_cache(maxsize=4)
def cached_mask(size):
    return torch.ones(size, size).tril()


PROGRAMS = {
    # the data of a tensor from elsewhere
    "data: a result": lambda s, x: put(s.plain, "data", x * 2),
    "data: an argument": lambda s, x: put(s.plain, "data", x),
    "data: a view": lambda s, x: put(s.plain, "data", (x * 2).t()[1:]),
    "data: of data": lambda s, x: put(s.plain, "data", (x * 2)[1:].data),
    "data: detached": lambda s, x: put(s.plain, "data", (x * 2).detach()),
    "data: empty, then filled": lambda s, x: (put(s.plain, "data", torch.empty(x.shape)), s.plain.fill_(3)),
    "data: zeros": lambda s, x: put(s.plain, "data", torch.zeros(x.shape)),
    "data: of a parameter": lambda s, x: put(s.parameter, "data", x * 2),
    "data: of a parameter, used": lambda s, x: (put(s.parameter, "data", x * 2), s.parameter + 1)[1],
    "data: used before": lambda s, x: (s.plain.sum(), put(s.plain, "data", x * 2), s.plain * 2)[2],
    "data: of an argument": lambda s, x: put(x, "data", x * 2),
    "data: from elsewhere": lambda s, x: put(x, "data", s.plain),
    "data: of a result": lambda s, x: (y := x * 3, put(y, "data", x), y.add_(1))[0],
    "data: written": lambda s, x: s.plain.data.add_(x.sum()),
    "data: a lazy module's": lambda s, x: s.lazy(x),
    "data: a module's, by a vector": lambda s, x: nn.utils.vector_to_parameters(torch.ones(20) * x.sum(), s.linear.parameters()),
    "data: a module's, by its dtype": lambda s, x: (s.linear.double(), s.linear(x.double()))[1],
    # gradients
    "grad: of a parameter": lambda s, x: put(s.parameter, "grad", x.sum() * torch.ones(3, COLUMNS)),
    "grad: of a tensor": lambda s, x: put(s.plain, "grad", x.sum() * torch.ones(3, COLUMNS)),
    "grad: read": lambda s, x: (put(s.parameter, "grad", torch.ones(3, COLUMNS) * x.sum()), s.parameter.grad * 2)[1],
    "grad: a step": lambda s, x: (put(s.parameter, "grad", torch.ones(3, COLUMNS) * x.sum()), torch.optim.SGD([s.parameter], 0.1).step())[1],
    "grad: clipped": lambda s, x: (put(s.parameter, "grad", torch.ones(3, COLUMNS) * x.sum()), nn.utils.clip_grad_norm_([s.parameter], 1.0))[1],
    # objects
    "list": lambda s, x: s.list.append(x * 2),
    "list: a view": lambda s, x: s.list.append((x * 2).t()[1:]),
    "list: an argument": lambda s, x: s.list.append(x),
    "list: a size": lambda s, x: s.list.append(x.shape[0]),
    "list: a shape": lambda s, x: s.list.append(tuple(x.shape)),
    "list: a number": lambda s, x: s.list.append(x.sum().item()),
    "dict": lambda s, x: s.dict.update(key=x + 1),
    "dict: by size": lambda s, x: s.dict.setdefault(x.shape[0], x.sum()),
    "queue": lambda s, x: s.queue.append(x.sum()),
    "attribute": lambda s, x: put(s.holder, "tensor", x if s.holder.tensor is None else s.holder.tensor[0, 0] + x),
    "attribute of its __dict__": lambda s, x: s.holder.__dict__.update(tensor=x * 2),
    "attribute of a class": lambda s, x: put(Holder, "tensor", None if x.numel() < 0 else None) or x + 1,
    "thread": lambda s, x: put(s.local, "tensor", x * 2),
    "context": lambda s, x: VARIABLE.set(x * 2) and None,
    "set: a shape": lambda s, x: s.set.add(tuple(x.shape)),
    "module: attribute": lambda s, x: put(s.linear, "cache", x * 2),
    "module: parameter": lambda s, x: put(s.linear, "weight", nn.Parameter(torch.ones(COLUMNS, COLUMNS) * x.sum())),
    "module: buffer": lambda s, x: s.linear.register_buffer("sum", x.sum()),
    "module: state": lambda s, x: (s.linear.load_state_dict({"weight": torch.ones(COLUMNS, COLUMNS) * x.sum(), "bias": torch.zeros(COLUMNS)}), s.linear(x))[1],
    "cache": lambda s, x: cached_mask(x.shape[0]) @ x,
    # attributes of tensors
    "attribute of a tensor": lambda s, x: put(s.plain, "note", x * 2),
    "attribute of an argument": lambda s, x: (put(x, "note", x * 2), x + 1)[1],
    "attribute of an argument that is written": lambda s, x: (put(x, "note", x * 2), x.add_(1))[1],
    "attribute of a result": lambda s, x: (y := x + 1, put(y, "note", x * 2))[0],
    "attribute of a result, behind a write": lambda s, x: (s.plain.add_(1), y := x + 1, put(y, "note", "text"))[1],
    # what is not kept
    "nothing: copies": lambda s, x: copy.deepcopy(x) + 1,
    "nothing: a pickle": lambda s, x: pickle.loads(pickle.dumps(x * 2)),
    "nothing: a circle": lambda s, x: circle(x),
    "nothing: a caught exception": lambda s, x: caught(x),
    "nothing: a closure that calls itself": lambda s, x: recursive(x),
}


def circle(x):
    holder = Holder()
    holder.tensor, holder.itself = x * 2, holder
    return holder.tensor + 1


def caught(x):
    try:
        raise ValueError(x * 2)
    except ValueError as error:
        return error.args[0] + 1


def recursive(x):
    def go(y, times):
        return y if times == 0 else go(y * 2 + x, times - 1)

    return go(x, 3)


def looks(value):
    """What can be seen of it, by value."""
    if isinstance(value, torch.Tensor):
        if isinstance(value, nn.parameter.UninitializedTensorMixin):
            return "uninitialised"
        seen = type(value), tuple(value.shape), value.dtype, value.requires_grad, value.detach().double().flatten().tolist()
        return seen, looks(value.grad) if value.is_leaf else None, looks(value.__dict__) if value.__dict__ else None
    if isinstance(value, dict):
        return {looks(key): looks(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, collections.deque)):
        return [type(value), *map(looks, value)]
    if isinstance(value, nn.Module):
        return [looks(dict(value.named_parameters())), looks(dict(value.named_buffers())), looks(vars(value).get("cache"))]
    if isinstance(value, (types.SimpleNamespace, Holder, threading.local)):
        return looks(vars(value))
    return value


def outcome(program, *arguments):
    try:
        return looks(program(*arguments))
    except (RuntimeError, ValueError) as error:
        return type(error)


def calls():
    for rows in (3, 3, 5, 2, 3, 4, 4):
        for fill in (0.5, 1.5):
            yield torch.full((rows, COLUMNS), fill)


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_call_puts_its_own(name, mode, grad):
    program, mine, theirs = PROGRAMS[name], things(), things()
    compiled = escapement.jit(lambda x: program(mine, x), mode=mode)
    with torch.set_grad_enabled(grad):
        for seed, x in enumerate(calls()):
            twin = x.clone()
            VARIABLE.set(None)
            torch.manual_seed(seed)
            want, context = outcome(lambda x: program(theirs, x), twin), looks(VARIABLE.get())
            VARIABLE.set(None)
            torch.manual_seed(seed)
            assert outcome(compiled, x) == want
            assert looks(VARIABLE.get()) == context
            assert looks(x) == looks(twin) and looks(mine) == looks(theirs)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith("nothing")])
def test_what_nobody_keeps_is_recorded(name):
    program = PROGRAMS[name]
    compiled = escapement.jit(lambda x: program(None, x))
    with torch.no_grad():
        for x in calls():
            compiled(x)
    assert "state_changed" not in compiled.info()["regions"][0]["fallbacks"]
