"""Dynamo, steered: every dim dynamic from the first compile, a budget of recompiles, then a graph break at the escape.

With the files that it installs, notes.py, dispatch.py and oblivious.py the only file that knows private names of torch (they move between
releases). Four functions of Dynamo are wrapped here, once; they do nothing unless the compiler function is ours:

  compile_frame               holds tracing and the backend call, so configuration can be patched for exactly one compile, and a
                              compile can be tried again under other rules
  _compile                    holds compile_frame and the making of guards, which fails for some programs: these run eagerly
  process_automatic_dynamic   the one place where a dim or a number is decided static or dynamic (parameters never reach it)
  evaluate_expr               where host code asks a symbolic value for a number or a truth: the escapes of the ledger

A fifth, where Dynamo asks for a compile at all, is wrapped in refusals.py.

Sizes 0 and 1 are the hard part. "Oblivious" tracing takes the usual branch of a framework test for 0 or 1 where oblivious.py allows it,
so one graph serves all sizes, whichever it is first called with; but some programs cannot be traced so, where a size is 0 or 1 (`math.comb(n, 1)`, which wants a
number). Hence: oblivious first; where that fails, or breaks a graph that the number does not, one more try in which a 0 or 1 is a constant.

Where a name has moved, `install` falls back to the restart route, then to stock behaviour, and says once which one is in force.
"""

import contextlib
import copy
import functools
import inspect
import json
import logging
import threading
import time
import types

import torch
import torch._dynamo
import torch._dynamo.config
import torch.fx.experimental._config
from torch._dynamo import convert_frame, pgo
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.backends.common import aot_autograd  # noqa: F401  (used by training.py)
from torch._dynamo.utils import guard_failures
from torch._dynamo.variables import builder
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._guards import CompileContext, TracingContext
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_wrapper_subclass  # noqa: F401

from ..errors import EscapementError
from ..facts import compile_facts
from ..interrupts import is_interrupt
from ..ledger import LEDGER, Compile, Plan
from ..misses import miss
from ..option_values import resolve
from . import assertions, attributes, composites, data_questions, garbage, guard_latency, hooks, oblivious, offsets, parts, refusals, steer_dims, view_bases, whole_operators
from .keys import frame_key, number_of
from .notes import break_log, constant_size, first_line, in_words, input_dims, is_user_tensor, new_breaks, pins, place_of, read_of, relations
from .notes import input_names  # noqa: F401  (part of what this file offers)
from .refusals import raise_eager

log = logging.getLogger("escapement")
meta_log = logging.getLogger("torch._subclasses.fake_tensor")

SkipFrame = dynamo_exc.SkipFrame
RESTART = dynamo_exc.TensorifyScalarRestartAnalysis
RETRY = (dynamo_exc.TorchRuntimeError, dynamo_exc.InternalTorchDynamoError, dynamo_exc.BackendCompilerFailed,
         dynamo_exc.UserError)
WRAPPER_LINKS = ("_torchdynamo_orig_backend", "compiler_fn", "func", "backend_compile_fn")
MOST_WRAPPERS = 16

# Dynamo's words where an assert of the program fails, and where the program raises something.
FAILED_ASSERTION, RAISED = "Assertion failed on symbolic shapes", "Observed exception"

UNEQUAL = "must match the size of", "at non-singleton dimension", "must match the existing size", "Attempting to broadcast a dimension"

active = threading.local()   # .session: the compile of ours that this thread is in
state = {"backend": None, "route": None}


class Session:
    """One frame being compiled for our backend."""

    def __init__(self, code, key, plan, whole):
        self.code, self.key, self.plan = code, key, plan
        self.whole = whole       # no graph break is wanted
        self.oblivious, self.host, self.operators = True, plan.host, plan.operators
        self.values = True       # what only the data tell (`item()`, `nonzero()`) are symbols; else graph breaks, as torch has it by default
        self.asked_values = not LEDGER.function(code).values   # something wants to know one of them that cannot
        self.attributes = plan.cause.kind == "attribute"   # module numbers that vary become symbols, now that one has
        self.degenerate = False  # a dim that is 0 or 1 now is a symbol
        self.broke = len(break_log())
        self.answers = oblivious.Answers(whole)
        self.drawn = None        # the state of torch's generator behind draws that the program has made meanwhile
        self.failure = ""        # what the last attempt raised, in words
        self.declared = None     # steer_dims.Declared: what escapement.compile(dims=...) says about this frame
        self.start()

    def start(self):
        """Forgets an attempt that came to nothing."""
        self.pending = []        # Compile notes; kept only if the compile succeeds
        self.reads = {}          # identity of a guard -> Read
        self.looks_behind_views = False
        self.asserted = {}       # a condition, as the framework words it -> the assertion of the program that says it
        self.answers.oblivious, self.answers.tracing = self.oblivious, True


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
        SymNodeVariable.evaluate_expr = functools.wraps(torch_evaluate_expr)(evaluate_expr)
        convert_frame._compile = compile_whole
        refusals.install(key_of)
        parts.install(lambda: getattr(active, "session", None))
        symbolic_shapes.uninteresting_files().update((__file__, data_questions.__file__, offsets.__file__))   # these do not ask, they only pass on
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
        whole = list(inspect.signature(torch_compile_whole).parameters)
        automatic = list(inspect.signature(builder.process_automatic_dynamic).parameters)
        env = ShapeEnv()
    except Exception:
        return False
    return (frame[5:7] == whole[5:7] == ["compiler_fn", "one_graph"] and automatic == ["tx", "name", "entry", "is_unspecialized_nn_module"]
            and all(hasattr(env, name) for name in ("guards", "var_to_sources", "source_to_var"))
            and hasattr(pgo, "auto_dynamic") and hasattr(symbolic_shapes, "uninteresting_files") and parts.possible())


def restart_possible():
    names = ("CodeId", "get_code_state", "FrameStateSizeEntry", "auto_dynamic")
    return all(hasattr(pgo, name) for name in names) and hasattr(dynamo_exc, "TensorifyScalarRestartAnalysis")


def is_ours(fn):
    return any(wrapper is state["backend"] for wrapper in wrappers(fn))


def wrappers(fn):
    """torch.compile wraps the backend several times; each wrapper keeps the next under one of a few names. DistributedDataParallel's is a method of what
    keeps it, and a function of the user's names it."""
    todo = [fn]
    for _ in range(MOST_WRAPPERS):
        if not todo:
            return
        fn = todo.pop()
        yield fn
        held = getattr(fn, "__self__", None)
        found = [getattr(holder, link, None) for holder in (fn, held) if holder is not None for link in WRAPPER_LINKS]
        todo += [*named_by(fn), *(wrapped for wrapped in found if wrapped is not None)][::-1]


def named_by(fn):
    """What a function of the user's refers to, of what could be a backend."""
    if not isinstance(fn, types.FunctionType) or (fn.__module__ or "").partition(".")[0] == "torch":
        return []
    held = [cell.cell_contents for cell in fn.__closure__ or () if cell != types.CellType()]
    return [value for value in (*held, *(fn.__globals__.get(name) for name in fn.__code__.co_names)) if value is state["backend"]]


# --- the wrapped functions

torch_compile_frame = convert_frame.compile_frame
torch_automatic = builder.process_automatic_dynamic
torch_evaluate_expr = SymNodeVariable.evaluate_expr
torch_compile_whole = convert_frame._compile


@functools.wraps(torch_compile_whole)
def compile_whole(code, globals, locals, builtins, closure, compiler_fn, one_graph, *rest, **named):
    """What compile_frame has traced gets its guards here, and not every program's guards can be made: its call runs eagerly. Where the user
    marked a dim dynamic and the program has made a constant of it, that is the user's to know."""
    key = key_of(code, globals, locals, closure, compiler_fn)
    run = functools.partial(torch_compile_whole, code, globals, locals, builtins, closure, compiler_fn, one_graph)
    if key is None:
        return run(*rest, **named)
    active.traced = False
    try:
        with garbage.looked_at_rarely(), hooks.guarded(), guard_latency.not_flushed(), limits_of_torch(code, key, one_graph, rest, named) as counted:
            return run(*counted, **named)
    except Exception as error:
        if one_graph or isinstance(error, symbolic_shapes.ConstraintViolationError):
            raise
        if refusals.is_limit(error):
            refusals.run_this_eagerly(code, key, error)
        if not getattr(active, "traced", False):
            raise
        LEDGER.note_skip(code, first_line(error))
        LEDGER.note_failure(code, key, lasting=True)
        raise_eager(first_line(error), error)


@contextlib.contextmanager
def limits_of_torch(code, key, one_graph, rest, named):
    """Where a compile is as torch makes it, its limits are too."""
    if not is_steered():
        yield rest
        return
    counted = refusals.counted_by_key(rest, LEDGER.compiled(code, key))
    with contextlib.nullcontext() if one_graph else refusals.compiles_of_the_dead(refusals.cache_size(rest), named["compile_id"]):
        yield counted


def is_steered():
    """dynamic=False reaches us as this flag: the user does not want what the recipe does."""
    return state["route"] == "recipe" and torch._dynamo.config.automatic_dynamic_shapes


def key_of(code, globals, locals, closure, compiler_fn):
    """Every torch.compile() of a function has versions of its own. None: another backend's."""
    owner = owner_of(compiler_fn)
    if owner is None:
        return None
    if not is_steered():
        return (number_of(owner),)
    declared = steer_dims.declared(wrappers(compiler_fn), code, locals)
    return number_of(owner), frame_key(code, globals, locals, closure or ()), *steer_dims.key(declared)


def owner_of(compiler_fn):
    """What wraps our backend, innermost: one object for each torch.compile(). (DistributedDataParallel puts another around it at every call.)"""
    last = compiler_fn
    for wrapper in wrappers(compiler_fn):
        if wrapper is state["backend"]:
            return last
        last = wrapper
    return None


@functools.wraps(torch_compile_frame)
def compile_frame(code, globals, locals, builtins, closure, compiler_fn, *rest, **named):
    run = functools.partial(torch_compile_frame, code, globals, locals, builtins, closure, compiler_fn, *rest, **named)
    if not is_steered() or not is_ours(compiler_fn):
        return run()
    keep_order()
    key = key_of(code, globals, locals, closure, compiler_fn)
    why = None if one_graph(rest) else LEDGER.refusal(code, key)
    if why is not None:
        raise_eager(why)
    declared = steer_dims.declared(wrappers(compiler_fn), code, locals)
    misses = new_misses(code, locals)
    plan = LEDGER.begin(code, key, misses)
    if one_graph(rest):   # the user wants no graph break: versions beyond the budget are compiled, and counted
        plan = Plan(plan.number, plan.cause)
    session, start = Session(code, key, plan, one_graph(rest)), time.perf_counter()
    session.declared = declared
    try:
        result = attempt(session, run, one_graph(rest) or asks_strict(compiler_fn))
    finally:
        LEDGER.note_break(code, new_breaks(session.broke))
        if session.drawn is not None:
            torch.set_rng_state(session.drawn)
    spent = (time.perf_counter() - start) * 1e3
    graphs = [compiled._replace(capture_ms=spent / len(session.pending), cause=plan.cause, misses=tuple(misses))
              for compiled in session.pending]
    for compiled in graphs:
        steer_dims.learn(declared, code, compiled.declared)
    LEDGER.note(code, key, CompileContext.current_compile_id().frame_compile_id, graphs)
    write_artifact(code, graphs)
    active.traced = True
    return result


@functools.cache
def keep_order():
    """Dynamo tries first the version that ran last, so which of two that fit would run depended on the calls before. From our first compile
    on it tries them in the order in which they were made: for the whole process, since torch has one switch."""
    switch = getattr(torch._C._dynamo.eval_frame, "_set_lru_cache", None)
    if switch is None:
        return log.warning("this torch cannot be told in which order to try versions: where two fit, the one that ran last runs")
    switch(False)


def one_graph(rest):
    return bool(rest and rest[0])


def new_misses(code, values):
    """Why the versions there are did not take this call: what Dynamo has just written down, read once."""
    sentences, function = guard_failures.get(code, []), LEDGER.function(code)
    seen = function.sentences if function.sentences <= len(sentences) else 0
    function.sentences = len(sentences)
    return [miss(str(sentence), values) for sentence in sentences[seen:]]


# --- attempts

def attempt(session, run, must_compile):
    """Tries the rules in order of generality. What cannot be traced at all runs eagerly: there, what is wrong with the program
    is said by eager's own exception."""
    failure, start = None, time.perf_counter()
    try:
        for rules in rule_sets(session):
            try:
                return fewer_breaks(session, run, under(session, run, rules))
            except (SkipFrame, dynamo_exc.Unsupported) as skipped:
                failure = skipped
                if not is_due_to_symbols(session, skipped):
                    break
            except Exception as error:
                if not may_retry(error):
                    raise
                forget_failed_trace(error)
                failure, session.failure = error, str(error)
                session.asked_values |= asks_for_values(error)
        LEDGER.note_skip(session.code, first_line(failure) + place_of(getattr(failure, "real_stack", None)))
        if must_compile:
            raise failure
        if session.plan.number == 0 and isinstance(failure, SkipFrame) and not refusals.is_shared(session.code):
            raise failure                     # there is no operator in it: Dynamo skips the function from now on, and nothing is lost
        LEDGER.note_failure(session.code, session.key, lasting=not may_pass(failure), seconds=time.perf_counter() - start)
        raise_eager(first_line(failure), failure)
    finally:
        del failure   # its traceback holds this frame, and with it the arguments


def is_due_to_symbols(session, failure):
    """Whether there may be a version for just these sizes: one that has an operator before which nothing could be compiled, or that knows a 0 or 1."""
    return bool(session.operators) or session.degenerate and not may_pass(failure)


def may_retry(error):
    """Our own complaint to the user would only be repeated. What is not Dynamo's own exception is a failure inside of it."""
    if isinstance(getattr(error, "inner_exception", None), EscapementError) or is_interrupt(error):
        return False
    return isinstance(error, RETRY) or not isinstance(error, (dynamo_exc.TorchDynamoException, EscapementError))


def asks_for_values(error):
    """AOTAutograd, say, while it writes the backward of a graph that Dynamo has finished."""
    return isinstance(getattr(error, "inner_exception", error), symbolic_shapes.GuardOnDataDependentSymNode)


def is_broadcast(failure):
    """Of sizes that differ: one of them may be 1 now, without being known to."""
    return any(words in failure for words in UNEQUAL)


def may_pass(failure):
    """Whether other inputs of the kind may be fine: an exception which the program itself would raise for these, as far as can be told, or
    nothing to compile on the way that these take."""
    return isinstance(failure, (SkipFrame, dynamo_exc.TorchRuntimeError)) or first_line(failure) in (FAILED_ASSERTION, RAISED)


def rule_sets(session):
    """(oblivious of 0 and 1, sources that are host values, sources operators may not ask about, values as symbols). The next is asked for where
    the last one failed."""
    plan = session.plan
    if not session.asked_values or session.whole:
        yield True, plan.host, plan.operators, True
    if session.asked_values and not session.whole:   # where no break is wanted, there is none
        yield True, plan.host, plan.operators, False
    if is_broadcast(session.failure) and session.declared is None:   # a declared dim is not pinned for that
        session.answers.ones = True
        yield True, plan.host, plan.operators, True
    yield False, plan.host, plan.operators, True
    if plan.host or plan.operators:
        yield True, (), (), True
        yield False, (), (), True


def under(session, run, rules):
    session.oblivious, session.host, session.operators, session.values = rules
    session.start()
    with our_rules(session):
        result = run()
    LEDGER.function(session.code).values = session.values
    return result


def fewer_breaks(session, run, result):
    """`if size > 1 and ...` on a dim that is 1 now hands a symbol to whoever takes the answer, and some refuse it: a graph break that
    the constant 1 does not have. A break that the budget asked for is none of these."""
    broke = len(break_log())
    if not session.oblivious or not session.degenerate or session.host or session.operators or broke == session.broke:
        return result
    first = session.pending, session.reads
    try:
        second = under(session, run, (False, (), (), session.values))
        better = len(break_log()) - broke < broke - session.broke
    except Exception:        # whatever it is, the first attempt stands
        better = False
    if better:
        session.broke = broke
        return second
    session.pending, session.reads = first
    return result


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
        scope.enter_context(torch._dynamo.config.patch(capture_scalar_outputs=session.values, capture_dynamic_output_shape_ops=session.values,
                                                       allow_unspec_int_on_nn_module=session.attributes,
                                                       use_numpy_random_stream=not session.whole,   # else torch draws, whatever NumPy's seed is
                                                       # An entry is checked by a tensor that is made from it, which asks of symbolic
                                                       # sizes what the operator has just asked: two thirds of Swin's compile.
                                                       fake_tensor_cache_enabled=False))
        scope.enter_context(torch.fx.experimental._config.patch(use_duck_shape=False, backed_size_oblivious=session.oblivious))
        scope.enter_context(offsets.guarded())
        scope.enter_context(composites.by_symbols(session.answers))
        scope.enter_context(whole_operators.asking_by_operators())
        if session.oblivious:   # otherwise 0 and 1 are constants, and symbols are guarded to be 2 or more
            scope.enter_context(oblivious.sizes_may_be_zero())
            scope.enter_context(offsets.may_be_zero(session.answers))
            scope.enter_context(data_questions.answered())
        scope.enter_context(oblivious.answered(session.answers))
        if session.host:   # a branch on an unbacked size is a graph break; nothing is traced twice for it
            scope.enter_context(torch.compiler.config.patch(unbacked_sources=",".join(session.host)))
        if session.operators:
            scope.enter_context(operators_break(session))
        outer, active.session = getattr(active, "session", None), session
        try:
            yield
        finally:
            active.session = outer


@contextlib.contextmanager
def operators_break(session):
    """An operator that would pin one of these sources is a graph break instead."""
    asked = ShapeEnv.evaluate_expr

    def evaluate(env, *args, **named):
        before = len(env.guards)
        answer = asked(env, *args, **named)
        if any(pins(guard, env, session.operators, session.plan.held) for guard in env.guards[before:]):
            dynamo_exc.unimplemented(gb_type="escapement: an operator asks for a size", context=str(env.guards[-1].expr), hints=[],
                                     explanation="the sizes this operator compares have used up the budget of compiles")
        return answer

    ShapeEnv.evaluate_expr = evaluate
    meta_log.addFilter(is_news)
    try:
        yield
    finally:
        ShapeEnv.evaluate_expr = asked
        meta_log.removeFilter(is_news)


def is_our_break(error):
    return isinstance(error, dynamo_exc.Unsupported) and (error.gb_type or "").startswith("escapement: ")


def is_news(record):
    """Torch logs every exception that passes a meta function as an error; a break that we make there is none."""
    raised = record.exc_info and record.exc_info[1]
    return not isinstance(raised, dynamo_exc.Unsupported)


def process_automatic_dynamic(tx, name, entry, *, is_unspecialized_nn_module=False):
    merged = torch_automatic(tx, name, entry, is_unspecialized_nn_module=is_unspecialized_nn_module)
    session = getattr(active, "session", None)
    if session is None or tx.distributed_state is not None or not is_ours(tx.output.compiler_fn):
        return merged
    merged = copy.copy(merged)   # the original belongs to Dynamo's profile
    if isinstance(entry.size, tuple):
        usual = dynamic_size(entry.size, session.oblivious)
        merged.size = steer_dims.sizes(session, tx, name, entry.size, usual, merged.size)
        session.degenerate |= any(n is pgo.auto_dynamic and type(now) is int and now < 2 for n, now in zip(merged.size, entry.size))
    elif steer_dims.is_declared(session, name):
        merged.scalar = steer_dims.scalar(session, name, entry.scalar, merged.scalar)
    elif entry.size is pgo.auto_dynamic and not is_unspecialized_nn_module and not is_constant(name):
        merged.scalar = pgo.auto_dynamic
    # Dynamo would keep the values seen before a dim varied for the older version; ours is one version for all of them.
    merged.excluded_sizes = merged.excluded_scalar = None
    return merged


def is_constant(name):
    """A global number (math.pi) is a constant until it is seen to change: as an input it would cost a check at every call. The ends
    of a range object are: Dynamo cannot walk over it otherwise."""
    return name.startswith("G[") or name.endswith((".start", ".stop", ".step"))


def dynamic_size(size, oblivious):
    """Every dim dynamic, 0 and 1 too; where a program cannot be traced without knowing these, they are constants."""
    return tuple(n if type(n) is int and n < 2 and not oblivious else pgo.auto_dynamic for n in size)


def evaluate_expr(variable, output_graph=None):
    """Host code asks for a number. What that pins is whatever guards appear meanwhile."""
    session, env = getattr(active, "session", None), getattr(getattr(variable.sym_num, "node", None), "shape_env", None)
    if session is None or env is None:
        return torch_evaluate_expr(variable, output_graph)
    before = len(env.guards)
    value = torch_evaluate_expr(variable, output_graph)
    for guard in env.guards[before:]:
        session.reads[id(guard)] = read_of(variable, guard, TracingContext.extract_stack())
    return value


def forget_failed_trace(error):
    """What _compile does with a failed trace: break its reference cycles now, not at the next collection."""
    failed = getattr(error, "_torch_dynamo_tracer_output", None)
    if failed is not None:
        failed._cleanup_output_graph()


# --- notes taken while the backend is being called (stacks and guards are cleaned up right afterwards)

def current_code():
    session = getattr(active, "session", None)
    return session.code if session is not None else TracingContext.get().traced_code[0]


def captures_whole():
    """Whether the graph is one of `aot_compile`: captured without a frame."""
    context = TracingContext.try_get()
    return getattr(active, "session", None) is None and context is not None and not context.traced_code


def compile_name():
    """`function [frame/compile]`, as Dynamo's own logs count."""
    compile_id = CompileContext.current_compile_id()
    return f"{current_code().co_name} [{compile_id}]" if compile_id is not None else current_code().co_name


def will_retry():
    """Whether an error raised now leads to a second try instead of reaching the user."""
    session = getattr(active, "session", None)
    return session is not None and session.oblivious


def note_compile(gm, training):
    """First thing in a backend call: escapes and constant dims of this graph."""
    env, code = TracingContext.get().fake_mode.shape_env, current_code()
    session = getattr(active, "session", None)
    if not training:
        view_bases.forget(session, gm, env)
    needed = constants(gm, env)
    compiled = Compile(session.plan.number if session is not None else len(LEDGER.function(code).compiles), *input_dims(gm, env),
                       *relations(env, session.reads if session is not None else {}, code), constants=needed)
    if session is not None:
        assertions.name_checks(gm, session.asserted)
        session.answers.tracing = False
        session.pending.append(compiled._replace(declared=steer_dims.hold(session, env, needed)))
    else:
        LEDGER.note(code, None, compiled.number, [compiled])


def current_version():
    """(key, number) of the compile this thread is in."""
    session = getattr(active, "session", None)
    return None if session is None else (session.key, session.plan.number)


def note_again(gm):
    """After more questions were asked about the sizes of the same graph: do the declared dims still hold?"""
    session = getattr(active, "session", None)
    if session is not None and session.pending:
        env = TracingContext.get().fake_mode.shape_env
        view_bases.forget(session, gm, env)
        last = session.pending[-1]
        session.pending[-1] = last._replace(declared=steer_dims.hold(session, env, last.constants))


def constants(gm, env):
    """The operators whose schema takes an integer as a constant only, where the program gave one of its sizes or integers."""
    return tuple(constant.text(in_words(constant.integer.meta["example_value"].node._expr, env))
                 for constant in attributes.constants(gm))


def write_artifact(code, graphs):
    """One structured artifact a compile, for TORCH_TRACE and tlparse; made only if somebody listens."""
    def payload():
        function = LEDGER.function(code)
        return json.dumps({"function": function.name, "file": function.file, "line": function.line,
                           "graphs": [compile_facts(function, compiled) for compiled in graphs],
                           "graph_breaks": function.breaks, "not_compiled": function.skips}, default=str)

    torch._logging.trace_structured("artifact", metadata_fn=lambda: {"name": "escapement_explain", "encoding": "json"},
                                    payload_fn=payload)


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
