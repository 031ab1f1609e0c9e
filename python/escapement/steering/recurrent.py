"""Recurrent networks. Dynamo refuses the modules, since torch takes their operators apart step by step, which is a graph for each length. Here are the
sizes and strides of what those operators return, so that a graph holds one of them whole, for all lengths. With gradients they would be taken apart
after all, by AOTAutograd: there the module is refused, as ever, and runs eagerly.
"""

import functools

import torch
from torch._dynamo import config
from torch._dynamo.variables.builder import VariableBuilder

aten = torch.ops.aten
MODULES = (torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM)


def install(current_session):
    VariableBuilder.wrap_module = admitting(VariableBuilder.wrap_module, current_session)


def admitting(wrap_module, current_session):
    @functools.wraps(wrap_module)
    def wrap(builder, value):
        if current_session() is None or not isinstance(value, MODULES) or torch.is_grad_enabled():   # gradients of its input, if not of its weights
            return wrap_module(builder, value)
        with config.patch(allow_rnn=True):
            return wrap_module(builder, value)

    return wrap


def sequences(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """A batch of one length: steps and sequences lie the same way, whichever of them `input` has first."""
    steps, batch = (input.shape[1], input.shape[0]) if batch_first else (input.shape[0], input.shape[1])
    output = input.new_empty([steps, batch, features(hx, bidirectional)])
    return (output.transpose(0, 1) if batch_first else output), *states(hx)


def packed(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional):
    return data.new_empty([data.shape[0], features(hx, bidirectional)]), *states(hx)


def features(hx, bidirectional):
    return first(hx).shape[-1] * (2 if bidirectional else 1)


def states(hx):
    return tuple(state.new_empty(state.shape) for state in (hx if isinstance(hx, (list, tuple)) else [hx]))


def first(hx):
    return hx[0] if isinstance(hx, (list, tuple)) else hx


PARTS = {getattr(getattr(aten, name), overload): made
         for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for overload, made in (("input", sequences), ("data", packed))}
