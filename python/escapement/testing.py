"""Other people's test classes, run on compiled code.

    class TestMine(escapement.testing.Compiled, TestTheirs): pass        # each method through torch.compile
    TestMine = escapement.testing.compiled(TestTheirs, way="replay")     # the same as a function

A test's method is compiled as a whole, as PyTorch's own suites do for its backends: what Dynamo cannot trace (assertions, unittest
itself) it leaves to Python, function by function. In replay mode the method runs as it stands and its operators are replayed; a test
then runs `repeats` times, since the first run only records. Setting up and tearing down run as ever.
"""

import torch

from .tracer.jitted import jit

WAYS = ("compile", "replay")


class Compiled:
    """A mixin, to stand before the test class among the bases."""

    escapement_way = "compile"
    escapement_options = {}
    repeats = 1

    def _callTestMethod(self, method):   # unittest's own seam between setUp and tearDown
        run = compile_method(method, self.escapement_way, self.escapement_options)
        for turn in range(self.repeats):
            if turn:
                self.tearDown()
                self.setUp()
            super()._callTestMethod(run)


def compile_method(method, way, options):
    if way == "replay":
        return jit(method, mode="replay", **options)
    torch._dynamo.reset()
    return torch.compile(method, backend="escapement", **({"options": options} if options else {}))


def compiled(test_class, way="compile", repeats=None, **options):
    """A subclass whose tests run on compiled code, under the class's own name. `repeats`: 1 or more; by default 3 in replay mode."""
    if way not in WAYS:
        raise ValueError(f"way={way!r} is not known; compiled takes {' and '.join(map(repr, WAYS))}")
    if repeats is not None and (type(repeats) is not int or repeats < 1):
        raise ValueError(f"repeats={repeats!r}: how often each test runs is an integer, 1 or more")
    count = repeats or (3 if way == "replay" else 1)
    members = {"escapement_way": way, "escapement_options": options, "repeats": count, "__module__": test_class.__module__}
    return type(test_class.__name__, (Compiled, test_class), members)
