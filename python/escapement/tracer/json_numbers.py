"""Numbers of a recording that the program gives to json, whose encoders take no subclass for an int: they are read there, which is a guard on the
value. Also where the program says itself what becomes of objects that json does not know (`default=`)."""

import copy
import json

from ..recording.arithmetic import NUMBERS, ours, value_of
from .while_recording import Replaced, WhileRecording


def iterencode(encoder, value, *args, **kwargs):
    own, reading = encoder.default, copy.copy(encoder)   # one encoder may serve several threads
    reading.default = lambda unknown: read(own(unknown))
    return replaced.before(reading, read(value), *args, **kwargs)


def read(value, above=()):
    """The same object where there is no number of ours in it. What contains itself is json's to refuse."""
    if isinstance(value, NUMBERS):
        return value_of(value.node) if ours(value.node) else value
    if any(value is outer for outer in above):
        return value
    above = (*above, value)
    if isinstance(value, dict):
        items = [(read(key, above), read(item, above)) for key, item in value.items()]
        return value if all(a is b and c is d for (a, c), (b, d) in zip(items, value.items())) else dict(items)
    if isinstance(value, (list, tuple)):
        items = [read(item, above) for item in value]
        return value if all(a is b for a, b in zip(items, value)) else items
    return value


replaced = Replaced(lambda: json.JSONEncoder, "iterencode", iterencode)
json_reads_them = WhileRecording(replaced.put, replaced.take_back)
