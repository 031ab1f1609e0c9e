"""Gradients: AOTAutograd splits the graph into a forward and a backward, and each becomes a region.

Traps that this file is shaped by:
- No decomposition table of torch's as a whole. The core ATen one decomposes attention's forward but not its backward: gradients wrong by any amount.
- A fresh aot_autograd object per call: it writes into its arguments.
- The backward may be compiled lazily, under a frozen ShapeEnv: expressions are read, no question is asked.
- Autograd's formulas are C++: one that divides by a size less one divides by zero where the graph, whose numbers are Python's, would raise.
"""

import functools
import math
import operator

import torch
from functorch.compile import make_boxed_func

from . import doubtful_copies, float_formulas, float_values, layout_reads, saved_sizes, whole_upsampling
from .dynamo import active, aot_autograd
from .partition import partition

# Operators which AOTAutograd takes apart (linear, matmul) and which we would rather keep whole belong here: Dynamo's target ->
# replacement with a fake function and a gradient formula. The graph is rewritten before AOTAutograd sees it. Empty: for now the
# pieces are recorded as they come.
WHOLE_IN_TRAINING = {}

# Operators that only graphs with gradients have, element by element, and that torch can say in operators that have rows: so they are fused.
IN_PARTS = (
    "elu_backward", "hardswish_backward", "hardtanh_backward", "leaky_relu_backward", "softplus_backward", "glu_backward", "log_sigmoid_forward",
    "log_sigmoid_backward", "_prelu_kernel_backward", "rrelu_with_noise_backward", "huber_loss_backward", "mse_loss_backward",
    "smooth_l1_loss_backward", "soft_margin_loss_backward", "binary_cross_entropy_backward",
)


@functools.cache
def parts():
    from torch._decomp import get_decompositions
    return get_decompositions([getattr(torch.ops.aten, name) for name in IN_PARTS])


def compile_training(gm, inputs, make_region):
    """`make_region(graph, kind)` gives the callable for one graph of AOTAutograd."""
    keep_whole(gm)
    float_formulas.rewrite(gm)
    name_sizes_as_dynamo_did(gm)
    session = getattr(active, "session", None)
    if session is not None and doubtful_copies.seen(gm):
        layout_reads.ask_for(session, "layout")

    def lower(kind, graph, fakes):
        keep_what_is_saved()
        divide_as_formulas_do(graph)
        saved_sizes.compute(graph)
        whole_upsampling.as_torch_has_them(graph)
        return make_boxed_func(float_values.returned_as_tensors(graph, lambda changed: make_region(changed, kind)))

    with whole_upsampling.kept_whole(), float_values.kept():
        return aot_autograd(fw_compiler=functools.partial(lower, "forward"), bw_compiler=functools.partial(lower, "backward"),
                            inference_compiler=functools.partial(lower, "inference"), decompositions=parts(),
                            partition_fn=partition,
                            keep_inference_input_mutations=True)(gm, inputs)


def name_sizes_as_dynamo_did(gm):
    """An argument that is the base of another argument, a view, is noted a second time as `view._base`, and AOTAutograd, which makes its fakes anew,
    would call its sizes by that name: symbols that no guard can be made of."""
    context = torch._guards.TracingContext.try_get()
    if context is None:
        return
    noted = {tracked.source.name: tracked.symbolic_context for tracked in context.fake_mode.shape_env.tracked_fakes or ()}
    for node in gm.graph.find_nodes(op="placeholder"):
        argument = node.meta.get("grapharg")
        example = None if argument is None else argument.example
        if isinstance(example, torch.Tensor) and noted.get(argument.source.name) is not None:
            context.tensor_to_context[example] = noted[argument.source.name]


def keep_what_is_saved():
    """AOTAutograd lets a backward write over what the forward saved for it, and so refuses `retain_graph=True`. No region of ours writes there."""
    context = torch._guards.TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []


def divide_as_formulas_do(gm):
    divisions = [node for node in gm.graph.find_nodes(op="call_function", target=operator.truediv) if node.meta.get("autograd_backward")]
    for node in divisions:
        node.target = quotient
    if divisions:
        gm.recompile()


def quotient(dividend, divisor):
    """Of floats, in C++."""
    if divisor != 0:
        return dividend / divisor
    if dividend == 0 or dividend != dividend:
        return math.nan
    return math.copysign(math.inf, dividend) * math.copysign(1, divisor)


def keep_whole(gm):
    changed = False
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target in WHOLE_IN_TRAINING:
            node.target, changed = WHOLE_IN_TRAINING[node.target], True
    if changed:
        gm.recompile()
