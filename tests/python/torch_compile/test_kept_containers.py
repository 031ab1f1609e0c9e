"""Containers that a model keeps, and what it does to them: what they hold afterwards, in which order, and what the program sees of them are eager's, call after call."""

import collections
import copy
import linecache

import pytest
import torch

import escapement
from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


class SubList(list):
    pass


class SubDict(dict):
    pass


class SubOrdered(collections.OrderedDict):
    pass


class SubSet(set):
    pass


SEQUENCES = {
    "append": "c.append(5)", "append a tensor": "c.append(x.sum())", "append a size": "c.append(len(x))", "extend": "c.extend([7, 8])", "insert": "c.insert(1, 6)",
    "iadd": "c += [9]", "iadd by its name": "r = c.__iadd__([9]) is c", "imul": "c *= 2; r = list(c)", "pop": "r = c.pop(); c.insert(0, r)", "remove": "c.remove(2); c.append(2)",
    "set": "c[0] = 9", "delete": "del c[0]; c.append(1)", "clear": "c.clear(); c.append(4); c.append(3); c.append(2)", "reverse": "c.reverse()",
    "copy": "d = c.copy(); d.append(1); r = len(d) - len(c)", "copy.copy": "d = copy.copy(c); d.append(1); r = list(d)", "copy.deepcopy": "d = copy.deepcopy(c); d.append(1); r = list(d)",
    "text": "r = str(c)", "add": "r = list(c + type(c)([1]))", "multiply": "r = len(c * 2)", "alias": "d = c; d.append(5); r = d is c", "twice": "c.append(1); c.append(2); r = list(c)",
    "append, pop": "c.append(1); r = c.pop()", "class": "r = type(c).__name__",
}
DEQUES = {**SEQUENCES, "append left": "c.appendleft(5)", "pop left": "r = c.popleft(); c.append(r)", "rotate": "c.rotate(1)", "extend left": "c.extendleft([5, 6])", "greatest": "r = c.maxlen"}
DICTS = {
    "set": "c['z'] = 5", "set a size": "c['l'] = len(x)", "set a tensor": "c['t'] = x.sum()", "delete": "del c['a']; c['a'] = 1", "set in order again": "c['a'] = c.pop('a')",
    "popitem": "k, v = c.popitem(); c[k] = v + 1", "update": "c.update({'a': 5, 'y': 6})", "setdefault": "r = c.setdefault('n', 7)", "merge": "c |= {'a': 7, 'i': 8}",
    "swap": "c['a'], c['b'] = c['b'], c['a']", "copy": "d = c.copy(); d['k'] = 1; r = list(d)", "copy.copy": "d = copy.copy(c); d['k'] = 1; r = list(d)", "text": "r = str(c)",
    "copy.deepcopy": "d = copy.deepcopy(c); d['k'] = 1; r = list(d)", "class": "r = type(c).__name__", "one out": "c[len(x) + 10] = 1\nif len(c) > 3: c.pop(next(iter(c)))\nr = list(c)",
}
ORDERED = {
    **DICTS, "to the end": "c.move_to_end('a')", "to the end, listed": "c.move_to_end('a'); r = list(c)", "to the front": "c.move_to_end('c', last=False)",
    "to the front, by place": "c.move_to_end('c', False)", "two to the end": "c.move_to_end('a'); c.move_to_end('b')", "first out": "k, v = c.popitem(last=False); c[k] = v",
    "set, to the end": "c['a'] = 9; c.move_to_end('a')", "to the end, set": "c.move_to_end('a'); c['a'] = 9", "equal": "c.move_to_end('a'); r = c == collections.OrderedDict(a=1, b=2, c=3)",
    "or": "r = c | {'q': 1}", "class of a copy": "r = c.copy()",
    "least used out": "c['n'] = 1; c.move_to_end('n')\nif len(c) > 3: c.popitem(last=False)\nr = list(c)", "to the front, new": "c['n'] = 1; c.move_to_end('n', last=False)",
}
SETS = {
    "add": "c.add(9)", "add a size": "c.add(len(x))", "discard": "c.discard(1)", "remove": "c.remove(1); c.add(5); c.add(1)", "clear": "c.clear(); c.add(3)", "update": "c.update([7, 8])",
    "or": "c |= {9}", "and": "c &= {1, 2, 3, 4}", "minus": "c -= {3}", "xor": "c ^= {9}", "difference": "c.difference_update({3})", "intersection": "c.intersection_update({1, 2})",
    "read": "r = sorted(c)", "text": "r = str(c)", "class": "r = type(c).__name__", "copy": "d = c.copy(); d.add(99); r = len(d) - len(c)",
}
KINDS = {
    "list": (lambda: [3, 2, 1], {name: SEQUENCES[name] for name in ("iadd", "iadd by its name", "imul")}),
    "subclass of list": (lambda: SubList([3, 2, 1]), SEQUENCES),
    "deque of three": (lambda: collections.deque([3, 2, 1], maxlen=3), DEQUES),
    "deque of four": (lambda: collections.deque([3, 2, 1], 4), {name: DEQUES[name] for name in ("append", "twice", "append left", "insert", "text")}),
    "subclass of dict": (lambda: SubDict(a=1, b=2, c=3), DICTS),
    "OrderedDict": (lambda: collections.OrderedDict(a=1, b=2, c=3), ORDERED),
    "subclass of OrderedDict": (lambda: SubOrdered(a=1, b=2, c=3), {name: ORDERED[name] for name in ("to the end", "copy.copy", "text", "first out", "or", "class of a copy")}),
    "Counter": (lambda: collections.Counter(a=1, b=2, c=3), {name: DICTS[name] for name in ("copy.copy", "set", "text")}),
    "subclass of set": (lambda: SubSet({1, 2, 3}), SETS),
}
CASES = [(kind, name) for kind, (_, operations) in KINDS.items() for name in operations]
HOLDERS = {
    "kept by a module": "class Model(torch.nn.Module):\n  def forward(self, x):\n    c, r = self.c, 0\n%s\n    self.c = c\n    return x * 2, r\ndef make(kept):\n  model = Model()\n  model.c = kept\n"
                        "  return model, lambda: model.c, lambda f, x: f(x)",
    "behind a graph break": "def body(x, c):\n    r = 0\n    torch._dynamo.graph_break()\n%s\n    torch._dynamo.graph_break()\n    return x * 2, r\ndef make(kept): return body, lambda: kept, lambda f, x: f(x, kept)",
}


def plain(value):
    """What can be compared, with its class, its order and the greatest length that it has."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(str(key), plain(one)) for key, one in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(map(str, value))
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, getattr(value, "maxlen", None), [plain(one) for one in value]
    return value


def defined(text):
    file = f"<a program {len(linecache.cache)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names = dict(torch=torch, collections=collections, copy=copy)
    exec(compile(text, file, "exec"), names)   # noqa: S102
    return names["make"]


def session(holder, kind, name, wrap):
    new, operations = KINDS[kind]
    kept = new()
    program, held, call = defined(HOLDERS[holder] % "\n".join("    " + line for line in operations[name].split("\n")))(kept)
    program = wrap(program)
    seen = []
    for size in (4, 2, 5):
        try:
            with torch.no_grad():
                answer = call(program, torch.ones(size))
        except Exception as error:
            answer = type(error), str(error)
        seen.append((plain(answer), plain(held()), held() is kept))
    return seen


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_in_a_module(kind, name):
    assert session("kept by a module", kind, name, lambda program: torch.compile(program, backend="escapement")) == session("kept by a module", kind, name, lambda program: program)


@pytest.mark.parametrize(("kind", "name"), [case for number, case in enumerate(CASES) if number % 4 == 0])
def test_behind_a_graph_break(kind, name):
    assert session("behind a graph break", kind, name, lambda program: torch.compile(program, backend="escapement")) == session("behind a graph break", kind, name, lambda program: program)


def test_the_least_used_goes_without_a_graph_break():
    """A cache of the usual kind, and a window of the usual kind."""
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.cache, self.window = collections.OrderedDict(), collections.deque(maxlen=2)

        def forward(self, x, key):
            self.cache[key] = x.sum()
            self.cache.move_to_end(key)
            if len(self.cache) > 2:
                self.cache.popitem(last=False)
            self.window.append(x.mean())
            return x + sum(self.window) + list(self.cache.values())[0]

    ours, eager = Model(), Model()
    compiled = torch.compile(ours, backend="escapement", fullgraph=True)
    with torch.no_grad():
        for number, size in enumerate((4, 3, 7, 5, 1, 6)):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x, "abc"[number % 3]), eager(x, "abc"[number % 3]))
            assert list(ours.cache) == list(eager.cache) and len(ours.window) == len(eager.window)
    assert LEDGER.counters()["graph_breaks"] == 0 and LEDGER.counters()["specialised_dims"] == 0 and escapement.stats()["launches"] > 0
