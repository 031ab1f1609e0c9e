"""Functions that call what torch.compile has compiled: its own code is part of the recording (Dynamo was handed the recording's wrappers), and it is
compiled as before for everybody else."""
import threading

import pytest
import torch

import escapement


def scaled(a):
    return torch.relu(a) * a.shape[0]


NET = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4)).requires_grad_(False)


class Holder(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1


def callees(backend):
    function, module = torch.compile(scaled, backend=backend), torch.compile(NET, backend=backend)
    return {"function": lambda x: function(x) + 1, "module": lambda x: module(x) + 1, "held": Holder(module), "compiled itself": torch.compile(Holder(NET), backend=backend),
            "twice": lambda x: function(function(x))}


@pytest.mark.parametrize("backend", ["eager", "escapement"])
@pytest.mark.parametrize("name", ["function", "module", "held", "compiled itself", "twice"])
@torch.no_grad()
def test_one_recording(name, backend):
    torch.compiler.reset()
    program = callees(backend)[name]
    jitted = escapement.jit(program)
    for rows in (3, 5, 1, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(jitted(x), program(x))
    info = jitted.info()
    assert info["recordings"] == 1 and not info["eager"], info


@torch.no_grad()
def test_compiled_for_others_while_somebody_records():
    torch.compiler.reset()
    seen = []

    def backend(gm, inputs):
        seen.append(gm)
        return gm.forward

    compiled = torch.compile(scaled, backend=backend)
    entered, go_on = threading.Event(), threading.Event()

    def program(x):
        entered.set()
        assert go_on.wait(60)
        return compiled(x)

    x = torch.ones(3, 4)
    results = []
    thread = threading.Thread(target=lambda: results.append(escapement.jit(program)(x)))
    thread.start()
    assert entered.wait(60)
    assert torch.equal(compiled(x), scaled(x)) and len(seen) == 1   # this thread records nothing
    go_on.set()
    thread.join()
    assert torch.equal(results[0], scaled(x)) and len(seen) == 1


@torch.no_grad()
def test_as_it_was_afterwards():
    from torch._dynamo import eval_frame
    before = eval_frame._callback_from_stance
    escapement.jit(lambda x: torch.compile(scaled, backend="eager")(x))(torch.ones(2, 2))
    assert eval_frame._callback_from_stance is before
