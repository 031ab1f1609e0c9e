"""Containers of the program's own classes whose methods fail: what looks at them uses Python's own, as eager, which does not look, needs neither.

(Irreps of e3nn are tuples whose `__len__` raises NotImplementedError.)"""

import collections

import pytest
import torch

import escapement

METHODS = ("__len__", "__iter__", "__getitem__", "__contains__", "__bool__", "__eq__", "__ne__", "__hash__", "__repr__", "__reversed__", "count", "index", "keys", "items",
           "values", "get", "copy", "__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getattr__", "__getattribute__", "__sizeof__", "__setitem__", "__format__",
           "__lt__", "__or__", "__call__", "__index__", "__float__", "__getstate__", "__iadd__", "__missing__", "pop", "union")
BASES = {"tuple": (tuple, (2.0, 3.0)), "list": (list, [2.0, 3.0]), "dict": (dict, {"a": 2.0}), "set": (set, {2.0, 3.0}), "frozenset": (frozenset, {2.0, 3.0}),
         "deque": (collections.deque, [2.0, 3.0]), "ordered dict": (collections.OrderedDict, {"a": 2.0}), "counter": (collections.Counter, {"a": 2}),
         "integer": (int, 3), "float": (float, 3.0), "text": (str, "ab"), "dict of Python's": (collections.UserDict, {"a": 2.0})}


def fails(self, *given, **named):
    raise NotImplementedError("the program's own")


def only_its_class(self, name):
    return object.__getattribute__(self, name) if name in ("__class__", "__dict__") else fails(self)


def made(base, content, method):
    members = {method: only_its_class if method == "__getattribute__" else fails}
    if method == "__eq__" and base.__hash__ is not None:
        members["__hash__"] = base.__hash__
    return type("Own", (base,), members)(content)


class Holder:
    pass


class Layer(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.linear, self.__dict__["settings"] = torch.nn.Linear(4, 4), {"own": [value]}

    def forward(self, x):
        return self.linear(x) * len(self.settings["own"])


def programs(value):
    """(function, arguments behind the tensor)"""
    holder = Holder()
    holder.value, holder.factor = value, 1.5
    return [(lambda x: x * holder.factor + (holder.value is not None), ()), (lambda x: x * 3 if value is not None else x, ()), (Layer(value), ()),
            (lambda x, own: x * 2 + (own is not None), (value,)), (lambda x, own: x * 2 + len(own), ([value],)), (lambda x: (x * 2, value), ())]


@pytest.mark.parametrize("base", BASES)
def test_what_a_container_says_of_itself_is_not_asked(base):
    for method in METHODS:
        try:
            value = made(*BASES[base], method)
        except NotImplementedError:   # its own class cannot be made
            continue
        for number, (function, more) in enumerate(programs(value)):
            ours = escapement.jit(function)
            with torch.no_grad():
                for rows in (2, 3, 1, 5):
                    x = torch.full((rows, 4), float(rows))
                    result, expected = ours(x, *more), function(x, *more)
                    if isinstance(expected, tuple):
                        assert result[1] is value, (method, number)
                        result, expected = result[0], expected[0]
                    torch.testing.assert_close(result, expected, msg=lambda text, at=(method, number): f"{at}: {text}")
