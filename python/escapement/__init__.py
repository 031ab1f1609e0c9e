"""Escapement: a tracing JIT for PyTorch programs whose sizes stay dynamic.

`torch.compile(model, backend="escapement")` needs no import of this package; `jit(fn)` is the tracer without Dynamo. The rest is for
declaring sizes (`compile(fn, dims={...})`, `Dim`, `learned_dims(compiled)`) and for looking at what the compiler did:
`explain(fn)(*args)`, `stats()`, `reset()`, `options()`.

This file imports neither torch nor the compiled core: programs that only list backends must not pay for them.
"""

__version__ = "0.1.0"
__all__ = ["CompileError", "ContractError", "Dim", "DimError", "EscapementError", "OptionError", "compile", "explain", "jit", "learned_dims",
           "options", "reset", "stats", "__version__"]

# name -> module that holds it; resolved at first use.
_LAZY = {"CompileError": "errors", "ContractError": "errors", "Dim": "dims.spec", "DimError": "errors", "EscapementError": "errors",
         "OptionError": "errors",
         "compile": "entry", "explain": "report", "jit": "tracer.jitted", "learned_dims": "dims.learned", "options": "option_values"}


def __getattr__(name):
    from importlib import import_module

    if name == "_C":  # `from escapement import _C`, without loading it at `import escapement`
        return import_module("escapement._C")
    if name not in _LAZY:
        raise AttributeError(f"module 'escapement' has no attribute '{name}'")
    value = getattr(import_module(f"escapement.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)


def stats():
    """Counters of this process: those of the core, of the torch.compile front end under "dynamo", of our tracer under "jit"."""
    from .core import core
    from .ledger import LEDGER

    return {**core().stats(), "dynamo": LEDGER.counters(), "jit": LEDGER.jit_counters()}


def reset():
    """Forget counters, escape notes and cached code. Functions compiled so far keep working."""
    from .core import core
    from .ledger import LEDGER

    LEDGER.clear()
    core().reset()
