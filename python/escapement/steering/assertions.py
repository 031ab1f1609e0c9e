"""What a program asserts of the data: `assert mask.any(), "nothing to attend to"`, `torch._check_index(n < limit)` with a number `n` from a tensor.

Dynamo writes such an assertion into the graph, where it raises a RuntimeError whatever the program raises, for numbers with a text of the framework's ("Runtime
assertion failed for expression u0 >= 1"); an assertion of a converted float (`assert int(x.sum()) > 0`) it loses. Here each one stands in the graph where the program
has it and carries, in its text, the exception that the program raises; what runs the graph raises that. Where the program could catch it, or has something to do on
the way out (`except`, `finally`, a context manager of its own), the program asserts by itself, behind a graph break, if one is possible.

What an assertion says is told the framework too, which may know that way that a slice fits; the checks that the framework makes of it say the same text.
"""

import builtins
import dis
import functools
import operator
import sys

import torch
from torch._dynamo import exc as dynamo_exc
from torch._dynamo import symbolic_convert
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.functions import NestedUserFunctionVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch.fx.experimental.symbolic_shapes import expect_true

from . import endings

CHECKS = {torch._check: RuntimeError, torch._check_index: IndexError, torch._check_value: ValueError, torch._check_type: TypeError,
          torch._check_not_implemented: NotImplementedError, torch._check_with: None}   # none: the first argument says
OF_TENSORS = {torch._check_tensor_all: RuntimeError, torch._check_tensor_all_with: None}
SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def install(current_session):
    symbolic_convert._detect_and_normalize_assert_statement = statement(symbolic_convert._detect_and_normalize_assert_statement, current_session)
    handlers = TorchInGraphFunctionVariable._get_handlers()
    for function, error in (*CHECKS.items(), *OF_TENSORS.items()):
        handlers[function] = check(handlers[function], current_session, error, function in OF_TENSORS)


def possible():
    handlers = getattr(TorchInGraphFunctionVariable, "_get_handlers", dict)()
    return hasattr(symbolic_convert, "_detect_and_normalize_assert_statement") and all(function in handlers for function in (*CHECKS, *OF_TENSORS))


# --- while the program is traced

def statement(detect, current_session):
    """`assert`: its condition has been taken from the stack by whoever asks here, and its text, if it is a constant, is put there."""
    @functools.wraps(detect)
    def detected(translator, truth_fn, push):
        found, session = detect(translator, truth_fn, push), current_session()
        value = sys._getframe(1).f_locals.get("value") if found and session is not None else None
        if value is None or not is_of_data(value):
            return found
        message = translator.pop().as_python_constant()
        if not is_whole(session, translator) and (not isinstance(message, str) or has_a_way_out(translator)):
            return False                      # a branch on the data, then: a graph break
        has_text = translator.instructions[translator.instruction_pointer + 1].opname != "RAISE_VARARGS"
        text = endings.text(AssertionError, str(message) if has_text else None)
        translator.push(ConstantVariable.create(text))
        if not value.is_tensor():
            write(session, translator, value, text)
        return True

    return detected


def check(handle, current_session, error, of_tensor):
    """`torch._check` and its family."""
    @functools.wraps(handle)
    def handled(function, tx, *args, **kwargs):
        kind, condition, message = arguments(error, args, kwargs)
        session, condition = current_session(), condition and condition.realize()
        if session is None or condition is None or not (condition.is_tensor() if of_tensor else is_truth_of_data(condition)):
            return handle(function, tx, *args, **kwargs)
        message, whole = said(message), is_whole(session, tx)
        text = endings.text(kind, message) if kind is not None and message is not None else None
        if whole and text is None:
            return handle(function, tx, *args, **kwargs)
        if text is None or not whole and has_a_way_out(tx):
            dynamo_exc.unimplemented(gb_type="escapement: an assertion about data", context=function.value.__name__, hints=[],
                                     explanation="its text is made when it fails, or the program would catch what it raises")
        if of_tensor:
            condition = condition.call_method(tx, "_is_all_true", [], {}).call_method(tx, "item", [], {})
        write(session, tx, condition, text)
        return ConstantVariable.create(None)

    return handled


def arguments(error, args, kwargs):
    """(exception, condition, message); None for the first where it is none of Python's own."""
    if error is None:
        given, args = (args[0], args[1:]) if args else (kwargs.get("error_type"), args)
        error = given.as_python_constant() if given is not None and given.is_python_constant() else None
    if error is not None and getattr(builtins, error.__name__, None) is not error:
        error = None
    condition = args[0] if args else kwargs.get("cond")
    return error, condition, args[1] if len(args) > 1 else kwargs.get("message")


def said(message):
    """What the check says: a constant, or the text that it has where none is given. None: only the program can tell."""
    if message is None or message.is_constant_none():
        return default_text()
    code = message.get_code() if isinstance(message, NestedUserFunctionVariable) else None
    return constant_text(code) if code is not None else None


@functools.cache
def default_text():
    try:
        torch._check(False)
    except RuntimeError as error:
        return str(error)


def constant_text(code):
    """Of `lambda: "text"`."""
    body = [instruction for instruction in dis.get_instructions(code) if instruction.opname not in ("RESUME", "NOP", "COPY_FREE_VARS")]
    returns = [instruction.opname for instruction in body] in (["LOAD_CONST", "RETURN_VALUE"], ["RETURN_CONST"])
    return body[0].argval if returns and isinstance(body[0].argval, str) else None


def is_whole(session, tx):
    """Whether there must be no graph break."""
    return session.whole or tx.error_on_graph_break


def is_of_data(value):
    """Whether no guard can tell: a tensor, or a number that is known at run time only."""
    return value.is_tensor() or isinstance(value, SymNodeVariable) and isinstance(value.sym_num, SYMBOLS) and not value.sym_num.node.has_hint()


def is_truth_of_data(value):
    return is_of_data(value) and not value.is_tensor() and isinstance(value.sym_num, torch.SymBool)


def has_a_way_out(translator):
    """Whether the program catches an exception that is raised here, or does something when one passes."""
    while translator is not None:
        entry = getattr(translator.current_instruction, "exn_tab_entry", None)
        blocks = translator.block_stack
        if entry is not None and not (blocks and entry.target is blocks[-1].target) or translator.active_generic_context_managers:
            return True
        translator = getattr(translator, "parent", None)
    return False


def write(session, tx, condition, text):
    """Into the graph; and to the framework, which may know something by it."""
    if not isinstance(condition.sym_num, torch.SymBool):
        condition = BuiltinVariable(operator.ne).call_function(tx, [condition, ConstantVariable.create(0)], {})
    write_only(tx, condition, text)
    tell(session, condition.sym_num, text)


def write_only(tx, condition, text):
    tx.output.create_proxy("call_function", torch._assert_scalar, (condition.as_proxy(), text), {})


def tell(session, holds, text):
    env, symbols = holds.node.shape_env, holds.node.expr.free_symbols
    ranges = {symbol: env.var_to_range.get(symbol) for symbol in symbols}
    expect_true(holds)
    for symbol, before in ranges.items():
        after = env.var_to_range.get(symbol)
        if after is not None and (before is None or after.lower != before.lower):
            session.asserted.setdefault(f"{symbol} >= {after.lower}", text)
        if after is not None and (before is None or after.upper != before.upper):
            session.asserted.setdefault(f"{symbol} <= {after.upper}", text)
    for checks in env.deferred_runtime_asserts.values():
        for ours in checks:
            if ours.expr.free_symbols <= symbols:
                session.asserted.setdefault(str(ours.expr), text)


# --- before the graph is compiled

def name_checks(gm, asserted):
    """The framework's own checks of what the program asserts, which come before the program's."""
    for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten._assert_scalar.default):
        found = endings.OF_FRAMEWORK.match(node.args[1])
        if found and found.group(1) in asserted:
            node.update_arg(1, asserted[found.group(1)])
