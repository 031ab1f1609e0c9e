"""A dict whose keys come in another order at the next call: every question whose answer depends on it is a guard, and none is where it does not."""

import collections
import copy
import linecache

import pytest
import torch

from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")


def names(**options):
    return list(options)


def extended(c):
    found = []
    found.extend(c)
    return found


def added(c):
    found = []
    found += c
    return found


def updated(c):
    other = {"q": 0}
    other.update(c)
    return other


QUESTIONS = {
    "list": "list(c)", "tuple": "tuple(c)", "keys": "list(c.keys())", "values": "list(c.values())", "items": "list(c.items())", "iter": "[k for k in c]", "loop": "[k + str(v) for k, v in c.items()]",
    "text": "str(c)", "copy": "list(c.copy())", "copy.copy": "list(copy.copy(c))", "copy.deepcopy": "list(copy.deepcopy(c))", "dict": "list(dict(c))", "unpacked": "list({**c})", "star": "[*c]",
    "keywords": "names(**c)", "keywords of a lambda": "(lambda **k: list(k.values()))(**c)", "merged": "list({'q': 1} | dict(c))", "update": "updated(c)", "extend": "extended(c)", "iadd": "added(c)",
    "join": "''.join(c)", "next": "next(iter(c))", "next value": "next(iter(c.values()))", "last": "list(c)[-1]", "reversed": "list(reversed(c))", "zip": "list(zip(c, c.values()))",
    "enumerate": "list(enumerate(c))", "dict of it": "{v: k for k, v in c.items()}", "map": "list(map(str, c))", "fromkeys": "list(dict.fromkeys(c, 0))", "popitem of a copy": "dict(c).popitem()",
    "stack": "torch.stack([x * v for v in c.values()]).tolist()", "cat": "torch.cat([x * v for v in c.values()]).tolist()", "max": "max(c, key=lambda k: 0)", "sorted": "sorted(c, key=lambda k: 0)",
    "compared": "list(c) == ['a', 'b', 'c']", "equal": "c == collections.OrderedDict(a=1, b=2, c=3)",
}
FREE_OF_IT = {
    "length": "len(c)", "in": "'a' in c", "get": "c.get('b')", "item": "c['a']", "default": "c.get('z', 5)",
}
KINDS = {
    "dict": dict, "OrderedDict": collections.OrderedDict, "defaultdict": lambda **items: collections.defaultdict(int, **items),
}


def in_another_order(c, turn):
    if turn == 2 and isinstance(c, collections.OrderedDict):
        c.move_to_end("c", last=False)   # which the dict in it knows nothing of
    elif turn:
        c["b"] = c.pop("b")


def program(expression):
    text = f"def body(x, c):\n    return x * 2, {expression}\n"
    file = f"<a question {len(linecache.cache)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    space = dict(torch=torch, collections=collections, copy=copy, names=names, extended=extended, added=added, updated=updated)
    exec(compile(text, file, "exec"), space)   # noqa: S102
    return space["body"]


def compare(kind, expression):
    body = program(expression)
    compiled = torch.compile(body, backend="escapement")
    kept = KINDS[kind](a=1, b=2, c=3)
    for turn in range(3):
        in_another_order(kept, turn)
        x = torch.ones(turn + 2)
        assert str(compiled(x, kept)[1:]) == str(body(x, kept)[1:]), turn


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("kind", ["dict", "OrderedDict"])
def test_a_question(kind, name):
    compare(kind, QUESTIONS[name])


@pytest.mark.parametrize("name", ["copy", "popitem of a copy", "text", "list", "keywords"])
def test_of_a_defaultdict(name):
    compare("defaultdict", QUESTIONS[name])


@pytest.mark.parametrize("name", FREE_OF_IT)
@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_depend_on_it_is_no_guard(kind, name):
    compare(kind, FREE_OF_IT[name])
    assert LEDGER.counters()["compiles"] == 1


@pytest.mark.parametrize("change", ["c['a'] = 9", "c['n'] = 1", "c.pop('b')", "del c['b']", "c.popitem()", "c['b'] = c.pop('b')", "c.update(a=4, b=5)", "c.setdefault('a', 1)", "c.setdefault('n', 1)"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_order_after_a_change(kind, change):
    """Of what stays where it was, too."""
    space = {}
    exec(f"def body(x, c):\n    {change}\n    return x * 2\n", space)   # noqa: S102
    compiled = torch.compile(space["body"], backend="escapement")
    for turn in range(3):
        ours, eager = KINDS[kind](a=1, b=2, c=3), KINDS[kind](a=1, b=2, c=3)
        for kept in (ours, eager):
            in_another_order(kept, turn)
        compiled(torch.ones(3), ours)
        space["body"](torch.ones(3), eager)
        assert list(ours.items()) == list(eager.items())


def test_inputs_by_name_in_another_order():
    """What a model makes of all its inputs, by the order in which the caller wrote them."""
    def body(**inputs):
        return torch.cat([value * (number + 1) for number, value in enumerate(inputs.values())])

    compiled = torch.compile(body, backend="escapement")
    for order in ("ab", "ba", "ab"):
        inputs = {name: torch.ones(2) * ord(name) for name in order}
        torch.testing.assert_close(compiled(**inputs), body(**inputs))
    assert LEDGER.counters()["compiles"] <= 2
