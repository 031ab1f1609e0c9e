"""Memory of an argument's under another name: what a library call handed back of it (`x.view(dtype)`, `unfold`). Writes through it count as the argument's, as in
eager, where whoever saved the argument for a gradient, or packed it, learns of them; and so do those through what is returned."""
import pytest
import torch

import escapement

WRITES = {
    "other dtype": lambda x: (x.view(torch.int32).add_(1), None)[1],
    "part of another dtype": lambda x: (x.view(torch.int32)[3:4].zero_(), None)[1],
    "windows": lambda x: (x.unfold(0, 2, 2).mul_(2), None)[1],
    "complex": lambda x: (torch.view_as_complex(x.view(-1, 2)).mul_(2), None)[1],
    "by the library": lambda x: (x.view(torch.int32).cumsum_(0), None)[1],
    "of a chunk": lambda x: (x.chunk(2)[1].view(torch.int16).add_(1), None)[1],
}
VIEWS = {"other dtype": lambda x: x.view(torch.int32), "windows": lambda x: x.unfold(0, 2, 2), "one window": lambda x: x.unfold(0, 2, 2)[0],
         "complex": lambda x: torch.view_as_complex(x.view(-1, 2)), "detached": lambda x: x.detach(), "part, detached": lambda x: x.detach()[:-1], "detached windows": lambda x: x.detach().unfold(0, 2, 2),
         "of what is made": lambda x: (x * 2).unfold(0, 2, 2)}
COMPILED = {"call": lambda f: escapement.jit(f, mode="call"), "compile": lambda f: torch.compile(f, backend="escapement", dynamic=True)}
SIZES = (64, 8, 96)
LIBRARYS = "windows", "complex", "by the library"   # written by a call; the others by a kernel
OF_ANY_SIZE = "other dtype", "by the library"   # the others want pairs


def backward_of_what_saved(x):
    weight = torch.ones_like(x, requires_grad=True)
    return (weight * x).sum().backward


def refuses(backward):
    with pytest.raises(RuntimeError, match="inplace operation"):
        backward()


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("mode", COMPILED)
def test_writes_are_counted(mode, name, fresh):
    compiled = COMPILED[mode](WRITES[name])
    for size in (*SIZES, *((7, 1, 0, 13) if name in OF_ANY_SIZE else ())):
        x = torch.rand(size)
        expected = x.clone()
        backward = backward_of_what_saved(x)
        WRITES[name](expected)
        compiled(x)
        assert torch.equal(x.view(torch.int32), expected.view(torch.int32)) and x._version == 1
        refuses(backward)
    stats = escapement.stats()
    assert stats["recordings"] == 1 and stats["hits"] >= 2 and bool(stats.get("launches")) == (name not in LIBRARYS), stats


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("mode", COMPILED)
def test_what_is_returned_counts_with_the_argument(mode, name, fresh):
    def program(x):
        made = x if name != "of what is made" else x * 2
        return made, VIEWS[name](x) if made is x else made.unfold(0, 2, 2)

    compiled = COMPILED[mode](program)
    for size in SIZES:
        base, view = compiled(torch.rand(size))
        eagers, expected = program(torch.rand(size))
        if view.dtype == base.dtype:
            assert view._is_view() == expected._is_view() and (view._base is base) == (expected._base is eagers)
        backward = backward_of_what_saved(base)
        view.zero_()
        refuses(backward)
        assert not base[:2].any()
    assert escapement.stats()["recordings"] == 1 and escapement.stats()["hits"] >= 2


@pytest.mark.parametrize("layer, sizes", [(torch.nn.Conv2d(16, 32, 3), (2, 16, 20, 20)), (torch.nn.Linear(300, 700), (4, 300))], ids=["convolution", "linear"])
def test_packed_weights_learn_of_it(layer, sizes, fresh):
    layer.eval().requires_grad_(False)
    x = torch.randn(sizes)
    x = x.to(memory_format=torch.channels_last) if x.dim() == 4 else x
    apply, write = escapement.jit(lambda x: layer(x).relu()), escapement.jit(lambda p: (p.view(torch.int32)[3:4].zero_(), None)[1])
    for _ in range(4):
        apply(x)
        write(torch.nn.Parameter(torch.randn_like(layer.weight), requires_grad=False))
    write(layer.weight)
    torch.testing.assert_close(apply(x), layer(x).relu(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["other dtype", "windows", "by the library"])
def test_a_lazy_clone_is_a_copy_first(name, fresh):
    def program(x):
        WRITES[name](x)
        return x * 2

    compiled = escapement.jit(program)
    for size in SIZES:
        base = torch.rand(size)
        before, expected, lazy = base.clone(), base.clone(), torch._lazy_clone(base)
        doubled = program(expected)
        torch.testing.assert_close(compiled(lazy), doubled, rtol=0, atol=0, equal_nan=True)
        assert torch.equal(base, before) and torch.equal(lazy.view(torch.int32), expected.view(torch.int32))


def test_statistics_are_written_unseen(fresh):
    """As in eager: a graph that has saved them goes on."""
    norm = escapement.jit(lambda x, mean, var: torch.nn.functional.batch_norm(x, mean, var, training=True))
    for rows in (3, 5, 4):
        mean, var = torch.zeros(4), torch.ones(4)
        norm(torch.randn(rows, 4), mean, var)
        assert mean.any() and mean._version == var._version == 0
