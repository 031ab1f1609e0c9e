"""What torch.compile has compiled and a program calls while it is recorded: its own code runs, as part of the recording. Dynamo would look at the
recording's wrappers and symbols as if they were the program's values."""

import sys

from ..core import core
from .while_recording import WhileRecording

state = {"stance": None}


def eager_while_recording(callback):
    return None if core().recording() else state["stance"](callback)


def frames():
    return sys.modules.get("torch._dynamo.eval_frame")   # nothing is compiled where it is not loaded


def put():
    if frames() is not None:
        state["stance"], frames()._callback_from_stance = frames()._callback_from_stance, eager_while_recording


def take_back():
    if state["stance"] is not None:
        frames()._callback_from_stance, state["stance"] = state["stance"], None


callees_run_their_own_code = WhileRecording(put, take_back)
