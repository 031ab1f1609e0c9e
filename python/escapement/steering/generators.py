"""`torch.randn(sizes, generator=None)`: the operators that take a generator take no symbols for sizes, so that Dynamo would give up the whole frame.
Where there is none the program means the operator without. And `result = yield from parts()`, where Dynamo forgets what Python's generator returns.
"""

import dis
import functools

import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.variables.functions import LocalGeneratorObjectVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from .texts import translators

MAKERS = frozenset((torch.rand, torch.randn, torch.randint, torch.randperm))


def install(current_session):
    TorchInGraphFunctionVariable.call_function = without_none(TorchInGraphFunctionVariable.call_function, current_session)
    for translator in translators(symbolic_convert.InstructionTranslatorBase):
        if "SEND" in dis.opmap:
            table = translator.dispatch_table
            table[dis.opmap["SEND"]] = with_its_result(table[dis.opmap["SEND"]], current_session)


def without_none(call_function, current_session):
    @functools.wraps(call_function)
    def call(function, tx, args, kwargs):
        if function.value in MAKERS and "generator" in kwargs and current_session() is not None and kwargs["generator"].is_constant_none():
            kwargs = {name: value for name, value in kwargs.items() if name != "generator"}
        return call_function(function, tx, args, kwargs)

    return call


def with_its_result(send, current_session):
    @functools.wraps(send)
    def instruction(translator, inst):
        made_by = translator.stack[-2] if current_session() is not None else None
        if not isinstance(made_by, LocalGeneratorObjectVariable) or made_by._is_generator_exhausted():
            return send(translator, inst)
        place = translator.instruction_pointer
        answer = send(translator, inst)
        result = made_by.inline_tracer.symbolic_result
        if translator.instruction_pointer != place and result is not None:   # it has ended
            translator.stack[-1] = result
        return answer

    return instruction
