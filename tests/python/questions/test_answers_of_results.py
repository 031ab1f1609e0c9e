"""What the host asks of results, whoever made them: kernels of ours, library calls with and without a rule for their sizes, views of them,
factories whose sizes are those of arguments. Every maker is asked every question, recorded at one size and called at others, 0 and 1 among them,
and once more when all is recorded."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from answered import Counted

LAST = torch.channels_last

MAKERS = {
    "kernel": lambda x: x + 1, "transposed": lambda x: x.t(), "rows": lambda x: x[1:], "steps": lambda x: x[:, ::2], "expanded": lambda x: x[:1].expand(3, -1),
    "matmul": lambda x: x @ x, "sum": lambda x: x.sum(0), "fmod": lambda x: torch.fmod(x, 2.5), "nonzero": lambda x: x.nonzero(), "sort": lambda x: x.sort(0),
    "where": lambda x: torch.where(x > 0), "unique": lambda x: x.unique(return_inverse=True, return_counts=True), "cumsum": lambda x: x.t().cumsum(0),
    "svd": lambda x: torch.linalg.svd(x, full_matrices=False), "inv": lambda x: torch.linalg.inv(x + 10 * torch.eye(x.shape[0])), "qr": torch.linalg.qr,
    "conv": lambda x: F.conv2d(x[None, None], torch.ones(2, 1, 1, 1)), "pool": lambda x: F.max_pool2d(x[None, None], 1, return_indices=True),
    "conv in another format": lambda x: F.conv2d(x[None, None].expand(1, 2, -1, -1).contiguous(memory_format=LAST), torch.ones(2, 2, 1, 1)),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2), "pad": lambda x: F.pad(x, (1, x.shape[0])), "unfold": lambda x: F.unfold(x[None, None], 1),
    "fft": torch.fft.fft, "rfft": lambda x: torch.fft.rfft(x, dim=0), "conj": lambda x: torch.complex(x, x).conj(), "adjoint": lambda x: torch.complex(x, x).mH,
    "neg view": torch._neg_view, "real": lambda x: torch.view_as_real(torch.complex(x, x)), "cdist": lambda x: torch.cdist(x, x),
    "bincount": lambda x: torch.bincount(x.abs().long().flatten()), "max": lambda x: x.max(0), "median": lambda x: x.median(0), "cov": lambda x: x.cov(),
    "split": lambda x: x.split(2), "unbind": lambda x: x.unbind(0), "meshgrid": lambda x: torch.meshgrid(x[0], x[:, 0], indexing="ij"),
    "gather": lambda x: x.gather(1, x.argsort(1)), "mask": lambda x: x[x > 0], "bits": lambda x: x.view(torch.int16), "itself": lambda x: x,
    "contiguous": lambda x: x.t().contiguous(), "clone": lambda x: x.t().clone(), "in channels last": lambda x: x[None, None].contiguous(memory_format=LAST),
    "cloned in channels last": lambda x: x.reshape(1, *x.shape, 1).clone(memory_format=LAST), "to channels last": lambda x: x.reshape(1, *x.shape, 1).to(memory_format=LAST),
    "zeros_like": lambda x: torch.zeros_like(x.t()), "zeros_like in channels last": lambda x: torch.zeros_like(x[None, None], memory_format=LAST),
    "full_like in channels last": lambda x: torch.full_like(x.reshape(1, *x.shape, 1), 2., memory_format=LAST),
    "new_empty_strided": lambda x: x.new_empty_strided((x.shape[0], 2), (1, x.shape[0])).zero_(),
    "empty_strided": lambda x: torch.empty_strided((2, x.shape[1]), (x.shape[1], 1)).zero_(), "full": lambda x: torch.full((x.shape[0],), x.shape[1]),
    "arange": lambda x: torch.arange(x.shape[0], 0, -1), "linspace": lambda x: torch.linspace(0, x.shape[0], 3), "logspace": lambda x: torch.logspace(0, 1, x.shape[0]),
    "tril_indices": lambda x: torch.tril_indices(x.shape[0], x.shape[1]), "eye": lambda x: torch.eye(x.shape[0], 3), "one_hot": lambda x: F.one_hot(torch.arange(x.shape[0])),
    "combinations": lambda x: torch.combinations(x.flatten()), "cartesian_prod": lambda x: torch.cartesian_prod(x[0], x[:, 0]), "vander": lambda x: torch.vander(x[0]),
    "added in place": lambda x: x.add_(1), "out": lambda x: torch.add(x, 1, out=torch.empty(x.shape[1], x.shape[0]).t()), "half": lambda x: x.half(),
    "complex": lambda x: x.to(torch.complex64).t(), "unsigned": lambda x: x.abs().to(torch.uint16), "einsum": lambda x: torch.einsum("ij,kj->ki", x, x),
}


def each(question):
    return lambda made, x: [question(t, x) for t in leaves(made)]


QUESTIONS = {
    "strides": each(lambda t, x: t.stride()), "last stride": each(lambda t, x: t.stride(-1) if t.dim() else 0), "contiguous": each(lambda t, x: t.is_contiguous()),
    "channels last": each(lambda t, x: t.dim() == 4 and t.is_contiguous(memory_format=LAST)), "kind": each(lambda t, x: (t.is_conj(), t.is_neg(), t.layout, t.dtype, t.type())),
    "storage": each(lambda t, x: (t.untyped_storage().nbytes(), t.nbytes, t.element_size())), "shared": each(lambda t, x: t.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()),
    "order": each(lambda t, x: t.dim_order()), "counts": each(lambda t, x: (t.numel(), t.ndim, t.shape.numel(), len(t) if t.dim() else 0, 1 in t.shape)),
    "same size": each(lambda t, x: (t.is_same_size(x), t.shape == x.shape)), "offset": each(lambda t, x: t.storage_offset()),
    "promoted": each(lambda t, x: (torch.result_type(t, x), torch.can_cast(t.dtype, x.dtype))), "type": lambda made, x: (type(made).__name__, getattr(made, "_fields", None)),
    "like it": each(lambda t, x: torch.empty_like(t).stride()), "cloned": each(lambda t, x: t.clone().stride()), "viewed": each(lambda t, x: t.view(-1)),
    "branch": each(lambda t, x: t * 2 if t.dim() and t.stride(0) > 2 else t), "squeezed": each(lambda t, x: t.squeeze().dim()), "itself": lambda made, x: made,
}
ORDERS = ((4, 1, 0, 5), (1, 3, 0))
# --- what compiled code may leave to eager

EVER = {"conj": "unsupported_tensor", "adjoint": "unsupported_tensor", "neg view": "unsupported_tensor",   # bits that no value of a trace has
        "inv": "data_dependent_guard"}   # it checks for errors, an effect; behind it how its result lies can no longer be asked and the call begin anew
LIBRARY_VIEWS = ("where", "real", "bits", "in channels last", "to channels last", "new_empty_strided", "empty_strided")   # where they lie, only ATen knows
# In replay mode: operators whose results only ATen can lay out or count, and a function that calls none.
AT_ONCE = ("fmod", "nonzero", "sort", "unique", "svd", "qr", "fft", "rfft", "real", "cdist", "median", "cov", "linspace", "logspace", "tril_indices", "einsum", "conj", "adjoint",
           "neg view", "eye", "cumsum", "inv", "in channels last", "out")


def left(mode, maker, question):
    """The reasons for which a call that came before may run eagerly; `recorded`: it is recorded when it comes the second time."""
    memory = question in ("storage", "shared")   # the host looks at the memory itself
    if mode == "call":
        found = {EVER.get(maker), "storage_access" if memory or question == "offset" and maker in LIBRARY_VIEWS else None}
        if memory:   # of what the function computed: it goes on in replay mode
            found |= {" ".join(sorted({*why.split(), "result_read"})) for why in left("replay", maker, question) - {"recorded", "nothing"}}
            found |= {"result_read", "ran_at_once result_read"}
        # Memory that is shared at some sizes only: the first recording that shows it is refused.
        return found | {"recorded"} if (maker, question) in {("steps", "like it"), ("contiguous", "viewed"), ("contiguous", "branch"), ("contiguous", "itself")} else found
    found = {"call_layout eager_segments", "call_layout eager_segments ran_at_once"}   # how tensors without elements lie is ATen's
    if maker in AT_ONCE or question == "like it":   # what is never written is made at once
        found.add("ran_at_once")
    if maker == "full" or memory:   # a number is part of the operator, and what the host holds of its launch
        found.add("recorded")
    return found | {"nothing"} if maker == "itself" else found




def leaves(made):
    return [made] if isinstance(made, torch.Tensor) else [t for part in made for t in leaves(part)]


def outcome(function, n):
    torch.manual_seed(n)
    x = torch.randn(n, n) * 3
    try:
        return function(x)
    except Exception as error:
        return type(error).__name__


def strides(t):
    return [stride for stride, size in zip(t.stride(), t.shape) if size > 1] if t.numel() else []


def same(a, b):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        wide = [t.resolve_conj().resolve_neg().to(torch.complex128) for t in (a, b)]
        return (a.dtype, a.shape, strides(a), a.is_conj()) == (b.dtype, b.shape, strides(b), b.is_conj()) and torch.allclose(*wide, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def check(function, mode, reasons, orders=ORDERS):
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for order in orders:
            compiled = Counted(function, mode=mode)
            for n in compiled.twice(order):
                wanted, found = outcome(function, n), outcome(compiled, n)
                assert same(wanted, found), (order, n, wanted, found)
            assert not any("internal_error" in region.get("fallbacks", {}) for region in compiled.info().get("regions", [])), order
            compiled.expect(*reasons)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("maker", MAKERS)
def test_answers_are_those_of_this_call(maker, mode):
    for question, ask in QUESTIONS.items():
        check(lambda x: ask(MAKERS[maker](x), x), mode, left(mode, maker, question))


@pytest.mark.parametrize("maker", MAKERS)
def test_whether_a_reshaped_result_is_a_view(maker):
    # The answer is a guard, and a recording that could not make it one is refused.
    reasons = {EVER.get(maker), "recorded", "recorder_refused"}
    check(lambda x: [t.reshape(-1)._is_view() for t in leaves(MAKERS[maker](x))], "call", reasons)
