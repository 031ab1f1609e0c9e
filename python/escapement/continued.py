"""escapement.compile of a function whose graph breaks at a tensor's value: it goes on in replay mode.

Dynamo splits such a function into pieces, each with guards of its own, and nothing is fused across the split. In replay mode the function
itself runs at every call and its operators are deferred, so nothing is assumed of its Python code (docs/jit.md says what it may not ask). Replay
mode defers no operator that a tape is built for, so calls that are seen to want gradients stay with Dynamo's pieces, which are compiled.
"""

import re

import torch

from .ledger import LEDGER
from .steering.notes import break_log, first_line, place_of
from .tracer.replayed import Replayed

AT_A_VALUE = re.compile(r"generic_jump TensorVariable|Tensor\.(item|tolist)|data.dependent", re.IGNORECASE)


class Continued:
    """Calls `compiled`, until one of its compiles broke the graph at a value."""

    def __init__(self, fn, compiled, options):
        self._fn, self._compiled, self._options, self._replayed = fn, compiled, options, None

    def __call__(self, /, *args, **kwargs):
        if self._replayed is not None and not wants_gradients(self._fn, args, kwargs):
            LEDGER.note_eager(self._replayed, "graph_break", "")
            return self._replayed(*args, **kwargs)
        before = len(break_log())
        try:
            return self._compiled(*args, **kwargs)
        finally:
            if len(break_log()) != before and self._replayed is None:
                self._look(break_log()[before:])

    def _look(self, breaks):
        """Another thread's break is as good a reason: replay mode assumes nothing."""
        for found in breaks:
            if AT_A_VALUE.search(str(found.reason)):
                self._replayed = Replayed(self._fn, self._options)
                LEDGER.note_eager(self._replayed, "graph_break", f"{first_line(found.reason)}{place_of(found.user_stack)}")
                return


def wants_gradients(fn, args, kwargs):
    if not torch.is_grad_enabled():
        return False
    held = fn.parameters() if isinstance(fn, torch.nn.Module) else getattr(getattr(fn, "__self__", None), "parameters", tuple)()
    leaves = torch.utils._pytree.tree_leaves((args, kwargs))
    return any(leaf.requires_grad for leaf in (*leaves, *held) if isinstance(leaf, torch.Tensor))
