"""Loads the compiled core at first use, and says what to do when it is not there."""

import importlib
import sys

from .errors import EscapementError

NAME = "escapement._C"
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
        return _loaded
    except ImportError as error:
        raise CoreMissing(f"the compiled core escapement._C cannot be loaded ({error}); run ./dev build, or reinstall "
                          f"escapement for torch {torch.__version__}") from error
