"""The tensors and modules that a Python function can reach, and whether they are still the same ones.

A recording holds parameters and buffers by identity: values written in place are seen (the core reads sizes, dtype and
memory anew at every call), a replaced object is not. So every call compares the identities of what the modules hold:
parameters, buffers, submodules, hooks. That sees every way of replacing, also those that no registration hook of torch's
reports (`_parameters[...] =`, ModuleList.insert, functional_call). swap_tensors, which keeps the Python object and changes
what is behind it, is refused by torch itself while a recording holds the tensor.

Reached: the function itself, bound objects, partial arguments, defaults, closures, globals named in the code, functions and
plain objects found there, and lists and dicts of such. What hides elsewhere (attributes of Python modules, properties) is
not watched: docs/jit.md says so.
"""

import functools
import itertools
import operator
import sys
import sysconfig
import types

import torch

from .locator import FRAMEWORK
from .tree import Unsupported

DEPTH = 6
MANY = 256   # of a longer list only this many items are looked at
FUNCTIONS = (types.FunctionType, types.MethodType)
NOT_SEARCHED = (torch.Tensor, types.ModuleType, type, str, bytes, int, float, complex, torch.dtype, torch.device)

training = operator.attrgetter("training")
stores = operator.attrgetter("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")
needs_gradient = operator.attrgetter("requires_grad")
LIBRARIES = (*FRAMEWORK, *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
OWN = frozenset(vars(torch.nn.Module()))             # attributes of every module
PLAIN = (list, tuple, dict, torch.Tensor)


class Watch:
    """What a function reaches now. `same()` is asked at every call."""

    def __init__(self, fn):
        found = Search()
        found.add(fn, DEPTH)
        self.modules, self.bindings, self._spaces, self._cells = found.modules, found.bindings, found.spaces, found.cells
        stored = [*itertools.chain.from_iterable(map(stores, self.modules))]
        self._full, self._empty = [space for space in stored if space], [space for space in stored if not space]
        self._held = self._contents()     # holds the objects, so that no address is used twice
        self._ids = [*map(id, self._held)]
        self.tensors = [value for value in self._held if isinstance(value, torch.Tensor)] + found.tensors
        self.empty = not self.modules and not self.bindings

    def _contents(self):
        return [*itertools.chain.from_iterable(map(dict.values, self._full))]

    def flags(self):
        return (*map(training, self.modules),)

    def same(self):
        """Asked at every call, so written for speed. Deleting a submodule changes this very dict before torch makes a new one."""
        found = itertools.chain.from_iterable(map(dict.values, self._full))
        if [*map(id, found)] != self._ids or any(self._empty):
            return False
        return all(read() is value for read, value in self.bindings)

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
    return [value, *content[:MANY]]


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


def same_state(before, after):
    return len(before) == len(after) and all(a is b for a, b in zip(before, after))


class Search:
    """Depth first, each object once."""

    def __init__(self):
        self.modules, self.tensors = [], []
        self.bindings = []    # (read, value): a variable that holds a tensor or a module
        self.spaces = []      # (dict, names or None for all): where the function may rebind something
        self.cells = []
        self._seen, self._kept = set(), []   # the objects are kept, so that no address is met twice

    def add(self, value, depth):
        if depth == 0 or value is None or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._kept.append(value)
        if isinstance(value, torch.nn.Module):
            self._module(value, depth)
        elif isinstance(value, FUNCTIONS):
            self._function(value, depth)
        elif isinstance(value, functools.partial):
            self._all((value.func, *value.args, *value.keywords.values()), depth)
        elif isinstance(value, (list, tuple, set, frozenset)):
            self._all(itertools.islice(value, MANY), depth)
        elif isinstance(value, dict):
            self._all(itertools.islice(value.values(), MANY), depth)
        elif isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif not isinstance(value, NOT_SEARCHED) and hasattr(value, "__dict__"):
            self._object(value, depth)

    def _all(self, found, depth):
        for value in list(found):
            self.add(value, depth - 1)

    def _module(self, module, depth):
        for part in module.modules():
            if isinstance(part, torch.jit.ScriptModule):
                raise Unsupported(part)   # its tensors stand outside Python
            if part is module or id(part) not in self._seen:
                self._seen.add(id(part))
                self.modules.append(part)
                self.spaces.append((vars(part), None))
                own = (value for name, value in vars(part).items() if name not in OWN)
                self._all((value for value in own if isinstance(value, PLAIN)), depth)

    def _object(self, value, depth):
        home = sys.modules.get(type(value).__module__)
        if type(value).__module__ != "__main__" and installed(getattr(home, "__file__", None)):
            return
        self.spaces.append((vars(value), None))
        for name, item in list(vars(value).items()):
            self._binding(functools.partial(vars(value).get, name), item)
            self.add(item, depth - 1)

    def _function(self, value, depth):
        if isinstance(value, types.MethodType):
            return self._all((value.__self__, value.__func__), depth + 1)
        if depth < DEPTH and installed(value.__code__.co_filename):
            return
        self.cells.extend(value.__closure__ or ())
        for cell in value.__closure__ or ():
            read = functools.partial(cell_content, cell)
            self._binding(read, read())
            self.add(read(), depth - 1)
        names = names_in(value.__code__)
        self.spaces.append((value.__globals__, [*names]))
        for name in names:
            if name in value.__globals__:
                self._binding(functools.partial(value.__globals__.get, name), value.__globals__[name])
                self.add(value.__globals__[name], depth - 1)
        self._all((*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()), depth)

    def _binding(self, read, value):
        if isinstance(value, (torch.Tensor, torch.nn.Module)):
            self.bindings.append((read, value))


def installed(file):
    """Of a library, the standard one or this package: their functions and objects are not the program's state."""
    return file is None or file.startswith(LIBRARIES)


def cell_content(cell):
    try:
        return cell.cell_contents
    except ValueError:   # not filled yet
        return None


def names_in(code):
    """Global names (and attribute names, which do no harm) of a code object and of those inside it."""
    inner = [names_in(item) for item in code.co_consts if isinstance(item, types.CodeType)]
    return dict.fromkeys(itertools.chain(code.co_names, *inner))
