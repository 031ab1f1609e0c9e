"""What torch.compile has compiled and a program calls while it is recorded: its own code runs, as part of the recording. Dynamo would look at the
recording's wrappers and symbols as if they were the program's values."""

import sys

from ..core import core
from .while_recording import Replaced, WhileRecording


def eager_while_recording(callback):
    return None if core().recording() else replaced.before(callback)


# Nothing is compiled where Dynamo is not loaded.
replaced = Replaced(lambda: sys.modules.get("torch._dynamo.eval_frame"), "_callback_from_stance", eager_while_recording)
callees_run_their_own_code = WhileRecording(replaced.put, replaced.take_back)
