"""Replay mode: what the host reads of a layout is eager's, also of axes of size 1 and of tensors without elements, whose strides address
nothing: while a tensor is pending, and of what a call has returned. And what is usual is served: one recording for all sizes."""

import pytest
import torch
import torch.nn.functional as F

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
    "sorted": lambda x: x.t() + 1,
    "sorted_with_another": lambda x: x.t() * x.t().exp() + x[:1].t(),
    "sorted_with_a_row": lambda x: x.t() - x.t()[:1],
    "sorted_against_the_other": lambda x: x.unsqueeze(2) + x.t().unsqueeze(0),
    "sorted_and_turned": lambda x: (x.t() + 1).t().unsqueeze(1).exp(),
    "sorted_and_reshaped": lambda x: (x.t() + 1).reshape(-1, 1),
    "sorted_and_expanded": lambda x: (x.t() + 1).expand(2, -1, -1) * 2,
    "joined_of_sorted": lambda x: torch.cat([x.t() + 1, -x.t()], 1).t(),
    "heads": lambda x: (x.unsqueeze(0).unsqueeze(2).transpose(1, 2).relu() + x.unsqueeze(0).unsqueeze(0)).mT,
    "channels_last": lambda x: x.unsqueeze(0).unsqueeze(0).to(memory_format=torch.channels_last) * 2 + 1,
    "padded": lambda x: F.pad(x, (1, 2)),
    "padded_transposed": lambda x: F.pad(x.t() + 1, (1, 0, 0, 2)),
    "padded_and_cut": lambda x: F.pad(x[1:] + x[:1], (1, 1, 1, 1))[1:, ::2],
    "padded_as_an_image": lambda x: F.pad((x + x[:1])[None, None], (1, 1, 1, 1))[0, 0],
    "padded_as_images": lambda x: F.pad((x.t() * 2)[:, None, :, None], (0, 0, 1, 1)),
    "padded_as_a_volume": lambda x: F.pad((x + 1)[None, None, None], (0, 1))[0, 0],
    "selected": lambda x: (x.t() + x[:1].t())[0] if x.shape[1] else x,
    "selected_last": lambda x: (x.t() * 2 + x[:1].t())[:, -1] if x.shape[0] else x,
    "squeezed": lambda x: (x.unsqueeze(1) + x[:1].unsqueeze(1)).squeeze(1),
    "squeezed_all": lambda x: (x.t().unsqueeze(0) + x[:1].t()).squeeze(),
    "cut_of_sorted": lambda x: (x.t() + x[:1].t())[1:, ::2],
    "cut_by_size": lambda x: (x.t() + x[:1].t())[x.shape[1] // 2:, :x.shape[0]],
    "unbound": lambda x: (x.t() + x[:1].t()).unbind(1)[-1],
    "iterated": lambda x: [row for row in x[:, :1] * 2][-1],
    "chunked": lambda x: (x.t() + x[:1].t()).chunk(2, 1)[-1],
    "split": lambda x: (x.t() + x[:1].t()).split([1, x.shape[0] - 1], 1)[1],
    "detached": lambda x: (x.t() + x[:1].t()).detach(),
    "joined_rows": lambda x: torch.cat([x[:1] + x, x[1:].t().contiguous().t()]),
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


@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_are_eagers(name):
    for layout in LAYOUTS:
        for ask_first, order in ((True, SIZES), (False, SIZES[::-1])):
            run = asked(PROGRAMS[name], ask_first)
            both(escapement.jit(run, mode="replay"), run, layout, order, inference=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_in_inference_mode(name):
    run = asked(PROGRAMS[name], ask_first=False)
    ours = escapement.jit(run, mode="replay")   # one for all layouts
    for layout in LAYOUTS:
        both(ours, run, layout, SIZES, inference=True)


# --- images

IMAGES = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "permuted": lambda x: x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2),
    "turned": lambda x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "stepped": lambda x: x.repeat_interleave(2, 3)[..., ::2],
}
IMAGE_SIZES = [(2, 3, 5, 7), (1, 3, 5, 7), (2, 1, 5, 7), (2, 3, 1, 1), (1, 1, 1, 1), (1, 3, 1, 2), (0, 3, 5, 7), (2, 3, 0, 7), (3, 5, 2, 2)]
WITH_IMAGES = {
    "same": lambda x: x.view_as(x) if x.is_contiguous() else x.reshape(x.shape),
    "relu": lambda x: x.relu(),
    "scaled": lambda x: x * 2 + x.mean((2, 3), keepdim=True),
    "pooled": lambda x: x.sum((2, 3), keepdim=True),
    "joined": lambda x: torch.cat([x, x + 1], 1),
    "padded": lambda x: F.pad(x + 1, (1, 1)),
    "padded_channels": lambda x: F.pad(x * 2, (0, 0, 0, 0, 1, 2)),
    "part": lambda x: (x * 2 + x[:1])[:, :1, ::2],
    "padded_part": lambda x: F.pad(x[:, :1], (0, 1, 0, 1))[..., 1:],
    "one": lambda x: (x + x[:, :1])[:, 0],
    "cloned": lambda x: x.clone(),
    "flattened": lambda x: x.flatten(1),
    "last": lambda x: x.permute(0, 2, 3, 1).exp(),
    "to": lambda x: x.contiguous(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("name", WITH_IMAGES)
def test_layouts_of_images(name):
    run = asked(WITH_IMAGES[name], ask_first=True)
    for layout in IMAGES:
        ours = escapement.jit(run, mode="replay")
        for sizes in IMAGE_SIZES:
            x = IMAGES[layout](torch.randn(sizes, generator=seeded(sizes)))
            with torch.no_grad():
                found, expected = ours(x), run(x)
            where = (layout, x.shape, x.stride())
            assert found[0] == expected[0], where
            assert told(found[1]) == told(expected[1]), where
            assert torch.allclose(found[1], expected[1], equal_nan=True), where


def test_an_overlap_that_only_strides_of_one_tell():
    """Eager refuses it: strides that address nothing are compared as well."""
    def run(x):
        y = x.view_as(x)
        kept = y.cummin(0).values
        x += y
        return kept

    ours = escapement.jit(run, mode="replay")
    for sizes in [(2, 3, 2, 2), (1, 3, 1, 2), (3, 3, 5, 2), (1, 3, 1, 2)]:
        a, b = (torch.ones(sizes).contiguous(memory_format=torch.channels_last) for _ in range(2))
        with torch.no_grad():
            try:
                run(a)
            except RuntimeError as error:
                with pytest.raises(RuntimeError, match=str(error)[:40]):
                    ours(b)
                continue
            ours(b)
        assert torch.equal(a, b)


# --- and what is usual is served

def attended(x):
    b, t, d = x.shape
    q = x.view(b, t, 4, d // 4).transpose(1, 2)
    turned = torch.cat([-q[..., 1:], q[..., :1]], -1)
    k = q * torch.cos(q) + turned * torch.sin(q)
    return torch.nn.functional.scaled_dot_product_attention(q, k, q).transpose(1, 2).reshape(b, t, d), k


SERVED = {
    "layers": lambda x: (torch.nn.functional.layer_norm(x, x.shape[-1:]) * 2 + x).softmax(-1).sum(-1, keepdim=True),
    "attended": attended,
    "products": lambda x: torch.nn.functional.gelu(x @ x.mT) + 1,
    "turned": lambda x: (x.mT + 1).exp(),
    "flat": lambda x: x.mul(2).flatten(1).relu(),
    "padded": lambda x: F.pad((x * 2)[None], (1, 1, 1, 1))[0][:, 1:, ::2],
    "picked": lambda x: (x[:, :1] + x)[0] * 2,
}


@pytest.mark.parametrize("name", SERVED)
def test_sizes_of_one_are_served_by_what_was_recorded(name):
    ours = escapement.jit(SERVED[name], mode="replay")
    with torch.no_grad():
        for batch in (2, 3, 5):
            ours(torch.randn(batch, batch + 4, 8))
        before = escapement.stats()
        for sizes in [(1, 5, 8), (1, 7, 8), (1, 2, 8), (1, 11, 8), (3, 5, 8), (1, 13, 8)]:
            x = torch.randn(sizes)
            found, expected = ours(x), SERVED[name](x)
            for a, b in zip(found, expected) if isinstance(found, tuple) else [(found, expected)]:
                assert a.stride() == b.stride()
                assert torch.allclose(a, b, atol=1e-5)
        after = escapement.stats()
    for counter in ("recordings", "eager_segments"):
        assert after.get(counter, 0) == before.get(counter, 0), ours.text()
    assert after["hits"] > before["hits"]


@pytest.mark.parametrize("turned", [lambda q: q, lambda q: q + 1, lambda q: q.contiguous()], ids=["view", "sorted", "contiguous"])
def test_attention_lays_out_as_eager(turned):
    def run(q, k):
        return torch.nn.functional.scaled_dot_product_attention(turned(q.transpose(1, 2)), k.transpose(1, 2), k.transpose(1, 2))

    for heads, length, depth, keys in [(1, 5, 3, 5), (4, 1, 3, 1), (1, 1, 3, 4), (4, 5, 1, 5), (1, 1, 1, 1), (2, 3, 4, 7)]:
        ours = escapement.jit(run, mode="replay")
        for batch in (2, 3, 1, 1, 5):
            q, k = torch.randn(batch, length, heads, depth), torch.randn(batch, keys, heads, depth)
            with torch.no_grad():
                assert told(ours(q, k)) == told(run(q, k)), (heads, length, depth, keys, batch)
