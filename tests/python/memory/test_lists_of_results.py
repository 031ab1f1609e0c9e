"""Operators whose number of results depends on sizes, views or not, with a rule of ours or without: how many there are, what is in them and what they
share is this call's."""

import pytest
import torch

import escapement


@torch.library.custom_op("escapement_tests::rows", mutates_args=())
def rows(x: torch.Tensor) -> list[torch.Tensor]:
    return [row.clone() for row in x]


@torch.library.custom_op("escapement_tests::rows_and_sum", mutates_args=())
def rows_and_sum(x: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
    return [row.clone() for row in x], x.sum()


LISTS = {
    "split": lambda x: x.split(2), "unsafe_split": lambda x: torch.unsafe_split(x, 2), "unsafe_split columns": lambda x: x.unsafe_split(3, -1), "split_copy": lambda x: torch.split_copy(x, 2),
    "unsafe_chunk": lambda x: x.unsafe_chunk(3), "unsafe_split_with_sizes": lambda x: torch.unsafe_split_with_sizes(x, [1, x.shape[0] - 1]), "split_copy columns": lambda x: torch.split_copy(x, 3, dim=1),
    "split_with_sizes_copy": lambda x: torch.split_with_sizes_copy(x, [x.shape[0], 0]), "unbind": lambda x: x.unbind(), "unbind_copy": torch.unbind_copy, "unbind_copy columns": lambda x: torch.unbind_copy(x, -1),
    "a list of its own": torch.ops.escapement_tests.rows, "a list and another": lambda x: torch.ops.escapement_tests.rows_and_sum(x)[0], "tensor_split": lambda x: x.tensor_split(3),
    "chunk": lambda x: x.chunk(3, 1), "where": lambda x: torch.where(x > 2), "gradient": lambda x: torch.gradient(x), "histogramdd": lambda x: torch.histogramdd(x, [2] * x.shape[1])[1],
}
USES = {
    "all": lambda found, x: list(found), "last": lambda found, x: found[-1] * 2, "how many": lambda found, x: (len(found), x + 1), "summed": lambda found, x: sum(t.sum() for t in found),
    "written": lambda found, x: [t.mul_(2) for t in found], "source written": lambda found, x: (x.add_(1), found),
}
SIZES = (3, 4), (5, 2), (2, 2), (1, 1), (0, 2), (2, 0), (7, 3), (3, 4)


def outcome(function, sizes):
    x = torch.arange(1.0 * sizes[0] * sizes[1]).reshape(sizes)
    try:
        found = function(x)
    except (RuntimeError, IndexError) as error:
        return type(error), x.tolist()
    return seen(found, x), x.tolist()


def seen(found, x):
    if isinstance(found, torch.Tensor):
        strides = [stride for size, stride in zip(found.shape, found.stride()) if size > 1 and found.numel()]
        return found.dtype, found.shape, strides, found.tolist(), bool(found.numel()) and found.untyped_storage()._cdata == x.untyped_storage()._cdata
    return [type(found), *(seen(part, x) for part in found)] if isinstance(found, (tuple, list)) else found


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", LISTS)
def test_lists_are_this_calls(name, mode):
    for use in USES:
        def function(x):
            return USES[use](LISTS[name](x), x)

        for first in (0, 4) if mode == "call" else (0,):
            with torch.no_grad():
                compiled = escapement.jit(function, mode=mode)
                for sizes in (*SIZES[first:], *SIZES[:first]):
                    assert outcome(compiled, sizes) == outcome(function, sizes), (use, SIZES[first], sizes)
            assert "internal_error" not in str(compiled.info())


@pytest.mark.parametrize("name, sizes", [("unsafe_split", [(3, 4), (4, 1), (3, 7), (4, 5)]), ("unsafe_chunk", [(6, 4), (5, 1), (9, 7)]), ("split_copy", [(3, 4), (4, 1), (3, 7)])])
def test_pieces_are_compiled(name, sizes):
    """As many pieces, one recording."""
    with torch.no_grad():
        compiled = escapement.jit(lambda x: [t * 2 for t in LISTS[name](x + 1)])
        for shape in sizes:
            assert outcome(compiled, shape) == outcome(lambda x: [t * 2 for t in LISTS[name](x + 1)], shape)
        assert compiled.info()["recordings"] == 1 and not compiled.info()["eager"], compiled.info()


def test_behind_a_write_of_the_callers_memory():
    """There is no way back: how many there will be is asked before."""
    def function(x):
        x.add_(1)
        return torch.unbind_copy(x), torch.split_copy(x, 2), torch.unsafe_split(x, 2), torch.ops.escapement_tests.rows(x)

    with torch.no_grad():
        compiled = escapement.jit(function)
        for sizes in SIZES:
            assert outcome(compiled, sizes) == outcome(function, sizes), sizes
