"""einops under torch.compile: its patterns are parsed once and kept by lru_cache, lists and dicts among what is kept. One compile for all sizes, nothing
specialised, no graph break, whatever the function; and what a program does to a list that is kept."""

import functools

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

einops = pytest.importorskip("einops")
pytestmark = pytest.mark.usefixtures("fresh")
Rearrange, Reduce = (pytest.importorskip("einops.layers.torch").__dict__[name] for name in ("Rearrange", "Reduce"))
SHAPES = [(2, 4, 6), (3, 2, 10), (1, 2, 2), (5, 8, 14), (1, 6, 2)]

FUNCTIONS = {
    "turn": lambda x: einops.rearrange(x, "b h d -> d b h"), "merge": lambda x: einops.rearrange(x, "b h d -> (b h) d"), "split": lambda x: einops.rearrange(x, "b (h k) d -> b h k d", k=2),
    "split and merge": lambda x: einops.rearrange(x, "b (h k) (d e) -> (b h d) (k e)", k=2, e=2), "ellipsis": lambda x: einops.rearrange(x, "b ... d -> ... d b"),
    "sizes": lambda x: einops.rearrange(x, "b (h k) d -> b k h d", h=x.shape[1]), "repeat": lambda x: einops.repeat(x, "b h d -> b h k d", k=3),
    "repeat by a size": lambda x: einops.repeat(x[:1], "... d -> b ... d", b=x.shape[0]), "repeat in an axis": lambda x: einops.repeat(x, "b h d -> b (h k) d", k=2),
    "mean": lambda x: einops.reduce(x, "b h d -> b d", "mean"), "max": lambda x: einops.reduce(x, "b (h k) d -> b h d", "max", k=2), "sum": lambda x: einops.reduce(x, "b h d -> ", "sum"),
    "einsum": lambda x: einops.einsum(x, x, "b h d, b k d -> b h k"), "pack": lambda x: einops.pack([x, x[..., 0]], "b h *")[0],
    "unpack": lambda x: einops.unpack(x, [[1], []], "b h *")[1] if x.shape[2] == 2 else x, "parsed": lambda x: torch.as_tensor([size for size in einops.parse_shape(x, "b h _").values()]) + 0 * x.sum().long(),
    "layers": torch.nn.Sequential(Rearrange("b (h k) d -> b h (k d)", k=2), torch.nn.ReLU(), Reduce("b h d -> b h", "mean")),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    def program(x):
        return FUNCTIONS[name](x * 2) + 1

    compiled = torch.compile(program, backend="escapement")
    with torch.no_grad():
        for shape in SHAPES:
            x = torch.randn(shape)
            ours, eager = compiled(x), program(x)
            torch.testing.assert_close(ours, eager)
            assert ours.stride() == eager.stride()
    seen = LEDGER.counters()
    assert seen["graph_breaks"] == 0 and seen["fallbacks"] == {}, seen
    if name not in ("unpack", "parsed"):   # these ask for sizes
        assert (seen["compiles"], seen["specialised_dims"]) == (1, 0), seen
        assert escapement.stats()["launches"] > 0


def test_a_transformer_of_them():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out, self.token = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8), torch.nn.Parameter(torch.randn(1, 1, 8))

        def forward(self, x):
            x = torch.cat([einops.repeat(self.token, "1 1 d -> b 1 d", b=x.shape[0]), x], 1)
            q, k, v = einops.rearrange(self.qkv(x), "b n (t h d) -> t b h n d", t=3, h=2)
            return self.out(einops.rearrange((q @ k.mT).softmax(-1) @ v, "b h n d -> b n (h d)"))

    model = Attention().eval()
    model(torch.randn(2, 3, 8))   # einops has seen the types of tensors by then, which its own table is asked for
    compiled = torch.compile(model, backend="escapement", fullgraph=True)
    with torch.no_grad():
        for shape in ((2, 5, 8), (1, 1, 8), (7, 3, 8), (3, 11, 8)):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert LEDGER.counters()["compiles"] == 1


@functools.lru_cache
def sizes_kept(n):
    return [n, n + 1]


@functools.lru_cache
def table_kept(n):
    return {"one": n, "more": [n, n * 2]}


def reads(x):
    return x * sum(sizes_kept(x.shape[0])) + sizes_kept(x.shape[0])[1]


def reads_a_table(x):
    table = table_kept(x.shape[0])
    return x.reshape(table["one"], -1) + sum(table["more"])


def writes(x):
    kept = sizes_kept(x.shape[0])
    kept.append(1)
    return x * len(kept)


def writes_inside(x):
    kept = table_kept(x.shape[0])["more"]
    kept[0] += 1
    return x * kept[0]


def hands_out(x):
    return x * 2, sizes_kept(x.shape[0])


def holds(x, seen):
    seen.append(table_kept(x.shape[0])["more"])
    return x * 2


@pytest.mark.parametrize("program", [reads, reads_a_table])
def test_what_is_read_is_compiled(program):
    compiled = torch.compile(program, backend="escapement", fullgraph=True)
    for rows in (4, 3, 1, 7):
        torch.testing.assert_close(compiled(torch.ones(rows, 2)), program(torch.ones(rows, 2)))
    assert LEDGER.counters()["compiles"] == 1


@pytest.mark.parametrize("program", [writes, writes_inside, hands_out])
def test_who_writes_or_hands_out_has_the_same_object_each_time(program):
    results = []
    for call in (torch.compile(program, backend="escapement"), program):
        sizes_kept.cache_clear()
        table_kept.cache_clear()
        outcomes = [call(torch.ones(rows, 2)) for rows in (4, 3, 4, 5, 4, 3)]
        if program is hands_out:
            assert outcomes[0][1] is outcomes[2][1] is sizes_kept(4)
            outcomes[0][1].append(7)
            assert call(torch.ones(4, 2))[1][-1] == 7
        results.append(outcomes)
    torch.testing.assert_close(*results)


def test_who_holds_one_has_the_same_object():
    for call in (torch.compile(holds, backend="escapement"), holds):
        table_kept.cache_clear()
        seen = []
        for rows in (4, 3, 4, 4):
            call(torch.ones(rows, 2), seen)
        assert seen[0] is seen[2] is seen[3] is table_kept(4)["more"] and seen[1] is table_kept(3)["more"]
