"""What happened at compile time, per function: compiles, escapes, graph breaks, dims that did not stay dynamic.

Everything is kept as strings and numbers: symbols, guards and stacks die with the compile that made them. Functions are known
by the identity of their code object (equal code in two files is two functions) and are forgotten when it dies.
"""

import collections
import threading
import typing
import weakref

COMPILES = 3  # the first compile and two recompiles: what DESIGN promises per function and key


class Escape(typing.NamedTuple):
    """A relation between sizes that somebody asked for: which one, where in the user's program, from which inputs."""

    expr: str            # over symbols
    relation: str        # the same over the inputs, as a person writes them
    where: str
    sources: tuple


class Pinned(typing.NamedTuple):
    """A dim of a user input that is a constant in the graph."""

    source: str
    dim: int
    value: int
    why: str


class Compile(typing.NamedTuple):
    """One graph handed to the backend."""

    number: int
    dims: int            # dims of user inputs, all tensors together
    pinned: tuple        # of Pinned
    escapes: tuple       # of Escape: asked for by the user's host code
    guards: tuple = ()   # of Escape: asked for by operators
    capture_ms: float = 0.0   # the frame's: tracing, and what the backend does before the first call
    key: int = 0         # which of the function's keys (rank, dtype, layout, grad mode); each has a budget of its own


class Function:
    """The notes about one function: a code object that Dynamo compiles, or a function of our own tracer (which has a `place`). Its
    lists only grow, and each append is atomic."""

    def __init__(self, owner):
        self.name, self.file, self.line = owner.place if hasattr(owner, "place") else place_of(owner)
        self.eager = collections.Counter()      # own tracer: reason -> calls that ran the function itself
        self.details = {}                       # reason -> what was said the first time
        self.compiles, self.breaks, self.skips, self._regions = [], [], [], []
        self.attempts = collections.Counter()   # key -> frames compiled under it
        self.escaped = {}                       # key -> source -> numbers of the compiles it escaped in
        self.given_up = {}                      # key -> sources that are host values from now on

    def begin(self, key):
        """The number of the compile that starts, and the sources whose budget is spent."""
        number = self.attempts[key]
        self.attempts[key] += 1
        seen = self.escaped.get(key, {})
        spent = [source for source, numbers in seen.items() if number >= COMPILES and len(numbers) >= COMPILES]
        if spent:
            self.given_up[key] = spent
        return number, spent

    def escape(self, key, number, escapes):
        seen = self.escaped.setdefault(key, {})
        for escape in escapes:
            for source in escape.sources:
                seen.setdefault(source, set()).add(number)

    def add_region(self, region, inputs):
        self._regions.append((reference(region), tuple(inputs)))

    def regions(self):
        return [region for region, _ in self.regions_and_inputs()]

    def regions_and_inputs(self):
        """The regions that are alive, each with what its inputs are called."""
        return [(region, inputs) for region, inputs in ((read(), inputs) for read, inputs in self._regions) if region is not None]


def place_of(code):
    return getattr(code, "co_qualname", code.co_name), code.co_filename, code.co_firstlineno


def size_name(source):
    """"L['x']:0" as a person writes it: L['x'].size(0)."""
    base, colon, dim = source.rpartition(":")
    return f"{base}.size({dim})" if colon and dim.isdigit() else source


class Ledger:
    """All functions of the process. Compiles may run in several threads at once."""

    def __init__(self):
        self._lock = threading.RLock()
        self._functions = {}        # id of a code object -> (weak reference, Function)
        self.fallbacks = collections.Counter()
        self.jit = collections.Counter()    # of the own tracer: checks, failures of checks
        self.breaks = self.skips = 0

    def function(self, code):
        with self._lock:
            kept = self._functions.get(id(code))
            if kept is not None and kept[0]() is code:
                return kept[1]
            made = Function(code)
            self._functions[id(code)] = (weakref.ref(code, self._forget(id(code))), made)
            return made

    def _forget(self, identity):
        def forget(reference):
            with self._lock:
                if self._functions.get(identity, (None,))[0] is reference:
                    del self._functions[identity]
        return forget

    def begin(self, code, key):
        with self._lock:
            return self.function(code).begin(key)

    def note(self, code, key, compiled):
        with self._lock:
            function = self.function(code)
            function.compiles.append(compiled._replace(key=list(function.attempts).index(key) if key in function.attempts else 0))
            function.escape(key, compiled.number, compiled.escapes)

    def note_break(self, code, reasons):
        with self._lock:
            self.function(code).breaks.extend(reasons)
            self.breaks += len(reasons)

    def note_skip(self, code, reason):
        with self._lock:
            self.function(code).skips.append(reason)
            self.skips += 1

    def note_region(self, code, region, inputs=()):
        with self._lock:
            self.function(code).add_region(region, inputs)

    def note_eager(self, owner, reason, detail):
        with self._lock:
            function = self.function(owner)
            function.eager[reason] += 1
            function.details.setdefault(reason, detail)

    def fallback(self, reason):
        with self._lock:
            self.fallbacks[reason] += 1

    def functions(self):
        with self._lock:
            return [function for _, function in self._functions.values()]

    def counters(self):
        functions = self.functions()
        compiles = [compiled for function in functions for compiled in function.compiles]
        return {
            "functions": sum(1 for function in functions if function.compiles),
            "compiles": len(compiles),
            "capture_ms": round(sum(compiled.capture_ms for compiled in compiles), 1),
            "input_dims": sum(compiled.dims for compiled in compiles),
            "specialised_dims": sum(len(compiled.pinned) for compiled in compiles),
            "escapes": sum(len(compiled.escapes) for compiled in compiles),
            "graph_breaks": self.breaks,
            "skipped_frames": self.skips,
            "fallbacks": dict(self.fallbacks),
        }

    def jit_counters(self):
        eager = sum((function.eager for function in self.functions()), collections.Counter())
        return {"checks": self.jit["checks"], "check_failures": self.jit["check_failures"], "eager": dict(eager)}

    def clear(self):
        with self._lock:
            self._functions.clear()
            self.fallbacks.clear()
            self.jit.clear()
            self.breaks = self.skips = 0


def reference(value):
    """A weak reference where the type allows one: a region must die with the model it was compiled for."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


LEDGER = Ledger()
