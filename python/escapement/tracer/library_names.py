"""Names of libraries that the program's code has (`F.softsign`, `math.pi`, `x.selu()`) and the `forward` of libraries' modules: who puts something else there after a
recording, as LoRA and attention libraries do, is noticed. So are flags that such a function reads itself (`torch.backends.mha.get_fastpath_enabled`), and which object
it finds under a name of its file (`torch.utils.data.get_worker_info`). What else stands behind them is not searched: its state is not the program's.
"""

import types

import torch

from .homes import is_own, is_own_home, of_library, source_of
from .names import globals_in
from .objects import CONTAINERS, is_a, space_of_class

FLAGS = bool, int, float, str
WATCHED = (*FLAGS, staticmethod, classmethod, property, torch.dtype)   # and what can be called
CALLED = "forward", "__call__", "_call_impl"   # of modules
TENSOR, OF_TENSORS = space_of_class(torch.Tensor), frozenset(dir(torch.Tensor))


class LibraryNames:
    def __init__(self):
        self._spaces, self._kinds = {}, set()   # id -> (dict, names in it)
        self._state = set()   # (id of a dict, name): what a function of a library finds there

    def of(self, value, names, met=None):
        """What the code finds under one of its names; `names` may follow it."""
        if is_a(value, types.ModuleType) and not is_own_home(value):
            met = met or set()   # modules name each other
            met.add(id(value))
            space = vars(value)
            named = [name for name in names if name in space]
            self._new(space, named)
            for name in named:
                if id(space[name]) not in met:
                    self.of(space[name], names, met)
        elif is_a(value, types.FunctionType) and of_library(source_of(value)):
            space = value.__globals__
            state = [name for name in globals_in(value.__code__) if name in space and is_state(space[name])]
            self._new(space, state)
            self._state.update((id(space), name) for name in state)
        elif is_a(value, type) and not is_own(value):
            self.of_class(value, names)

    def of_class(self, kind, names):
        for part in kind.__mro__[:-1]:
            self._new(space_of_class(part), [name for name in names if name in vars(part)])

    def of_tensors(self, names):
        """Also those that only a base has yet."""
        self._new(TENSOR, [name for name in names if name in OF_TENSORS])

    def of_kind(self, kind):
        """Of a module."""
        if kind not in self._kinds:
            self._kinds.update(kind.__mro__)
            self.of_class(kind, CALLED)

    def _new(self, space, names):
        known = self._spaces.setdefault(id(space), (space, {}))[1]
        new = [name for name in names if name not in known]
        known.update(dict.fromkeys(new))
        return new

    def places(self):
        """(dict, name) of each that can be compared, where nothing stands yet among them."""
        return [(space, name) for space, names in self._spaces.values() for name in names if space is TENSOR or is_watched(space.get(name)) or (id(space), name) in self._state]


def is_watched(value):
    return callable(value) or is_a(value, WATCHED)


def is_state(value):
    """Of containers, which libraries fill as they go, it is not the object that counts."""
    return not callable(value) and not is_a(value, (types.ModuleType, *CONTAINERS))
