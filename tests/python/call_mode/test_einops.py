"""einops computes shapes in cached functions of its own: one recording serves all sizes (`tracer/pure.py`), in call mode and under torch.compile."""

import pytest
import torch

import escapement

einops = pytest.importorskip("einops")
from einops import einsum, pack, parse_shape, rearrange, reduce, repeat, unpack   # noqa: E402
from einops.layers.torch import Rearrange, Reduce   # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")
FORMS = {
    "order": lambda x: rearrange(x, "b n d -> n b d") * 2, "heads": lambda x: rearrange(x, "b n (h d) -> b h n d", h=4) + 1, "merged": lambda x: rearrange(x, "b n d -> (b n) d") + 1, "rest": lambda x: rearrange(x, "... d -> d ...") + 1,
    "new axis": lambda x: rearrange(x, "b n d -> b 1 n d") + 1, "halves": lambda x: rearrange(x, "b n (two d) -> two b n d", two=2)[0] + 1, "repeated": lambda x: repeat(x, "b n d -> b n d k", k=3) + 1,
    "spread": lambda x: repeat(torch.arange(32.0), "d -> b n d", b=x.shape[0], n=x.shape[1]) + x, "mean": lambda x: reduce(x, "b n d -> b d", "mean") + 1, "largest": lambda x: reduce(x, "b n (h d) -> b n h", "max", h=8) + 1,
    "pool": lambda x: reduce(x, "b n (d two) -> b n d", "sum", two=2) + 1, "product": lambda x: einsum(x, x, "b i d, b j d -> b i j") + 1, "packed": lambda x: pack([x, x[:, :1]], "b * d")[0] + 1,
    "unpacked": lambda x: unpack(*pack([x, x[:, :1]], "b * d"), "b * d")[0] + 1, "parsed": lambda x: x * parse_shape(x, "b n d")["n"], "back": lambda x: rearrange(rearrange(x, "b n d -> (b n) d") + 1, "(b n) d -> b n d", b=x.shape[0]),
    "by parsed": lambda x: rearrange(rearrange(x, "b n d -> (b n) d") + 1, "(b n) d -> b n d", **parse_shape(x, "b n _")), "windows": lambda x: rearrange(x, "b (w n) d -> (b w) n d", w=1) + 1,
    "attention": lambda x: rearrange(rearrange(x, "b n (h d) -> b h n d", h=2).softmax(-2) * 2, "b h n d -> b n (h d)"),
}
SHAPES = [*((b, n) for n in (5, 6, 3, 9, 33, 12) for b in (2, 3, 5)), (1, 4), (4, 1), (1, 1), (2, 5)]


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    fn = FORMS[form]
    jitted = escapement.jit(fn)
    with torch.no_grad():
        for b, n in SHAPES:
            x = torch.randn(b, n, 32)
            found, wanted = jitted(x), fn(x)
            torch.testing.assert_close(found, wanted)
            assert found.stride() == wanted.stride()
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


def test_a_shape_that_does_not_fit():
    jitted = escapement.jit(lambda x: rearrange(x, "b (w n) d -> b w n d", w=4) + 1)
    with torch.no_grad():
        for n in (4, 8, 12, 7, 16, 5, 20):
            if n % 4:
                with pytest.raises(einops.EinopsError, match="can't divide axis"):
                    jitted(torch.ones(2, n, 3))
            else:
                assert jitted(torch.ones(2, n, 3)).shape == (2, 4, n // 4, 3)
    assert jitted.info()["recordings"] <= 2


@pytest.mark.parametrize("compiled", [escapement.jit, lambda model: torch.compile(model, backend="escapement")], ids=["call mode", "torch.compile"])
def test_layers(compiled):
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(32, 32), Rearrange("b n (h d) -> b h n d", h=4), torch.nn.ReLU(), Reduce("b h n d -> b n d", "mean")).eval()
    fast = compiled(model)
    with torch.no_grad():
        for b, n in SHAPES:
            x = torch.randn(b, n, 32)
            torch.testing.assert_close(fast(x), model(x))
    assert escapement.stats()["recordings"] <= 2
