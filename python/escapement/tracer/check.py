"""check=: the function itself runs beside its compiled code, and what they do is compared.

The function runs first, on copies of the tensors it was given and with what it wrote undone: parameters, buffers and the
random state are as before when the compiled code runs. Compared are results (structure, dtypes, sizes, strides, values), and
the tensors that either of them wrote. Integers and booleans must be equal; floating-point values may differ by TOLERANCE
roundings of the largest value of the tensor, which admits another order of a sum and no other mistake. A call that records
or runs eagerly needs no check.
"""


import torch

from ..errors import ContractError, OptionError
from ..ledger import LEDGER
from ..locks import fork_safe_lock
from .results import Results, result_names
from .tree import Copies, Reader, Unsupported, flatten, unflatten

TOLERANCE = 64


class Checker:
    """How many more compiled calls are checked, and how many were."""

    def __init__(self, fn, check, run_entry):
        self._left, self.count, self._lock = wanted(check), 0, fork_safe_lock()
        self._fn, self._run_entry = fn, run_entry

    @property
    def active(self):
        return self._left > 0

    def run(self, entry, leaves, originals, args, kwargs):
        before = entry.runs
        if not before:   # the first call is the recording: eager by construction
            return self._run_entry(entry, leaves, originals, args, kwargs)
        host = Host(self._fn, entry.table.watch.tensors, args, kwargs)
        result = self._run_entry(entry, leaves, originals, args, kwargs)
        if entry.runs == before:
            self._note()
            host.compare(result, args, kwargs)
        return result

    def _note(self):
        with self._lock:
            self._left -= 1
            self.count += 1
        LEDGER.jit["checks"] += 1


def wanted(check):
    if check is None:
        return 0
    if check in ("first", "always"):
        return 1 if check == "first" else float("inf")
    if type(check) is int and check >= 0:
        return check
    raise OptionError(f"check={check!r} is not known; it takes 'first', 'always' or a number of calls")


class Host:
    """One run of the function itself, with its writes kept apart and undone."""

    def __init__(self, fn, held, args, kwargs):
        self._held = held
        saved, random = [tensor.detach().clone() for tensor in held], torch.get_rng_state()
        self._args, self._kwargs = copied(args, kwargs)
        self._result = fn(*self._args, **self._kwargs)
        self._random = torch.get_rng_state()
        self._after = [tensor.detach().clone() for tensor in held]
        with torch.no_grad():
            for tensor, value, after in zip(held, saved, self._after):
                if not same_bits(value, after):
                    tensor.copy_(value)
        torch.set_rng_state(random)

    def compare(self, result, args, kwargs):
        compare("result", result, self._result)
        compare("args", args, self._args)
        compare("kwargs", kwargs, self._kwargs)
        for number, (tensor, after) in enumerate(zip(self._held, self._after)):
            compare(f"the module's tensor {number}", tensor.detach(), after)
        if not torch.equal(torch.get_rng_state(), self._random):
            fail("the random state", "another number of random draws")


def copied(args, kwargs):
    """The arguments once more, on memory of their own that is shared where the caller's is."""
    leaves, storages = [], {}
    structure = flatten((args, kwargs), leaves, Copies(), True)
    values = Reader([copy_of(leaf, storages) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves])
    return unflatten(structure, values, [])


def copy_of(tensor, storages):
    storage = tensor.untyped_storage()
    memory = storages.setdefault(storage._cdata, storage.clone())
    with torch.no_grad():
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(memory, tensor.storage_offset(), tensor.size(), tensor.stride())
    if type(tensor) is not torch.Tensor:
        made = type(tensor)(made)
    return made.requires_grad_(tensor.requires_grad) if tensor.requires_grad else made


# --- comparing

def compare(name, ours, host):
    our_results, host_results = Results(), Results()
    try:
        structure, expected = our_results.flatten(ours), host_results.flatten(host)
    except Unsupported:
        return   # such a result never comes from compiled code
    if structure != expected:
        fail(name, f"{structure} instead of {expected}")
    for leaf_name, a, b in zip(result_names(expected, name), our_results.leaves, host_results.leaves):
        problem = difference(a, b)
        if problem:
            fail(leaf_name, problem)


def fail(name, problem):
    LEDGER.jit["check_failures"] += 1
    raise ContractError(f"check: {name} differs from what the function itself gives: {problem}. The compiled code holds for "
                        "Python state as it was when recorded (docs/jit.md): did an attribute, global or closure change?")


def difference(ours, host):
    """What differs, in words; None if nothing does."""
    if not isinstance(host, torch.Tensor):
        return None if type(ours) is type(host) and ours == host else f"{ours!r} instead of {host!r}"
    if not isinstance(ours, torch.Tensor) or (ours.dtype, ours.shape) != (host.dtype, host.shape):
        return f"{form(ours)} instead of {form(host)}"
    if strides(ours) != strides(host):
        return f"strides {ours.stride()} instead of {host.stride()}"
    return None if same_bits(ours, host) else value_difference(ours.detach(), host.detach())


def form(value):
    return f"{value.dtype} of {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def strides(tensor):
    """Those that address anything."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size != 1] if tensor.numel() else []


def same_bits(a, b):
    """NaN equals NaN; 0.0 and -0.0 are not told apart."""
    return torch.equal(a, b) or torch.equal(a.isnan(), b.isnan()) and torch.equal(known(a), known(b))


def known(tensor):
    return torch.where(tensor.isnan(), torch.zeros_like(tensor), tensor)


def value_difference(ours, host):
    if not (host.is_floating_point() or host.is_complex()):
        return f"{int((ours != host).sum())} of {host.numel()} values"
    if not torch.equal(ours.isfinite(), host.isfinite()):
        return "infinities or NaNs in other places"
    wide = torch.complex128 if host.is_complex() else torch.float64
    a, b = (known(tensor.masked_fill(~tensor.isfinite(), 0)).to(wide) for tensor in (ours, host))
    largest, scale = (a - b).abs().max().item(), b.abs().max().item()
    allowed = TOLERANCE * torch.finfo(host.dtype).eps * scale
    return None if largest <= allowed else f"the largest difference is {largest:.3g}, allowed are {allowed:.3g}"
