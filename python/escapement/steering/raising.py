"""Operations of a program that raise for some sizes, though the tracer runs them without a word.

A traced graph is one expression after the other: an exception of Python's arithmetic (a division by a size that is 0) is not raised by
it at all, and one of an operator (the maximum of nothing) comes too late for the `except` that the program had around it. So, where the
tracer runs an operation on sizes it does not know:

  divisions and the like   the divisor is not 0, by a guard; where it is, the exception is raised while tracing, and the call runs eagerly
  int(number) and the like the number is finite, likewise
  math.sqrt, math.log2     the number has one, likewise
  powers under `except`    the result is finite, likewise
  tensors under `except`   none of them is empty, by a guard; where one is, the call runs eagerly; a size of the data is a graph break, and so are
                           operators that raise for values (an index that is out of range, a matrix without an inverse)
  products of two dtypes   are the program's own: the tracer does not look at dtypes there

Numbers that come from the data have no guard: there the graph's own code has to tell (a root by an assertion, assertions.py), or under `except` the program behind
a graph break. What `except` could catch is told in handlers.py.
"""

import functools
import math
import operator
import sys

import torch
import torch.utils._pytree as pytree
from torch._dynamo import exc as dynamo_exc
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

from . import assertions, endings, handlers
from .handlers import under_except


def not_zero(left, right):
    return right != 0


def real_power(base, power, modulus=1):
    """Neither a division by zero nor a complex number, which the call finds out about itself."""
    whole = isinstance(power, (int, torch.SymInt))
    return whole and power >= 0 or base > 0 or whole and base != 0


def finite_power(base, power, modulus=1):
    """Of floats; Python's own raises where it is too large. Of integers it is exact."""
    numbers = base, power
    if modulus != 1 or all(isinstance(number, (int, torch.SymInt)) for number in numbers) and power >= 0:
        return True
    try:
        return -LARGEST <= torch.sym_float(base) ** torch.sym_float(power) <= LARGEST   # that it is below infinity is taken for granted
    except OverflowError:
        return False


NEEDS = {   # what must hold of the operands, and what Python raises where it does not
    operator.truediv: (not_zero, ZeroDivisionError), operator.itruediv: (not_zero, ZeroDivisionError),
    operator.floordiv: (not_zero, ZeroDivisionError), operator.ifloordiv: (not_zero, ZeroDivisionError),
    operator.mod: (not_zero, ZeroDivisionError), operator.imod: (not_zero, ZeroDivisionError), divmod: (not_zero, ZeroDivisionError),
    operator.pow: (real_power, ZeroDivisionError), operator.ipow: (real_power, ZeroDivisionError), pow: (real_power, ZeroDivisionError),
    operator.lshift: (lambda number, by: by >= 0, ValueError), operator.rshift: (lambda number, by: by >= 0, ValueError),
}
CONVERSIONS = (torch.sym_int, math.floor, math.ceil, math.trunc, round)
NEEDS.update({function: (lambda number, *digits: not isinstance(number, torch.SymFloat) or -math.inf < number < math.inf, OverflowError)
              for function in CONVERSIONS})
DOMAINS = {getattr(torch, name): outside for name, outside in (("_sym_sqrt", operator.lt), ("_sym_log2", operator.le)) if hasattr(torch, name)}
NEEDS.update({function: (lambda number, outside=outside: not outside(number, 0), ValueError) for function, outside in DOMAINS.items()})
SYMBOLS = (torch.SymInt, torch.SymFloat)
BY_VALUE = frozenset("gather index_select take take_along_dim scatter scatter_add scatter_reduce index_add index_copy index_fill index_put index_reduce put "
                     "masked_scatter embedding embedding_bag one_hot nll_loss nll_loss_nd nll_loss2d cross_entropy cross_entropy_loss multi_margin_loss multilabel_margin_loss "
                     "multinomial bernoulli poisson cholesky cholesky_inverse cholesky_solve inverse pinverse logdet slogdet lu_solve ormqr "
                     "triangular_solve bincount unravel_index max_unpool1d max_unpool2d max_unpool3d ctc_loss binary_cross_entropy".split())
PRODUCTS = frozenset("mm matmul bmm mv dot inner vdot addmm addmv addbmm baddbmm linear rmatmul conv1d conv2d conv3d bilinear".split())
OF_TORCH = ("aten", "prims", "prim", "escapement")
LARGEST = sys.float_info.max


def install(current_session):
    dynamo_utils.run_node = watched(dynamo_utils.run_node, current_session)


def watched(run_node, current_session):
    @functools.wraps(run_node)
    def run(tracer, node, args, kwargs, nnmodule):
        if current_session() is not None:
            if node.target in NEEDS if node.op == "call_function" else False:
                hold_numbers(node, args, getattr(tracer, "current_tx", None))
            elif under_except(getattr(tracer, "current_tx", None)):
                hold_tensors(args, kwargs)
                hold_values(node, args)
            elif is_of_the_program(node.target) and under_except(getattr(tracer, "current_tx", None), handlers.ANY):
                leave_values(name_of(node))
            hold_dtypes(node, args, kwargs)
        return run_node(tracer, node, args, kwargs, nnmodule)

    return run


def is_tensor(value):
    return isinstance(value, torch.Tensor)


def hold_numbers(node, args, translator):
    function, symbols = node.target, [value for value in args if isinstance(value, SYMBOLS)]
    if not symbols or any(map(is_tensor, args)):
        return
    if not all(value.node.has_hint() for value in symbols):
        if function in DOMAINS and not under_except(translator):
            return assert_domain(node, translator)
        return leave_to_python(function) if may_raise(function, args) and under_except(translator) else None
    holds, raised = NEEDS[function]
    if not holds(*args):
        raise raised(f"{getattr(function, '__name__', function)} of a size")
    if holds is real_power and under_except(translator) and not finite_power(*args):
        raise OverflowError("a power of a size")


def assert_domain(node, translator):
    """Of a number from the data: an operator has no answer there and says nothing."""
    number = SymNodeVariable.create(translator, torch.fx.Proxy(node.args[0], translator.output.current_tracer))
    outside = BuiltinVariable(DOMAINS[node.target]).call_function(translator, [number, ConstantVariable.create(0)], {})
    inside = TorchInGraphFunctionVariable(torch.sym_not).call_function(translator, [outside], {})   # NaN is its own root
    assertions.write_only(translator, inside, endings.text(ValueError, "math domain error"))


def may_raise(function, args):
    """Of an operation on numbers from the data: not where a conversion gets integers, nor where divisor or exponent is a plain number."""
    if function in CONVERSIONS:
        return any(isinstance(value, torch.SymFloat) for value in args)
    if NEEDS[function][0] is real_power:
        return isinstance(args[1], (float, *SYMBOLS)) or args[1] < 0
    return len(args) < 2 or isinstance(args[1], SYMBOLS)


def leave_to_python(function):
    dynamo_exc.unimplemented(gb_type="escapement: arithmetic under except", context=getattr(function, "__name__", str(function)), hints=[],
                             explanation="it may raise for some numbers, and the program would catch that")


def hold_tensors(args, kwargs):
    """Those that have no elements, and whatever only the data tell: a size, or a number among the arguments."""
    for value in pytree.tree_leaves((args, kwargs)):
        count = value.numel() if is_tensor(value) else value
        if not isinstance(count, SYMBOLS):
            continue
        if not count.node.has_hint():
            dynamo_exc.unimplemented(gb_type="escapement: a size from the data under except", context="", hints=[],
                                     explanation="an operator may raise for it, and the program would catch that")
        if is_tensor(value) and count == 0:
            dynamo_exc.unimplemented(gb_type="escapement: a tensor without elements under except", context="", hints=[],
                                     explanation="an operator may raise for it, and the program would catch that")


def name_of(node):
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")


def hold_values(node, args):
    name = name_of(node)
    by_index = name in ("getitem", "setitem") and any(is_tensor(part) and part.dtype is not torch.bool for part in pytree.tree_leaves(args[1:2]))
    if by_index or name.strip("_") in BY_VALUE or getattr(node.target, "__module__", None) == "torch._C._linalg" or name.startswith("linalg_"):
        leave_values(name)
    if is_of_the_program(node.target):
        leave_values(name)


def is_of_the_program(target):
    """Of an operator that is not torch's: it may raise anything for anything."""
    return isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)) and namespace(target) not in OF_TORCH


def namespace(target):
    return target.namespace if isinstance(target, torch._ops.OpOverload) else target._qualified_op_name.split("::")[0]


def leave_values(name):
    dynamo_exc.unimplemented(gb_type="escapement: an operator that raises for values under except", context=name, hints=[],
                             explanation="for some data it raises, and the program would catch that")


def hold_dtypes(node, args, kwargs):
    """Autocast gives both one dtype."""
    if name_of(node).strip("_") not in PRODUCTS or torch._C._is_any_autocast_enabled():
        return
    if len({value.dtype for value in (*args, *kwargs.values()) if is_tensor(value)}) > 1:
        dynamo_exc.unimplemented(gb_type="escapement: a product of two dtypes", context=name_of(node), explanation="eager raises there", hints=[])
