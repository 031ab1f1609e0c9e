"""What the fuzzers found: told apart by signature, written as files that run, counted."""

import json
import re
from pathlib import Path

NUMBER = re.compile(r"0x[0-9a-f]+|-?\d+(\.\d+)?(e[+-]?\d+)?|v\d+|\bnan\b|\binf\b")
BY_TEXT = ("raises", "does not raise", "raises another", "internal error", "crash", "hang", "error")


def plain(text):
    return NUMBER.sub("#", text)[:160]


def first_signature(found):
    """Before shrinking: None where only the shrunk program tells what it is."""
    return f"{found.kind}: {plain(found.text)}" if found.kind in BY_TEXT else None


def alike(one, other):
    """The same failure, as far as can be told while it is cut down."""
    return other is not None and one.kind == other.kind and first_signature(one) == first_signature(other)


def signature(program, found):
    return first_signature(found) or f"{found.kind}: {'; '.join(program.kinds())}"


class Findings:
    """A folder of findings; `known` are counted and not shrunk again."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.index = self.folder / "index.json"
        self.known = json.loads(self.index.read_text()) if self.index.exists() else {}

    def count(self, key):
        self.known[key]["count"] += 1
        self.save()

    def explains(self, program, found):
        """The known finding that is inside of this program, if there is one."""
        key = first_signature(found)
        if key is not None:
            return key if key in self.known else None
        kinds = set(program.kinds())
        return next((k for k, entry in self.known.items()
                     if entry["kind"] == found.kind and entry["steps"] and set(entry["steps"]) <= kinds), None)

    def add(self, key, program, found, seed):
        name = f"{len(self.known):03d}-{found.way}-{re.sub('[^a-z]+', '-', found.kind)}"
        self.known[key] = {"count": 1, "kind": found.kind, "way": found.way, "seed": seed, "file": f"{name}.py", "steps": list(program.kinds()),
                           "text": found.text}
        (self.folder / f"{name}.py").write_text(program.module())
        self.save()
        return name

    def save(self):
        self.index.write_text(json.dumps(self.known, indent=1))
