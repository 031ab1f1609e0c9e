"""The errors this package raises. Everything else the user sees is torch's or the program's own."""


class EscapementError(RuntimeError):
    """Base class. Raised only where the user asked for it (option `strict`) or made a mistake."""


class OptionError(EscapementError, ValueError):
    """An option, mode or environment variable that cannot be understood."""


class CompileError(EscapementError):
    """A call is not compiled, or something of ours failed while compiling, and `strict` is on. (What the core itself finds out is a plain RuntimeError.)"""


class DimError(EscapementError, ValueError):
    """A declared dim and the truth differ: in the spec itself, at a call, or because the program pins it."""


class ContractError(EscapementError):
    """A check found that compiled code and the function itself differ: the contract of call mode is broken."""
