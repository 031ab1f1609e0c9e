"""Every module of torch.nn, with the samples that PyTorch keeps of it, as eager: in call and replay mode, in training and evaluation, at the
sample's batch, twice of it, one and none. Results, strides, buffers and the random generator are compared.

A few samples of each in a run of the tests; `python test_torch_modules.py [NAME ...]` takes them all.
"""

import copy
import os
import re
import sys
import warnings

import pytest
import torch
from torch.utils import _pytree as pytree

from answered import Counted

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "fuzz"))
import torch_testing   # noqa: E402

torch_testing.ready()
from torch.testing._internal.common_modules import module_db   # noqa: E402

SAMPLES = 4
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-9}
# Of no batch at all eager returns what lay in its memory.
READS_NOTHING = {"nn.MultiMarginLoss", "nn.MultiLabelMarginLoss"}
# Parameters that are made by the first call cannot be copied before it.
MODULES = {info.name: info for info in module_db if "Lazy" not in info.name}
# What compiled code may leave to eager. Recurrent modules read sizes as numbers in C++; of the operators of the others some run at once in replay
# mode, where their results are ATen's to lay out, as is what has no elements.
RECURRENT = {"nn.GRU", "nn.LSTM", "nn.RNN"}
AT_ONCE = re.compile(r"Pool|Loss|Conv|InstanceNorm|Bilinear|CELU|shrink")


def left(name, mode):
    if mode == "call":
        return ("data_dependent_guard",) if name in RECURRENT else ()
    return ("call_layout eager_segments", "nothing", *("ran_at_once", "call_layout eager_segments ran_at_once") * bool(AT_ONCE.search(name)))


def cloned(value):
    return pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, value)


def batches(given):
    """The sample, and where all its tensors have one first axis, the same of other lengths."""
    tensors = [x for x in pytree.tree_leaves(given) if isinstance(x, torch.Tensor)]
    yield given
    if tensors and all(x.dim() for x in tensors) and len({x.shape[0] for x in tensors}) == 1:
        for change in (lambda x: torch.cat([x, x]), lambda x: x[:1], lambda x: x[:0]):
            yield pytree.tree_map(lambda x: change(x) if isinstance(x, torch.Tensor) else x, given)


def called(function, module, given):
    torch.manual_seed(7)
    args, kwargs = cloned(given)
    try:
        result = function(*args, **kwargs)
    except Exception as error:
        result = type(error)
    return result, torch.get_rng_state(), cloned(dict(module.state_dict()))


def assert_same(ours, eager):
    (a, form), (b, expected) = pytree.tree_flatten(ours), pytree.tree_flatten(eager)
    assert form == expected
    for mine, theirs in zip(a, b):
        if not isinstance(theirs, torch.Tensor):
            assert mine == theirs
            continue
        rough = TOLERANCE.get(theirs.dtype, 0)
        torch.testing.assert_close(mine, theirs, rtol=rough, atol=rough, equal_nan=True)
        assert not theirs.numel() or all(n == 1 or m == s for n, m, s in zip(theirs.shape, mine.stride(), theirs.stride()))


def samples(info, training):
    found = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=training)
    return [sample for sample in found if sample.forward_input is not None]


def check(name, most):
    info = MODULES[name]
    every = [(training, sample) for training in (False, True) for sample in samples(info, training)]
    for training, sample in every[::max(1, len(every) // most)]:
        made = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).train(training)
        calls = list(batches((sample.forward_input.args, sample.forward_input.kwargs)))
        calls = calls[:3] if name in READS_NOTHING else calls
        for mode in ("call", "replay"):
            module, ours = copy.deepcopy(made), copy.deepcopy(made)
            fast = Counted(ours, mode=mode)
            for given in fast.twice(calls):
                assert_same(called(fast, ours, given), called(module, module, given))
            fast.expect(*left(name, mode))


@pytest.fixture(autouse=True)
def quietly():
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", sorted(MODULES))
def test_samples(name):
    check(name, SAMPLES)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for one in sys.argv[1:] or sorted(MODULES):
        with torch.no_grad():
            check(one, sys.maxsize)
        print(one, "as eager", flush=True)
