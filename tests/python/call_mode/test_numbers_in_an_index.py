"""Sizes and integers that were read, in an index: `x[n // 2]`, `x[:, t]`, `x[scores.argmax()] = y`. One recording for all of them; eager's element, view, strides and
error. (Python's brackets read an integer before any operator is called: each value was a recording, then replay mode.)"""
import pytest
import torch

import escapement

TABLE = torch.arange(40.0).reshape(20, 2)


def written(x, index, value):
    copy = x.clone()
    copy[index] = value
    return copy


def added(x, v):
    copy = x.clone()
    copy[copy.shape[0] - 1] += 1
    copy[v.argmax()] *= 2
    return copy


READ = {
    "a size": lambda x, v: x[x.shape[0] // 2], "of the last axis": lambda x, v: x[:, x.shape[1] - 1], "from behind": lambda x, v: x[-(x.shape[0] // 2) - 1],
    "new axes": lambda x, v: x[None, x.shape[0] - 1, None], "an ellipsis": lambda x, v: x[..., x.shape[1] // 2], "a slice": lambda x, v: x[x.shape[0] // 2:, x.shape[1] - 1],
    "a step": lambda x, v: x[::x.shape[1], x.shape[1] - 2], "several": lambda x, v: x.reshape(-1, 2, 1)[x.shape[0] // 2, x.shape[1] - 1, 0],
    "a list beside it": lambda x, v: x[x.shape[0] // 2, torch.tensor([0, 1])], "a tensor": lambda x, v: x[v.argmax()], "a number read": lambda x, v: x[v.argmax().item()],
    "two tensors": lambda x, v: x[v.argmax(), v.argmin() % 2], "a number beside a tensor": lambda x, v: x[v.argmax(), 1], "a table of the program's": lambda x, v: TABLE[v.argmax()],
    "all axes": lambda x, v: v[v.argmax()] + v[v.shape[0] - 1], "a mask behind it": lambda x, v: x[x.shape[0] // 2][x[0] > -9],
}
WRITTEN = {
    "a size": lambda x, v: written(x, x.shape[0] // 2, 7.0), "a column": lambda x, v: written(x, (slice(None), v.argmax() % 2), v), "a tensor": lambda x, v: written(x, v.argmax(), x[0]),
    "one element": lambda x, v: written(x, (v.argmax(), x.shape[1] - 1), v.sum()), "in place": added, "with leading ones": lambda x, v: written(x, v.argmax(), x[:1]),
}


def made(call):
    rows = (5, 7, 1, 13, 2, 6)[call % 6]
    v = torch.zeros(rows)
    v[call * 3 % rows] = 1
    return torch.arange(2.0 * rows).reshape(rows, 2) - 3, v


@pytest.mark.parametrize("program", [*(READ[name] for name in READ), *(WRITTEN[name] for name in WRITTEN)], ids=[*READ, *(f"written: {name}" for name in WRITTEN)])
def test_one_recording(program):
    compiled = escapement.jit(program)
    with torch.no_grad():
        for call in range(12):
            x, v = made(call)
            got, wanted = compiled(x, v), program(x, v)
            assert torch.equal(got, wanted) and got.stride() == wanted.stride() and got._is_view() == wanted._is_view()
            assert (got._base is x) == (wanted._base is x)
    info = compiled.info()
    assert info["recordings"] == 1 and not info["eager"] and sum(version["hits"] for region in info["regions"] for version in region["versions"]) == 11
    assert "__getitem__" not in vars(torch.Tensor) and "__setitem__" not in vars(torch.Tensor)


@pytest.mark.parametrize("program", [lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[i.item()], lambda x, i: written(x, i, 1.0)])
def test_what_lies_outside_is_eagers_error(program):
    compiled = escapement.jit(program)
    with torch.no_grad():
        for position in (1, 0, -1, 2, -2, 5, -3, 1):
            x, i = torch.arange(4.0).reshape(2, 2), torch.tensor(position)
            try:
                wanted = program(x, i)
            except IndexError as error:
                with pytest.raises(IndexError) as raised:
                    compiled(x, i)
                assert str(raised.value) == str(error)
                continue
            assert torch.equal(compiled(x, i), wanted)
