"""Programs with exits, each of which is taken by force: what one process does. See __main__.py."""

import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "call_mode"))

import torch

import escapement
from test_trace_tree import PROGRAMS, inputs, same

EVERY = (1, 1, 1, 2, 3, 5)
CALLS = 60   # of one function, until it is made anew


def tensors(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def shared(values):
    """For each tensor the first that has the same memory, and where in it."""
    storages = [tensor.untyped_storage()._cdata for tensor in tensors(values)]
    return [(storages.index(storage), tensor.storage_offset()) for storage, tensor in zip(storages, tensors(values))]


def as_addressed(value):
    """Strides of axes of size 1 address nothing and are not promised (docs/jit.md)."""
    def plain(x):
        return x.as_strided(x.shape, [stride if size != 1 else 0 for size, stride in zip(x.shape, x.stride())]) if isinstance(x, torch.Tensor) else x

    return torch.utils._pytree.tree_map(plain, value)


def run(function, seed, rows):
    """Everything that a call leaves."""
    x = inputs(seed, rows)
    torch.manual_seed(seed)
    try:
        result = function(x)
    except Exception as error:
        result = type(error).__name__
    return result, x, torch.get_rng_state()


def compare(program, jitted, seed, rows):
    expected, found = run(program, seed, rows), run(jitted, seed, rows)
    same(as_addressed(found[:2]), as_addressed(expected[:2]))
    assert shared(found[:2]) == shared(expected[:2]), "memory is shared otherwise"
    assert torch.equal(found[2], expected[2]), "the generator differs"


def taken():
    return escapement.stats().get("exits", 0)


def stress(seed, seconds):
    """Exits taken, calls made, what differed."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    calls, before, numbers, end = 0, taken(), random.Random(seed), time.monotonic() + seconds
    while time.monotonic() < end:
        program, every = numbers.choice(PROGRAMS), numbers.choice(EVERY)
        jitted = escapement.jit(program, force_exits=every)
        for _ in range(CALLS):
            seed, rows = numbers.randrange(1 << 30), numbers.choice((1, 2, 3, 4, 5, 8, 17))
            try:
                compare(program, jitted, seed, rows)
            except AssertionError as error:
                return taken() - before, calls, f"{program.__name__}, force_exits={every}, seed {seed}, {rows} rows:\n{error}"
            calls += 1
    return taken() - before, calls, None
