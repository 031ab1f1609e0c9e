"""escapement.compile: torch.compile with our backend, and a contract about dims that is checked at every call.

What it returns is what torch.compile returns (a function for a function, an OptimizedModule for a module), so
everything that works on those does here. So does this: another compiled function that calls it takes its program over
and looks past everything that was said to the inner compile, options and contract alike. Dims are declared on the
outermost function.
"""

import functools

import torch

from .continued import Continued
from .dims.contract import Call, Contract, calls
from .errors import EscapementError
from .option_values import resolve
from .steering import steer_dims


def compile(fn=None, *, dims=None, mode=None, fullgraph=False, **options):
    """`fn`, a function or module, compiled. `dims` declares its sizes (dims/spec.py); further keywords are options (the
    option table). A function without declared dims whose graph breaks at a tensor's value goes on in replay mode (continued.py), where
    no gradients are wanted and no `fullgraph`.

    Without `fn` it is a decorator: @escapement.compile(dims={"x": {0: Dim("n", 1, 64)}}).
    """
    if fn is None:
        return functools.partial(compile, dims=dims, mode=mode, fullgraph=fullgraph, **options)
    if not callable(fn):
        raise TypeError(f"escapement.compile takes a function or module, not {type(fn).__name__}")
    from .backend import escapement

    values = resolve(mode, options)   # a mistake is reported here, not at the first call; no mode changes anything
    contract = Contract(fn.forward if isinstance(fn, torch.nn.Module) else fn, dims, values["strict"])
    backend = ContractBackend(escapement, contract)
    compiled = torch.compile(fn, backend=backend, fullgraph=fullgraph, options=options or None)
    go_on = not fullgraph and not contract.places and not values["strict"]   # declared dims are checked on graphs
    if isinstance(compiled, torch.nn.Module):
        forward = Continued(fn, compiled.forward, options) if go_on else compiled.forward
        compiled.forward = checked(forward, contract)
        object.__setattr__(compiled, "escapement_contract", contract)   # plain setattr would reach the user's module
        return compiled
    return checked(functools.wraps(compiled)(Continued(fn, compiled, options)) if go_on else compiled, contract)


class ContractBackend:
    """The backend under another identity: Dynamo keeps the versions of two contracts on one function apart by it."""

    __name__ = "escapement"

    def __init__(self, backend, contract):
        self.func, self.contract = backend, contract   # `func` is one of the links that dynamo.is_ours follows

    def __call__(self, gm, inputs, **named):
        return self.func(gm, inputs, **named)

    def reset(self):
        self.func.reset()


def checked(compiled, contract):
    check = contract.check if contract.places else None

    @functools.wraps(compiled)
    def call(*args, **kwargs):
        if check is not None:
            check(args, kwargs)
        outer = getattr(calls, "current", None)
        calls.current = Call(contract, args, kwargs)
        try:
            return compiled(*args, **kwargs)
        except Exception as error:
            inner = getattr(error, "inner_exception", None)
            if isinstance(inner, EscapementError):
                try:
                    raise inner from None   # our complaint to the user, without torch's story about a failed backend
                finally:
                    del inner   # its traceback holds this frame
            raise
        finally:
            calls.current = outer

    steer_dims.never_compile(call)
    call.escapement_contract = contract
    return call
