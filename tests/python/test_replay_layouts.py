"""Replay mode: what the host reads of a layout is eager's, also of axes of size 1 and of tensors without elements, whose strides address
nothing: while a tensor is pending, and of what a call has returned. And what is usual is served: one recording for all sizes."""

import pytest
import torch

import escapement
from harness import seeded

SIZES = [(2, 3), (3, 5), (1, 5), (5, 1), (1, 1), (0, 3), (3, 0), (0, 0), (7, 2), (1, 0), (0, 1), (5, 3)]


def values(count):
    return torch.randn(count, generator=seeded(count))


LAYOUTS = {
    "contiguous": lambda n, m: values(n * m).view(n, m),
    "stepped": lambda n, m: values(n * m * 6).view(2 * n, 3 * m)[::2, ::3],
    "stepped_columns": lambda n, m: values(n * m * 2).view(n, 2 * m)[:, ::2],
    "transposed": lambda n, m: values(n * m).view(m, n).t(),
    "offset": lambda n, m: values((n + 2) * (m + 1)).view(n + 2, m + 1)[2:, 1:],
    "expanded": lambda n, m: values(m).expand(n, m),
    "expanded_columns": lambda n, m: values(n).view(n, 1).expand(n, m),
}

PROGRAMS = {
    "slice": lambda x: x[1:],
    "slice_columns": lambda x: x[:, 1:],
    "step": lambda x: x[::2],
    "transpose": lambda x: x.t(),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "unsqueeze_inside": lambda x: x.unsqueeze(1),
    "unsqueeze_last": lambda x: x.unsqueeze(-1),
    "squeeze": lambda x: x.squeeze(0),
    "flat": lambda x: x.reshape(-1),
    "flat_of_transposed": lambda x: x.mT.reshape(-1),
    "flatten": lambda x: x.flatten(),
    "same_sizes": lambda x: x.reshape(x.shape),
    "cut_up": lambda x: x.reshape(1, x.shape[0], x.shape[1], 1),
    "alias": lambda x: torch.ops.aten.alias(x),
    "expand": lambda x: x.unsqueeze(0).expand(2, -1, -1),
    "expand_to_one": lambda x: x.expand(1, x.shape[0], x.shape[1]),
    "permute": lambda x: x.unsqueeze(0).permute(2, 0, 1),
    "diagonal": lambda x: x.diagonal(),
    "unary": lambda x: x.relu(),
    "unary_of_transposed": lambda x: x.t().exp(),
    "number": lambda x: x * 2 + 1,
    "broadcast": lambda x: x + x[:1],
    "broadcast_number": lambda x: x.t() * torch.tensor(2.0),
    "sum": lambda x: x.sum(0),
    "sum_kept": lambda x: x.sum(1, keepdim=True),
    "sum_of_transposed": lambda x: x.t().sum(0, keepdim=True),
    "softmax": lambda x: x.t().softmax(-1),
    "product": lambda x: x @ x.t(),
    "product_of_three": lambda x: x.unsqueeze(0) @ x.t(),
    "matrix_times_matrices": lambda x: x @ x.t().unsqueeze(0),
    "clone": lambda x: x.clone(),
    "clone_of_transposed": lambda x: x.t().clone(),
    "contiguous": lambda x: x.t().contiguous(),
    "cast": lambda x: x.t().double(),
    "zeros": lambda x: torch.zeros_like(x.t()),
    "cat": lambda x: torch.cat([x, x]),
    "cat_of_transposed": lambda x: torch.cat([x.t(), x.t()], 1),
    "stack": lambda x: torch.stack([x, x], 1),
    "where": lambda x: torch.where(x.t() > 0, x.t(), 0.0),
    "index": lambda x: x[:, torch.arange(x.shape[1])],
    "chained": lambda x: (x.t().exp() + 1).unsqueeze(0).mT.reshape(x.shape),
}


def told(y):
    """All that may be asked of a layout, each question on its own."""
    answers = [y.stride(), [y.stride(d) for d in range(y.dim())], y.storage_offset(), y.is_contiguous(), list(y.dim_order()), y.shape,
               y.is_inference()]
    if y.dim() == 4:
        answers.append(y.is_contiguous(memory_format=torch.channels_last))
    return answers


def asked(program, ask_first):
    """The host asks of the pending tensor, or of the ordinary one that it has become."""
    def run(x):
        y = program(x)
        if not ask_first:
            torch.rand(1)
            x.sum().item()
        return told(y), y
    return run


def both(ours, theirs, layout, sizes, inference):
    mode = torch.inference_mode if inference else torch.no_grad
    for n, m in sizes:
        try:
            x = LAYOUTS[layout](n, m)
        except RuntimeError:
            continue
        with mode():
            try:
                expected = theirs(x)
            except (RuntimeError, IndexError) as error:
                with pytest.raises(type(error)):
                    ours(x)
                continue
            found = ours(x)
        where = (layout, n, m, x.stride())
        assert found[0] == expected[0], where
        assert told(found[1]) == told(expected[1]), where
        assert found[1].is_set_to(x) == expected[1].is_set_to(x), where
        shared = [y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() for y in (found[1], expected[1])]
        assert shared[0] == shared[1] or not x.numel(), where
        assert torch.allclose(found[1], expected[1], equal_nan=True), where


@pytest.mark.parametrize("ask_first", [True, False], ids=["pending", "returned"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_are_eagers(name, ask_first):
    run = asked(PROGRAMS[name], ask_first)
    for layout in LAYOUTS:
        for order in (SIZES, SIZES[::-1]):
            both(escapement.jit(run, mode="replay"), run, layout, order, inference=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_in_inference_mode(name):
    run = asked(PROGRAMS[name], ask_first=False)
    ours = escapement.jit(run, mode="replay")   # one for all layouts
    for layout in LAYOUTS:
        both(ours, run, layout, SIZES, inference=True)
