"""What a program asks a tensor of elsewhere about itself while it is recorded: `W.shape[0]`, `weight.dtype`, `len(W)`, `x.to(W)`. No operator runs, so
the recording has the answer as a constant and need not have the tensor; the core compares only tensors that it has, and of these not all.

So every such question is noticed: attributes of tensors are read through `noticing` while recordings run. What was asked of which tensor is compared at every
call from then on, like a plain value (plain.py); a tensor that nobody asks costs nothing. What a function has asked is remembered by its tensors'
ids, so that a new Watch (watch.py) asks the same; no tensor is kept for it.

Not seen: `torch.Tensor.size(W)`, and functions of torch that another module imported by name (`from torch import numel`).
"""

import collections
import contextlib
import functools
import operator
import os
import sys
import threading
import weakref

import torch

from .while_recording import Replaced, WhileRecording

HOME = os.path.dirname(os.path.dirname(__file__))   # what this package asks is no question of the program's
STATES, ASKED = 64, 4096   # that are remembered of a function; with fewer, a state that comes back is recorded again
PLAIN = torch.Tensor, torch.nn.Parameter            # which answer by themselves


def stored(tensor):
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def kinds(**rows):
    return {name: kind for kind, names in rows.items() for name in names.split()}


# What answers, and for which questions.
READ = {"shape": operator.attrgetter("shape"), "rank": operator.attrgetter("ndim"), "dtype": operator.attrgetter("dtype"), "device": operator.attrgetter("device"),
        "gradient": operator.attrgetter("requires_grad", "is_leaf", "retains_grad"), "layout": operator.attrgetter("layout"),
        "strides": operator.methodcaller("stride"), "offset": operator.methodcaller("storage_offset"), "version": operator.attrgetter("_version"),
        "address": operator.methodcaller("data_ptr"), "storage": stored, "inference": operator.methodcaller("is_inference"),
        "names": operator.attrgetter("names"), "conjugate": operator.methodcaller("is_conj"), "negative": operator.methodcaller("is_neg"),
        "view": operator.methodcaller("_is_view"), "shared": operator.methodcaller("is_shared"), "pinned": operator.methodcaller("is_pinned")}
KINDS = kinds(shape="shape size numel nelement nbytes stride is_contiguous dim_order is_same_size", rank="dim ndim ndimension",
              dtype="dtype is_floating_point is_complex is_signed element_size itemsize type",
              device="device get_device is_cuda is_cpu is_meta is_xpu is_mps is_ipu is_hpu is_mtia is_maia is_vulkan", gradient="requires_grad is_leaf grad_fn retains_grad",
              layout="layout is_sparse is_sparse_csr is_mkldnn is_quantized", offset="storage_offset", version="_version", address="data_ptr",
              storage="untyped_storage storage _typed_storage storage_type is_set_to", inference="is_inference", names="names has_names", conjugate="is_conj",
              negative="is_neg", view="_is_view _base", shared="is_shared", pinned="is_pinned")
MORE = {"stride": ("strides",), "is_contiguous": ("strides",), "dim_order": ("strides",), "nbytes": ("dtype",), "type": ("device", "layout")}   # that the answer depends on, too
FUNCTIONS = """numel is_floating_point is_complex is_signed is_conj is_neg is_inference is_same_size get_device result_type""".split()   # of torch's
OF_FUNCTION = {"result_type": ("dtype", "rank")}
GIVEN = "dtype", "device"   # what `x.to(W)` asks of W


class Asking:
    """What one recording asks: (kind, id) -> the answer. Two answers to a question are a change that the program made."""

    def __init__(self, tensors):
        self._tensors, self.answers, self.steady = tensors, {}, True

    def note(self, tensor, asked):
        if self._tensors.get(id(tensor)) is tensor:
            for kind in asked:
                if (kind, id(tensor)) not in self.answers:
                    self.answers[kind, id(tensor)] = None
                    self.answers[kind, id(tensor)] = answer(kind, tensor)


class Memory:
    """Of a function: what it has asked, and the keys of the states in which it was recorded."""

    def __init__(self):
        self.asked, self.keys = set(), collections.deque(maxlen=STATES)


class Key:
    """Of a state, among the keys of a table. When a recording asks more, the answers are those of the state in which it ran: its table is found again."""

    def __init__(self, answers):
        self.answers = answers

    def __hash__(self):
        return 0

    def __eq__(self, other):
        return isinstance(other, Key) and self.answers == other.answers


class State:
    """What was asked, and the answers: `holds` is what the core asks at every call, as if it were a plain value. (An error is no such value.)"""

    __slots__ = ("_rows",)

    def __init__(self, questions):
        rows = collections.defaultdict(list)
        for kind, tensor in questions:
            rows[READ[kind] if answers_by_itself(kind, tensor) else functools.partial(answer, kind)].append(tensor)
        self._rows = [(read, tensors, [*map(read, tensors)]) for read, tensors in rows.items()]

    @property
    def holds(self):
        for read, tensors, then in self._rows:
            if [*map(read, tensors)] != then:
                return False
        return True


class Metadata:
    """Of the tensors that a function reaches."""

    def __init__(self, fn, tensors):
        self._tensors, self._memory = {id(tensor): tensor for tensor in tensors}, memory_of(fn)

    def _questions(self):
        return [(kind, self._tensors[which]) for kind, which in sorted(self._memory.asked) if which in self._tensors] if self._memory.asked else []

    def _answers(self):
        return {(kind, id(tensor)): answer(kind, tensor) for kind, tensor in self._questions()}

    def values(self):
        """As Plain.values()."""
        questions = self._questions()
        return [(State(questions), "holds", True)] if questions else []

    def key(self):
        now = Key(self._answers())
        known = next((key for key in [*self._memory.keys] if key == now), None)
        if known is None:
            self._memory.keys.append(now)
        return known or now

    @contextlib.contextmanager
    def asking(self):
        """In this thread."""
        thread, asking = threading.get_ident(), Asking(self._tensors)
        before = ASKING.get(thread)
        try:
            with noticed():
                ASKING[thread] = asking
                yield asking
        finally:
            ASKING.pop(thread, None) if before is None else ASKING.update({thread: before})

    def is_steady(self, asking):
        return all(answer(kind, self._tensors[which]) == then for (kind, which), then in asking.answers.items())

    def learn(self, asking):
        """Whether that is more than was known. The recording is one of the state that is now."""
        asked = self._memory.asked
        if asked.issuperset(asking.answers):
            return False
        key = self.key()
        if len(asked) > ASKED:
            asked = set()
        self._memory.asked = asked | asking.answers.keys()
        key.answers = self._answers()
        return True


def answer(kind, tensor):
    """A tensor of another class, which may say anything, or fail, is asked past what that class says."""
    with torch._C.DisableTorchFunctionSubclass():
        try:
            return READ[kind](tensor)
        except Exception as error:   # it has no such thing, as a sparse tensor no strides
            return type(error)


def answers_by_itself(kind, tensor):
    return type(tensor) in PLAIN and not isinstance(answer(kind, tensor), type)


# --- remembered

memories = {}   # id -> (weak reference to a function, its Memory)


def memory_of(fn):
    reference, memory = memories.get(id(fn), (None, None))
    if memory is not None and reference() is fn:
        return memory
    memory = Memory()
    with contextlib.suppress(TypeError):   # of what takes no weak reference nothing is remembered
        memories[id(fn)] = weakref.ref(fn, functools.partial(memories.pop, id(fn))), memory   # before another object can have its id
    return memory


# --- noticed

ASKING = {}   # thread -> Asking
read = torch.Tensor.__getattribute__


def noticing(tensor, name):
    kind = KINDS.get(name)
    if kind is not None:
        note((tensor,), (kind, *MORE.get(name, ())), sys._getframe(1))
    found = read(tensor, name)
    return given(found) if name == "to" and threading.get_ident() in ASKING else found


def note(tensors, asked, frame):
    asking = ASKING.get(threading.get_ident())
    if asking is None or frame.f_code.co_filename.startswith(HOME):
        return
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor):
            asking.note(tensor, asked)


def given(method):
    """`x.to`, which reads what it is given in C++."""
    @functools.wraps(method)
    def to(*args, **kwargs):
        note((*args, *kwargs.values()), GIVEN, sys._getframe(1))
        return method(*args, **kwargs)

    return to


class AnyAttribute:
    """`torch.Tensor.__getattribute__`, which the class itself does not have."""

    def put(self):
        torch.Tensor.__getattribute__ = noticing

    def take_back(self):
        if torch.Tensor.__dict__.get("__getattribute__") is noticing:
            del torch.Tensor.__getattribute__


def told_of(name):
    """A function of torch's that asks a tensor in C++."""
    asked = OF_FUNCTION.get(name) or (KINDS[name],)

    @functools.wraps(getattr(torch, name))
    def ours(*args, **kwargs):
        note((*args, *kwargs.values()), asked, sys._getframe(1))
        return replaced.before(*args, **kwargs)

    replaced = Replaced(lambda: torch, name, ours)
    return replaced


REPLACED = [AnyAttribute(), *(told_of(name) for name in FUNCTIONS if hasattr(torch, name))]


def put():
    for each in REPLACED:
        each.put()


def take_back():
    for each in REPLACED:
        each.take_back()


noticed = WhileRecording(put, take_back)
