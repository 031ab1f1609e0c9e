"""An exception that was handled keeps nothing: neither the arguments nor what the program's frames held, without the garbage collector, as eagerly.
A mode of torch's whose `__exit__` was interrupted ends with its object, so that it must not outlive the handler either."""
import gc
import subprocess
import sys
import weakref

import pytest
import torch

import escapement


class Stop(BaseException):
    pass


class Held:
    """What a frame holds."""


class LeftOn:
    """A mode that an interrupt comes to at the very beginning of `__exit__`."""

    def __enter__(self):
        self.mode = torch._C._InferenceMode(True)
        self.mode.__enter__()

    def __exit__(self, *_):
        raise Stop


HELD = []


def hold():
    held = Held()
    HELD.append(weakref.ref(held))
    return held


def raises(x):
    held = hold()
    y = x * 2
    raise ValueError("no", y.shape)


def stops(x):
    held = hold()
    y = x * 2
    raise Stop


def raises_at_a_size(x):
    held = hold()
    y = x + 1
    if x.shape[0] > 3:
        raise ValueError("large")
    return y


def raises_at_a_value(x):
    held = hold()
    y = x + 1
    if y.sum() > 0:
        raise ValueError("large")
    return y


def out_of_range(x):
    held = hold()
    return x[torch.tensor([100])]


def sizes_differ(x):
    held = hold()
    return x.view(-1) + torch.ones(x.numel() + 2)


def behind_a_write(x):
    held = hold()
    x.add_(1)
    raise ValueError("no")


def operator_behind_a_write(x):
    held = hold()
    x.add_(1)
    return x[torch.tensor([100])]


def from_another(x):
    held = hold()
    try:
        raise ValueError("a")
    except ValueError as first:
        raise RuntimeError("b") from first


def of_a_number(x):
    held = hold()
    return torch.zeros(x.shape[0].foo)


def of_a_type(x):
    held = hold()
    return None + x


def leaves_a_mode(x):
    held = hold()
    with LeftOn():
        y = x * 2
    return y


PROGRAMS = [raises, stops, raises_at_a_size, raises_at_a_value, out_of_range, sizes_differ, behind_a_write, operator_behind_a_write, from_another, of_a_number,
            of_a_type, leaves_a_mode]
DYNAMOS_OWN = {sizes_differ, of_a_number, of_a_type, leaves_a_mode}   # with backend "eager", too
WAYS = {"eager": lambda function: function, "call": escapement.jit, "replay": lambda function: escapement.jit(function, mode="replay"),
        "strict": lambda function: escapement.jit(function, strict=True), "compile": lambda function: torch.compile(function, backend="escapement")}


def kept(function, x):
    """(what is there of the program's frame and of its argument, whether it raised)"""
    HELD.clear()
    argument, raised = weakref.ref(x), False
    gc.disable()
    try:
        try:
            function(x)
        except BaseException:
            raised = True
        del x
        return [each for each in (*HELD, argument) if each() is not None], raised
    finally:
        gc.enable()


def check(way, program, sizes):
    torch._dynamo.reset()
    function, failed = WAYS[way](program), 0
    try:
        for rows in sizes:
            found, raised = kept(function, torch.ones(rows, 4))
            assert not torch.is_inference_mode_enabled() and not found, (program, rows)
            failed += raised
    finally:
        gc.collect()
    assert failed >= 2


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("way", ["eager", "call", "replay", "strict"])
def test_nothing_is_kept(way, program):
    check(way, program, (2, 5, 1, 7, 5, 0, 5, 3))


@pytest.mark.parametrize("way", ["call", "replay", "strict"])
def test_a_mode_that_ends_late_leaves_no_key_of_ours(way):
    """It puts back what was the thread's when it began, within the recording; torch.compile would make no graphs there any more."""
    before = str(torch._C._dispatch_tls_local_include_set())
    check(way, leaves_a_mode, (2, 5, 1, 7))
    torch.ones(1)
    assert str(torch._C._dispatch_tls_local_include_set()) == before


def test_nothing_is_kept_under_torch_compile():
    """In a process of its own: what pytest logs keeps each exception that torch logs."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


if __name__ == "__main__":
    for each in PROGRAMS:
        if each not in DYNAMOS_OWN:
            check("compile", each, (2, 5, 1, 5))
