"""A stand-in for escapement._C, used by tests only while the real one cannot be imported.

Its Region runs forward(), and checks at every call that the arguments agree with what the bindings promise: that is the contract
between the Python side and the core.
"""

import itertools
import operator

import torch

IS_FAKE = True
ROWS = [
    ("strict", "bool", False, (), "a failure of the compiler is an error, not eager execution"),
    ("compile", "str", "block", ("background", "block"), "when code is generated"),
    ("disable", "bool", False, (), "run everything eagerly"),
    ("threads", "int", 0, (), "threads a kernel may use; 0 is torch's number"),
    ("min_parallel_us", "float", 5.0, (), "kernels shorter than this run on the calling thread"),
]
EVALUATE = {"add": operator.add, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod, "min": min, "max": max,
            "neg": operator.neg}
counts = {"regions": 0, "runs": 0}
fail_next = []      # exceptions that the next Regions raise when made


def option_table():
    return list(ROWS)


def stats():
    return dict(counts)


def reset():
    counts.update(regions=0, runs=0)


class Region:
    def __init__(self, forward, inputs, options, name, grad=False):
        if fail_next:
            raise fail_next.pop()
        self.forward, self.inputs, self.options, self.name, self.grad = forward, inputs, options, name, grad
        self.runs, self.locator = 0, None
        counts["regions"] += 1

    def set_locator(self, locator):
        self.locator = locator

    def __call__(self, *args):
        check(self.inputs, args)
        self.runs += 1
        counts["runs"] += 1
        return self.forward(*args)

    def info(self):
        symbols = {k: i for i, entry in reversed(list(enumerate(self.inputs))) for k in symbols_of(entry)}   # met first in input i
        version = {"hits": max(self.runs - 1, 0), "ops": 1, "record_ms": 0.0, "kernels": [], "apart": [], "calls": [], "guards": [],
                   "symbols": [{"symbol": f"s{k}", "source": f"arg{i}"} for k, i in sorted(symbols.items())], "timings": {}}
        return {"name": self.name, "recordings": min(self.runs, 1), "versions": [version] if self.runs else [], "misses": [],
                "fallbacks": {}}


def symbols_of(entry):
    if entry[0] in ("int", "sym"):
        return [entry[1]]
    parts = entry[1] if entry[0] == "tensor" else entry[1:]
    return list(itertools.chain.from_iterable(symbols_of(part) for part in parts if isinstance(part, tuple)))


def check(inputs, args):
    assert len(inputs) == len(args), (len(inputs), len(args))
    values = {}
    pairs = list(zip(inputs, args))
    for entry, arg in pairs:
        if entry[0] == "int":
            assert isinstance(arg, int) and entry[1] not in values, (entry, arg)
            values[entry[1]] = arg
    for entry, arg in pairs:
        if entry[0] == "tensor":
            assert isinstance(arg, torch.Tensor) and arg.dim() == len(entry[1]), (entry, type(arg))
            for dim, size in zip(entry[1], arg.shape):
                if isinstance(dim, tuple) and dim[0] == "sym":
                    values.setdefault(dim[1], size)
    for entry, arg in pairs:
        if entry[0] == "int_expr":
            assert evaluate(entry[1], values) == arg, (entry, arg, values)
        if entry[0] == "tensor":
            found = [evaluate(dim, values) for dim in entry[1]]
            assert found == list(arg.shape), (entry, tuple(arg.shape), values)


def evaluate(term, values):
    if isinstance(term, int):
        return term
    if term[0] == "sym":
        return values[term[1]]
    return EVALUATE[term[0]](*(evaluate(part, values) for part in term[1:]))
