"""What a compile can be asked about sizes, read while the backend is being called: symbols, guards and stacks die right afterwards.

With dynamo.py and dispatch.py the only file that knows private names of torch. Nothing here asks a symbol a question (that would
pin it); everything is copied out as strings and numbers.
"""

import collections
import linecache
import re
import typing

import sympy
import torch
from torch._dynamo import output_graph

from ..ledger import Escape, Pinned, Place, size_name
from .float_sizes import in_sizes

# A guard asked from these files comes from the user's own code; all others are questions of operators.
HOST_READS = ("_dynamo/variables/", "_dynamo/symbolic_convert.py")
USER_PLACE = re.compile(r"(?P<text>.*?)(?:  # )?(?P<file>\S+):(?P<line>\d+) in (?P<name>.+)")
TRAILING_ZEROS = re.compile(r"(\.\d+?)0{3,}\b")   # sympy writes 0.5 with fifteen digits


# --- relations between sizes

def relations(env, reads, code):
    """The guards on sizes, in two groups: those that the user's own code asked for, and those of operators. `reads` says more about
    a guard of the first group, by its identity."""
    host, operators = [], []
    for guard in env.guards:
        read = reads.get(id(guard))
        by_host = read is not None or asked_by_host(guard)
        (host if by_host else operators).append(relation(guard, env, read, by_host, code))
    return tuple(host), tuple(operators)


def asked_by_host(guard):
    return any(part in str(guard.sloc.framework_loc) for part in HOST_READS)


def pins(guard, env, sources, held):
    """Whether this is an operator's question about one of the sources, whose answer was not the same in all compiles (`held`)."""
    asks = not asked_by_host(guard) and any(source in sources for source in sources_of(guard.expr, env))
    return asks and in_words(guard.expr, env) not in held


def relation(guard, env, read, by_host, code):
    sources = sources_of(guard.expr, env)
    place = read.place if read is not None else user_place(guard.sloc)
    kind = read.kind if read is not None else kind_of(guard) if by_host else "framework"
    path = read.path if read is not None and read.path else tuple(map(size_name, sources[:1]))
    direct = read.direct if read is not None else is_within(place, code)
    return Escape(str(guard.expr), in_words(guard.expr, env), sources, place, kind, values_seen(guard.expr, env), path, direct)


def is_within(place, code):
    """Whether the line is the function's own: many functions of a file are called `forward`."""
    lines = [line for _, _, line in code.co_lines() if line]
    return place.file == code.co_filename and min(lines) <= place.line <= max(lines)


def kind_of(guard):
    """Of a host read that was not watched: a jump asks for truth, everything else for a number."""
    jump = "symbolic_convert.py" in str(guard.sloc.framework_loc)
    return "exact value" if not jump and type(guard.expr).__name__ == "Equality" and guard.expr.rhs.is_Number else "branch"


def sources_of(expr, env):
    return tuple(sorted({spelling(source) for symbol in in_sizes(expr, env).free_symbols for source in env.var_to_sources.get(symbol, ())}))


def values_seen(expr, env):
    """The sizes in the expression as they were: (("L['x'].size(0)", 6),)."""
    known = getattr(env, "backed_var_to_val", None) or getattr(env, "var_to_val", {})
    seen = ((size_name(spelling(env.var_to_sources[symbol][0])), known[symbol]) for symbol in in_sizes(expr, env).free_symbols
            if symbol in known and env.var_to_sources.get(symbol))
    return tuple(sorted((name, int(value) if value.is_Integer else float(value)) for name, value in seen))


def in_words(expr, env):
    """The expression with each symbol written as the input it comes from, in the order of these names."""
    if type(expr).__name__ in ("And", "Or"):
        return f" {type(expr).__name__.lower()} ".join(sorted(in_words(part, env) for part in expr.args))
    if expr.is_Relational:
        return f"{in_words(expr.lhs, env)} {expr.rel_op} {in_words(expr.rhs, env)}"
    names = {symbol: sympy.Symbol(size_name(spelling(sources[0])), **symbol.assumptions0) for symbol in expr.free_symbols
             if (sources := env.var_to_sources.get(symbol))}
    return TRAILING_ZEROS.sub(r"\1", str(expr.xreplace(names)))


def user_place(sloc):
    """Where a guard was asked for, with the path that torch has shortened (by one letter too many) whole again."""
    found = USER_PLACE.fullmatch(str(sloc.maybe_user_loc or first_line(sloc.framework_loc)).strip())
    if found is None:
        return Place(str(sloc.maybe_user_loc), 0, "", "")
    file = next((path for path in list(linecache.cache) if path.endswith(found["file"])), found["file"])
    return Place(file, int(found["line"]), found["name"], found["text"].strip())


def spelling(source):
    """As `unbacked_sources` wants it: "L['x']:0" for a size, the bare name for an integer."""
    base, dim = getattr(source, "base", None), getattr(source, "idx", None)
    return source.name if base is None or dim is None else f"{base.name}:{dim}"


# --- the way of a value through the program

class Read(typing.NamedTuple):
    """One look of host code at a symbolic value that added a guard."""

    kind: str
    place: Place
    path: tuple
    direct: bool         # in the frame itself, not in something it calls
    guard: object        # held so that its identity stays its own


def read_of(variable, guard, stack):
    """`variable`: Dynamo's variable whose value was asked for; `stack`: the user's frames, innermost last."""
    kind = "branch" if isinstance(variable.sym_num, torch.SymBool) else "exact value"
    frame = stack[-1]
    place = Place(frame.filename, frame.lineno, frame.name, (frame.line or "").strip())
    return Read(kind, place, path_of(variable.proxy.node), len(stack) == 1, guard)


def path_of(node):
    """The shortest way from a user's input to this value: ("L['x']", "cat", "size", "gt")."""
    came, queue = {node: None}, collections.deque([node])
    while queue:
        here = queue.popleft()
        if here.op == "placeholder" and is_user_input(here):
            return tuple(steps_from(here, came))
        for operand in here.all_input_nodes:
            if operand not in came:
                came[operand] = here
                queue.append(operand)
    return ()


def steps_from(node, came):
    """`size, getitem` and `size(0)` are two ways in which Dynamo writes one read."""
    steps = [size_name(spelling(node.meta["grapharg"].source))]
    while (node := came[node]) is not None:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        if name == "getitem" and steps[-1] == "size":
            steps[-1] = f"size({node.args[1]})"
        else:
            steps.append(f"size({node.args[1]})" if name == "size" and len(node.args) > 1 else name)
    return steps


def is_user_input(node):
    argument, value = node.meta.get("grapharg"), node.meta.get("example_value")
    if getattr(argument, "source", None) is None:
        return False
    return not isinstance(value, torch.Tensor) or argument.pass_arg_as_tensor or is_user_tensor(argument, value)


# --- inputs

def input_names(nodes, key):
    """What each placeholder is to the user: L['x'], L['x'].size(0). Graphs of AOTAutograd have only names of their own."""
    return [input_name(node, node.meta.get(key)) for node in nodes]


def input_name(node, value):
    if isinstance(value, torch.SymInt):
        return in_words(value.node.expr, value.node.shape_env)
    source = getattr(node.meta.get("grapharg"), "source", None)
    return source.name if source is not None else node.name


def input_dims(gm, env):
    """How many dims the user's tensors have, and those of them which are constants in the graph."""
    count, pinned = 0, []
    for node in gm.graph.find_nodes(op="placeholder"):
        argument, value = node.meta.get("grapharg"), node.meta.get("example_value")
        if not is_user_tensor(argument, value):
            continue
        count += value.dim()
        pinned += [Pinned(argument.source.name, dim, constant, why_pinned(argument.source, dim, constant, env))
                   for dim, size in enumerate(value.shape) if (constant := constant_size(size)) is not None]
    return count, tuple(pinned)


def is_user_tensor(argument, value):
    """A tensor the caller can change the size of: not a parameter, not a buffer, not a number passed as a tensor."""
    source = getattr(argument, "source", None)
    if source is None or not isinstance(value, torch.Tensor) or getattr(argument, "pass_arg_as_tensor", False):
        return False
    owned = type(source).__name__ == "UnspecializedParamBufferSource" or "._buffers[" in source.name or "._parameters[" in source.name
    return not owned and not isinstance(value, torch.nn.Parameter)


def constant_size(size):
    """The number, or None for a symbol. Never asks the symbol: that would pin it."""
    if isinstance(size, int):
        return size
    return int(size.node.expr) if size.node.expr.is_Integer else None


def why_pinned(source, dim, constant, env):
    symbol = env.source_to_var.get(f"{source.name}.size()[{dim}]")
    place = env.replacements_slocs.get(symbol) if symbol is not None else None
    if place is not None:
        return f"pinned at {user_place(place)}"
    return f"it was {constant} when first seen" if constant < 2 else "static by the user's or torch's choice"


# --- graph breaks

def break_log():
    """Dynamo's list of graph breaks in this process; compiles are serialised by Dynamo, so a slice of it is one compile's."""
    return getattr(output_graph, "graph_break_reasons", [])


def new_breaks(before):
    return [f"{first_line(entry.reason)}{place_of(entry.user_stack)}" for entry in break_log()[before:]]


def place_of(stack):
    return f" at {stack[-1].filename}:{stack[-1].lineno}" if stack else ""


def first_line(value):
    return (str(value).strip().splitlines() or [type(value).__name__])[0]
