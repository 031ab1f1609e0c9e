"""What a planted bug is: see bugs.py."""

import typing


class Bug(typing.NamedTuple):
    name: str
    area: str          # trace, plan, run, code: C++ without torch; torch; python
    file: str
    old: str
    new: str
    what: str
    python: tuple = ()
    cpp: str = ""      # of tests/cpp_api, by gtest's filter
