"""Loads the compiled core at first use, and says what to do when it is not there."""

import importlib

from .errors import EscapementError


class CoreMissing(EscapementError):
    """The extension module cannot be imported: the package was not built, or was built for another torch."""


def core():
    """The module `escapement._C`. torch is imported first: the core is linked against its libraries."""
    import torch  # noqa: F401

    try:
        return importlib.import_module("escapement._C")
    except ImportError as error:
        raise CoreMissing(f"the compiled core escapement._C cannot be loaded ({error}); run ./dev build, or reinstall "
                          f"escapement for torch {torch.__version__}") from error
