"""What torch's Python side lacks for the recorder: kernels of higher-order operators, methods of C++ symbolic numbers.

With dynamo.py the only file that names private parts of torch. Everything is assigned when the first graph needs it, and only
where nothing stands yet, so that importing this package changes nothing for anybody else.
"""

import functools
import importlib
import math
import operator

import torch
import torch._ops

from ..core import RECORDER_KEY, core
from .bodies import BODIES, Body, flow_bodies, graphs, is_pure

# The key the core records at. cond's own kernel rejects symbolic operands; to the recorder a branch is just a guarded read.
FUNCTIONS = ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")
# Run as Python in training these forget to restore the random state: gradients would be silently wrong.
CHECKPOINTS = ("tag_activation_checkpoint", "wrap_activation_checkpoint")


def higher_order_operators(gm):
    found = {}
    for graph in graphs(gm):
        for node in graph.graph.nodes:
            if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
                found[node.target.name()] = node.target
    return found


def has_checkpoint(gm):
    return any(name in CHECKPOINTS for name in higher_order_operators(gm))


def wants_no_gradient(gm):
    """Whether a graph that begins with gradients on does all that it does with tensors while they are off, and leaves them on: the step of an optimizer.
    Such a graph holds parameters, which would look as if a tape were wanted."""
    enabled, switched = True, False
    for node in gm.graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            enabled, switched = node.args[0], True
        elif enabled and node.op.startswith("call") and not isinstance(node.meta.get("example_value"), NUMBERS):
            return False
    return switched and enabled and not any(enables_grad(body) for body in graphs(gm) if body is not gm)


def hands_out_no_gradient(gm):
    """Whether a graph that runs without gradients, and switches them on for a part, leaves nothing that requires them: the cached logits of a distribution
    that is sampled. What they would be needed for is not in the graph."""
    if any(enables_grad(body) for body in graphs(gm) if body is not gm) or any(node.target is torch.autograd.grad for node in gm.graph.nodes):
        return False
    made = {node for node in gm.graph.nodes if node.op.startswith("call") and wants_gradient(node)}
    return not any(map(writes, made)) and made.isdisjoint(gm.graph.output_node().all_input_nodes)


def wants_gradient(node):
    values = torch.utils._pytree.tree_leaves(node.meta.get("example_value"))
    return any(isinstance(value, torch.Tensor) and value.requires_grad for value in values)


def writes(node):
    """What it writes would require them from then on."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    return name.endswith("_") and not name.endswith("__") or name in ("setitem", "__setitem__") or "out" in node.kwargs


NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


def leave_grad_mode(gm):
    """Takes the switches of the grad mode out of the graph."""
    for node in list(gm.graph.nodes):
        if node.target is torch._C._set_grad_enabled:
            gm.graph.erase_node(node)
    gm.recompile()


DERIVATIVES = frozenset(("_grad_increment_nesting", "_jvp_increment_nesting"))   # where a level of torch.func begins


def enables_grad(gm):
    """Whether the graph itself switches gradients on: then the outer grad mode does not say what the graph needs."""
    return any(node.target is torch._C._set_grad_enabled and node.args[0] is True
               for graph in graphs(gm) for node in graph.graph.nodes)


def takes_derivatives(gm):
    """Whether the graph itself does, by torch.func, in reverse or in forward mode. AOTAutograd runs its tapes and leaves a graph of plain operators;
    a recording would see their wrappers, and be asked what it cannot know (how large the memory behind a tensor is)."""
    return any(getattr(node.target, "__name__", "") in DERIVATIVES for graph in graphs(gm) for node in graph.graph.nodes)


def prepare(gm, body_region):
    """Makes every higher-order operator of the graph recordable. Returns the names of those which cannot be. `body_region` makes the
    region of a graph that is the body of one."""
    complete_sym_node()
    for body in flow_bodies(gm, FLOWS):
        if body not in BODIES:
            BODIES[body] = Body(body_region(body), is_pure(body, FLOWS))
    refused = {name for name, operator in higher_order_operators(gm).items() if not make_recordable(operator)}
    return sorted(refused | draws_elsewhere(gm))


def make_recordable(operator):
    key = torch._C._dispatch_key_parse(RECORDER_KEY)
    if key in operator.py_kernels:
        return True
    kernel = OWN_KERNELS.get(operator.name()) or operator.py_kernels.get(torch._C.DispatchKey.CompositeExplicitAutograd)
    if kernel is None:
        return False
    operator.py_kernels[key] = unless_traced(operator, kernel, torch._C.DispatchKeySet(key))
    operator.non_fallthrough_keys = operator.non_fallthrough_keys.add(key)
    operator._dispatch_cache.clear()
    return True


TRACED = torch._subclasses.FakeTensor, torch._subclasses.functional_tensor.FunctionalTensor


def unless_traced(operator, kernel, keys):
    """What is deferred may itself trace this operator (`torch.cond` compiles, the first time): those are fake tensors, and others' business."""
    @functools.wraps(kernel)
    def run(*args, **kwargs):
        if not any(isinstance(value, TRACED) for value in torch.utils._pytree.tree_leaves((args, kwargs))):
            return kernel(*args, **kwargs)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operator(*args, **kwargs)

    return run


# --- control flow. Each body is a region of its own, compiled once; which side runs, and how often, is decided at run time by one library
# call of the outer program (flow.h). Under autocast, which the outer program replays by its casts alone, bodies are recorded in place.

def flow(kind, bodies, leading, sliced, arguments):
    """The results, or None: to be recorded in place."""
    known = [BODIES.get(body) if isinstance(body, torch.fx.GraphModule) else None for body in bodies]
    kinds = (torch.Tensor, int, torch.SymInt, torch.SymBool)
    if None in known or torch.is_autocast_enabled("cpu") or not all(isinstance(value, kinds) for value in arguments):
        return None
    return core().flow(kind, tuple(body.region for body in known), leading, sliced, tuple(arguments), all(body.pure for body in known))


def branch(predicate, true_fn, false_fn, operands=()):
    results = flow("branch", (true_fn, false_fn), 0, 0, (predicate, *operands))
    return (true_fn if predicate else false_fn)(*operands) if results is None else results


def loop(condition, body, carried, additional=(), **settings):
    results = flow("loop", (condition, body), len(carried), 0, (*carried, *additional))
    if results is not None:
        return tuple(result if isinstance(was, torch.Tensor) else result.item() for result, was in zip(results, carried))
    values = tuple(value.clone() if isinstance(value, torch.Tensor) else value for value in carried)
    while condition(*values, *additional):
        values = tuple(body(*values, *additional))
    return values


def each(body, xs, others):
    results = flow("map", (body,), len(xs), 0, (*xs, *others))
    if results is None:   # the package's own name `map` is a function
        return importlib.import_module("torch._higher_order_ops.map").map_dense(body, xs, others)
    return results


def scan(body, carried, xs, additional):
    results = flow("scan", (body,), len(carried), len(xs), (*carried, *xs, *additional))
    return scan_in_place(body, carried, xs, additional) if results is None else results


def scan_in_place(body, carried, xs, additional):
    steps = []
    for step in range(xs[0].shape[0]):
        results = body(*carried, *(x[step] for x in xs), *additional)
        carried, stored = results[:len(carried)], results[len(carried):]
        steps.append(stored)
    return (*carried, *map(torch.stack, zip(*steps)))


def body_of_checkpoint(body, *operands, **settings):
    """Only graphs without gradients are recorded with their checkpoints in place: nothing is computed a second time."""
    return body(*operands)


# --- checkpoints of a block that draws random numbers: AOTAutograd keeps the generator's state in the forward graph, and draws from it again in the
# backward graph.

DRAWN_TWICE = "run_and_save_rng_state", "run_with_rng_state"


def draw_and_keep_state(drawn, *operands, **settings):
    return torch.ops.escapement.rng_state(), drawn(*operands, **settings)


def draw_from_state(state, drawn, *operands, **settings):
    current = torch.ops.escapement.rng_state()
    torch.ops.escapement.set_rng_state(state)
    result = drawn(*operands, **settings)
    torch.ops.escapement.set_rng_state(current)
    return result


def draws_elsewhere(gm):
    """The names of these where they draw from another generator than the CPU's, whose state no operator of ours gives."""
    found = set()
    for node in gm.graph.nodes:
        if getattr(node.target, "_name", None) not in DRAWN_TWICE:
            continue
        values = [value.meta.get("val") for value in node.all_input_nodes]
        devices = {value.device.type for value in values if isinstance(value, torch.Tensor)} | {torch.device(node.kwargs.get("device") or "cpu").type}
        if devices != {"cpu"}:
            found.add(node.target.name())
    return found


def region_in_place(graph, identifier, *operands):
    """torch.compiler.nested_compile_region. Its own kernel refuses to run where a mode of torch's is on, as in the first call of a graph with gradients."""
    return graph([*operands]) if getattr(graph, "_boxed_call", False) else graph(*operands)


FLOWS = {"cond": branch, "while_loop": loop, "map_impl": each, "scan": scan}
OWN_KERNELS = {**FLOWS, **dict.fromkeys(CHECKPOINTS, body_of_checkpoint), "invoke_subgraph": region_in_place,
               **dict(zip(DRAWN_TWICE, (draw_and_keep_state, draw_from_state)))}


# --- methods that torch._C._SymNode lacks: each returns a node, and asks for a relation rather than a value

def node_abs(node):
    if node.is_int():
        return node if holds(node.ge(node.wrap_int(0))) else node.neg()
    zero = node.wrap_float(0.0)
    return (node if holds(node.ge(zero)) else node.neg()).add(zero)   # -0.0 is not below zero; the sum is 0.0


def node_ite(node, then, otherwise):
    return then if holds(node) else otherwise


def node_is_integer(node):
    """Infinities and NaN, which are none, cannot be rounded."""
    if node.is_int():
        return node.wrap_bool(True)
    finite = holds(node.sub(node).eq(node.wrap_float(0.0)))
    return node.eq(node.floor().sym_float()) if finite else node.wrap_bool(False)


def unknown(node):
    """What is known of a number while recording is what a relation says of it: nothing without one."""
    return None


def not_known(node, file="", line=0):
    return False


def ite(predicate, then, otherwise):
    """torch.sym_ite, whose own method takes the nodes of its own tracer only."""
    if type(predicate.node) is not torch._C._SymNode:
        return torch_ite(predicate, then, otherwise)
    return then if holds(predicate.node) else otherwise


torch_ite = torch.SymBool.__sym_ite__


def node_sum(node, terms):
    """torch.sym_sum, which Dynamo makes of the lengths of a split: `terms` are nodes, this one among them."""
    return functools.reduce(lambda total, term: total.add(term), terms, node.wrap_int(0))


def node_pos(node):
    return node


def node_round(node, digits=None):
    """To whole numbers it is an expression; to digits the value of a float is read, which the core reports as an escape."""
    if digits is None:
        return node.nearest()
    value = round(node.guard_float(__file__, 0), digits)
    return node.wrap_float(value)


def node_function(function):
    def method(node):
        return node.wrap_float(function(node.sym_float().guard_float(__file__, 0)))
    return method


def node_integers(operation):
    """Bits of two integers: both are read."""
    def method(node, other):
        return node.wrap_int(operation(node.guard_int(__file__, 0), other.guard_int(__file__, 0)))
    return method


def holds(predicate):
    return predicate.guard_bool(__file__, 0)


@functools.cache
def complete_sym_node():
    methods = {"abs": node_abs, "sym_ite": node_ite, "sym_sum": node_sum, "pos": node_pos, "round": node_round, "is_integer": node_is_integer,
               "and_": lambda node, other: node.sym_and(other), "or_": lambda node, other: node.sym_or(other),
               "maybe_as_bool": unknown, "maybe_as_float": unknown, "maybe_as_int": unknown, "statically_known_true": not_known}
    methods.update((f"sym_{name}", node_function(getattr(math, name))) for name in FUNCTIONS)
    methods.update((name, node_integers(getattr(operator, name))) for name in ("lshift", "rshift"))
    methods.update((f"bitwise_{name}", node_integers(getattr(operator, f"{name}_"))) for name in ("and", "or"))
    methods["bitwise_xor"] = node_integers(operator.xor)
    for name, method in methods.items():
        if not hasattr(torch._C._SymNode, name):
            setattr(torch._C._SymNode, name, method)
    torch.SymBool.__sym_ite__ = functools.wraps(torch_ite)(ite)
