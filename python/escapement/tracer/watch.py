"""The tensors and modules that a Python function can reach, and whether they are still the same ones.

A recording holds parameters and buffers by identity: values written in place are seen (the core reads sizes, dtype and
memory anew at every call), a replaced object is not. So every call compares the identities of what the modules hold:
parameters, buffers, submodules, hooks. That sees every way of replacing, also those that no registration hook of torch's
reports (`_parameters[...] =`, ModuleList.insert, functional_call). swap_tensors, which keeps the Python object and changes
what is behind it, is refused by torch itself while a recording holds the tensor.
"""

import itertools
import operator
import random
import sys

import torch

from ..core import core
from ..limits import CALL_DEPTH, ITEMS
from .outside import events_seen
from .plain import Plain
from .search import Search, cell_content

training = operator.attrgetter("training")
stores = operator.attrgetter("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
needs_gradient = operator.attrgetter("requires_grad")


class Watch:
    """What a function reaches now. `same()` is asked at every call."""

    def __init__(self, fn):
        found = Search()
        found.add(fn, CALL_DEPTH)
        self.modules, self.variables, self._spaces, self._cells = found.modules, found.variables, found.spaces, found.cells
        self.generators = found.generators
        self._stored = [*itertools.chain.from_iterable(map(stores, self.modules))]
        self._contents = core().Contents(self._stored, [])
        held = itertools.chain.from_iterable(map(dict.values, self._stored))
        self.tensors = [value for value in held if isinstance(value, torch.Tensor)] + found.tensors
        self.plain = Plain(found)
        self.elsewhere = found.reached() | self.plain.reached()
        self._objects = self.plain.objects()
        self.empty = not self.modules and not self.variables and not self.plain.places

    def flags(self):
        """By what the versions are told apart: each module's `training`."""
        return (*map(training, self.modules),)

    def key(self):
        return self.flags(), self.plain.key()

    def same(self):
        """Deleting a submodule changes the dict before torch makes a new one."""
        return self._contents.same() and all(read() is value for read, value in self.variables)

    def contents(self):
        """same() and flags() as they are now, as one object that the core compares itself; None where it would need Python."""
        if self.variables or not all("training" in vars(module) for module in self.modules):
            return None
        flags = [(vars(module), "training", module.training) for module in self.modules]
        return core().Contents(self._stored, flags + self.plain.values())

    def plain_contents(self):
        return core().Contents([], self.plain.values())

    def reaches_the_same(self):
        """Whether the plain values can be found where they were: no object among them came, went or was replaced."""
        return same_state(self._objects, self.plain.objects())

    def meets(self, containers):
        """Whether the function finds one of these, of which only the ids are given, elsewhere too: then two copies would not be one."""
        return not self.elsewhere.isdisjoint(containers)

    def needs_gradient(self):
        return any(map(needs_gradient, self.tensors))

    def state(self):
        """Everything the function could rebind or put somewhere: compared before and after a recording."""
        found = []
        for space, names in self._spaces:
            for name in [*space] if names is None else names:
                found.append(name)
                found.extend(with_content(space.get(name)))
        return found + [item for cell in self._cells for item in with_content(cell_content(cell))]

    def replace(self, wanted, replacement):
        """Puts replacement(value) where state() finds a value that is wanted."""
        for space, names in self._spaces:
            for name in [*space] if names is None else names:
                replace_in(space, name, wanted, replacement)
        for cell in self._cells:
            if wanted(cell_content(cell)):
                cell.cell_contents = replacement(cell.cell_contents)


def with_content(value):
    """The object and, of a list or dict, what it holds."""
    content = [*value] if isinstance(value, (list, set)) else [*value.values()] if isinstance(value, dict) else []
    return [value, *content[:ITEMS]]


def replace_in(space, name, wanted, replacement):
    value = space.get(name)
    if wanted(value):
        space[name] = replacement(value)
    elif isinstance(value, dict) and value is not space:
        for key in [*value]:
            if wanted(value[key]):
                value[key] = replacement(value[key])
    elif isinstance(value, list):
        value[:] = [replacement(item) if wanted(item) else item for item in value]


def host_state():
    """What a program may change of Python itself, wherever it does so: generators, how tensors are printed; and how often it has reached outside.
    (What it changes of torch is noticed by the core.)"""
    numpy = sys.modules.get("numpy.random")
    drawn = numpy.get_state() if numpy else ()
    drawn = [value.tobytes() if hasattr(value, "tobytes") else value for value in drawn]
    return random.getstate(), drawn, dict(vars(torch._tensor_str.PRINT_OPTS)), events_seen()


def same_state(before, after):
    return len(before) == len(after) and all(a is b for a, b in zip(before, after))
