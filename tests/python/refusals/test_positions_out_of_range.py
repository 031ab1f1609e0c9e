"""Positions out of range behind a write, where the call cannot begin anew: what compiled code raises is of eager's kind, on every axis."""

import pytest
import torch
import torch.nn.functional as F

import escapement

LOOKUPS = {
    "index_select 0": lambda x, i: x.index_select(0, i),
    "index_select 1": lambda x, i: x.index_select(1, i),
    "index_select 2": lambda x, i: x.index_select(2, i),
    "index_select -1": lambda x, i: x.index_select(-1, i),
    "index_select of a view": lambda x, i: x.transpose(0, 1).index_select(1, i),
    "index_select of a result": lambda x, i: (x * 2).index_select(1, i) + 1,
    "index_select of a vector": lambda x, i: x[0, 0].index_select(0, i),
    "x[i]": lambda x, i: x[i],
    "x[:, i]": lambda x, i: x[:, i],
    "x[..., i]": lambda x, i: x[..., i],
    "x[:, i] of a result": lambda x, i: (x + 1)[:, i].exp(),
    "x[i, i]": lambda x, i: x[i, i],
    "gather 0": lambda x, i: x[0].gather(0, i[:, None]),
    "gather 1": lambda x, i: x[0].gather(1, i[None]),
    "take": lambda x, i: x.take(i + 1000),
    "embedding": lambda x, i: F.embedding(i, x[0]),
    "take_along_dim": lambda x, i: torch.take_along_dim(x[0], i[None], 1),
    "scatter": lambda x, i: x[0].scatter(1, i[None], 1.0),
    "index_add": lambda x, i: x.index_add(1, i, x[:, :1]),
    "index_fill": lambda x, i: x.index_fill(1, i, 3),
    "index_copy": lambda x, i: x.index_copy(1, i, x[:, :1]),
}


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except (RuntimeError, IndexError) as error:
        return type(error)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_the_error_is_of_eagers_kind(lookup, mode):
    def program(x, i):
        x.add_(1)
        return LOOKUPS[lookup](x, i)

    compiled = escapement.jit(program, mode=mode)
    for rows, columns in ((2, 3), (4, 5), (3, 3)):
        for positions in ([0], [1], [9], [0], [-9], [1]):
            i = torch.tensor(positions)
            mine, theirs = torch.ones(rows, columns, 4), torch.ones(rows, columns, 4)
            got, want = outcome(compiled, mine, i), outcome(program, theirs, i)
            assert torch.equal(got, want) if isinstance(want, torch.Tensor) else got is want
            assert torch.equal(mine, theirs)
