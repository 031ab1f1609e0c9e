"""Every way in which a recording can end, with a write before it: whatever ends it, what was written is written once. WRITES x ENDS; an end may be
followed by an exception of the program's own, and the write may come behind what ended the recording. Each program is called at several sizes, twice
each, and after every call its arguments and its module's buffer are what eager leaves, and so is the result or the kind of error.
"""

import math

import numpy
import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SIZES = (3, 1, 0, 5)


class Module(torch.nn.Module):
    def __init__(self, program):
        super().__init__()
        self.register_buffer("buffer", torch.ones(2))
        self.program = program

    def forward(self, x):
        return self.program(self, x)


WRITES = {
    "argument": lambda m, x: x.add_(1),
    "view": lambda m, x: x[:1].add_(1),
    "other dtype": lambda m, x: x.view(torch.int32).add_(1),
    "detached": lambda m, x: x.detach().add_(1),
    "data": lambda m, x: x.data.add_(1),
    "data, a view": lambda m, x: x.data[:1].t().add_(1),
    "out": lambda m, x: torch.add(x, 1, out=x),
    "out, a view": lambda m, x: torch.add(x[:1], 1, out=x[:1]),
    "item": lambda m, x: x.__setitem__(slice(0, 1), x[:1] + 1),
    "foreach": lambda m, x: torch._foreach_add_([x], 1),
    "numpy": lambda m, x: numpy.add(x.numpy(), 1, out=x.numpy()),
    "detached numpy": lambda m, x: numpy.add(x.detach().numpy(), 1, out=x.detach().numpy()),
    "buffer": lambda m, x: m.buffer.add_(1),
    "buffer's data": lambda m, x: m.buffer.data.add_(1),
    "buffer's view": lambda m, x: m.buffer[1:].add_(1),
    "copy of itself": lambda m, x: x.copy_(x.clone().add_(1)),
}
SPARSE = torch.eye(2).to_sparse()


class Unknown:
    pass


# What it does -> the result.
ENDS = {
    "nothing": lambda x: x * 2,
    "storage_access": lambda x: x * (x.data_ptr() * 0 + 2),
    "storage": lambda x: x * (x.untyped_storage().nbytes() + 2),
    "made_unseen": lambda x: x * torch.from_numpy(numpy.full(1, 2, "float32")),
    "data_dependent_guard": lambda x: x * 2 if x.sum() > 0 else x - 1,
    "unsupported_input": lambda x: (SPARSE * 2).to_dense().sum() + x,
    "unsupported_tensor": lambda x: x.to_sparse().to_dense() * 2,
    "too large a number": lambda x: (x * 2, torch.ones(1, dtype=torch.uint64) + 2**63)[0],
    "gradient": lambda x: x.clone().requires_grad_().detach() * 2,
    "grad mode": lambda x: torch.enable_grad()(lambda: (x.detach().requires_grad_() * 2).detach())(),
    "state_changed": lambda x: (torch.manual_seed(3), x * 2)[1],
    "argument_reshaped": lambda x: (x.unsqueeze_(0) * 2, x.squeeze_(0))[0],
    "metadata": lambda x: (x.t_() * 2),
    "grown": lambda x: torch.mul(x, 2, out=x.new_empty(1)),
    "host_result": lambda x: x * (2 + len(torch.unique(x)) * 0),
    "tolist": lambda x: x * (len(x.tolist()) + 2),
    "symbols": lambda x: x * math.ldexp(1.0, x.shape[0]),
    "unknown result": lambda x: (x * 2, Unknown())[0:1] + (None,),
    "returned object": lambda x: {Unknown: x * 2},
    "caught": lambda x: caught(x),
    "text": lambda x: x * len(str(x)),
}


def caught(x):
    try:
        return x[:, 0]
    except IndexError:
        return x * 2


def raising(x):
    return x[:, 0]   # there is one axis


ORDERS = ("write, end", "write, end, raise", "end, write", "end, write, raise")
PROGRAMS = [pytest.param(write, end, order, id=f"{write}; {end}; {order}") for write in WRITES for end in ENDS for order in ORDERS]


def program_of(write, end, order):
    do, finish = WRITES[write], ENDS[end]

    def program(module, x):
        result = None
        for step in order.split(", "):
            if step == "write":
                do(module, x)
            elif step == "end":
                result = finish(x)
            else:
                raising(x)
        return result

    return program


def values(result):
    if isinstance(result, dict):
        result = [*result.values()]
    if isinstance(result, (tuple, list)):
        return [values(part) for part in result]
    return (result.dtype, result.tolist()) if isinstance(result, torch.Tensor) else result


def outcome(call, x):
    try:
        return values(call(x))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("write, end, order", PROGRAMS)
def test_what_is_written_is_written_once(write, end, order):
    program = program_of(write, end, order)
    eager, module = Module(program), Module(program)
    jitted = escapement.jit(module)
    with torch.no_grad():
        for n in SIZES * 2:
            wanted, given = torch.full((n,), 0.5), torch.full((n,), 0.5)
            expected, found = outcome(eager, wanted), outcome(jitted, given)
            assert torch.equal(wanted, given), (n, wanted, given)
            assert torch.equal(eager.buffer, module.buffer), (n, eager.buffer, module.buffer)
            assert end != "symbols" or wanted._version == given._version, n
            assert found == expected, n


@pytest.mark.parametrize("first", range(len(SIZES)))
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("write", [lambda y: y.floor_divide_(2), lambda y: y.add_(2)], ids=["library call", "kernel"])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.view(torch.int32), lambda x: x.view(torch.int32)[0:], lambda x: x.detach()],
                         ids=["itself", "other dtype", "view of other dtype", "detached"])
def test_a_branch_behind_a_write_under_another_name_writes_once(view, write, raises, first):
    """A version whose check fails is left for another, so nothing may be written before it, under no name."""
    def program(x):
        y = view(x)
        write(y)
        if y.sum() > 0:
            if raises:
                raise ValueError("asked for")
            return x * 2
        return x - 1

    jitted = escapement.jit(program)
    with torch.no_grad():
        for n in (SIZES[first:] + SIZES[:first]) * 2:
            wanted, given = torch.full((n,), 9.0), torch.full((n,), 9.0)
            assert outcome(jitted, given) == outcome(program, wanted) and torch.equal(wanted, given), n
