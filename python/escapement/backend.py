"""The object behind torch.compile(model, backend="escapement").

It takes Dynamo's graph and returns a callable at once; recording happens at that callable's first call. Two ways:

  direct     nothing can need a gradient: the graph's own forward becomes one region, composites whole
  training   AOTAutograd's forward and backward graphs become a region each (steering/training.py); so do
             those of a graph that takes derivatives itself (torch.func)

Nothing of ours may break the program: what fails here is counted under a named reason, said once, and the graph runs eagerly.
With the option `strict` it is an error instead.
"""

import functools
import warnings

import torch

from .core import CoreMissing, core
from .errors import CompileError, DimError, OptionError
from .interrupts import is_interrupt
from .ledger import LEDGER
from .option_values import disabled, resolve
from .recording import dispatch, symbols
from .recording.locator import Locator
from .registration import for_whom_it_is
from .steering import dynamo, endings
from .steering.bindings import bindings

REASONS = {
    "no_core": "the compiled core is missing",
    "internal_error": "internal error of the compiler",
    "higher_order_operator": "a higher-order operator cannot be recorded",
    "grad_mode_changed": "the graph switches gradients on inside a region without gradients",
    "arguments_overlap": "with gradients on an argument is written that shares memory with another one",
    "view_made_anew": "with gradients on a view is handed back of an argument that is written and not contiguous, or that overlaps itself",
    "sizes_compared": "where gradients are derived, which no graph break can end, an operator compares sizes that have used up the budget of compiles",
    "disabled": "compilation is switched off",
}


class GiveUp(Exception):
    """A named reason to run one graph eagerly."""

    def __init__(self, reason, detail=""):
        super().__init__(f"{REASONS[reason]}{': ' if detail else ''}{detail}")
        self.reason = reason


class Backend:
    """Registered under the entry point group torch_dynamo_backends; torch.compile calls it once per graph."""

    __name__ = "escapement"   # what torch's logs call us

    def __init__(self):
        self._said = set()

    def __call__(self, gm, inputs, *, mode=None, options=None):
        if dynamo.captures_whole():
            from .ahead import AheadOfTime

            return AheadOfTime(gm, mode, options)
        if not torch.is_grad_enabled() or not dispatch.wants_no_gradient(gm):
            return self._compiled(gm, inputs, mode, options)
        dispatch.leave_grad_mode(gm)
        with torch.no_grad():
            return torch.no_grad()(self._compiled(gm, inputs, mode, options))

    def _compiled(self, gm, inputs, mode, options):
        training = needs_gradients(inputs) or dispatch.takes_derivatives(gm)
        if disabled():   # asked before the core is loaded: the core may be what the user wants out of the way
            return self._give_up(GiveUp("disabled"), False, gm, training)
        strict = False
        try:
            values = resolve(mode, options)
            strict = values.get("strict", False)
            return self._compile(gm, inputs, values, training)
        except (OptionError, CompileError, DimError, dynamo.RESTART, dynamo.SkipFrame):
            raise
        except Exception as error:
            if is_interrupt(error):
                raise
            if training and dynamo.will_retry() and not isinstance(error, (GiveUp, CoreMissing)):
                raise   # AOTAutograd may refuse what it accepts when sizes 0 and 1 are told apart
            if dynamo.is_our_break(error):
                error = GiveUp("sizes_compared", str(error).rsplit(": ", 1)[-1].strip())
            return self._give_up(error, strict or strict_asked(options), gm, training)

    def reset(self):
        """torch._dynamo.reset() calls this once per compiled function."""
        LEDGER.clear()
        self._said.clear()
        try:
            core().reset()
        except CoreMissing:
            pass

    def _compile(self, gm, inputs, values, training):
        if values.get("disable", False):
            raise GiveUp("disabled")
        dynamo.restart_if_static(gm)
        dynamo.note_compile(gm, training)
        name, code = dynamo.compile_name(), dynamo.current_code()
        if not training:
            if any_requires_grad(inputs) and dispatch.enables_grad(gm):
                if not dispatch.hands_out_no_gradient(gm):
                    raise GiveUp("grad_mode_changed")
                dispatch.leave_grad_mode(gm)
            return region(gm, "example_value", values, name, code)
        from .steering import overlaps, returned_views
        from .steering.training import compile_training

        if overlaps.some_overlap(gm):
            raise GiveUp("arguments_overlap")
        make = functools.partial(self._training_region, values=values, name=name, code=code)
        made = compile_training(gm, inputs, make)
        dynamo.note_again(gm)   # AOTAutograd has asked questions of its own
        for kind, reason in ((returned_views, "view_made_anew"), (overlaps, "arguments_overlap")):
            made = kind.guarded(gm, made, functools.partial(self._run_eagerly, reason, gm, values.get("strict", False)))
        return endings.as_its_operators_raise(gm, made)

    def _training_region(self, graph, kind, *, values, name, code):
        """One of AOTAutograd's graphs. Its own forward is right for any failure of ours, also in the lazy backward."""
        try:
            return region(graph, "val", values, f"{name} {kind}", code, kind != "inference")
        except Exception as error:
            if is_interrupt(error):
                raise
            self._note(error, values.get("strict", False))
            return graph.forward

    def _run_eagerly(self, reason, gm, strict, *arguments):
        return self._give_up(GiveUp(reason), strict, gm, False)(*arguments)

    def _give_up(self, error, strict, gm, training):
        self._note(error, strict)
        return eager(gm, training)

    def _note(self, error, strict):
        reason = error.reason if isinstance(error, GiveUp) else "no_core" if isinstance(error, CoreMissing) else "internal_error"
        detail = str(error) if isinstance(error, (GiveUp, CoreMissing)) else f"{type(error).__name__}: {error}"
        if strict and reason != "disabled":
            raise CompileError(f"{reason}: {detail}") from error
        LEDGER.fallback(reason)
        if reason != "disabled" and (reason, detail) not in self._said:
            self._said.add((reason, detail))
            warnings.warn(f"escapement runs a graph eagerly ({reason}): {detail}", RuntimeWarning, stacklevel=3)


def strict_asked(options):
    """The user's wish when the options themselves could not be read, because the table lives in the core."""
    return bool((options or {}).get("strict", False))


def needs_gradients(inputs):
    return torch.is_grad_enabled() and any_requires_grad(inputs)


def any_requires_grad(inputs):
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs)


def eager(gm, training):
    """The graph as Dynamo wrote it, or for checkpointing in training the frame itself (dispatch.CHECKPOINTS says why)."""
    if training and dispatch.has_checkpoint(gm):
        raise dynamo.SkipFrame("escapement: activation checkpointing needs the program's own code to run eagerly")
    dynamo.materialise(gm)
    return endings.as_the_program_ends(gm, gm.forward)


def region(gm, meta_key, values, name, code, grad=False):
    for graph in dispatch.graphs(gm):
        dynamo.materialise(graph)
    refused = dispatch.prepare(gm, functools.partial(body_region, values=values, name=name, code=code))
    if refused:
        raise GiveUp("higher_order_operator", ", ".join(refused))
    symbols.install()   # a graph's arithmetic is Python's
    symbols.make_known_to_numpy()
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    inputs = bindings(placeholders, meta_key)
    made = core().Region(gm.forward, inputs, values, name, grad)
    made.set_locator(Locator(gm, dynamo.line_table(gm)))
    LEDGER.note_region(code, made, dynamo.input_names(placeholders, meta_key), dynamo.current_version())
    run = with_objects(gm, made, placeholders, inputs)
    return run if meta_key == "val" else endings.as_the_program_ends(gm, run)   # AOTAutograd's graphs end as the one that they are made of


def with_objects(gm, made, placeholders, inputs):
    """A graph may hand back what is neither tensor nor number, such as a group of processes that its backward needs: as it came."""
    answer = next(iter(gm.graph.find_nodes(op="output"))).args[0]
    objects = {node: number for number, node in enumerate(placeholders) if inputs[number] == ("other",)}
    nodes = answer if isinstance(answer, (tuple, list)) else ()
    handed = [(place, objects[node]) for place, node in enumerate(nodes) if isinstance(node, torch.fx.Node) and node in objects]
    if not handed:
        return made

    def run(*arguments):
        results = list(made(*arguments))
        for place, number in handed:
            results[place] = arguments[number]
        return results

    return run


def body_region(gm, values, name, code):
    """The body of a higher-order operator: compiled by itself. Its graph does not say which of its inputs are integers; the calls do."""
    names = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    made = core().Region(several(gm), [("int", number) for number in range(len(names))], values, f"{name} body", False)
    made.set_locator(Locator(gm, dynamo.line_table(gm)))
    LEDGER.note_region(code, made, names, dynamo.current_version())
    return made


def several(gm):
    """The body's function; the condition of a loop returns its answer alone."""
    answer = next(iter(gm.graph.find_nodes(op="output"))).args[0]
    return gm.forward if isinstance(answer, (tuple, list)) else lambda *arguments: (gm.forward(*arguments),)


BACKEND = Backend()
dynamo.install(BACKEND)


def __getattr__(name):
    """`escapement` is the backend; asked for each time (registration.py)."""
    if name == "escapement":
        return for_whom_it_is(BACKEND)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
