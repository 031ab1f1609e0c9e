"""What the programs compiled so far know about dims, written as torch.export's `dynamic_shapes`."""

import torch

from ..errors import DimError
from .spec import LARGEST, Hint, Linear


def learned_dims(compiled):
    """`dynamic_shapes` for torch.export.export, from the programs compiled so far: named dims with their ranges, derived
    dims, Dim.AUTO for what is dynamic without a name, Dim.STATIC for what the program pins."""
    contract = getattr(compiled, "escapement_contract", None)
    if contract is None:
        raise DimError("learned_dims takes what escapement.compile returned, or escapement.jit with dims=")
    if not contract.learned:
        raise DimError("nothing is learned yet: call the compiled function first")
    facts = meet([most_general(facts) for facts in by_code(contract.learned).values()])
    return shaped_like(contract.arguments, ExportDims(facts))


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


def shaped_like(arguments, of):
    """The structure of a call with `of(key)` for each axis of each tensor, and None for what has no dims."""
    return {name: filled((name, ()), kind, of) for name, kind in arguments.items()}


def filled(place, kind, of):
    if type(kind) is int:
        return {axis: of((*place, axis)) for axis in range(kind)}
    if isinstance(kind, dict):
        return {key: filled((place[0], place[1] + (key,)), item, of) for key, item in kind.items()}
    if isinstance(kind, (list, tuple)):
        return type(kind)(filled((place[0], place[1] + (i,)), item, of) for i, item in enumerate(kind))
    return None


def kind_of(value):
    """A tensor as its number of axes, containers as themselves, anything else as None."""
    if isinstance(value, torch.Tensor):
        return value.dim()
    if isinstance(value, dict):
        return {key: kind_of(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return (tuple if isinstance(value, tuple) else list)(map(kind_of, value))
    return None
