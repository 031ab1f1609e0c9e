"""Programs recorded once and replayed through ATen at other sizes: bit for bit eager's results, strides and writes."""

import pytest
import torch
import torch.nn.functional as F

from recorder_tool import Recorded, check, core

SHAPES = [(5, 11), (2, 33), (1, 9), (4, 1), (1, 1), (3, 7), (6, 2), (7, 13)]
matrix = lambda b, s: [torch.randn(b, s)]  # noqa: E731
pair = lambda b, s: [torch.randn(b, s), torch.randn(b, s)]  # noqa: E731


@pytest.fixture(autouse=True)
def inference():
    torch.manual_seed(0)
    with torch.no_grad():
        yield


POINTWISE = {
    "arithmetic": lambda x, y: (x + y * 2.0 - 1) / (y * y + 0.5),
    "scalar_left": lambda x, y: 3 - x + 2 / (y.abs() + 1),
    "activations": lambda x, y: F.gelu(x) + F.gelu(y, approximate="tanh") + F.silu(x) + F.relu(y) + F.leaky_relu(x, 0.2),
    "thresholds": lambda x, y: F.hardtanh(x) + F.threshold(y, 0.1, 3.0) + F.relu6(x) + F.hardswish(y) + F.softplus(x) + F.elu(y),
    "clamp": lambda x, y: x.clamp(-0.5, 0.7) + y.clamp(min=0.1) + x.clamp(max=y),
    "powers": lambda x, y: x ** 2 + x ** 3 + y.abs() ** 0.5 + (y.abs() + 1) ** -0.5 + (x * x + 1) ** -1,
    "where": lambda x, y: torch.where(x > y, x, 0.0) + torch.where(x < 0, x, y),
    "masks": lambda x, y: x.masked_fill(y > 0, float("-inf")).exp() + x.masked_fill(y < 0, 2),
    "compare": lambda x, y: ((x > y) & (x < 1) | ~(y >= 0)).float() * (x == y).to(torch.int64),
    "dtypes": lambda x, y: x.double() + y.half() * 0.1 + x.to(torch.bfloat16) * 3.14159,
    "half_scalar": lambda x, y: x.bfloat16() * 0.1 + y.bfloat16() / 3.0,
    "integers": lambda x, y: (x * 100).long() // 7 + (y * 10).int() * 3 + (x > 0),
    "alpha": lambda x, y: torch.add(x, y, alpha=2) + torch.sub(x, y, alpha=3),
    "addc": lambda x, y: torch.addcmul(x, x, y, value=0.5) + torch.addcdiv(x, y, x.abs() + 1),
    "size_as_number": lambda x, y: x * x.shape[0] + y / x.size(1) ** 0.5 + (x.size(0) * y.size(1)) * y,
    "rounding": lambda x, y: (x * 10).round() + y.floor() + x.ceil() * y.trunc() + x.frac() + torch.sign(y),
    "unsupported": lambda x, y: torch.atan2(x, y) + torch.special.i0(x) + torch.remainder(x, 2.5),
}

VIEWS = {
    "reshape": lambda x, y: (x.view(-1), (x * 2).t().reshape(-1), y.reshape(x.size(1), x.size(0)), y.unsqueeze(1).flatten()),
    "permute": lambda x, y: (x.unsqueeze(0).permute(2, 0, 1) + 1, x.t() + y.t(), x.t() + y.t().contiguous(), x.mT.clone()),
    "slices": lambda x, y: (x[:, 1:] if x.size(1) > 100 else x[:, :1], x[0], y[-1], y[..., ::2], x[:, -1:], x[:1, None]),
    "expand": lambda x, y: (x[:1].expand(x.size(0), -1) + y, x[:, :1].expand_as(y) * y),
    "as_strided": lambda x, y: (x.as_strided((1,), (1,), 0), x.narrow(0, 0, 1), x.unflatten(0, (1, -1))),
    "chunks": lambda x, y: x.split([1, x.size(0) - 1]) + x.unsqueeze(0).unbind(0) + torch.chunk(torch.cat([x, x]), 2),
    "diagonal": lambda x, y: (x.diagonal(), torch.movedim(x, 0, 1), x.swapaxes(0, 1)),
}

REDUCTIONS = {
    "sums": lambda x, y: (x.sum(), x.sum(0), y.mean(-1, keepdim=True), x.mean(), (x > 0).sum(1), x.prod(0)),
    "extremes": lambda x, y: (x.amax(1), y.amin(0, keepdim=True), *x.max(1), *y.min(0), x.argmax(1), y.max(), x.argmin()),
    "truth": lambda x, y: ((x > 0).any(1), (y < 9).all(), (x > 0).any()),
    "moments": lambda x, y: (x.var(1, correction=0), y.std(0, correction=0), torch.var_mean(x, 1, correction=0)[0]),
    "norms": lambda x, y: (x.norm(dim=1), torch.linalg.vector_norm(y), x.logsumexp(1), F.normalize(x, dim=-1)),
    "softmax": lambda x, y: (x.softmax(-1), F.log_softmax(y, 0), x.softmax(0, dtype=torch.float64), x.t().softmax(-1)),
    "layer_norm": lambda x, y: (F.layer_norm(x, (x.size(1),)), F.rms_norm(y, (y.size(1),), None, 1e-6),
                              torch.native_layer_norm(x, (x.size(1),), None, None, 1e-5)[0]),
    "group_norm": lambda x, y: F.group_norm(torch.cat([x, y], 1).unsqueeze(-1).expand(-1, -1, 3).contiguous(), 2),
}

OTHERS = {
    "create": lambda x, y: (torch.arange(x.size(0)) * 2, torch.zeros(x.size(1), 3), x.new_full((x.size(0),), 7.0), torch.ones_like(y),
                            torch.full((x.size(0), 2), x.size(1)), torch.arange(0, x.size(1), 2), torch.zeros(x.shape)),
    "cat": lambda x, y: (torch.cat([x, y]), torch.cat([x, y], 1), torch.stack([x, y], 1), F.pad(x, (1, 2)), F.pad(y, (0, 0, 3, 1), value=2.0)),
    "index": lambda x, y: (x[torch.arange(x.size(0)) // 2], x.index_select(1, torch.arange(x.size(1))), x.gather(1, x.argsort(1)),
                           x[:, torch.tensor([0, -1])], F.embedding(x.argmax(0) % 3, torch.randn(3, 4) * 0)),
    "triangle": lambda x, y: (x.tril(), y.triu(1), torch.ones(x.size(1), x.size(1)).tril()),
    "matmul": lambda x, y: (x @ y.t(), torch.bmm(x[None], y.t()[None]), torch.addmm(x @ y.t(), x, y.t()), x.unsqueeze(1) @ y.t(), x[0] @ y[0]),
    "attention": lambda x, y: F.scaled_dot_product_attention(x[None, None], y[None, None], x[None, None]),
    "sorting": lambda x, y: (*x.sort(1), x.cumsum(1), *y.topk(1, dim=1), x.flip(0), x.roll(1, 0)),
    "nonzero": lambda x, y: ((x > 0).nonzero(), x[x > 0], x[x > 0] * 2 + 1, (x > 0).nonzero().float().sum(1), torch.unique(x > 0)),
    "repeat": lambda x, y: (x.repeat(2, 1), x.repeat_interleave(2, 0), torch.meshgrid(x[0], y[0], indexing="ij")[0]),
    "einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "interpolate": lambda x, y: F.interpolate(x[None, None], scale_factor=2.0),
    "pool": lambda x, y: (F.max_pool1d(torch.cat([x, y], 1), 2), F.avg_pool1d(torch.cat([x, y], 1)[None], 2), F.adaptive_avg_pool1d(x[None], 3)),
    "one_hot": lambda x, y: F.one_hot(x.argmax(1) * 0 + 2, 5).float(),
    "glu": lambda x, y: F.glu(torch.cat([x, y], 1)),
    "vector": lambda x, y: torch.vmap(lambda a, b: a * b + a.sum())(x, y),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name):
    check(POINTWISE[name], pair, SHAPES, names=[("b", "s")] * 2)


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    check(VIEWS[name], pair, SHAPES, names=[("b", "s")] * 2)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    check(REDUCTIONS[name], pair, SHAPES, names=[("b", "s")] * 2)


@pytest.mark.parametrize("name", OTHERS)
def test_others(name):
    check(OTHERS[name], pair, SHAPES, names=[("b", "s")] * 2)


# --- memory

def in_place_chain(x, y):
    z = x * 2
    z.add_(y).mul_(3).clamp_(min=0)
    return z.relu_()


def write_to_argument(x, y):
    x.add_(y)
    y[:, :1] = 7
    return x + y


def view_then_write(x, y):
    z = x + 1
    row = z[0]
    row.zero_()
    z.t().mul_(2)
    return z, row


def write_then_view(x, y):
    z = torch.zeros_like(x)
    z[:1].copy_(y[:1])
    z[:, -1] = z[:, 0] + 5
    z.fill_(z.size(0))
    return z + z[:1]


def out_forms(x, y):
    z = torch.empty_like(x)
    torch.add(x, y, out=z)
    w = torch.empty(0)
    torch.mul(x, z, out=w)
    return z, w


def metadata(x, y):
    z = (x + y)
    z.unsqueeze_(0).transpose_(1, 2)
    z = z * 2
    w = x.clone()
    w.squeeze_(0) if False else w.t_()
    return z, w, w.shape[0]


def copy_of_permuted(x, y):
    z = x.t().contiguous()
    z.add_(1)
    return z, x


def returns_argument(x, y):
    return x, x.view(-1), x[0], y.t()


MEMORY = [in_place_chain, write_to_argument, view_then_write, write_then_view, out_forms, metadata, returns_argument]


@pytest.mark.parametrize("program", MEMORY, ids=lambda f: f.__name__)
def test_memory(program):
    check(program, pair, SHAPES, names=[("b", "s")] * 2)


def test_sharing_that_depends_on_sizes_is_guarded_when_written():
    check(copy_of_permuted, pair, SHAPES, names=[("b", "s")] * 2, allow_guards=True)
    assert Recorded(copy_of_permuted, pair(1, 7)).facts["refused"]


def test_aliased_arguments():
    def program(x, y):
        x.add_(1)
        return y * 2

    base = torch.randn(4, 6)
    recorded = Recorded(program, [base, base[1:]])
    assert "refused" in recorded.facts and not recorded.facts["refused"]
    other, same_base = torch.randn(8, 3), None
    same_base = other.clone()
    got = recorded.run(other, other[1:])
    want = program(same_base, same_base[1:])
    assert torch.equal(got[0], want)


def test_literal_starts_anew_in_every_run():
    def program(x):
        total = torch.tensor(0.0)
        total += x.sum()
        return total

    check(program, matrix, SHAPES)


def test_buffer_update_reaches_the_buffer():
    buffer = torch.zeros(1)

    def program(x):
        buffer.add_(1)
        return x + buffer

    recorded = Recorded(program, [torch.randn(2, 3)])
    recorded.run(torch.randn(4, 5))
    assert buffer.item() == 2


def test_batch_norm_statistics():
    make = lambda b, s: [torch.randn(b + 1, 3, s + 2)]  # noqa: E731
    norm, twin = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    recorded = Recorded(norm, make(3, 7))
    assert not recorded.facts["refused"]
    for shape in SHAPES:
        x = make(*shape)
        twin.load_state_dict(norm.state_dict())
        want = twin(*x)
        assert torch.equal(recorded.run(*x)[0], want)
        assert torch.equal(norm.running_mean, twin.running_mean) and torch.equal(norm.running_var, twin.running_var)


# --- random numbers, autocast

@pytest.mark.parametrize("name, program", {
    "dropout": lambda x: F.dropout(x, 0.5, training=True) * 2,
    "dropout_eval": lambda x: F.dropout(x, 0.5, training=False) * 2,
    "rand": lambda x: x + torch.rand(x.shape) + torch.randn_like(x) + torch.randn(x.size(0), 1),
    "fill": lambda x: torch.empty_like(x).uniform_() + torch.bernoulli(x.sigmoid()) + torch.zeros_like(x).normal_(),
    "permutation": lambda x: x[torch.randperm(x.size(0))],
    "multinomial": lambda x: torch.multinomial(x.softmax(1), 1),
}.items(), ids=lambda v: v if isinstance(v, str) else "")
def test_random_numbers(name, program):
    check(program, matrix, SHAPES, seed=5)


def test_autocast():
    linear = torch.nn.Linear(16, 8)

    def program(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return linear(x), x @ x.t(), (x @ x.t()).softmax(-1)

    check(program, lambda b, s: [torch.randn(b, 16)], SHAPES)


# --- values that the host sees

def test_branch_on_a_size_is_a_guard():
    recorded = Recorded(lambda x: x * 2 if x.size(0) > 2 else x + 1, [torch.randn(3, 4)])
    assert recorded.facts["guards"] == 1 and not recorded.facts["specialised"]
    assert isinstance(recorded.run(torch.randn(2, 4)), str)
    x = torch.randn(9, 5)
    assert torch.equal(recorded.run(x)[0], x * 2)


def test_exact_read_pins_one_size():
    recorded = Recorded(lambda x: x * int(x.size(0)), [torch.randn(3, 4)])
    assert len(recorded.facts["specialised"]) == 1
    assert not isinstance(recorded.run(torch.randn(3, 9)), str) and isinstance(recorded.run(torch.randn(4, 4)), str)


def test_branch_on_a_value():
    recorded = Recorded(lambda x: x + 1 if (x > 0).all() else x - 1, [torch.rand(3, 4) + 1])
    x = torch.rand(5, 6) + 1
    assert torch.equal(recorded.run(x)[0], x + 1)
    assert isinstance(recorded.run(-x), str)


def test_items_stay_symbols():
    def program(x, n):
        count = n.sum().item()
        return torch.zeros(count, 2) + 1, x[:, :count], x.sum().item() * x

    make = lambda b, s: [torch.randn(b, s + 9), torch.randint(0, 2, (4,)) + 1]  # noqa: E731
    check(program, make, SHAPES, allow_guards=False)


def test_integer_arguments():
    recorded = Recorded(lambda x, n: (x * n, x.new_zeros(n, 2), n + 1), [torch.randn(2, 3), 5])
    x = torch.randn(4, 6)
    got = recorded.run(x, 8)
    assert torch.equal(got[0], x * 8) and got[1].shape == (8, 2) and got[2] == 9


@pytest.mark.parametrize("program", [lambda x: x + torch.from_numpy(x.numpy()), lambda x: x + x.data_ptr() * 0], ids=["numpy", "pointer"])
def test_memory_access_refuses(program):
    recorded = Recorded(program, [torch.randn(2, 3)])
    assert "storage_access" in recorded.facts["refused"]


def test_foreign_thread_refuses():
    import threading

    def program(x):
        result = []
        thread = threading.Thread(target=lambda: result.append(x + 1))
        thread.start()
        thread.join()
        return result[0] * 2

    assert Recorded(program, [torch.randn(2, 3)]).facts["refused"]


def test_wrappers_outlive_the_recording():
    kept = []
    x = torch.randn(2, 3)
    recorded = Recorded(lambda t: kept.append(t * 2) or t + 1, [x])
    assert torch.equal(kept[0] + 0, x * 2) and kept[0].shape == (2, 3) and not recorded.facts["refused"]


def test_sizes_are_python_ints_after_the_recording():
    kept = []
    Recorded(lambda t: kept.append(t.shape[0]) or t + 1, [torch.randn(2, 3)])
    assert int(kept[0]) + 1 == 3


def test_nothing_is_recorded_outside():
    x = torch.randn(2, 3)
    recorded = Recorded(lambda t: t + 1, [x])
    before = core.facts(recorded.recording)["instrs"]
    assert torch.equal(x + 1, recorded.outputs[0]) and core.facts(recorded.recording)["instrs"] == before
