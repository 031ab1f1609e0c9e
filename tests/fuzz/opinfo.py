"""The samples that PyTorch keeps of each of its operators (OpInfo), each operator, dtype and variant compiled once and called with all
of them, and with their tensors cut to size 1 and 0 along the first and the last axis, against eager.

A case is `name dtype form`: form is function, method, in-place or operator.
"""

import contextlib
import copy
import functools
import random

import torch

import torch_testing
from check import Difference, looked_at
from children import Ended, child
from compare import Judge, Outcome
from ways import WAYS

torch_testing.ready()
from torch.testing._internal import common_methods_invocations as invocations  # noqa: E402

DTYPES = [torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.float64, torch.float16, torch.uint8, torch.int32, torch.complex64]
FORMS = {"function": "op", "method": "method_variant", "in-place": "inplace_variant", "operator": "operator_variant"}
SAMPLES = 6           # of an operator, dtype and form, drawn at random from all
FEWER = {"compile": 2}   # samples, where each call may cost a second
SEED = 5
BATCH = 40           # cases in one child

# Operators whose results are not compared, only what they raise.
NOT_DETERMINED = {
    "empty": "memory as it was found", "empty_like": "memory as it was found", "new_empty": "memory as it was found",
    "new_empty_strided": "memory as it was found", "empty_strided": "memory as it was found", "empty_permuted": "memory as it was found",
    "native_batch_norm": "torch reads past the end of weights that were cut", "resize_": "what it adds is memory as it was found", "resize_as_": "what it adds is memory as it was found",
    "linalg.eig": "the order and phase of eigenvectors is free", "linalg.eigh": "the phase of eigenvectors is free",
    "linalg.svd": "the phase of singular vectors is free", "svd": "the phase of singular vectors is free",
    "svd_lowrank": "the phase of singular vectors is free", "pca_lowrank": "the phase of singular vectors is free",
}
# torch itself reads, or writes, past the end of what was cut.
UNCUT = {"nn.functional.embedding_bag", "_native_batch_norm_legit", "_batch_norm_with_update"}
SPARSE = {"sparse.mm.reduce", "sparse.sampled_addmm", "to_sparse"}   # torch can neither copy nor compare these tensors everywhere


class Sampled:
    """What Judge and Way take for a program."""

    near, results, options, arguments, calls = frozenset({"all"}), (), (), {}, ()

    def __init__(self, operator):
        self.operator = operator

    def function(self):
        return lambda input, args, kwargs: self.operator(input, *args, **kwargs)

    def reads_host(self):
        return True

    def source(self):
        return "clamp"   # the sign of zero is not compared


class NearJudge(Judge):
    def is_near(self, path):
        return True


@functools.cache
def operators():
    found = {}
    for info in invocations.op_db:
        found[f"{info.name}{'.' + info.variant_test_name if info.variant_test_name else ''}"] = info
    return found


def cases(dtypes=DTYPES):
    """All of them, in an order that mixes operators."""
    found = [f"{name} {str(dtype).removeprefix('torch.')} {form}" for name, info in operators().items() for dtype in dtypes
             if name not in SPARSE and dtype in info.dtypes for form, attribute in FORMS.items() if getattr(info, attribute, None)]
    random.Random(0).shuffle(found)
    return found


def cut(value, axis, size):
    """Tensors of a sample, narrowed."""
    if isinstance(value, torch.Tensor):
        return value.narrow(axis, 0, size).clone() if value.dim() and value.shape[axis] > size else value
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(cut(part, axis, size) for part in value) if type(value) in (list, tuple) else value
    return {k: cut(v, axis, size) for k, v in value.items()} if isinstance(value, dict) else value


def calls(info, dtype, most=SAMPLES):
    torch.manual_seed(SEED)
    samples = list(info.sample_inputs("cpu", dtype, requires_grad=False))
    chosen = random.Random(SEED).sample(samples, min(most, len(samples)))
    for sample in chosen:
        call = (sample.input, sample.args, sample.kwargs)
        yield call
        for axis, size in () if info.name in UNCUT else ((0, 1), (-1, 1), (0, 0), (-1, 0)):
            yield tuple(cut(part, axis, size) for part in call)


def check_case(case, way):
    """The Differences of one case, the first of each kind. What the ways without us do otherwise than eager, too, is not ours."""
    found = list(compared(case, way))
    controls = WAYS[way].controls if found else ()
    theirs = {one.kind for control in controls for one in compared(case, control, FEWER.get(way, SAMPLES))}
    yield from (one for one in found if one.kind not in theirs)


def compared(case, way, most=None):
    name, dtype, form = case.split(" ")
    info, dtype = operators()[name], getattr(torch, dtype)
    program = Sampled(getattr(info, FORMS[form]))
    made, judge, seen = WAYS[way](program), NearJudge(program), set()
    for number, call in enumerate(calls(info, dtype, most or FEWER.get(way, SAMPLES))):
        arguments = dict(zip(("input", "args", "kwargs"), call))
        eager = Outcome(program.function(), copy.deepcopy(arguments), "no_grad")
        ours = Outcome(made, copy.deepcopy(arguments), "no_grad")
        found = None if unset(info, eager, ours) else looked_at(judge, ours, eager)
        if found and found[0] not in seen and all_is_written(program, arguments, judge, eager):
            seen.add(found[0])
            yield Difference(way, found[0], f"{case}: {found[1]} (call {number}: {described(call)})", number)
    trouble = made.trouble()
    if trouble:
        yield Difference(way, trouble[0], f"{case}: {trouble[1]}")


def all_is_written(program, arguments, judge, eager):
    """Whether eager's result is the same where new memory is filled before it is used. (A circular pad that is cut, too, is not all written.)"""
    with filled_memory():
        other = Outcome(program.function(), copy.deepcopy(arguments), "no_grad")
    return looked_at(judge, other, eager) is None


@contextlib.contextmanager
def filled_memory():
    """torch fills new memory where algorithms are to be deterministic; it has that switched on by default."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def unset(info, eager, ours):
    return info.name in NOT_DETERMINED and type(eager.error) is type(ours.error)


def described(value):
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(described, value))})"
    return f"{{{', '.join(f'{k}={described(v)}' for k, v in value.items())}}}" if isinstance(value, dict) else repr(value)[:60]


def some(cases, way):
    """In a child: says at which case it is, and what is found."""
    for case in cases:
        yield "at", case
        for found in check_case(case, way):
            yield "found", found


def differences(cases, way, done=lambda: False):
    """(cases run, Differences): a child that ends takes only the case with it that it was at."""
    left, found = list(cases), []
    while left and not done():
        at = left[0]
        try:
            for what, value in child(some, left[:BATCH], way):
                if what == "found":
                    found.append(value)
                at = value if what == "at" else at
            left = left[BATCH:]
        except Ended as ended:
            found.append(Difference(way, ended.kind, f"{at}: {ended.text}"))
            left = left[left.index(at) + 1:]
    return len(cases) - len(left), found
