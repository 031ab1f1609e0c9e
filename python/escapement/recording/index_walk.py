"""An index with numbers that are no constants, as `select` and the rest: in the order in which torch itself applies an index, so that views, strides and errors
are the same. Each number is selected on the axis where it stands, with the new axes (`None`) in front of them, and what else there is follows.

For tensors of a recording (tracer/indexing.py) and for Dynamo's variables (steering/index_numbers.py): `operations` has rank(tensor), select(tensor, axis, part),
unsqueeze(tensor, axis) and whole(), a slice of all.
"""


def is_known(kinds, rank):
    """Whether an index of these parts ("number"; what takes an "axis" of the tensor; "none"; "..."; None for anything else) can be walked."""
    return None not in kinds and kinds.count("...") <= 1 and kinds.count("number") + kinds.count("axis") <= rank


def select_numbers(tensor, kinds, parts, operations):
    """(the tensor with all numbers selected, the rest of the index)."""
    axis, rest = 0, []
    for place, (kind, part) in enumerate(zip(kinds, parts)):
        later = kinds[place + 1:]
        if kind == "number":
            tensor = operations.select(tensor, axis, part)
            continue
        if kind == "none" and "number" in later:   # in front of it: the new axis steps over the one that the number takes away
            tensor, kind, part = operations.unsqueeze(tensor, axis), "axis", operations.whole()
        rest.append(part)
        if kind == "...":
            axis = operations.rank(tensor) - later.count("number") - later.count("axis")
        axis += kind == "axis"
    return tensor, rest
