"""Recurrent networks. Dynamo refuses the modules, and skips the frame around one, since torch takes their operators apart step by step, which is a graph
for each length. Here are the sizes and strides of what those operators return, so that a graph holds one of them whole, for all lengths. With
gradients they would be taken apart after all, by AOTAutograd: there the call of the module is a graph break, and the module runs eagerly.
"""

import functools

import torch
from torch._dynamo import config
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable

aten = torch.ops.aten
MODULES = (torch.nn.RNN, torch.nn.GRU, torch.nn.LSTM)
OWN_FRAMES = {module.forward.__code__ for module in MODULES}


def install(current_session):
    VariableBuilder.wrap_module = admitting(VariableBuilder.wrap_module, current_session)
    UnspecializedNNModuleVariable.call_function = breaking(UnspecializedNNModuleVariable.call_function, current_session)


def admitting(wrap_module, current_session):
    """In training its own frame, which a break leads to, is skipped."""
    @functools.wraps(wrap_module)
    def wrap(builder, value):
        refused = torch.is_grad_enabled() and builder.tx.f_code in OWN_FRAMES
        if current_session() is None or not isinstance(value, MODULES) or refused:
            return wrap_module(builder, value)
        with config.patch(allow_rnn=True):
            return wrap_module(builder, value)

    return wrap


def breaking(call_function, current_session):
    @functools.wraps(call_function)
    def call(module, tx, args, kwargs):
        if current_session() is not None and isinstance(module.value, MODULES) and torch.is_grad_enabled():   # gradients of its input, if not of its weights
            dynamo_exc.unimplemented(gb_type="escapement: a recurrent network in training", context=type(module.value).__name__, hints=[],
                                     explanation="with gradients torch takes it apart step by step, a graph for each length; it runs eagerly")
        return call_function(module, tx, args, kwargs)

    return call


def sequences(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """A batch of one length: steps and sequences lie the same way, whichever of them `input` has first."""
    if input.dim() != 3:
        return None
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


def cell(gates):
    """One step: the new states are as the old ones."""
    def states_after(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        h = first(hx)
        fits = input.dim() == h.dim() == 2 and input.shape[0] == h.shape[0] and input.shape[1] == w_ih.shape[1] and h.shape[1] == w_hh.shape[1]
        if not fits or any(rows is not None and rows.shape[0] != gates * h.shape[1] for rows in (w_ih, w_hh, b_ih, b_hh)):
            return None   # torch says what is wrong
        made = states(hx)
        return made if isinstance(hx, (list, tuple)) else made[0]
    return states_after


PARTS = {getattr(getattr(aten, name), overload): made
         for name in ("lstm", "gru", "rnn_tanh", "rnn_relu") for overload, made in (("input", sequences), ("data", packed))}
PARTS.update((getattr(aten, name).default, cell(gates)) for name, gates in (("lstm_cell", 4), ("gru_cell", 3), ("rnn_tanh_cell", 1), ("rnn_relu_cell", 1)))
