"""Where a view lies in its memory: `storage_offset()` and `as_strided` with an absolute offset, of views that our own lowerings make and of
those that only library calls can (complex and unsigned numbers, other dtypes in the same memory). Asked at several sizes and offsets."""

import pytest
import torch

from answered import Counted

VIEWS = {
    "rows": lambda a: a[1:], "reshape": lambda a: a[1:].reshape(-1), "flatten": lambda a: a[-1:].flatten(), "ravel": lambda a: a[-1:].ravel(),
    "view": lambda a: a[-1:].view(-1), "real": lambda a: torch.real(a[1:]), "imag": lambda a: (a.imag if a.is_complex() else a)[1:],
    "pairs": lambda a: torch.view_as_real(a[1:]) if a.is_complex() else a[1:], "halves": lambda a: a[1:].view(torch.int16),
    "bytes": lambda a: a[-1:].view(torch.uint8), "chunk": lambda a: a.chunk(2)[-1], "tensor_split": lambda a: a.tensor_split(2)[-1],
    "split": lambda a: a.split([1, a.shape[0] - 1])[1], "hsplit": lambda a: a.hsplit(2 if a.shape[1] % 2 == 0 else 1)[-1], "unbind": lambda a: a.unbind(0)[-1],
    "unfold": lambda a: a.unfold(0, 1, 1)[-1], "diagonal": lambda a: torch.diagonal(a, 1), "select": lambda a: a.select(0, -1),
    "narrow": lambda a: a.narrow(0, a.shape[0] - 1, 1), "swapaxes": lambda a: a[1:].swapaxes(0, -1), "movedim": lambda a: a[-1:].movedim(0, -1),
    "transpose": lambda a: a[1:].T, "squeeze": lambda a: a[-1:].squeeze(0), "unsqueeze": lambda a: a[-1:].unsqueeze(0), "unflatten": lambda a: a[-1:].unflatten(0, (1, 1)),
    "expand": lambda a: a[-1:].expand(3, a.shape[1]), "detach": lambda a: a[-1:].detach(), "conj": lambda a: a[-1:].conj(), "contiguous": lambda a: a[1:].contiguous(),
    "to": lambda a: a[1:].to(a.dtype), "atleast_3d": lambda a: torch.atleast_3d(a[-1:]), "broadcast": lambda a: torch.broadcast_tensors(a[-1:], a[:1])[0],
    "meshgrid": lambda a: torch.meshgrid(a[1:].flatten(), a[0].flatten(), indexing="ij")[0], "where": lambda a: torch.where(a != 1)[1],
    "as_strided": lambda a: a[1:].reshape(-1).as_strided((1,), (1,)),
}
ASKED = {
    "offset": lambda v: v.storage_offset(),
    "strided": lambda v: v.as_strided((2,), (1,), 1) + 0,
    "offset in a branch": lambda v: v + 1 if v.storage_offset() > 4 else v * 2,
}
# What `call` mode leaves to eager: only ATen knows where these lie, whatever the dtype or of one.
EVERYWHERE = ("halves", "bytes", "unfold", "diagonal", "where", "as_strided")
REASONS = {"conj": "unsupported_tensor"}


def left(view, dtype, mode):
    if mode == "replay":
        return ()
    complex_views = ("real", "imag", "pairs") if dtype.is_complex else ()
    return (REASONS.get(view), "storage_access" if view in (*EVERYWHERE, *complex_views) else None)


def outcome(function, a):
    try:
        return function(a)
    except (RuntimeError, IndexError) as error:
        return type(error)


def same(x, y):
    if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
        return x.dtype == y.dtype and torch.equal(x, y)
    return x == y


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int64, torch.uint16], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_offsets_are_those_of_this_call(view, dtype, mode):
    with torch.no_grad():
        for asked in ASKED:
            def function(a):
                return ASKED[asked](VIEWS[view](a))

            for base in (0, 3):
                compiled = Counted(function, mode=mode)
                for n in compiled.twice((5, 3, 7, 4, 2, 6, 5)):
                    a = torch.arange(base + n * n).to(dtype)[base:].view(n, n)
                    wanted, found = outcome(function, a), outcome(compiled, a)
                    assert same(wanted, found), (asked, base, n, wanted, found)
                compiled.expect(*left(view, dtype, mode))


# A step over rows without elements is one element for ATen, and none by their sizes.
PARTS = {"tensor_split": lambda x: x.tensor_split(3), "chunk": lambda x: x.chunk(2), "unbind": lambda x: x.unbind(0), "slices": lambda x: [x[i:] for i in range(3)],
         "columns": lambda x: [x[:, i:] for i in range(3)], "narrow": lambda x: [x.narrow(0, x.shape[0] // 2, 0)], "transposed": lambda x: x.t().tensor_split(2, 1)}


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("parts", PARTS)
def test_offsets_of_parts_of_nothing(parts, mode):
    def function(x):
        return [part.storage_offset() for part in PARTS[parts](x)]

    with torch.no_grad():
        for first in ((3, 3), (2, 0), (0, 2)):
            compiled = Counted(function, mode=mode)
            for sizes in compiled.twice((first, (1, 1), (2, 0), (5, 0), (0, 2), (0, 0), (5, 2))):
                x = torch.ones(sizes)
                assert compiled(x) == function(x), (first, sizes)
            compiled.expect(*() if mode == "call" else ("call_layout eager_segments",))


EMPTY = {"tensor_split": lambda a: a.tensor_split(2)[-1], "rows": lambda a: a[1:], "columns": lambda a: a[:, 1:], "both": lambda a: a[1:, 1:], "narrow": lambda a: a.narrow(0, a.shape[0] - 1, 0)}
LAID = {"contiguous": lambda n, m: torch.arange(n * m).float().view(n, m), "transposed": lambda n, m: torch.arange(n * m).float().view(m, n).t(),
        "part": lambda n, m: torch.arange(4 * n * m).float().view(2 * n, 2 * m)[:n, :m]}


@pytest.mark.parametrize("laid", LAID)
@pytest.mark.parametrize("part", EMPTY)
def test_what_begins_where_a_part_without_elements_does(part, laid):
    """A step over one element is as long as its caller made it."""
    def program(a):
        return EMPTY[part](a).as_strided((2,), (1,)) + 0

    compiled = Counted(program, mode="call")
    for n, m in compiled.twice(((3, 2), (1, 3), (2, 1), (1, 1), (3, 3), (1, 4), (4, 1))):
        a = LAID[laid](n, m)
        with torch.no_grad():
            found, wanted = outcome(compiled, a), outcome(program, a)
        assert type(found) is type(wanted) and (torch.equal(found, wanted) if isinstance(found, torch.Tensor) else True), (n, m, found, wanted)
