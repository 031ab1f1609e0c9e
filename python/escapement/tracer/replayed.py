"""escapement.jit(fn, mode="replay"): `fn` itself runs at every call; its operators are deferred and run as segments.

Everything is done by the core (src/torch/replay_mode): arguments and results are the caller's own objects and are not looked
at. So nothing is assumed of the Python code, there is no key, and no recording depends on what a global or a number was.
docs/jit.md says what costs time, and the one thing that cannot be seen: memory that is written other than by torch.
"""

import functools
import types

import torch

from ..core import CoreMissing, core
from ..errors import OptionError
from ..ledger import LEDGER
from ..option_values import disabled, resolve
from ..recording.locator import place_of

is_dynamo_compiling = torch.compiler.is_dynamo_compiling


def replayed(fn, dims, check, options):
    if dims is not None:
        raise OptionError("dims= has no meaning with mode='replay': no size is ever assumed")
    if check is not None:
        raise OptionError("check= has no meaning with mode='replay': the function runs at every call")
    return Replayed(fn, options)


class Replayed:
    """The function in replay mode. Attributes that it lacks are those of what it wraps."""

    def __init__(self, fn, options):
        own = self.__dict__
        own.update(_fn=fn, _given=options, _options=resolve(None, options), _replay=None)
        wrapped = fn.forward if isinstance(fn, torch.nn.Module) else fn
        own.update({name: getattr(wrapped, name) for name in functools.WRAPPER_ASSIGNMENTS if hasattr(wrapped, name)})
        own["__wrapped__"] = fn
        self.clear()

    def __call__(self, /, *args, **kwargs):
        replay = self._replay
        if is_dynamo_compiling():   # what compiles the caller compiles this too
            return self._fn(*args, **kwargs)
        if replay is None or self._options["disable"] or disabled():
            LEDGER.note_eager(self, "no_core" if replay is None else "disabled", "")
            return self._fn(*args, **kwargs)
        return replay(*args, **kwargs)

    def clear(self):
        """Forgets all that was recorded."""
        try:
            self.__dict__["_replay"] = core().Replay(self._fn, self._options, self.place[0])
        except CoreMissing:   # everything runs eagerly
            self.__dict__["_replay"] = None

    # --- what the user asks

    @property
    def place(self):
        """Name, file and line, for the report."""
        return place_of(self._fn)

    def info(self):
        """What was recorded and compiled: segments with kernels, operators that ran at once, reasons for slower ways."""
        if self._replay is None:
            return {"name": repr(self._fn), "mode": "replay", "calls": 0, "recordings": 0, "segments": [], "at_once": {},
                    "fallbacks": dict(LEDGER.function(self).eager)}
        streams = self._replay.streams()
        return {**streams, "fallbacks": {**streams["fallbacks"], **LEDGER.function(self).eager}}

    def text(self):
        """The tree of operator streams: where the host went different ways, what is launched where, and how often."""
        return "" if self._replay is None else self._replay.text()

    # --- standing in for what it wraps

    def __getattr__(self, name):
        return getattr(self.__dict__["_fn"], name)

    def __setattr__(self, name, value):
        if isinstance(self._fn, torch.nn.Module) and name not in self.__dict__:
            setattr(self._fn, name, value)
        else:
            self.__dict__[name] = value

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self):
        return rebuild, (self._fn, self._given)

    def __repr__(self):
        return f"<escapement.jit of {self._fn!r}, mode='replay'>"


def rebuild(fn, options):
    return Replayed(fn, options)
