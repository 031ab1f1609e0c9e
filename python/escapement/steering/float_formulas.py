"""Derivatives that C++ makes of a number as a constant (`x ** s`, `x.lerp(y, s)`): each value of a float that varies would be a compile. These are the same formulas
in terms that take a symbol. The graph is rewritten before AOTAutograd sees it, where such a float is a symbol there.
"""

import operator

import torch


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, base, exponent):
        ctx.save_for_backward(base)
        ctx.exponent = exponent
        return torch.pow(base, exponent)

    @staticmethod
    def backward(ctx, grad):
        base, = ctx.saved_tensors
        if ctx.exponent == 0.0:
            return torch.zeros_like(base), None
        return grad * (base.pow(ctx.exponent - 1) * ctx.exponent), None


class Lerp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, start, end, weight):
        ctx.weight = weight
        return torch.lerp(start, end, weight)

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - ctx.weight), grad * ctx.weight, None


def power(input, exponent):
    return Power.apply(input, exponent)


def lerp(input, end, weight):
    start, end = torch.broadcast_tensors(input, end)   # whose gradients are sums
    return Lerp.apply(start, end, weight)


FORMULAS = {("call_function", operator.pow): power, ("call_function", torch.pow): power, ("call_method", "pow"): power,
            ("call_function", torch.lerp): lerp, ("call_method", "lerp"): lerp}


def rewrite(gm):
    """For all nodes whose last argument is such a float, and the others tensors; not where autocast may have its say, which gives them other dtypes."""
    if torch.is_autocast_enabled() or torch.is_autocast_enabled("cpu") or any("autocast" in str(node.target) for node in gm.graph.nodes):
        return
    found = [node for node in gm.graph.nodes if (node.op, node.target) in FORMULAS and not node.kwargs and is_float(node.args[-1]) and all(map(is_real, node.args[:-1]))]
    for node in found:
        node.op, node.target = "call_function", FORMULAS[node.op, node.target]
    if found:
        gm.recompile()


def is_float(node):
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("example_value"), torch.SymFloat)


def is_real(node):
    value = node.meta.get("example_value") if isinstance(node, torch.fx.Node) else None
    return isinstance(value, torch.Tensor) and value.is_floating_point()
