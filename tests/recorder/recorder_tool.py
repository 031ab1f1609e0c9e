"""The recorder seen from Python: record a program once, run the trace through ATen (the replay) at other sizes.

recorder_module is a test-only extension (recorder_module.cpp) that stands in <build>/tests.
"""

import os
import sys

import torch

sys.path.insert(0, os.path.join(os.environ.get("ESCAPEMENT_BUILD", "build"), "tests"))
import recorder_module as core  # noqa: E402


def flat(value):
    """The tensors and numbers of a result, in order."""
    if isinstance(value, (torch.Tensor, int, float, bool, torch.SymInt, torch.SymBool, torch.SymFloat)):
        return [value]
    if hasattr(value, "to_tuple"):
        value = value.to_tuple()
    return [leaf for item in value for leaf in flat(item)] if isinstance(value, (list, tuple)) else []


class Recorded:
    """One recording of `program`. `names`: per tensor one name per dim, equal names are one symbol; None: all dims apart."""

    def __init__(self, program, arguments, names=None):
        recorder, symbols, wrapped = core.begin(), {}, []
        for i, value in enumerate(arguments):
            if isinstance(value, torch.Tensor):
                sizes = names and [symbols.setdefault(n, None) or self.symbol(recorder, symbols, n, value.size(d))
                                   for d, n in enumerate(names[i])]
                wrapped.append(core.tensor(recorder, value, sizes, False))
            else:
                wrapped.append(core.integer(recorder, value))
        core.enter(recorder)
        try:
            outputs = flat(program(*wrapped))
        finally:
            core.leave(recorder)
        self.recording, self.outputs = core.finish(recorder, outputs)
        self.facts = core.facts(self.recording)

    @staticmethod
    def symbol(recorder, symbols, name, hint):
        symbols[name] = core.symbol(recorder, hint)
        return symbols[name]

    def text(self):
        return core.text(self.recording)

    def verify(self):
        core.check(self.recording)

    def run(self, *arguments):
        """The outputs, or (a string) the guard that failed."""
        return core.replay(self.recording, list(arguments))


def clone(value):
    """A copy with the same strides, so that layouts are the program's."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def same(got, want):
    if not isinstance(want, torch.Tensor):
        return got == want
    strides = got.stride() == want.stride() or want.numel() == 0 or 1 in want.shape
    return (got.dtype == want.dtype and got.shape == want.shape and strides
            and torch.equal(torch.nan_to_num(got), torch.nan_to_num(want)) and torch.equal(got.isnan(), want.isnan()))


def check(program, make, shapes, first=(3, 7), names=None, allow_guards=False, seed=None):
    """Records at `first`; then, at every shape, the replay equals the eager program: results, strides, arguments written.

    Returns the recording. A failing guard is an error unless allow_guards: most programs must serve all sizes."""
    arguments, expected = make(*first), make(*first)
    for a, b in zip(arguments, expected):
        if isinstance(a, torch.Tensor):
            b.copy_(a)
    if seed is not None:
        torch.manual_seed(seed)
    want = flat(program(*expected))
    if seed is not None:
        torch.manual_seed(seed)
    recorded = Recorded(program, arguments, names)
    assert not recorded.facts["refused"], recorded.facts["refused"]
    assert len(want) == len(recorded.outputs) and all(map(same, recorded.outputs, want)), "the recording run differs from eager"
    recorded.verify()
    for shape in shapes:
        arguments = make(*shape)
        copies = [clone(a) for a in arguments]
        if seed is not None:
            torch.manual_seed(seed)
        want = flat(program(*copies))
        if seed is not None:
            torch.manual_seed(seed)
        got = recorded.run(*arguments)
        if isinstance(got, str) and allow_guards:
            continue
        assert not isinstance(got, str), f"{shape}: {got}\n{recorded.text()}"
        assert len(got) == len(want) and all(map(same, got, want)), f"{shape}\n{recorded.text()}"
        assert all(map(same, arguments, copies)), f"{shape}: an argument was written differently\n{recorded.text()}"
    return recorded
