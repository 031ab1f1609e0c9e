"""The bodies of higher-order operators: which graphs they are, and whether their graphs show an effect.

Whether a body writes or draws random numbers is known once it has been recorded, but the program around it is recorded when one side of
a branch has not run yet. So its graph is read. "Pure" is said only where every node looks harmless by its name; that is checked against
the recording later (flow.h), and everything else counts as an effect, which costs fusion and never an answer.
"""

import typing
import weakref

import torch

from .writes import name_of, written_by

IMPURE = ("rand", "dropout", "bernoulli", "multinomial", "normal", "poisson", "exponential", "geometric", "cauchy", "rrelu", "gumbel",
          "fractional", "batch_norm", "instance_norm", "attention", "lstm", "gru", "rnn", "embedding", "seed", "generator", "setitem",
          "set_")


class Body(typing.NamedTuple):
    region: object
    pure: bool


BODIES = weakref.WeakKeyDictionary()    # graph -> Body


def graphs(gm):
    """The graph and the bodies of its higher-order operators."""
    return [module for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]


def is_operator(node, names):
    return node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() in names


def flow_bodies(gm, names):
    """The graphs that the operators of these names run, inner ones too."""
    found = []
    for graph in graphs(gm):
        for node in graph.graph.nodes:
            if is_operator(node, names):
                attributes = [arg.target for arg in node.args if isinstance(arg, torch.fx.Node) and arg.op == "get_attr"]
                found += [body for name in attributes if isinstance(body := graph.get_submodule(name), torch.fx.GraphModule)]
    return found


def is_pure(gm, names):
    return all(is_harmless(node, names) for graph in graphs(gm) for node in graph.graph.nodes)


def is_harmless(node, names):
    if node.op not in ("call_function", "call_method"):
        return node.op != "call_module"
    if is_operator(node, names):
        return True     # its bodies are among the graphs
    if isinstance(node.target, torch._ops.OpOverload):
        return not node.target._schema.is_mutable and torch.Tag.nondeterministic_seeded not in node.target.tags
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return False
    name = name_of(node)
    return bool(name) and not written_by(node) and not any(word in name for word in IMPURE)
