"""Whole programs in call mode: kernels run on the device, in torch's current stream, and give eager's results; what is not supported runs eagerly, counted."""

import pytest
import torch
import torch.nn.functional as F
from harness import assert_exact, compiled
from twin import DEVICE, OUT_OF_MEMORY, control, counted, here

import escapement


def chain(x, y):
    return (x * y + 1).relu() - x


def test_one_recording_serves_all_sizes():
    fast, on_cpu = escapement.jit(chain), escapement.jit(chain)
    before = counted("device_launches")
    for shape in [(5, 7), (0, 3), (3, 0), (1, 1), (64, 31), (2, 3000)]:
        x, y = torch.randn(shape), torch.randn(shape)
        out = fast(here(x), here(y))
        assert out.device == torch.device(DEVICE)
        assert_exact(out.cpu(), on_cpu(x, y))
    assert fast.info()["recordings"] == 1 and fast.info()["eager"] == {}
    assert counted("device_launches") >= before + 3


def test_a_call_goes_to_its_devices_version():
    fast = escapement.jit(chain)
    x = torch.randn(4, 6)
    for device in ["cpu", "twin:0", "twin:1", "cpu", "twin:1", "twin:0"]:
        out = fast(x.to(device), x.to(device))
        assert out.device == torch.device(device)
        assert_exact(out.cpu(), chain(x, x))
    assert fast.info()["recordings"] == 3
    launches = counted("device_launches")
    fast(x, x)
    assert counted("device_launches") == launches


def test_tensors_of_two_devices_run_eagerly():
    fast = escapement.jit(lambda x, y: x.sum() + 1)
    x = torch.randn(4)
    for _ in range(2):
        fast(x.to("twin:0"), x)
    assert fast.info()["regions"][0]["fallbacks"] == {"device_mixed": 2}


def test_a_tensor_of_another_device_in_the_program():
    weight = torch.randn(4)
    fast = escapement.jit(lambda x: x * 2 + weight.to(x.device))
    for _ in range(3):
        x = torch.randn(3, 4)
        assert_exact(fast(here(x)).cpu(), x * 2 + weight)
    assert fast.info()["regions"][0]["fallbacks"].get("device_mixed")
    assert fast.info()["regions"][0]["versions"] == []


def test_a_cpu_program_that_moves_to_the_device():
    fast = escapement.jit(lambda x: (x.to(DEVICE) * 2).cpu() + 1)
    for _ in range(3):
        x = torch.randn(3, 4)
        assert_exact(fast(x), x * 2 + 1)
    assert fast.info()["regions"][0]["fallbacks"].get("device_mixed")


def test_numbers_read_by_the_host():
    def f(x, n):
        k = int(n.item())
        return x[:k] * 2 if x.sum() > 0 else x[k:] - 1

    fast = escapement.jit(f)
    reads = counted("device_reads")
    for k in [1, 2, 3, 1]:
        for sign in [1, -1]:
            x = torch.rand(5, 3) * sign
            assert_exact(fast(here(x), here(torch.tensor(k))).cpu(), f(x, torch.tensor(k)))
    assert counted("device_reads") > reads


def test_writes_and_views():
    def f(x, state):
        state.add_(x[:, 1:])
        view = x[::2].t()
        view.mul_(3)
        return view, state * 2, x

    fast = escapement.jit(f)
    for rows in [4, 1, 9]:
        x, state = torch.randn(rows, 5), torch.randn(rows, 4)
        dx, dstate = here(x), here(state)
        results, expected = fast(dx, dstate), f(x, state)
        for ours, theirs in zip(results, expected):
            assert torch.equal(ours.cpu(), theirs) and ours.stride() == theirs.stride()
        assert_exact(dx.cpu(), x)
        assert_exact(dstate.cpu(), state)
        assert results[2] is dx and results[0].data_ptr() == dx.data_ptr()
    assert fast.info()["recordings"] == 1


def test_exits_behind_a_write():
    def step(x, state):
        state.add_(x)
        if state.sum() > 10:
            state.div_(4)
        return x * state

    fast = escapement.jit(step)
    ours, theirs = here(torch.zeros(6)), torch.zeros(6)
    for i in range(12):
        x = torch.full((6,), 0.5 + i % 3)
        assert_exact(fast(here(x), ours).cpu(), step(x, theirs))
        assert_exact(ours.cpu(), theirs)
    assert fast.info()["regions"][0]["versions"]


def test_strides_and_offsets():
    fast = escapement.jit(chain)
    base = torch.randn(9, 12)
    for x in [base.t(), base[1:, ::2], base[:, 3:7], base[2].expand(4, 12)]:
        assert_exact(fast(here(x), here(x)).cpu(), chain(x, x))


def test_reductions_rows_and_columns():
    def f(x):
        return x.softmax(-1), x.sum(0), x.var(-1), F.layer_norm(x, x.shape[-1:]), x.amax(0)

    fast, on_cpu = escapement.jit(f), escapement.jit(f)
    for shape in [(3, 5), (2, 2050), (40, 3), (1, 1), (700, 33)]:
        x = torch.randn(shape)
        fast(here(x)), on_cpu(x)   # a recording's own results are eager's
        for ours, theirs in zip(fast(here(x)), on_cpu(x)):
            assert_exact(ours.cpu(), theirs)
    assert fast.info()["recordings"] == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool])
def test_dtypes(dtype):
    def f(x):
        return x + x, x == x, x.to(torch.float32) * 0.3

    fast, on_cpu = escapement.jit(f), escapement.jit(f)
    x = (torch.randn(7, 9) * 5).to(dtype)
    for _ in range(2):
        for ours, theirs in zip(fast(here(x)), on_cpu(x)):
            assert_exact(ours.cpu(), theirs)


class Block(torch.nn.Module):
    """A transformer block with its embedding: look-ups, library calls and kernels in turn."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.embed = torch.nn.Embedding(11, width)
        self.norm, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, ids):
        x = self.embed(ids)
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def test_a_transformer_block():
    torch.manual_seed(0)
    model = Block().eval()
    there = Block().eval()
    there.load_state_dict(model.state_dict())
    there.to(DEVICE)
    fast = escapement.jit(there)
    with torch.no_grad():
        for b, n in [(2, 5), (1, 1), (3, 8), (2, 5)]:
            ids = torch.randint(0, 11, (b, n))
            out = fast(here(ids))
            torch.testing.assert_close(out.cpu(), model(ids), rtol=1e-5, atol=1e-5)
    info = fast.info()
    assert info["recordings"] == 1 and info["eager"] == {} and info["regions"][0]["fallbacks"] == {}
    assert info["regions"][0]["versions"][0]["kernels"]


def test_memory_comes_from_torch_and_goes_back():
    fast = escapement.jit(lambda x: ((x @ x).relu() + 1) @ x)
    x = here(torch.randn(8, 8))
    fast(x), fast(x)
    live = control.twin_live_blocks()
    out = fast(x)
    assert control.twin_live_blocks() == live + 1
    del out
    assert control.twin_live_blocks() == live


def test_torchs_current_stream_is_used():
    fast, x = escapement.jit(lambda x: (x * 2 + 1).relu()), torch.randn(5, 7)
    stream, kept = control.twin_new_stream(0), []
    fast(here(x))

    def queued():
        return [control.twin_queued(0, each) for each in (0, stream)]

    for s in [0, stream, 0, stream]:
        control.twin_use_stream(0, s)
        try:
            kept.append(here(x))   # what is let go of is work for a stream, too
            before = queued()
            kept.append(fast(kept[-1]))
            assert [n > b for n, b in zip(queued(), before)] == [s == 0, s == stream]
            out = kept[-1]
            assert torch.equal(out.cpu(), (x * 2 + 1).relu())
            assert control.twin_queued(0, s) == 0
        finally:
            control.twin_use_stream(0, 0)


def test_autocast_runs_eagerly():
    fast = escapement.jit(chain)
    x = torch.randn(4, 4)
    fast(here(x), here(x))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_exact(fast(here(x), here(x)).cpu(), chain(x, x))
    assert [r["fallbacks"].get("device_autocast") for r in fast.info()["regions"]].count(1) == 1


def test_random_numbers_run_eagerly():
    fast = escapement.jit(lambda x: F.dropout(x, 0.5, training=True) + 1)
    for _ in range(2):
        fast(here(torch.randn(3)))
    assert fast.info()["regions"][0]["fallbacks"].get("device_random") == 2


def test_large_argument_blocks_run_eagerly():
    def f(*xs):
        return sum(x.sum(0) if i % 2 else x[0] for i, x in enumerate(xs))

    def many(xs):
        return torch.stack([x * 2 + i for i, x in enumerate(xs)]).sum()

    xs = [torch.randn(2, 3, 2) for _ in range(90)]
    fast = escapement.jit(lambda xs: torch.cat([x * i for i, x in enumerate(xs)]))
    for _ in range(3):
        assert_exact(fast(here(xs)).cpu(), torch.cat([x * i for i, x in enumerate(xs)]))
    region = fast.info()["regions"][0]
    assert region["versions"] or region["fallbacks"].get("device_kernel")


def test_replay_mode_runs_a_devices_operators_at_once():
    fast = escapement.jit(lambda x: (torch.zeros(3, device=x.device) + x * 2).relu(), mode="replay")
    for _ in range(4):
        x = torch.randn(2, 3)
        assert_exact(fast(here(x)).cpu(), (x * 2).relu())


def test_every_call_of_the_driver_may_fail():
    """Whatever fails, that call has eager's results or one error, and the next call is right."""
    def f(x):
        return (x * 2 + 1).relu()

    x, failed, raised = torch.randn(3, 5), counted("device_failed"), 0
    for call in range(1, 40):
        fast = compiled(lambda x, n=call: f(x) * n, 1)   # a kernel of its own, which is loaded anew
        dx = here(x)
        fast(dx)
        control.twin_fail_at(call, OUT_OF_MEMORY)
        try:
            out = fast(dx)
        except RuntimeError as error:   # of the twin device's own calls
            assert "CUDA_ERROR_OUT_OF_MEMORY" in str(error)
            out, raised = None, raised + 1
        reached = control.twin_calls() >= call
        control.twin_fail_at(0, 0)
        for result in [out, fast(dx)]:
            assert result is None or torch.equal(result.cpu(), f(x) * call)
        if not reached:
            break
    assert counted("device_failed") - failed >= 4 and raised <= 1 and not reached


def test_behind_a_write_the_drivers_error_is_the_calls():
    fast = compiled(lambda x: x.add_(1), 1)
    x = here(torch.zeros(3))
    fast(x), fast(x)
    control.twin_fail_at(2, OUT_OF_MEMORY)   # the context is made current, the launch refused
    try:
        with pytest.raises(RuntimeError, match="cuLaunchKernel: CUDA_ERROR_OUT_OF_MEMORY"):
            fast(x)
    finally:
        control.twin_fail_at(0, 0)
    fast(x)
    assert torch.equal(x.cpu(), torch.full((3,), 3.0))
