"""Why no compiled version took a call: Dynamo's sentences, read into facts.

A sentence is `frame/compile: guard  # comment`. The guard names inputs as the function's own variables (x.size()[0]); sources in the
ledger are written L['x']:0, and `mentioned` is the bridge between the two.
"""

import re
import typing

VERSION = re.compile(r"\d+/(\d+)(?:_\d+)?: (.*)", re.DOTALL)
MISMATCH = re.compile(r"tensor '(?P<name>.+)' (?P<what>[\w ]+?) mismatch(?: at index (?P<dim>\d+))?\.? expected (?P<expected>.*?), "
                      r"actual (?P<seen>.*)")
SIZE = re.compile(r"([\w.\[\]']+)\.size\(\)\[(\d+)\]")
STEP = re.compile(r"\.(\w+)|\['?(\w+)'?\]")
LOCAL = re.compile(r"L\['(\w+)'\]")

LEAST_TWO = re.compile(r"2 <= [^<>=]*")
SPECIALISED = "size 0 or 1"

# What a guard is about, by a part of the sentence; the first that fits. "size" and "relation" are looked up in the ledger.
ABOUT = (("stride mismatch", "layout"), (".stride()", "layout"), ("size mismatch", "size"), ("0/1 specialization", SPECIALISED),
         (".size()[", "relation"), (" mismatch", "key"), ("GLOBAL_STATE", "global state"), ("attributes of the nn.Module", "attribute"),
         ("float input", "number"), ("len(", "structure"))


class Miss(typing.NamedTuple):
    """One version that did not take a call."""

    version: int          # Dynamo's number of the compile within the function
    guard: str
    about: str
    expected: str = ""
    seen: str = ""


def miss(sentence, values):
    """`values`: the locals of the call that missed."""
    found = VERSION.match(sentence)
    version, text = (int(found[1]), found[2]) if found else (-1, sentence)
    guard = text.strip().splitlines()[0].partition("  #")[0].strip() if text.strip() else ""
    about = next((about for part, about in ABOUT if part in text), "other")
    if about == SPECIALISED and not LEAST_TWO.fullmatch(guard):   # a range says where its lower end comes from, though a branch gave it the upper one
        about = "relation"
    mismatch = MISMATCH.match(guard)
    if mismatch is None:
        return Miss(version, guard, about, guard, sizes_seen(guard, values))
    name = subject(mismatch)
    return Miss(version, f"{name} == {mismatch['expected']}", about, mismatch["expected"], f"{name} = {mismatch['seen']}")


def subject(mismatch):
    name, what, dim = mismatch["name"], mismatch["what"], mismatch["dim"]
    return f"{name}.{what}" if dim is None else f"{name}.{what}()[{dim}]"


def sizes_seen(guard, values):
    found = dict.fromkeys(SIZE.findall(guard))
    sizes = ((name, dim, look_up(name, values)) for name, dim in found)
    return ", ".join(f"{name}.size()[{dim}] = {value.size(int(dim))}" for name, dim, value in sizes if hasattr(value, "size"))


def look_up(path, values):
    """x, xs[0], named['a'].b: read without evaluating anything."""
    root = re.match(r"\w+", path)
    value = values.get(root[0]) if root else None
    for attribute, item in STEP.findall(path[root.end():] if root else ""):
        try:
            value = vars(value)[attribute] if attribute else value[int(item) if item.isdigit() else item]
        except Exception:
            return None
    return value


def mentioned(source, guard):
    """Whether the guard is about this source of the ledger ("L['x']:0", "L['n']")."""
    base, colon, dim = LOCAL.sub(r"\1", source).rpartition(":")
    if colon and dim.isdigit():
        return re.search(rf"(?<![\w.\]]){re.escape(base)}\.size\(\)\[{dim}\]", guard) is not None
    name = re.escape(LOCAL.sub(r"\1", source))
    return re.search(rf"(?<![\w.\]]){name}(?![\w.\[])", guard) is not None


def is_about(relation, guard):
    """Whether a relation of the ledger, in the words of a report, is this guard: L['x'].size(1) > 6 and x.size()[1] > 6."""
    return re.sub(r"\.size\((\d+)\)", r".size()[\1]", LOCAL.sub(r"\1", relation)) == guard
