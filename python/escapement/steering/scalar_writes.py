"""Writes to float64 tensors without dims (`self.total += loss`), in training.

Dynamo gives such a tensor on the CPU a number, which torch's pass over the joint graph (where float_values.py leaves it in) wants gone where nothing
reads it; the frame is traced again, and each node that stands for the tensor and that only `item` uses is taken out of the graph. A write in place
stands for the tensor too, and nothing uses it: it was lost. Only arguments may go.
"""

import functools

import torch
from torch._dynamo.output_graph import OutputGraph

NAME = "remove_tensorify_specialized_graphargs"


def install(current_session):
    setattr(OutputGraph, NAME, of_arguments(getattr(OutputGraph, NAME), current_session))


def possible():
    return hasattr(OutputGraph, NAME)


def of_arguments(remove, current_session):
    @functools.wraps(remove)
    def call(output):
        if current_session() is None:
            return remove(output)
        hidden = {node: node.meta.pop("example_value") for node in output.graph.nodes if is_write(node)}
        try:
            return remove(output)
        finally:
            for node, value in hidden.items():
                node.meta["example_value"] = value

    return call


def is_write(node):
    return node.op != "placeholder" and isinstance(node.meta.get("example_value"), torch.Tensor)
