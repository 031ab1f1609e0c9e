"""The lines of vocabulary.py, taken apart."""

import dataclasses
import re

from vocabulary import CONDITIONS, SECTIONS

PLACE = re.compile(r"\{(\w)\}")


@dataclasses.dataclass(frozen=True)
class Template:
    text: str
    flags: frozenset
    section: str
    statement: bool

    def places(self):
        return list(dict.fromkeys(PLACE.findall(self.text)))


def templates():
    found = {}
    for section, (flags, text) in SECTIONS.items():
        lines = [line.strip() for line in text.strip().splitlines()]
        found[section] = [Template(line.lstrip("!"), frozenset(flags.split()), section, line.startswith("!")) for line in lines]
    return found


TEMPLATES = templates()
CONDITION_LINES = [line.strip() for line in CONDITIONS.strip().splitlines()]
