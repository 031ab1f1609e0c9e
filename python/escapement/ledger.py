"""What happened at compile time, per function: compiles, escapes, graph breaks, dims that did not stay dynamic.

Everything is kept as strings and numbers: symbols, guards and stacks die with the compile that made them. Functions are known
by the identity of their code object (equal code in two files is two functions) and are forgotten when it dies.
"""

import collections
import typing
import weakref

from .limits import COMPILES, FAILURES, KINDS, SHORT_ATTEMPT
from .locks import fork_safe_lock
from .misses import is_about, mentioned

LAST = COMPILES - 1

# Why a call is not compiled, beside limits of torch's.
SPENT = f"the budget of {COMPILES} compiles is spent"
FAILED = "an attempt to compile this kind of call has failed"
MANY_KINDS = f"there are {KINDS} other kinds of calls"


class Place(typing.NamedTuple):
    """A line of the user's program."""

    file: str
    line: int
    function: str
    text: str

    def __str__(self):
        if not self.line:
            return self.file
        return f"{self.file}:{self.line} in {self.function}{': ' if self.text else ''}{self.text}"


class Escape(typing.NamedTuple):
    """A relation between sizes that somebody asked for: which one, where in the user's program, from which inputs."""

    expr: str            # over symbols
    relation: str        # the same over the inputs, as a person writes them
    sources: tuple
    place: Place
    kind: str            # branch, exact value: asked for by host code; framework: by an operator
    seen: tuple          # (size, number) pairs: the values that decided
    path: tuple          # from the input to the value that was read: ("L['x']", "cat", "size", "gt")
    direct: bool         # in the function itself, not in something it calls

    @property
    def where(self):
        return str(self.place)

    @property
    def identity(self):
        """The same read of the same inputs, whatever it found."""
        return self.place, self.sources, self.kind


class Pinned(typing.NamedTuple):
    """A dim of a user input that is a constant in the graph."""

    source: str
    dim: int
    value: int
    why: str


class Cause(typing.NamedTuple):
    """Why a frame was compiled: `kind` is "first", "key", an escape's kind, or what the failing guard is about (misses.ABOUT)."""

    kind: str
    escape: Escape | None = None   # whose guard failed


FIRST = Cause("first")


class Compile(typing.NamedTuple):
    """One graph handed to the backend."""

    number: int
    dims: int            # dims of user inputs, all tensors together
    pinned: tuple        # of Pinned
    escapes: tuple       # of Escape: asked for by the user's host code
    guards: tuple = ()   # of Escape: asked for by operators
    capture_ms: float = 0.0   # the frame's: tracing, and what the backend does before the first call
    key: int = 0         # which of the function's keys (rank, dtype, layout, grad mode); each has a budget of its own
    cause: Cause = FIRST
    misses: tuple = ()   # of Miss: why no older version took the call
    constants: tuple = ()     # texts: operators that need one of the program's integers as a constant
    declared: tuple = ()      # of frames.DimFact: what became of the dims of a function compiled with dims=


class Plan(typing.NamedTuple):
    """How the next compile of a function under a key is to be made."""

    number: int
    cause: Cause
    host: tuple = ()         # sources whose reads by host code become graph breaks
    operators: tuple = ()    # sources about which operators may ask no more: their questions become graph breaks
    held: frozenset = frozenset()   # relations that every compile so far held, in words: no call was turned away by one of them


class Attempts:
    """Attempts to compile that came to nothing, one after another: some at once, then in ever longer intervals. Right calls come after wrong
    ones, and each attempt costs what a compile does."""

    def __init__(self):
        self.failed = self.rest = 0    # rest: calls that run eagerly before the next attempt

    def fail(self):
        self.failed += 1
        if self.failed >= FAILURES:
            self.rest = 4 ** (self.failed - FAILURES) - 1

    def are_at_rest(self):
        """Whether this call is one of those."""
        if not self.rest:
            return False
        self.rest -= 1
        return True


class Budget:
    """What happened to one function under one key."""

    def __init__(self):
        self.compiled = 0
        self.closed = None                                  # why no call is compiled any more, if so
        self.attempts = Attempts()                          # that failed for inputs of theirs
        self.chances = 1                                    # attempts that may fail for another reason before the key is closed
        self.versions = set()                               # Dynamo's numbers of this key's compiles
        self.escapes = {}                                   # identity -> Escape, of host code and of operators
        self.blamed = collections.defaultdict(set)          # source -> numbers of the compiles it was the reason for
        self.held = None                                    # relations that operators asked for in all compiles

    def plan(self, misses, known):
        """The last compile of the budget is the general one: what caused two recompiles, or one by a line of the function's own,
        is not asked about any more. (A break inside a callee splits every frame on the way, so there one recompile is cheaper.)"""
        number, own = self.compiled, [miss for miss in misses if miss.version in self.versions]
        cause = self.cause(own) if number else Cause("key") if known else FIRST
        for source in self.blame(own[0]) if own else ():   # of the version used last; what older ones missed was blamed before
            self.blamed[source].add(number)
        if number < LAST:
            return Plan(number, cause)
        host = tuple(source for source in self.blamed if self.breaks(source, ("branch", "exact value"), 2))
        operators = tuple(source for source in self.blamed if source not in host and self.breaks(source, ("framework",), 1))
        return Plan(number, cause, host, operators, self.held or frozenset())

    def cause(self, misses):
        if not misses:
            return Cause("other")
        asked = [escape for escape in self.escapes.values()
                 if any(mentioned(source, misses[0].guard) for source in escape.sources)]
        if misses[0].about not in ("size", "relation") or not asked:
            return Cause("size 0 or 1" if misses[0].about == "size" else misses[0].about)
        asked.sort(key=lambda escape: (not is_about(escape.relation, misses[0].guard), escape.kind == "framework",
                                       misses[0].about == "size" and "==" not in escape.relation))
        return Cause(asked[0].kind, asked[0])

    def blame(self, miss):
        return [source for escape in self.escapes.values() for source in escape.sources if mentioned(source, miss.guard)]

    def breaks(self, source, kinds, recompiles):
        asked = [escape for escape in self.escapes.values() if source in escape.sources and escape.kind in kinds]
        direct = bool(asked) and all(escape.direct for escape in asked)
        return direct or bool(asked) and recompiles > 1 and len(self.blamed[source]) >= recompiles

    def refusal(self):
        """Why this call is not compiled; None if it is. The versions there are go on to serve what they can."""
        if self.closed is None and self.compiled >= COMPILES:
            self.closed = SPENT
        return self.closed or (FAILED if self.attempts.are_at_rest() else None)

    def note(self, version, compiled):
        self.versions.add(version)
        self.escapes.update((escape.identity, escape) for escape in (*compiled.escapes, *compiled.guards))
        held = frozenset(escape.relation for escape in compiled.guards)
        self.held = held if self.held is None else self.held & held


class Function:
    """The notes about one function: a code object that Dynamo compiles, or a function of our own tracer (which has a `place`). Its
    lists only grow, and each append is atomic."""

    def __init__(self, owner):
        self.name, self.file, self.line = owner.place if hasattr(owner, "place") else place_of(owner)
        self.eager = collections.Counter()      # own tracer: reason -> calls that ran the function itself
        self.details = {}                       # reason -> what was said the first time
        self.compiles, self.breaks, self.skips, self._regions = [], [], [], []
        self.budgets = {}                       # key -> Budget
        self.given_up = {}                      # key -> sources that are host values from now on
        self.sentences = 0                      # of Dynamo's list of missed guards, how many have been read
        self.refused = collections.Counter()    # reason -> calls that ran eagerly without an attempt to compile them
        self.kinds = collections.Counter()      # number of a torch.compile() -> keys it has seen
        self.attempts = collections.defaultdict(Attempts)   # the same -> those after which a key was closed
        self.values = True                      # values that only the data tell are symbols of its graphs (Session.values)

    @property
    def refusals(self):
        return sum(self.refused.values())

    def budget(self, key):
        if key not in self.budgets:
            self.budgets[key] = Budget()
            self.kinds[key and key[0]] += 1
        return self.budgets[key]

    def refusal(self, key):
        """Why a call of this key is not compiled, if so. Keys beyond the limit are not remembered."""
        budget = self.budgets.get(key)
        if budget is not None:
            return budget.refusal()
        if self.kinds[key[0]] >= KINDS:
            return MANY_KINDS
        return FAILED if self.attempts[key[0]].are_at_rest() else None

    def fail(self, key, lasting, seconds):
        """What a program does at its first call only (it imports something, makes lazy parameters, fills a table) may be what cannot be traced: behind
        an attempt that was short there is another one."""
        budget = self.budget(key)
        if not lasting:
            budget.attempts.fail()
            return
        if budget.chances and seconds < SHORT_ATTEMPT:
            budget.chances -= 1
        else:
            budget.closed = FAILED
        self.attempts[key[0]].fail()

    def succeed(self, key):
        budget = self.budget(key)
        budget.compiled, budget.attempts = budget.compiled + 1, Attempts()
        self.attempts.pop(key and key[0], None)
        return budget

    def begin(self, key, misses):
        plan = self.budget(key).plan(misses, bool(self.compiles))
        if plan.host or plan.operators:
            self.given_up[key] = (*plan.host, *plan.operators)
        return plan

    def add_region(self, region, inputs, version):
        self._regions.append((reference(region), tuple(inputs), version))

    def regions(self):
        return [region for region, _, _ in self.regions_and_inputs()]

    def regions_and_inputs(self):
        """The regions that are alive, each with what its inputs are called and the (key, number) of its compile, if known."""
        return [(region, inputs, version) for region, inputs, version
                in ((read(), inputs, version) for read, inputs, version in self._regions) if region is not None]


def place_of(code):
    return getattr(code, "co_qualname", code.co_name), code.co_filename, code.co_firstlineno


def size_name(source):
    """"L['x']:0" as a person writes it: L['x'].size(0)."""
    base, colon, dim = source.rpartition(":")
    return f"{base}.size({dim})" if colon and dim.isdigit() else source


class Ledger:
    """All functions of the process. Compiles may run in several threads at once."""

    def __init__(self):
        self._lock = fork_safe_lock()
        self._functions = {}        # id of a code object -> (weak reference, Function)
        self.fallbacks = collections.Counter()
        self.jit = collections.Counter()    # of the own tracer: checks, failures of checks
        self.breaks = self.skips = 0

    def function(self, code):
        with self._lock:
            known = self.known(code)
            if known is not None:
                return known
            made = Function(code)
            self._functions[id(code)] = (weakref.ref(code, self._forget(id(code))), made)
            return made

    def known(self, code):
        """None where nothing has happened to this code yet."""
        kept = self._functions.get(id(code))
        return kept[1] if kept is not None and kept[0]() is code else None

    def _forget(self, identity):
        def forget(reference):
            with self._lock:
                if self._functions.get(identity, (None,))[0] is reference:
                    del self._functions[identity]
        return forget

    def begin(self, code, key, misses):
        with self._lock:
            return self.function(code).begin(key, misses)

    def note(self, code, key, version, graphs):
        """A compile that succeeded: a `Compile` for each graph handed to the backend (none is a frame without tensors)."""
        with self._lock:
            function = self.function(code)
            budget = function.succeed(key)
            budget.versions.add(version)
            number = list(function.budgets).index(key)
            for compiled in graphs:
                function.compiles.append(compiled._replace(key=number))
                budget.note(version, compiled)

    def compiled(self, code, key):
        """How many versions the key has."""
        with self._lock:
            function = self.known(code)
            return function.budgets[key].compiled if function is not None and key in function.budgets else 0

    def note_failure(self, code, key, lasting, seconds=0.0):
        """`lasting`: whatever the sizes, calls of this key cannot be compiled. `seconds`: that the attempt took."""
        with self._lock:
            self.function(code).fail(key, lasting, seconds)

    def refusal(self, code, key):
        """Why this call runs eagerly without an attempt to compile it, which is counted here; None if it is to be compiled."""
        with self._lock:
            function = self.known(code)
            why = function.refusal(key) if function is not None else None
            if why is not None:
                function.refused[why] += 1
            return why

    def note_refusal(self, code, why):
        """This call runs eagerly, the next one is looked at anew."""
        with self._lock:
            self.function(code).refused[why] += 1

    def close(self, code, key, why):
        """This call and all later ones of the key that no version takes run eagerly."""
        with self._lock:
            function = self.function(code)
            function.budget(key).closed = why
            function.refused[why] += 1

    def note_break(self, code, reasons):
        with self._lock:
            self.function(code).breaks.extend(reasons)
            self.breaks += len(reasons)

    def note_skip(self, code, reason):
        with self._lock:
            self.function(code).skips.append(reason)
            self.skips += 1

    def note_region(self, code, region, inputs=(), version=None):
        with self._lock:
            self.function(code).add_region(region, inputs, version)

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
            "causes": dict(collections.Counter(compiled.cause.kind for compiled in compiles)),
            "escapes": sum(len(compiled.escapes) for compiled in compiles),
            "graph_breaks": self.breaks,
            "skipped_frames": self.skips,
            "refused_calls": sum(function.refusals for function in functions),
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
