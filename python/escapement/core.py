"""Loads the compiled core at first use, and says what to do when it is not there."""

import importlib
import sys

from .errors import EscapementError

NAME = "escapement._C"
RECORDER_KEY = "DeferredInit"   # what C++ calls kRecorderKey
_loaded = None


class CoreMissing(EscapementError):
    """The extension module cannot be imported: the package was not built, or was built for another torch."""


def core():
    """The module `escapement._C`. torch is imported first: the core is linked against its libraries."""
    global _loaded
    if _loaded is not None and sys.modules.get(NAME) is _loaded:   # every call of a jitted function asks, some of them several times
        return _loaded
    import torch  # noqa: F401

    try:
        _loaded = importlib.import_module(NAME)
        pass_higher_order_operators()
        return _loaded
    except ImportError as error:
        raise CoreMissing(f"the compiled core escapement._C cannot be loaded ({error}); run ./dev build, or reinstall "
                          f"escapement for torch {torch.__version__}") from error


def pass_higher_order_operators():
    """torch.cond and the like have tables of kernels of their own, and refuse a key that they do not know. The operators inside are what is recorded, but
    where there is a kernel of ours (recording/dispatch.py)."""
    from torch import _C, _ops

    key, later = _C._dispatch_key_parse(RECORDER_KEY), _ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS   # of those that are made later
    if key in later:
        return   # a process can load the core twice, and those that have a kernel of ours by then must keep it
    later.append(key)
    for operator in _ops._higher_order_ops.values():
        operator.fallthrough(key)
