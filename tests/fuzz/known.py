"""Differences that are known and not mended. The fixed slice of the tests leaves out these seeds (seed -> what differs), and of OpInfo's
cases these operators (name -> what differs); `open` holds the programs, cut down. The fewer the better."""

import re

SEEDS: dict = {}
OPERATORS: dict = {}
# Limits that the documentation states (docs/jit.md): (way, kind of difference or nothing for any) -> what a program does there. In replay mode,
# what a served view says of itself, so that `detach_` takes it.
LIMITS: dict = {("replay", ""): re.compile(r"_is_view\(\)|detach_\(")}
# A version is for the number that eager made; ours of a long sum may be another by a rounding, and then the version serves nobody.
READ_NUMBERS = "a floating-point value read by the host"
