"""Dynamo, steered: every dim dynamic from the first compile, a budget of recompiles, then a graph break at the escape.

This is the only file that knows private names of torch (they move between releases). Two functions of Dynamo are wrapped, once;
both do nothing unless the compiler function is ours:

  compile_frame               holds tracing and the backend call, so configuration can be patched for exactly one compile, and a
                              compile can be tried again under other rules
  process_automatic_dynamic   the one place where a dim or a number is decided static or dynamic (parameters never reach it)

Sizes 0 and 1 are the hard part. "Oblivious" tracing takes neither branch of a framework test for 0 or 1, so one graph serves all
sizes; but some programs cannot be traced so (a broadcast of 1 against n). Hence: oblivious first, and a dim that is 0 or 1 stays
static until it has been seen to vary; on an error one more try with obliviousness off.

Where a name has moved, `install` falls back to the restart route, then to stock behaviour, and says once which one is in force.
"""

import contextlib
import copy
import functools
import inspect
import linecache
import logging
import re
import threading
import time

import torch
import torch._dynamo
import torch._dynamo.config
import torch.fx.experimental._config
from torch._dynamo import convert_frame, output_graph, pgo
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.backends.common import aot_autograd  # noqa: F401  (used by training.py)
from torch._dynamo.types import FrameAction, FrameExecStrategy
from torch._dynamo.variables import builder
from torch._guards import CompileContext, TracingContext
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_wrapper_subclass  # noqa: F401

from . import attributes, steer_dims
from .errors import EscapementError
from .ledger import LEDGER, Compile, Escape, Pinned, size_name
from .option_values import resolve

log = logging.getLogger("escapement")

SkipFrame = dynamo_exc.SkipFrame
RESTART = dynamo_exc.TensorifyScalarRestartAnalysis
RETRY = (dynamo_exc.TorchRuntimeError, dynamo_exc.InternalTorchDynamoError, dynamo_exc.BackendCompilerFailed,
         dynamo_exc.UserError)
# A guard asked from these files comes from the user's own code; all others are questions of operators.
HOST_READS = ("_dynamo/variables/", "_dynamo/symbolic_convert.py")
USER_PLACE = re.compile(r"(?P<text>.*?)(?:  # )?(?P<file>\S+):(?P<line>\d+) in (?P<name>.+)")
TRAILING_ZEROS = re.compile(r"(\.\d+?)0{3,}\b")   # sympy writes 0.5 with fifteen digits
SYMBOL = re.compile(r"\b[a-z]+\d+\b")
WRAPPER_LINKS = ("_torchdynamo_orig_backend", "compiler_fn", "func")

active = threading.local()   # .session: the compile of ours that this thread is in
state = {"backend": None, "route": None}


class Session:
    """One frame being compiled for our backend."""

    def __init__(self, code, key, number, spent):
        self.code, self.key, self.number, self.spent = code, key, number, spent
        self.oblivious = True
        self.pending = []        # Compile notes; kept only if the compile succeeds
        self.declared = None     # steer_dims.Declared: what escapement.compile(dims=...) says about this frame


# --- installing

def install(backend, route=None):
    """Wraps Dynamo for this backend object, once. `route` forces one of the routes (tests)."""
    state["backend"] = backend
    if state["route"] is not None and route is None:
        return state["route"]
    chosen = route or ("recipe" if recipe_possible() else "restart" if restart_possible() else "stock")
    if chosen == "recipe" and convert_frame.compile_frame is not compile_frame:
        convert_frame.compile_frame = compile_frame
        builder.process_automatic_dynamic = process_automatic_dynamic
    level = logging.INFO if chosen == "recipe" else logging.WARNING
    log.log(level, "sizes are made dynamic by the %s route (torch %s): %s", chosen, torch.__version__, ROUTES[chosen])
    state["route"] = chosen
    return chosen


ROUTES = {
    "recipe": "one compile serves all sizes",
    "restart": "this torch is not known; every new function is traced twice",
    "stock": "this torch is not known; a size is dynamic only after it has changed once",
}


def recipe_possible():
    try:
        frame = list(inspect.signature(convert_frame.compile_frame).parameters)
        automatic = list(inspect.signature(builder.process_automatic_dynamic).parameters)
        env = ShapeEnv()
    except Exception:
        return False
    return (frame[5:7] == ["compiler_fn", "one_graph"] and automatic == ["tx", "name", "entry", "is_unspecialized_nn_module"]
            and all(hasattr(env, name) for name in ("guards", "var_to_sources", "source_to_var"))
            and hasattr(pgo, "auto_dynamic"))


def restart_possible():
    names = ("CodeId", "get_code_state", "FrameStateSizeEntry", "auto_dynamic")
    return all(hasattr(pgo, name) for name in names) and hasattr(dynamo_exc, "TensorifyScalarRestartAnalysis")


def is_ours(fn):
    return any(wrapper is state["backend"] for wrapper in wrappers(fn))


def wrappers(fn):
    """torch.compile wraps the backend several times; each wrapper keeps the next under one of a few names."""
    for _ in range(8):
        if fn is None:
            return
        yield fn
        fn = next((found for link in WRAPPER_LINKS if (found := getattr(fn, link, None)) is not None), None)


# --- the two wrapped functions

torch_compile_frame = convert_frame.compile_frame
torch_automatic = builder.process_automatic_dynamic


@functools.wraps(torch_compile_frame)
def compile_frame(code, globals, locals, builtins, closure, compiler_fn, *rest, **named):
    run = functools.partial(torch_compile_frame, code, globals, locals, builtins, closure, compiler_fn, *rest, **named)
    # dynamic=False reaches us as this flag: the user does not want what the recipe does.
    if state["route"] != "recipe" or not torch._dynamo.config.automatic_dynamic_shapes or not is_ours(compiler_fn):
        return run()
    declared = steer_dims.declared(compiler_fn, code, locals)
    key = frame_key(locals) + steer_dims.key(declared)
    session = Session(code, key, *LEDGER.begin(code, key))
    session.declared = declared
    breaks, start = len(break_log()), time.perf_counter()
    try:
        result = attempt(session, run)
    except (SkipFrame, dynamo_exc.Unsupported) as skipped:   # the whole frame runs eagerly for good, and torch says nothing
        LEDGER.note_skip(code, first_line(skipped))
        raise
    except dynamo_exc.TorchRuntimeError as refused:          # an operator refuses these sizes, or its fake kernel is wrong
        if rest[0] or asks_strict(compiler_fn):              # one graph or nothing
            raise
        LEDGER.fallback("refused_in_trace")
        raise eager_this_time() from refused
    finally:
        LEDGER.note_break(code, new_breaks(breaks))
    spent = (time.perf_counter() - start) * 1e3
    for compiled in session.pending:
        steer_dims.learn(declared, code, compiled.declared)
        LEDGER.note(code, key, compiled._replace(capture_ms=spent / len(session.pending)))
    return result


def attempt(session, run):
    try:
        with our_rules(session):
            return run()
    except RETRY as error:
        if isinstance(getattr(error, "inner_exception", None), EscapementError):
            raise                     # our own complaint to the user: tracing again would only repeat it
        forget_failed_trace(error)
    session.oblivious = False         # a real error of the program simply happens again
    session.pending.clear()
    with our_rules(session):
        return run()


def eager_this_time():
    """Has Dynamo run this frame eagerly, once: so a mistake in the program's input raises eager's own exception, at its own
    line. Nothing of the frame has run yet, and nothing is remembered about its code."""
    error = dynamo_exc.UserError(dynamo_exc.UserErrorType.INVALID_INPUT, "escapement: refused_in_trace")
    error.frame_exec_strategy = FrameExecStrategy(FrameAction.DEFAULT, FrameAction.DEFAULT)
    return error


def asks_strict(compiler_fn):
    given = [options for fn in wrappers(compiler_fn) if (options := (getattr(fn, "kwargs", None) or {}).get("options"))]
    try:
        return resolve(given=given[0] if given else None)["strict"]
    except EscapementError:   # a wrong option is the backend's to report, and it has not been asked yet
        return False


@contextlib.contextmanager
def our_rules(session):
    """Configuration of exactly one compile, in this thread."""
    with contextlib.ExitStack() as scope:
        scope.enter_context(torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True))
        scope.enter_context(torch.fx.experimental._config.patch(use_duck_shape=False, backed_size_oblivious=session.oblivious))
        if session.spent:   # a branch on an unbacked size is a graph break; nothing is traced twice for it
            scope.enter_context(torch.compiler.config.patch(unbacked_sources=",".join(session.spent)))
        outer, active.session = getattr(active, "session", None), session
        try:
            yield
        finally:
            active.session = outer


def process_automatic_dynamic(tx, name, entry, *, is_unspecialized_nn_module=False):
    merged = torch_automatic(tx, name, entry, is_unspecialized_nn_module=is_unspecialized_nn_module)
    session = getattr(active, "session", None)
    if session is None or tx.distributed_state is not None or not is_ours(tx.output.compiler_fn):
        return merged
    merged = copy.copy(merged)   # the original belongs to Dynamo's profile
    if isinstance(entry.size, tuple):
        usual = dynamic_size(entry.size, merged.size, session.oblivious)
        merged.size = steer_dims.sizes(session, tx, name, entry.size, usual, merged.size)
    elif steer_dims.is_declared(session, name):
        merged.scalar = steer_dims.scalar(session, name, entry.scalar, merged.scalar)
    elif entry.size is pgo.auto_dynamic and not is_unspecialized_nn_module and not is_global(name):
        merged.scalar = pgo.auto_dynamic
    # Dynamo would keep the values seen before a dim varied for the older version; ours is one version for all of them.
    merged.excluded_sizes = merged.excluded_scalar = None
    return merged


def is_global(name):
    """A global number (math.pi) is a constant until it is seen to change: as an input it would cost a check at every call."""
    return name.startswith("G[")


def dynamic_size(size, seen, oblivious):
    """Every dim dynamic, but for a 0 or 1 which has not been seen to vary (or cannot be traced obliviously)."""
    same_rank = isinstance(seen, tuple) and len(seen) == len(size)
    varied = seen if same_rank else (None,) * len(size)
    return tuple(n if type(n) is int and n < 2 and not (oblivious and was is pgo.auto_dynamic) else pgo.auto_dynamic
                 for n, was in zip(size, varied))


def forget_failed_trace(error):
    """What _compile does with a failed trace: break its reference cycles now, not at the next collection."""
    failed = getattr(error, "_torch_dynamo_tracer_output", None)
    if failed is not None:
        failed._cleanup_output_graph()


def break_log():
    """Dynamo's list of graph breaks in this process; compiles are serialised by Dynamo, so a slice of it is one compile's."""
    return getattr(output_graph, "graph_break_reasons", [])


def new_breaks(before):
    return [f"{first_line(entry.reason)}{place_of(entry.user_stack)}" for entry in break_log()[before:]]


def place_of(stack):
    return f" at {stack[-1].filename}:{stack[-1].lineno}" if stack else ""


def first_line(value):
    return (str(value).strip().splitlines() or [type(value).__name__])[0]


# --- keys: what makes another version without counting as a recompile

def frame_key(values):
    """Rank, dtype, device and layout class of the tensors among the locals, which module, and the grad mode."""
    parts = [part for name, value in sorted(values.items(), key=lambda item: item[0]) for part in value_key(name, value, 2)]
    return (torch.is_grad_enabled(), *parts)


def value_key(name, value, depth):
    if isinstance(value, torch.Tensor):
        return [(name, value.dim(), value.dtype, str(value.device), value.requires_grad, dense(value))]
    if isinstance(value, torch.nn.Module):
        return [(name, id(value))]
    if depth and isinstance(value, dict):
        return [part for key in value for part in value_key((name, str(key)), value[key], depth - 1)]
    if depth and isinstance(value, (list, tuple)):
        return [(name, len(value))] + [part for i, item in enumerate(value) for part in value_key((name, i), item, depth - 1)]
    return []


def dense(value):
    return value.layout == torch.strided and not value.is_nested and value.is_contiguous()


# --- notes taken while the backend is being called (stacks and guards are cleaned up right afterwards)

def current_code():
    session = getattr(active, "session", None)
    return session.code if session is not None else TracingContext.get().traced_code[0]


def compile_name():
    """`function [frame/compile]`, as Dynamo's own logs count."""
    compile_id = CompileContext.current_compile_id()
    return f"{current_code().co_name} [{compile_id}]" if compile_id is not None else current_code().co_name


def will_retry():
    """Whether an error raised now leads to a second try instead of reaching the user."""
    session = getattr(active, "session", None)
    return session is not None and session.oblivious


def note_compile(gm):
    """First thing in a backend call: escapes and constant dims of this graph."""
    env = TracingContext.get().fake_mode.shape_env
    dims, pinned = input_dims(gm, env)
    session = getattr(active, "session", None)
    if session is not None:
        needed = constants(gm, env)
        session.pending.append(Compile(session.number, dims, pinned, *relations(env), constants=needed,
                                       declared=steer_dims.hold(session, env, needed)))
        return
    code = current_code()
    number = len(LEDGER.function(code).compiles)
    LEDGER.note(code, None, Compile(number, dims, pinned, *relations(env)))


def note_again():
    """After more questions were asked about the sizes of the same graph: do the declared dims still hold?"""
    session = getattr(active, "session", None)
    if session is not None and session.pending:
        env = TracingContext.get().fake_mode.shape_env
        last = session.pending[-1]
        session.pending[-1] = last._replace(declared=steer_dims.hold(session, env, last.constants))


def constants(gm, env):
    """The operators whose schema takes an integer as a constant only, where the program gave one of its sizes or integers."""
    return tuple(constant.text(in_words(constant.integer.meta["example_value"].node._expr, env))
                 for constant in attributes.constants(gm))


def relations(env):
    """The guards on sizes, in two groups: those that the user's own code asked for, and those of operators."""
    host, operators = [], []
    for guard in env.guards:
        asked_by_host = any(part in str(guard.sloc.framework_loc) for part in HOST_READS)
        (host if asked_by_host else operators).append(relation(guard, env))
    return tuple(host), tuple(operators)


def relation(guard, env):
    sources = sorted({spelling(source) for symbol in guard.expr.free_symbols for source in env.var_to_sources.get(symbol, ())})
    return Escape(str(guard.expr), in_words(guard.expr, env), user_place(guard.sloc), tuple(sources))


def in_words(expr, env):
    """The expression with each symbol written as the input it comes from."""
    names = {str(symbol): size_name(spelling(sources[0])) for symbol in expr.free_symbols
             if (sources := env.var_to_sources.get(symbol))}
    text = f"{expr.lhs} {expr.rel_op} {expr.rhs}" if expr.is_Relational else str(expr)
    return SYMBOL.sub(lambda found: names.get(found[0], found[0]), TRAILING_ZEROS.sub(r"\1", text))


def user_place(sloc):
    """`file:line in function: text of the line`, with the path that torch has shortened (by one letter too many) whole again."""
    place = USER_PLACE.fullmatch(str(sloc.maybe_user_loc or first_line(sloc.framework_loc)).strip())
    if place is None:
        return str(sloc.maybe_user_loc)
    file = next((path for path in list(linecache.cache) if path.endswith(place["file"])), place["file"])
    text = place["text"].strip()
    return f"{file}:{place['line']} in {place['name']}{': ' if text else ''}{text}"


def input_names(nodes, key):
    """What each placeholder is to the user: L['x'], L['x'].size(0). Graphs of AOTAutograd have only names of their own."""
    return [input_name(node, node.meta.get(key)) for node in nodes]


def input_name(node, value):
    if isinstance(value, torch.SymInt):
        return in_words(value.node.expr, value.node.shape_env)
    source = getattr(node.meta.get("grapharg"), "source", None)
    return source.name if source is not None else node.name


def spelling(source):
    """As `unbacked_sources` wants it: "L['x']:0" for a size, the bare name for an integer."""
    base, dim = getattr(source, "base", None), getattr(source, "idx", None)
    return source.name if base is None or dim is None else f"{base.name}:{dim}"


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


# --- the restart route

def restart_if_static(gm):
    """Marks every constant dim of 2 or more as dynamic in Dynamo's profile and has the frame traced again, once."""
    if state["route"] != "restart" or not torch._dynamo.config.automatic_dynamic_shapes:
        return
    profile = pgo.get_code_state()[pgo.CodeId.make(current_code())].automatic_dynamic
    seeded = [seed(profile, node) for node in gm.graph.find_nodes(op="placeholder")]
    if any(seeded):
        raise RESTART("escapement: sizes are dynamic")


def seed(profile, node):
    argument, value = node.meta.get("grapharg"), node.meta.get("example_value")
    if not is_user_tensor(argument, value):
        return False
    sizes = [constant_size(size) for size in value.shape]
    entry = profile.get(argument.source.name)
    if entry is None or not isinstance(entry.size, tuple) or len(entry.size) != len(sizes):
        return False
    wanted = tuple(pgo.auto_dynamic if size is not None and size > 1 else was for size, was in zip(sizes, entry.size))
    changed, entry.size = wanted != entry.size, wanted
    return changed


# --- graphs

def line_table(gm):
    """Node index by generated line, and the first such line. Before `materialise` every number is wrong."""
    return gm._lineno_map or {}, gm._prologue_start


def materialise(gm):
    """Dynamo's graphs write their forward() at the first call only; a bound method taken before would be the stub."""
    _LazyGraphModule.force_recompile(gm)
