"""escapement.compile: torch.compile with our backend, and a contract about dims that is checked at every call.

What it returns is what torch.compile returns (a function for a function, an OptimizedModule for a module), so everything that
works on those does here. So does this: another compiled function that calls it takes its program over and looks past everything
that was said to the inner compile, options and contract alike. Dims are declared on the outermost function.
"""

import functools

import torch

from . import contract as contracts
from . import steer_dims
from .contract import Call, Contract
from .dims import LARGEST, Hint, Linear
from .errors import DimError, EscapementError
from .option_values import resolve


def compile(fn=None, *, dims=None, mode=None, fullgraph=False, **options):
    """`fn`, a function or module, compiled. `dims` declares its sizes (dims.py); further keywords are options (the option table).

    Without `fn` it is a decorator: @escapement.compile(dims={"x": {0: Dim("n", 1, 64)}}).
    """
    if fn is None:
        return functools.partial(compile, dims=dims, mode=mode, fullgraph=fullgraph, **options)
    from .backend import escapement

    values = resolve(mode, options)   # a mistake is reported here, not at the first call
    contract = Contract(fn.forward if isinstance(fn, torch.nn.Module) else fn, dims, values["strict"])
    backend = ContractBackend(escapement, contract)
    compiled = torch.compile(fn, backend=backend, fullgraph=fullgraph, **({"mode": mode} if mode is not None else
                                                                          {"options": options} if options else {}))
    if isinstance(compiled, torch.nn.Module):
        compiled.forward = checked(compiled.forward, contract)
        object.__setattr__(compiled, "escapement_contract", contract)   # plain setattr would reach the user's module
        return compiled
    return checked(compiled, contract)


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
    check, calls = contract.check if contract.places else None, contracts.calls

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
                raise inner from None   # our complaint to the user, without torch's story about a failed backend
            raise
        finally:
            calls.current = outer

    steer_dims.never_compile(call)
    call.escapement_contract = contract
    return call


# --- what was learned, for torch.export

def learned_dims(compiled):
    """`dynamic_shapes` for torch.export.export, from the programs compiled so far: named dims with their ranges, derived dims,
    Dim.AUTO for what is dynamic without a name, Dim.STATIC for what the program pins."""
    contract = getattr(compiled, "escapement_contract", None)
    if contract is None:
        raise DimError("learned_dims takes what escapement.compile returned")
    if not contract.learned:
        raise DimError("nothing is learned yet: call the compiled function first")
    facts = meet([most_general(facts) for facts in by_code(contract.learned).values()])
    return contracts.shaped_like(contract.arguments, ExportDims(facts))


def by_code(learned):
    grouped = {}
    for code, facts in learned:
        grouped.setdefault(code, []).append({fact.key: fact for fact in facts})
    return grouped


def most_general(versions):
    """Of the programs of one frame the one with the most dynamic dims, the latest of equals."""
    return max(reversed(versions), key=lambda facts: sum(type(fact.outcome) is not int for fact in facts.values()))


def meet(frames):
    """The frames of one function (there are several after a graph break): a dim is what the strictest of them says."""
    met = {}
    for facts in frames:
        for key, fact in facts.items():
            met[key] = min(met.get(key, fact), fact, key=freedom)
    return met


def freedom(fact):
    if type(fact.outcome) is int:
        return 0, fact.outcome, 0
    return (1, 0, 0) if isinstance(fact.outcome, Linear) else (2, fact.outcome.high - fact.outcome.low, 0)


class ExportDims:
    """Our facts as torch.export writes them; equal names are one object there."""

    def __init__(self, facts):
        self.facts, self.named = facts, {}

    def __call__(self, key):
        fact = self.facts.get(key)
        if fact is None:
            return torch.export.Dim.AUTO
        if type(fact.outcome) is int:   # a 0 or 1 that was only seen so far is not pinned by anything
            return torch.export.Dim.STATIC if fact.outcome > 1 or fact.declared else torch.export.Dim.AUTO
        return self.hint(fact.outcome) if isinstance(fact.outcome, Hint) else self.linear(fact.outcome)

    def hint(self, hint):
        ends = {"min": hint.low} if hint.low else {}
        ends.update({"max": hint.high} if hint.high < LARGEST else {})
        return torch.export.Dim.AUTO(**ends) if ends else torch.export.Dim.AUTO

    def linear(self, dim):
        """torch.export's derived dims have one name and grow with it; others are left to be inferred."""
        if len(dim.terms) != 1 or dim.terms[0][1] < 1:
            return torch.export.Dim.AUTO
        (root, factor), = dim.terms
        made = self.named.setdefault(root.name, torch.export.Dim(root.name, min=root.low or None,
                                                                 max=root.high if root.high < LARGEST else None))
        made = made if factor == 1 else factor * made
        return made if not dim.constant else made + dim.constant


