"""Numbers of a recording that the program gives to json, whose encoder takes no subclass for an int: they are read there, which is a guard on the value."""

import contextlib
import json

from ..locks import fork_safe_lock
from ..recording.arithmetic import NUMBERS, ours, value_of

lock = fork_safe_lock()
state = {"recordings": 0, "default": None}


def default(encoder, value):
    if isinstance(value, NUMBERS) and ours(value.node):
        return value_of(value.node)
    return state["default"](encoder, value)


@contextlib.contextmanager
def json_reads_them():
    """While a recording runs."""
    with lock:
        state["recordings"] += 1
        if state["recordings"] == 1:
            state["default"], json.JSONEncoder.default = json.JSONEncoder.default, default
    try:
        yield
    finally:
        with lock:
            state["recordings"] -= 1
            if state["recordings"] == 0:
                json.JSONEncoder.default = state["default"]
