"""Generators that stand in for those of the caller. A version draws from the generators that it was recorded with; a server makes one for each request,
and would have a version for each. Where several have come, the function gets one of ours, which has the caller's state and gives it back."""

import contextlib

import torch

from ..locks import fork_safe_lock


class StandIns:
    """Of one function. A call has its own, so that threads do not draw from each other's; the same ones come again, by their places."""

    def __init__(self):
        self._free, self._lock = {}, fork_safe_lock()   # place -> those that no call has

    def needed(self, args, kwargs, known):
        """Whether there is a generator among the arguments that is neither one of ours nor found by the function elsewhere, too."""
        found = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator)]
        return any(type(value) is not StandIn for value in found) and all(value.device.type == "cpu" and not any(value is other for other in known) for value in found)

    @contextlib.contextmanager
    def lent(self, args, kwargs):
        """The arguments with stand-ins."""
        pairs = {}   # id of the caller's -> (place, the caller's, ours)
        try:
            yield ([self._for(value, pairs) for value in args], {name: self._for(value, pairs) for name, value in kwargs.items()})
        finally:
            for place, given, ours in pairs.values():
                given.set_state(ours.get_state())
                with self._lock:
                    self._free[place].append(ours)

    def _for(self, value, pairs):
        if not isinstance(value, torch.Generator):
            return value
        if id(value) not in pairs:
            place = len(pairs)
            with self._lock:
                free = self._free.setdefault(place, [])
                ours = free.pop() if free else StandIn()
            ours.set_state(value.get_state())
            pairs[id(value)] = place, value, ours
        return pairs[id(value)][-1]


class StandIn(torch.Generator):
    pass
