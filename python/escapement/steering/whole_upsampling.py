"""Upsampling stays one operator in training. AOTAutograd would trace torch's own decompositions, which gather each neighbour of each pixel by an index, and
whose gradients scatter them: three to seven times as slow as the kernels. While it traces, an operator of ours stands for each of these, which knows its
sizes as symbols (torch's own gradients do not); in the graphs that it gives they are torch's again.
"""

import contextlib

import torch
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format

aten = torch.ops.aten
KEYS = torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd
ALIGNED = "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"
NEAREST = ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
           "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d")

library = torch.library.Library("escapement", "FRAGMENT")
library.define("upsample(Tensor input, str kind, SymInt[] output_size, bool aligned, float[]? scales) -> Tensor")
library.define("upsample_backward(Tensor gradient, str kind, SymInt[] output_size, SymInt[] input_size, bool aligned, float[]? scales) -> Tensor")


def given(kind, output_size, aligned, scales):
    return *(() if kind in NEAREST else (aligned,)), *(scales or [None] * len(output_size))


def upsample(input, kind, output_size, aligned, scales):
    return getattr(aten, kind).default(input, output_size, *given(kind, output_size, aligned, scales))


def upsample_backward(gradient, kind, output_size, input_size, aligned, scales):
    return getattr(aten, kind + "_backward").default(gradient, output_size, input_size, *given(kind, output_size, aligned, scales))


library.impl("upsample", upsample, "CompositeExplicitAutograd")
library.impl("upsample_backward", upsample_backward, "CompositeExplicitAutograd")


def like(tensor, sizes):
    return tensor.new_empty(sizes).to(memory_format=suggest_memory_format(tensor))


@torch.library.register_fake("escapement::upsample", lib=library)
def upsample_fake(input, kind, output_size, aligned, scales):
    return like(input, (*input.shape[:2], *output_size))


@torch.library.register_fake("escapement::upsample_backward", lib=library)
def upsample_backward_fake(gradient, kind, output_size, input_size, aligned, scales):
    return like(gradient, input_size)


def keep(ctx, inputs, output):
    input, *ctx.settings = inputs
    ctx.sizes = input.shape


def gradient_of(ctx, gradient):
    kind, output_size, aligned, scales = ctx.settings
    return torch.ops.escapement.upsample_backward(gradient, kind, output_size, ctx.sizes, aligned, scales), None, None, None, None


torch.library.register_autograd("escapement::upsample", gradient_of, setup_context=keep, lib=library)


def stands_for(kind):
    def aligned(input, output_size, align_corners, scale_factors):
        sizes = upsample_compute_output_size(input.shape, output_size, scale_factors)
        return torch.ops.escapement.upsample(input, kind, sizes, align_corners, scale_factors)

    def nearest(input, output_size, scale_factors):
        return aligned(input, output_size, False, scale_factors)

    return nearest if kind in NEAREST else aligned


@contextlib.contextmanager
def kept_whole():
    """While AOTAutograd traces. Dynamo compiles one frame at a time."""
    operators = {getattr(aten, kind).vec: stands_for(kind) for kind in (*ALIGNED, *NEAREST)}
    before = {operator: {key: operator.py_kernels[key] for key in KEYS if key in operator.py_kernels} for operator in operators}
    try:
        for operator, ours in operators.items():
            operator.py_kernels.update(dict.fromkeys(KEYS, ours))
            operator._dispatch_cache.clear()
        yield
    finally:
        for operator in operators:
            for key in KEYS:
                del operator.py_kernels[key]
            operator.py_kernels.update(before[operator])
            operator._dispatch_cache.clear()


def as_torch_has_them(gm):
    """The graph's operators of ours are torch's."""
    for target, function in ((torch.ops.escapement.upsample.default, upsample), (torch.ops.escapement.upsample_backward.default, upsample_backward)):
        for node in gm.graph.find_nodes(op="call_function", target=target):
            tensor, kind, *sizes, aligned, scales = node.args
            node.target = getattr(aten, kind + ("_backward" if function is upsample_backward else "")).default
            node.args = (tensor, *sizes, *given(kind, sizes[0], aligned, scales))
    gm.recompile()
