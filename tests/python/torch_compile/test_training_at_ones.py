"""Training under torch.compile where batches or sequences of one come: one compile serves them with all others. What torch decides there by whether a size
is 1, a copy or a view that nobody sees, is no guard.
"""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

import escapement

WIDTH = 16
SIZES = [(4, 6), (3, 6), (1, 6), (2, 9), (2, 1), (1, 1), (5, 3), (7, 11)]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.into(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width))


class Program(nn.Module):
    def __init__(self, forward, **modules):
        super().__init__()
        self.program = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, x):
        return self.program(self, x)


MODULES = {
    "attention": Attention, "multi-head": lambda: Program(lambda self, x: self.attention(x, x, x, need_weights=False)[0], attention=nn.MultiheadAttention(WIDTH, 4, batch_first=True)),
    "multi-head, with weights": lambda: Program(lambda self, x: self.attention(x, x, x)[0], attention=nn.MultiheadAttention(WIDTH, 4, batch_first=True)),
    "encoder": lambda: nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True, dropout=0.0), "decoder": lambda: Program(lambda self, x: self.layer(x, x), layer=nn.TransformerDecoderLayer(WIDTH, 4, 32, dropout=0.0, batch_first=True)),
    "products": lambda: Program(lambda self, x: x @ x.transpose(1, 2)), "products of turned": lambda: Program(lambda self, x: x.transpose(0, 1) @ x.permute(1, 2, 0)),
    "scores": lambda: Program(lambda self, x: (x @ x.mT).masked_fill(torch.ones(x.shape[1], x.shape[1]).tril() == 0, -torch.inf).softmax(-1) @ x),
    "turned and flat": lambda: Program(lambda self, x: x.transpose(0, 1).reshape(-1, WIDTH) * 2), "turned copy": lambda: Program(lambda self, x: (x.transpose(0, 1) * 2).contiguous().view(-1, WIDTH).sin()),
    "heads": lambda: Program(lambda self, x: self.out(x.unflatten(-1, (4, -1)).transpose(1, 2).mean(2).flatten(1)), out=nn.Linear(WIDTH, 3)),
    "linear of turned": lambda: Program(lambda self, x: self.layer(x.transpose(0, 1)), layer=nn.Linear(WIDTH, 5)), "without bias": lambda: Program(lambda self, x: self.layer(x.transpose(0, 1)), layer=nn.Linear(WIDTH, 5, bias=False)),
    "lines": lambda: Program(lambda self, x: self.layer(x.transpose(1, 2)).transpose(1, 2), layer=nn.Conv1d(WIDTH, 8, 3, padding=1)),
    "mixer": lambda: Program(lambda self, x: x + self.layer(x.transpose(1, 2).contiguous().mT), layer=nn.Linear(WIDTH, WIDTH)),
}
# One length is asked for.
ASKED = {
    "windows": lambda: Program(lambda self, x: F.pad(x, (0, 0, 1, 0)).unfold(1, 2, 1).permute(0, 1, 3, 2).reshape(x.shape[0], -1, 2 * WIDTH)),
}


def gradients_of(module, x):
    x = x.clone().requires_grad_()
    result = module(x)
    return [result, *torch.autograd.grad(result.sin().sum(), [x, *module.parameters()], allow_unused=True)]


@pytest.mark.parametrize("name", [*MODULES, *(pytest.param(name, marks=pytest.mark.xfail(strict=True, reason="parts of windows are put together")) for name in ASKED)])
def test_one_compile(name):
    torch._dynamo.reset()
    escapement.reset()
    torch.manual_seed(0)
    module = (MODULES | ASKED)[name]()
    compiled = torch.compile(module, backend="escapement")
    own = None   # dims that the program's own weights fix, which are fixed after the first call
    for sizes in SIZES:
        x = torch.randn(*sizes, WIDTH)
        for ours, eager in zip(gradients_of(compiled, x), gradients_of(module, x), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
        own = escapement.stats()["dynamo"]["specialised_dims"] if own is None else own
    found = escapement.stats()["dynamo"]
    assert found["specialised_dims"] == own and found["compiles"] == 1 and not found["graph_breaks"] and not found["skipped_frames"], found
    for sizes in SIZES:   # forward and backward by compiled code, with nothing recorded anew
        before = escapement.stats()
        gradients_of(compiled, torch.randn(*sizes, WIDTH))
        after = escapement.stats()
        assert after["hits"] >= before["hits"] + 2 and after["recordings"] == before["recordings"], (sizes, before, after)
    assert after["launches"] > 0, after


ASK_FOR_NOTHING = ("attention", "multi-head", "encoder", "decoder")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xfail(strict=True, reason="attention asks whether there is anything"))
                                  if name in ASK_FOR_NOTHING else name for name in MODULES])
def test_one_compile_for_batches_of_nothing_too(name):
    torch._dynamo.reset()
    escapement.reset()
    module = MODULES[name]()
    compiled = torch.compile(module, backend="escapement")
    for sizes in ((4, 6), (0, 6), (3, 5)):
        x = torch.randn(*sizes, WIDTH)
        for ours, eager in zip(gradients_of(compiled, x), gradients_of(module, x), strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5)
    assert escapement.stats()["dynamo"]["compiles"] == 1


VISIBLE = {
    "reshape": lambda x: x.transpose(0, 1).reshape(-1, WIDTH), "contiguous": lambda x: x.transpose(0, 1).contiguous(), "flatten": lambda x: x.transpose(0, 1).flatten(0, 1), "ravel": lambda x: x.transpose(0, 1).ravel(),
}
SEEN = {
    "returned with what it is of": lambda x, y: (y, x), "written": lambda x, y: (y.mul_(2), x + 1)[::-1], "written behind": lambda x, y: (x.mul_(2), y + 1)[::-1], "layout": lambda x, y: (y * y.stride(0), x),
}


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("name", VISIBLE)
def test_a_copy_that_can_be_told_from_a_view(name, seen):
    def program(x):
        x = x * 2
        return SEEN[seen](x, VISIBLE[name](x))

    torch._dynamo.reset()
    compiled = torch.compile(program, backend="escapement")
    for sizes in SIZES:
        given = torch.randn(*sizes, WIDTH)
        found = []
        for call in (compiled, program):
            x = given.clone().requires_grad_()
            results = call(x)
            sharing = results[0].untyped_storage()._cdata == results[1].untyped_storage()._cdata
            gradient, = torch.autograd.grad(sum(result.sin().sum() for result in results), x)
            found.append((*results, gradient, torch.tensor(sharing)))
        for ours, eager in zip(*found, strict=True):
            torch.testing.assert_close(ours, eager)


def laid_out(sizes, layout):
    if layout == "every other":
        return torch.randn([2 * size for size in sizes])[tuple(slice(None, None, 2) for _ in sizes)]
    if layout == "one for all":
        return torch.randn(1, *sizes[1:]).expand(sizes)
    return torch.randn(sizes[::-1]).permute(2, 1, 0) if layout == "turned" else torch.randn(sizes)


@pytest.mark.filterwarnings("ignore")
def test_questions_beyond_the_budget_have_a_name():
    """No graph break ends a graph of which AOTAutograd derives gradients: such a call runs eagerly."""
    def halves(x):
        return [part.contiguous() for part in x.chunk(2, 1)]

    compiled = torch.compile(halves, backend="escapement")
    for layout in ("turned", "every other", "one for all", "plain"):
        for sizes in ((2, 4, 6), (1, 4, 6), (2, 4, 1), (1, 4, 1), (5, 4, 3), (0, 4, 6)):
            found, base = [], laid_out(sizes, layout)
            for run in (halves, compiled):
                x = base.detach().requires_grad_()
                parts = run(x)
                sum(part.square().sum() for part in parts).backward()
                found.append((*(part.detach() for part in parts), x.grad))
            torch.testing.assert_close(*found)
    assert set(escapement.stats()["dynamo"]["fallbacks"]) == {"sizes_compared"}, escapement.stats()
