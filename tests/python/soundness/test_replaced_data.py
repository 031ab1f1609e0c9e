"""`x.data = y`: the tensor has all that `y` has, its dtype too, and whoever holds it sees that, in the call that is recorded and in all others."""

import types

import pytest
import torch
import torch.nn as nn

import escapement

MADE = {
    "created": lambda x: torch.zeros(2), "number": lambda x: torch.tensor(0.0), "parameter": lambda x: nn.Parameter(torch.zeros(2)),
    "computed": lambda x: x.float() + 1, "argument": lambda x: x, "view": lambda x: torch.zeros(4)[1:3],
}
DATA = {
    "as it was": lambda x: torch.full((2,), 3.0), "double": lambda x: torch.full((2,), 3.0, dtype=torch.float64), "half": lambda x: torch.ones(2).half(),
    "integers": lambda x: torch.arange(2), "complex": lambda x: torch.ones(2, dtype=torch.complex64), "other sizes": lambda x: torch.ones(3, 4),
    "turned": lambda x: torch.arange(6.0).view(2, 3).t(), "part": lambda x: torch.arange(6.0)[2:5], "of the argument": lambda x: x.data, "cast": lambda x: x.to(torch.float64) * 2,
    "nothing": lambda x: torch.zeros(0, 3),
}
QUESTIONS = {
    "dtype": lambda t: (t.dtype, t.element_size(), t.itemsize, t.is_complex()), "shape": lambda t: (t.shape, t.dim(), t.numel(), len(t.shape)),
    "strides": lambda t: (t.stride(), t.storage_offset(), t.is_contiguous()), "layout": lambda t: (t.layout, t.device, t.is_sparse),
    "bytes": lambda t: t.nbytes, "values": lambda t: t.detach().clone().tolist(), "sum": lambda t: (t + 1).dtype, "kind": lambda t: (t.is_leaf, t.is_inference(), t._is_view()),
    "text": lambda t: repr(t.detach()),
}


def may_replace(make, data):
    """Torch refuses some replacements of what wants gradients; those are as in eager too."""
    return not (make == "parameter" and data in ("integers", "complex"))


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("make", MADE)
def test_everything_is_that_of_the_new_data(make, data, mode):
    if not may_replace(make, data):
        pytest.skip("a parameter holds floating-point numbers")
    for name, question in QUESTIONS.items():
        def program(x):
            tensor = MADE[make](x)
            tensor.data = DATA[data](x)
            return question(tensor), tensor

        function = escapement.jit(program, mode=mode)
        for dtype in (torch.float32, torch.float32, torch.float64):
            given, ours, results = torch.arange(2.0, dtype=dtype), torch.arange(2.0, dtype=dtype), []
            for call, x in ((program, given), (function, ours)):
                try:
                    results.append(call(x))
                except Exception as error:
                    results.append((type(error), error))
            (expected, eager), (found, tensor) = results
            assert found == expected, (name, found, expected)
            if isinstance(eager, torch.Tensor):
                assert tensor.dtype == eager.dtype and tensor.stride() == eager.stride() and torch.equal(tensor, eager), name
            assert given.dtype == ours.dtype and torch.equal(given, ours), name


class Scales(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("scale", nn.Parameter(torch.tensor(0.5)))
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.zeros(3))


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("to", [torch.float64, torch.float16, torch.bfloat16])
def test_a_module_that_is_made_and_converted_there(to, mode):
    def program(x):
        module = Scales().to(x.dtype)
        return [(name, p.dtype, tuple(p.shape)) for name, p in (*module.named_parameters(), *module.named_buffers())], x * module.scale.detach() + module.shift

    function = escapement.jit(program, mode=mode)
    for rows in (2, 1, 0, 5):
        x = torch.randn(rows, 3).to(to)
        (found, ours), (expected, eager) = function(x), program(x)
        assert found == expected
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_data_of_what_counts_no_writes(mode):
    """In inference mode, of tensors elsewhere: no version can be asked of the one whose data were replaced."""
    held = []
    for wrap in (lambda function: function, lambda function: escapement.jit(function, mode=mode)):
        state = types.SimpleNamespace(a=torch.zeros(2), b=torch.zeros(2))

        def program(x, state=state):
            state.a.add_(x)
            return state.b * 2 + state.a

        call, found = wrap(program), []
        with torch.inference_mode():
            for step in range(6):
                if step == 2:
                    state.b = torch.ones(2)
                if step == 4:
                    state.b.data = state.a.data
                found.append(call(torch.ones(2)).clone())
        held.append(found)
    for ours, eager in zip(*held, strict=True):
        torch.testing.assert_close(ours, eager)
