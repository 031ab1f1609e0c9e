"""What call mode cannot record goes on in replay mode, where the function itself runs; after 32 such calls in a row it is not recorded any more."""

import pytest
import torch
import torch.nn.functional as F

import escapement

KEPT = []


class Own:
    factor = 3


def sparse(x):
    return torch.softmax(x.to_sparse().to_dense() * 2, -1) * 3 + 1


def quantised(x):
    return torch.softmax(torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize(), -1) * 3


def nested(x):
    return torch.nested.nested_tensor([x, x[:1]]).to_padded_tensor(0.0) * 2


def shape_in_place(x):
    y = torch.softmax(x * 2, -1)
    x.unsqueeze_(0)
    result = (y * x).exp()
    x.squeeze_(0)
    return result


def tape_inside(x):
    w = x.detach().requires_grad_()
    return torch.autograd.grad((torch.softmax(w, -1) ** 2).sum(), w)[0] + 1


def memory(x):
    return torch.from_numpy((torch.softmax(x * 2, -1) * 3).numpy() * 2) + 1


def numbers(x):
    rows = (x * 2).sum(-1).tolist()
    return x.exp() * len(rows) + sum(rows)


def appends(x):
    KEPT.append((x * 2).mean().item())
    return x + KEPT[-1]


def prints(x):
    f"{x.sum().item():.3f}"
    return x * 2 + 1


def own_argument(x, own=Own()):
    return F.relu(x) * own.factor


PROGRAMS = {
    "sparse": (sparse, "unsupported_tensor"), "quantised": (quantised, "unsupported_tensor"), "nested": (nested, "unsupported_tensor"),
    "shape_in_place": (shape_in_place, "argument_reshaped"), "tape_inside": (tape_inside, "gradient"), "memory": (memory, "storage_access"),
    "numbers": (numbers, "storage_access"), "appends": (appends, "state_changed"), "prints": (prints, "too_many_recordings"),
}


def made(call):
    return torch.randn(2 + call % 3, 6, generator=torch.Generator().manual_seed(call))


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_call_is_eagers_and_counted(name):
    program, reason = PROGRAMS[name]
    escapement.reset()
    jitted, calls = escapement.jit(program), 90
    for call in range(calls):
        ours, theirs = made(call), made(call)
        result, expected = jitted(ours), program(theirs)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
        assert result.stride() == expected.stride()
        assert torch.equal(ours, theirs) and ours.shape == theirs.shape
    assert reason in jitted.info()["eager"]
    assert jitted.info()["eager"][reason] >= calls - 50   # straight to replay mode, without asking a region
    assert reason == "gradient" or "replay mode: " in str(escapement.explain(jitted)(made(0)))
    recorded = escapement.stats()["recordings"]
    for call in range(20):
        jitted(made(call))
    assert escapement.stats()["recordings"] == recorded


def test_an_argument_that_nothing_is_known_of():
    escapement.reset()
    jitted = escapement.jit(own_argument)
    for call in range(50):
        torch.testing.assert_close(jitted(made(call), Own()), own_argument(made(call)))
    assert jitted.info()["eager"] == {"unsupported_argument": 50}
    assert escapement.stats()["hits"] > 40 and "eager_calls" not in escapement.stats()   # its operators are compiled


def test_calls_that_are_served_keep_a_function_recorded():
    def program(x, flag):
        if flag:
            x.numpy()
        return torch.softmax(x, -1) * 2

    jitted = escapement.jit(program)
    for call in range(200):
        flag = call % 20 != 0
        torch.testing.assert_close(jitted(made(call), flag), program(made(call), flag))
    assert jitted.info()["eager"].get("storage_access", 0) == 0
    escapement.reset()
    for call in range(5):
        jitted(made(call), False)
    assert escapement.stats()["hits"] == 5


class Counting(torch.nn.Module):
    calls = 0

    def forward(self, x):
        if self.training:
            self.calls += 1
        return torch.tanh(x) * 2


def test_another_training_flag_begins_anew():
    module = Counting()
    jitted = escapement.jit(module)
    for call in range(60):
        torch.testing.assert_close(jitted(made(call)), torch.tanh(made(call)) * 2)
    assert module.calls == 60 and jitted.info()["eager"]["state_changed"] > 50
    module.eval()
    escapement.reset()
    for call in range(10):
        jitted(made(call))
    assert module.calls == 60 and escapement.stats()["hits"] >= 9


def test_clear_begins_anew():
    jitted = escapement.jit(memory)
    for call in range(60):
        jitted(made(call))
    jitted.clear()
    escapement.reset()
    jitted(made(0))
    assert escapement.stats()["recordings"] >= 1
