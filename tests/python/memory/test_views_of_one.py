"""Views of arguments with axes of one element. What the stride of such an axis is addresses nothing, and one recording serves arguments whose strides
differ there; but a program can ask for it, and operators refuse some (`view(dtype)`): it is eager's, from the argument's own."""

import pytest
import torch

import escapement

MAKERS = {
    "contiguous": lambda *shape: torch.arange(float(torch.Size(shape).numel())).reshape(shape),
    "odd strides": lambda *shape: MAKERS["contiguous"](*shape).as_strided(shape, [77 if n == 1 else s for n, s in zip(shape, MAKERS["contiguous"](*shape).stride())]),
    "ones": lambda *shape: MAKERS["contiguous"](*shape).as_strided(shape, [1 if n == 1 else s for n, s in zip(shape, MAKERS["contiguous"](*shape).stride())]),
    "zeros": lambda *shape: MAKERS["contiguous"](*shape).as_strided(shape, [0 if n == 1 else s for n, s in zip(shape, MAKERS["contiguous"](*shape).stride())]),
}
SHAPES = {2: [(3, 5), (1, 5), (3, 1), (1, 1), (2, 1)], 3: [(2, 3, 5), (1, 3, 5), (2, 1, 5), (2, 3, 1), (1, 1, 5), (1, 3, 1), (2, 1, 1), (1, 1, 1)]}
OF_ANY_RANK = {
    "itself": lambda x: x, "detach": lambda x: x.detach(), "transpose": lambda x: x.transpose(0, 1), "twice": lambda x: x.transpose(0, 1).transpose(0, 1),
    "unsqueeze 0": lambda x: x.unsqueeze(0), "unsqueeze 1": lambda x: x.unsqueeze(1), "unsqueeze -1": lambda x: x.unsqueeze(-1),
    "transpose unsqueeze": lambda x: x.transpose(0, 1).unsqueeze(1), "squeeze": lambda x: x.squeeze(), "squeeze 0": lambda x: x.squeeze(0),
    "unsqueeze squeeze": lambda x: x.unsqueeze(1).squeeze(0), "first": lambda x: x[0], "last": lambda x: x[..., -1], "row": lambda x: x[:1], "column": lambda x: x[:, :1],
    "after the first": lambda x: x[:, 1:], "every second": lambda x: x[..., ::2], "every second row": lambda x: x[::2], "narrow": lambda x: x.narrow(1, 0, 1),
    "expand": lambda x: x.expand(2, *x.shape), "expand of one": lambda x: x.expand(1, *x.shape), "expand twice": lambda x: x.expand(1, 1, *x.shape),
    "expand the row": lambda x: x[:1].expand(4, *x.shape[1:]), "flatten": lambda x: x.view(-1), "a new axis": lambda x: x.view(x.shape[0], 1, -1),
    "same view": lambda x: x.view(x.shape), "view of ones": lambda x: x.view(1, -1, 1), "reshape": lambda x: x.reshape(-1, x.shape[0]),
    "halves": lambda x: x.chunk(2, -1)[0], "splits": lambda x: x.split(1, 0)[-1], "unbound": lambda x: x.unbind(0)[-1], "None": lambda x: x[:, None],
    "moved": lambda x: x.movedim(0, -1), "axes swapped": lambda x: x.swapaxes(0, -1), "unfold": lambda x: x.unfold(0, 1, 1),
    "of a copy": lambda x: (x + 1).transpose(0, 1), "transposed row": lambda x: x[:1].transpose(0, 1), "row of the transposed": lambda x: x.transpose(0, 1)[:1],
    "view as": lambda x: x.view_as(x), "expand as": lambda x: x.expand_as(x), "unsqueezed row": lambda x: x[0].unsqueeze(0).unsqueeze(-1),
}
OF_THREE = {
    "permute": lambda x: x.permute(2, 0, 1), "permute back": lambda x: x.permute(2, 0, 1).permute(1, 2, 0), "mT": lambda x: x.mT, "flatten 1": lambda x: x.flatten(1),
    "heads": lambda x: x.view(x.shape[0], x.shape[1], 1, -1).transpose(1, 2), "flatten 0": lambda x: x.flatten(0, 1), "middle": lambda x: x[:, 0],
    "unflatten": lambda x: x.unflatten(1, (1, -1)),
}
RECORDINGS = {"squeeze": 8, "splits": 3, "unbound": 3}
VIEWS = {**{(rank, name): view for rank in SHAPES for name, view in OF_ANY_RANK.items()}, **{(3, name): view for name, view in OF_THREE.items()}}


def where_it_lies(result):
    return tuple(result.shape), result.stride(), result.storage_offset() if result.numel() else None


def attempt(function, *args):
    try:
        return function(*args)
    except (RuntimeError, IndexError) as error:
        return type(error)


def assert_alike(compiled, function, x):
    ours, eagers = attempt(compiled, x.clone(memory_format=torch.preserve_format).as_strided(x.shape, x.stride())), attempt(function, x)
    if isinstance(eagers, type):
        assert ours is eagers
        return
    assert not isinstance(ours, type), (ours, where_it_lies(x))
    assert where_it_lies(ours) == where_it_lies(eagers), where_it_lies(x)
    assert torch.equal(ours, eagers)


@pytest.mark.parametrize("way", ["call", "replay"])
@pytest.mark.parametrize("rank, name", VIEWS, ids=str)
@torch.no_grad()
def test_strides_are_eagers(rank, name, way):
    for order in (SHAPES[rank], SHAPES[rank][::-1]):
        view = VIEWS[rank, name]
        compiled = escapement.jit(lambda x, view=view: view(x), mode=way)
        for shape in [*order, *order]:
            for maker in MAKERS.values():
                assert_alike(compiled, view, maker(*shape))
        if way == "call":   # one recording serves all, but where the rank, or how many results there are, depends on the sizes
            info = compiled.info()
            assert not info["eager"] and info["recordings"] <= RECORDINGS.get(name, 2), info["recordings"]


# Behind a write nothing could be done again, where an operator refuses.
BEHIND_A_WRITE = {
    "as integers": lambda y: y.view(torch.int16), "sorted": lambda y: y.sort(0)[0], "reversed": lambda y: y.flip(0), "summed up": lambda y: y.cumsum(0),
    "unfolded": lambda y: y.unfold(-1, 1, 1), "rolled": lambda y: y.roll(1, 0), "number": lambda y: y * 2,
}


@pytest.mark.parametrize("last", BEHIND_A_WRITE)
@pytest.mark.parametrize("name", ["itself", "transpose", "unsqueeze 0", "unsqueeze -1", "row", "column", "transposed row", "same view", "a new axis"])
@torch.no_grad()
def test_behind_a_write(name, last):
    def program(x):
        x.add_(1)
        return BEHIND_A_WRITE[last](OF_ANY_RANK[name](x))

    for order in (SHAPES[2], SHAPES[2][::-1]):
        compiled = escapement.jit(lambda x: program(x))
        for shape in [*order, *order]:
            for maker in MAKERS.values():
                assert_alike(compiled, program, maker(*shape))


# What lies in a context's own memory is a tensor that the context keeps from call to call.
TEMPORARIES = {
    "sorted": lambda x: (x * 2).sort(0)[0], "turned": lambda x: (x.t() * 2).sort(0)[0], "of three": lambda x: (x.unsqueeze(1) * 2 + 1).sort(0)[0],
    "of a row": lambda x: (x[:1] + 1).sort(-1)[0],
}


@pytest.mark.parametrize("name", TEMPORARIES)
@torch.no_grad()
def test_operands_of_library_calls(name):
    for order in (SHAPES[2], SHAPES[2][::-1]):
        compiled = escapement.jit(lambda x: TEMPORARIES[name](x))
        for shape in [*order, *order]:
            for maker in MAKERS.values():
                assert_alike(compiled, TEMPORARIES[name], maker(*shape))
