"""Eager, each of whose operators gives NaNs of the other sign and without a payload (its vectorised division of infinities gives all bits): which one
it is is not promised, and what differs for it was made of a NaN's bits."""

import math

import torch

from exact import Applied
from rounded import is_movable, made_or_written


class OtherNans(Applied):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        result = operator(*args, **(kwargs or {}))
        with torch.no_grad():
            for value in filter(is_movable, made_or_written(operator, result)):
                if not value.is_complex() and value.isnan().any():
                    value.copy_(torch.where(value.isnan(), torch.full_like(value, math.nan).copysign(-value), value))
        return result
