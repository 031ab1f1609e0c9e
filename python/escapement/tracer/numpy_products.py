"""`np.prod(x.shape)` while a recording runs: sizes in an array would be read, which makes a recording of each; their product by Python's operators is none."""

import functools
import operator
import sys

from ..recording.arithmetic import NUMBERS
from .while_recording import Replaced, WhileRecording


def prod(a, *args, **kwargs):
    if not args and not kwargs and isinstance(a, (tuple, list)) and any(isinstance(size, NUMBERS) for size in a):
        if all(isinstance(size, (int, *NUMBERS)) for size in a):
            return functools.reduce(operator.mul, a, 1)
    return replaced.before(a, *args, **kwargs)


replaced = Replaced(lambda: sys.modules.get("numpy"), "prod", prod)
numpy_multiplies_them = WhileRecording(replaced.put, replaced.take_back)
