"""Planted bugs: small wrong changes of the kind that people make, each of which some test or a minute of fuzzing must notice.

A bug is data: a file, a text that occurs there exactly once, what it becomes, and a sentence. `area` says what must be built and which tests
are asked (run.py); `python`, `cpp`: tests that are asked besides. A bug that nothing finds shows what the tests lack:
the test is added, the bug stays.
"""

from compiler_bugs import COMPILER_BUGS
from recorder_bugs import RECORDER_BUGS
from world_bugs import WORLD_BUGS

BUGS = [*COMPILER_BUGS, *RECORDER_BUGS, *WORLD_BUGS]
