"""A program that looks at the layout of a tensor: its strides, where it starts, whether it is contiguous, whether it is a view.

Dynamo answers from fake tensors, and their layouts are eager's only with two exceptions. Questions about layouts have been answered
obliviously so far (oblivious.py): the frame is traced again with these as guards. And torch's own rules differ from its kernels' in the
strides of axes of size 0 and 1: where an axis has such a size, the program asks the real tensor, after a graph break.

Of an input everything is known from the tensor itself, or guarded. With `fullgraph=True` the fake tensor's answer stands, as with any
other backend, because there can be no break.
"""

import functools

import torch
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.variables.tensor import TensorVariable

READS = ("stride", "storage_offset", "is_contiguous", "dim_order")
NEEDS_BOTH = ("is_contiguous",)    # what an axis of size 1 has for a stride is not asked there
KINDS = ("_is_view", "_base", "is_leaf", "grad_fn", "retains_grad", "output_nr")   # whether it is a view, or its argument itself: by layouts, where torch copies at some sizes only


def install(current_session):
    TensorVariable.call_method = watched(TensorVariable.call_method, current_session)
    TensorVariable.var_getattr = watched_kinds(TensorVariable.var_getattr, current_session)


def watched_kinds(getattr_of, current_session):
    @functools.wraps(getattr_of)
    def var_getattr(variable, tx, name):
        session = current_session() if name in KINDS else None
        if session is not None and variable.source is None:
            ask_for(session, "layout")
        return getattr_of(variable, tx, name)

    return var_getattr


def watched(method, current_session):
    @functools.wraps(method)
    def call_method(variable, tx, name, args, kwargs):
        session = current_session() if name in READS or name in KINDS else None
        if session is not None and name in KINDS:
            if variable.source is None:
                ask_for(session, "layout")
            return method(variable, tx, name, args, kwargs)
        if session is not None and name == "storage_offset":
            ask_for_offsets(session)
        if session is not None and variable.source is None:
            ask_for(session, "layout")
            if name not in NEEDS_BOTH and not session.whole:
                ask_for_usual_sizes(variable, name)
        return method(variable, tx, name, args, kwargs)

    return call_method


def ask_for(session, what):
    """Traces the frame again, with what was answered carelessly as a guard."""
    if session.oblivious and not getattr(session.answers, what):
        setattr(session.answers, what, True)
        raise dynamo_exc.TensorifyScalarRestartAnalysis("escapement: the program looks at the layout of a tensor")


def ask_for_offsets(session):
    ask_for(session, "offsets")
    if not session.oblivious and not session.whole:
        ask_the_tensor("storage_offset", "an offset of 0 or 1 is a constant that nobody guards")


def ask_for_usual_sizes(variable, name):
    """Each size of 2 or more, by a guard; otherwise a graph break."""
    fake = variable.proxy.node.meta.get("example_value")
    if not isinstance(fake, torch.Tensor) or fake.is_nested or fake.layout is not torch.strided:
        return
    for axis, size in enumerate(fake.shape):
        if not (hinted(size) and bool(size >= 2)):
            ask_the_tensor(f"{name}, axis {axis} is {size}", "of axes of size 0 and 1 the strides are known from the tensor only")


def ask_the_tensor(context, why):
    dynamo_exc.unimplemented(gb_type="escapement: the layout of a tensor is looked at", context=context, explanation=why, hints=[])


def hinted(size):
    return not isinstance(size, torch.SymInt) or size.node.has_hint()
