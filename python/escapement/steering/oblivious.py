"""Which questions of torch about sizes 0 and 1 may be answered without looking at the size, and which are guards.

Tracing "obliviously" torch answers `size == 1` with a default wherever its operators ask in the form "or false", "or true" or
"size oblivious", and adds no guard: one graph then serves all sizes. That is right only where the answer cannot be seen. `squeeze`
asks in the same form, and its answer is the rank of a tensor, which the host may read. So while a frame of ours is traced every such
question comes here, and the table says what follows from the default:

  ENFORCED   nothing: what the default assumes is checked by a guard right afterwards, or the rule that follows holds for every size
  BROADCAST  as ENFORCED: a size not known to be 1 is asked to be equal to the other one. Where one that is 1 now is not, the frame is traced again
             with what is 1 as a guard (`Answers.ones`)
  RANK       a guard; of a size that only the data tell a graph break, and the operator runs as eager's
  LAYOUT     strides and contiguity. Operators may rely on it, for layouts are run-time facts of a compiled graph. Where the program looks
             at a layout itself, the frame is traced again with these questions as guards (`Answers.layout`)
  SIGN       as ENFORCED, but for the sign of a number: it decides between two rules
  REFUSAL    as ENFORCED, but for "less than", which asks whether the operator refuses its input, and a program may catch that

What is not in the table is a guard: the truth for this call, and another version for the calls where it is otherwise. A size that only the
data tell has no guard: a question of RANK, and an assertion that torch would have the graph make of such a size in BROADCAST, are graph breaks,
because the program may go on where the assertion fails. (Not with `fullgraph=True`: then torch's answer stands, as with any backend.) Whoever asks is
known by the file and function of the Python frame, or by the file of the C++ source, which torch passes on.

With dynamo.py one of the few files that know private names of torch; where they have moved, nothing is traced obliviously.
"""

import contextlib
import os
import sys

import sympy
import torch
from torch._dynamo import exc as dynamo_exc
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.sym_node import SymNode

from . import data_questions

ENFORCED, BROADCAST, RANK, LAYOUT, SIGN, REFUSAL = "enforced", "broadcast", "rank", "layout", "sign", "refusal"

# file of torch -> function -> kind. A function stands for all that is defined inside of it; "*" for all of a C++ file.
TABLE = {
    # --- broadcasting: a size not known to be 1 is asked to be equal to the other one, which is a guard
    "_refs/__init__.py": {
        "_broadcast_shapes": BROADCAST,
        "_maybe_broadcast": BROADCAST,
        "expand": BROADCAST,        # -1 or a length; a length is checked to be one
        "squeeze": RANK,
        "cat": ENFORCED,           # an empty 1-D tensor adds nothing to the length; one of another rank is refused by a check
    },
    "_subclasses/fake_impls.py": {
        "infer_size": BROADCAST,
        "make_fast_binary_impl": LAYOUT,
        "_compute_slice_index": SIGN,        # the general rule is a minimum or maximum; which of both depends on the sign
        "slice_forward": ENFORCED,           # the general rule: a length of at least 0
        "_hinted_eq": ENFORCED,
        "_is_contiguous_with_hinted_checks": ENFORCED,
        "_view_unbacked_meta": LAYOUT,
        "_compute_stride": LAYOUT,           # gives up where a view may not exist, and then the truth is asked for
    },
    "_prims/__init__.py": {
        "_broadcast_in_dim_meta": LAYOUT,    # the stride of a length 1
    },
    "_prims_common/__init__.py": {
        "same_shape": ENFORCED,              # of tensors whose shapes have just been made equal; otherwise an error
        "_check_strides_helper": LAYOUT,
        "check_contiguous_sizes_strides": LAYOUT,
        "is_contiguous": LAYOUT,
        "is_channels_last_contiguous_2d": LAYOUT,
        "is_channels_last_contiguous_3d": LAYOUT,
        "K.__lt__": LAYOUT,
        "_is_non_overlapping_and_dense_or_false": LAYOUT,
        "compute_elementwise_output_logical_to_physical_perm": LAYOUT,
        "are_strides_like_channels_last_or_false": LAYOUT,
        "infer_size": ENFORCED,              # -1 or a length; a length is checked to be one
        "compute_required_storage_length": ENFORCED,
    },
    "_meta_registrations.py": {
        "meta_baddbmm": ENFORCED,            # an expand to the shape it has already
        "meta_index_Tensor": LAYOUT,
        "meta_gather": ENFORCED,             # for an empty index some checks are left out; here they are made, and have passed
        "scatter_gather_dtype_check": ENFORCED,
        "scatter_shape_check": ENFORCED,
    },
    "_refs/linalg/__init__.py": {
        "vector_norm": LAYOUT,               # of one element: its magnitude, by a shorter way
    },
    "_decomp/decompositions.py": {
        "should_fold": LAYOUT,               # one matrix product or many; the same elements
        "matmul": BROADCAST,                  # broadcasting of batches
    },
    "_functorch/_aot_autograd/functional_utils.py": {
        "has_same_metadata": ENFORCED,       # whether a view has to be made again, which is never wrong
    },
    "_functorch/_aot_autograd/graph_capture_wrappers.py": {
        "create_joint": ENFORCED,            # an output and its tangent
    },
    "_functorch/_aot_autograd/graph_compile.py": {
        "_aot_stage2b_bw_compile": ENFORCED,  # whether a saved tensor's strides are taken from the real one
    },
    "_subclasses/meta_utils.py": {
        "MetaConverter.meta_tensor": ENFORCED,
    },
    # --- C++
    "Contiguity.h": {"*": LAYOUT},
    "TensorBase.h": {"*": LAYOUT},
    "TensorImpl.h": {"*": LAYOUT},
    "TensorUtils.cpp": {"*": LAYOUT},        # strides of a view
    "EmptyTensor.cpp": {"*": ENFORCED},      # whether a number of bytes overflows
    "TensorShape.cpp": {"*": RANK},          # squeeze
    "Resize.h": {"*": ENFORCED},             # bounds of a storage
    "InferSize.h": {"*": BROADCAST},
    "Repeat.cpp": {"*": ENFORCED},           # repeats not known to be one for all are checked to be as many as there are elements
    "ExpandUtils.h": {"*": ENFORCED},        # sums over what was broadcast: the sizes are made equal by a view
    "Convolution.cpp": {"*": REFUSAL},       # which library computes it: by whether it is large, or empty; the result's sizes are the same
    "input_metadata.cpp": {"*": ENFORCED},   # a gradient and its tensor: the same
    "Linear.cpp": {"*": BROADCAST},           # einsum and tensordot: sizes not known to be 1 are checked to be equal
}


class Answers:
    """How questions are answered while one frame is traced."""

    def __init__(self, whole):
        self.layout = False      # whether the program looks at layouts
        self.ones = False        # whether it broadcasts a size that is computed, and 1 now
        self.offsets = False     # whether it looks at where tensors start in their storage
        self.whole = whole       # no graph break is wanted
        self.oblivious = True
        self.tracing = True      # the program, not yet what the backend makes of its graph

    def breaks(self, kind, on):
        """Of a size that only the data tell."""
        return self.tracing and not self.whole and kind == on

    def is_free(self, kind, node):
        """Whether the default may stand without a guard."""
        if kind is SIGN:
            return not is_about_sign(node.expr)
        if kind is REFUSAL:
            return not isinstance(node.expr, sympy.StrictLessThan)
        if kind is BROADCAST and self.ones and is_one_now(node):
            return False
        return kind in (ENFORCED, BROADCAST) or (kind is LAYOUT and not self.layout)


def is_about_sign(expr):
    return expr.is_Relational and (expr.rhs.is_zero or expr.lhs.is_zero) and len(expr.free_symbols) == 1


def is_one_now(node):
    return isinstance(node.expr, (sympy.Eq, sympy.Ne)) and 1 in node.expr.args and bool(node.hint) == isinstance(node.expr, sympy.Eq)


def kind_of(file, function):
    rows = TABLE.get(file)
    return None if rows is None else rows.get("*", rows.get(function))


TORCH = os.path.join(os.path.dirname(torch.__file__), "")
# Functions that only pass a question on.
FORWARDING = ("guard_or_false", "guard_or_true", "_guard_or", "guard_size_oblivious", "expect_true", "_check", "_check_with")


def python_asker():
    """(file below torch/, function) of the frame that asks."""
    frame = sys._getframe(2)
    while frame.f_code.co_filename == __file__ or frame.f_code.co_name in FORWARDING:
        frame = frame.f_back
    code = frame.f_code
    function = getattr(code, "co_qualname", code.co_name).split(".<locals>")[0]
    return code.co_filename.removeprefix(TORCH).replace(os.sep, "/"), function


def native_asker(file):
    """C++ passes on where it asks; Python's own calls of the same method pass nothing."""
    return (os.path.basename(file), "*") if file else python_asker()


def from_data(answers, kind, node, default):
    about_one = isinstance(node.expr, (sympy.Eq, sympy.Ne)) and 1 in node.expr.args
    if not answers.breaks(kind, RANK) or not about_one:
        return default
    try:
        return bool(node.shape_env.evaluate_sym_node(node, size_oblivious=False))
    except symbolic_shapes.GuardOnDataDependentSymNode:
        return leave(node)


def leave(node):
    dynamo_exc.unimplemented(gb_type="escapement: an operator asks for a size of the data", context=str(node.expr), hints=[],
                             explanation="whether it is 0 or 1 decides what the operator does, and only the data tell")


@contextlib.contextmanager
def answered(answers):
    """Compiles are serialised by Dynamo, so the module and the class can be changed for the time of one."""
    def ask(condition, default, asker):
        node = condition.node
        known = symbolic_shapes._static_eval_sym_bool(condition)
        if known is not None:
            return known
        if not node.has_hint():
            return from_data(answers, kind_of(*asker), node, default)
        if not answers.oblivious:
            return torch_guard_or(condition, default)
        if answers.is_free(kind_of(*asker), node):
            return default
        return bool(node.shape_env.evaluate_sym_node(node, size_oblivious=False, fallback_value=default))

    def guard_or(condition, default):
        if not isinstance(condition, torch.SymBool) or getattr(condition.node, "shape_env", None) is None:
            return torch_guard_or(condition, default)
        return ask(condition, default, python_asker())

    def from_native(default):
        return lambda node, file, line: ask(torch.SymBool(node), default, native_asker(file))

    def size_oblivious(node, file, line):
        if not node.has_hint() and answers.breaks(kind_of(*native_asker(file)), RANK) and 1 in node.expr.args:
            return from_data(answers, RANK, node, False)
        if not (answers.oblivious and node.has_hint()):
            return torch_size_oblivious(node, file, line)
        free = answers.is_free(kind_of(*native_asker(file)), node)
        return torch_size_oblivious(node, file, line) if free else node.guard_bool(file, line)

    def is_left(node, file):
        if node.has_hint() or symbolic_shapes._static_eval_sym_bool(torch.SymBool(node)) is not None:
            return False
        return answers.breaks(kind_of(*(python_asker() if file.endswith(".py") else native_asker(file))), BROADCAST)

    torch_expect_true, SymNode.expect_true = SymNode.expect_true, data_questions.expected(SymNode.expect_true, is_left, leave)
    torch_guard_or, torch_size_oblivious = symbolic_shapes._guard_or, SymNode.guard_size_oblivious
    torch_natives = SymNode.guard_or_false, SymNode.guard_or_true
    symbolic_shapes._guard_or, SymNode.guard_size_oblivious = guard_or, size_oblivious
    SymNode.guard_or_false, SymNode.guard_or_true = from_native(False), from_native(True)
    try:
        yield
    finally:
        SymNode.expect_true = torch_expect_true
        symbolic_shapes._guard_or, SymNode.guard_size_oblivious = torch_guard_or, torch_size_oblivious
        SymNode.guard_or_false, SymNode.guard_or_true = torch_natives


@contextlib.contextmanager
def sizes_may_be_zero():
    """torch makes the symbol of a size positive, also where it says that the size ranges from 0: `if x.size(0)` would be decided by
    algebra, with no guard, and be wrong for an empty tensor. Compiles are serialised by Dynamo, so the module can be changed for the
    time of one."""
    make = symbolic_shapes.make_symbol

    def make_symbol(kind, name, **assumptions):
        if kind is symbolic_shapes.SymT.SIZE and assumptions.get("positive"):
            del assumptions["positive"]
            assumptions["nonnegative"] = True
        return make(kind, name, **assumptions)

    symbolic_shapes.make_symbol = make_symbol
    try:
        yield
    finally:
        symbolic_shapes.make_symbol = make


def possible():
    return all(hasattr(symbolic_shapes, name) for name in ("_guard_or", "_static_eval_sym_bool", "make_symbol")) and all(
        hasattr(SymNode, name) for name in ("guard_size_oblivious", "guard_or_false", "guard_or_true", "expect_true"))
