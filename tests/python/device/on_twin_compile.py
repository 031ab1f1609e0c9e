"""torch.compile's backend on the twin device: the graphs that Dynamo hands over run there as call mode's programs do."""

import torch
import torch.nn.functional as F
from harness import assert_exact
from twin import DEVICE, counted, here

import escapement


def test_a_compiled_function_serves_all_sizes():
    fast = torch.compile(lambda x, y: (x * y + 1).relu().sum(-1), backend="escapement")
    on_cpu = escapement.jit(lambda x, y: (x * y + 1).relu().sum(-1))
    launched = counted("device_launches")
    for shape in [(5, 7), (2, 31), (64, 3), (5, 7)]:
        x, y = torch.randn(shape), torch.randn(shape)
        out = fast(here(x), here(y))
        assert out.device == torch.device(DEVICE)
        assert_exact(out.cpu(), on_cpu(x, y))
    assert counted("device_launches") > launched


def test_a_compiled_module_with_gradients():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    there = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    there.load_state_dict(model.state_dict())
    there.to(DEVICE)
    fast = torch.compile(there, backend="escapement")
    for rows in [3, 5, 2]:
        x = torch.randn(rows, 4)
        model.zero_grad(), there.zero_grad()
        F.mse_loss(model(x), torch.ones(rows, 8)).backward()
        F.mse_loss(fast(here(x)), here(torch.ones(rows, 8))).backward()
        for ours, theirs in zip(there.parameters(), model.parameters()):
            torch.testing.assert_close(ours.grad.cpu(), theirs.grad, rtol=1e-4, atol=1e-5)
