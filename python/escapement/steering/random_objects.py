"""Draws from a `random.Random` of the program's own. Dynamo writes the state that it had when the frame was traced into the code, and guards nothing of it, so that each
call drew the same numbers. Here such a draw is a graph break. One that the frame makes itself is a constant, as its seed is.
"""

import functools

from torch._dynamo import exc as dynamo_exc
from torch._dynamo.variables.misc import RandomVariable


def install(current_session):
    RandomVariable.call_method = outside_of_graphs(RandomVariable.call_method, current_session)


def possible():
    return hasattr(RandomVariable, "call_method")


def outside_of_graphs(call_method, current_session):
    @functools.wraps(call_method)
    def call(drawn_from, tx, name, args, kwargs):
        if current_session() is not None and drawn_from.source is not None:
            dynamo_exc.unimplemented(gb_type="escapement: a random generator of Python's", context=name, explanation="its state is another one at each call", hints=[])
        return call_method(drawn_from, tx, name, args, kwargs)

    return call
