"""Running text through escapement-opt, and the format of golden files.

A golden file is
    # run: escapement-opt --passes=a,b
    <input>
    # expect
    <output>
or ends in `# expect-error: text` instead, for a run that fails with that text in its message. Lines of the input that start with
`# ` are comments. ESCAPEMENT_BLESS=1 rewrites what is expected; the diff is reviewed like code.
"""
import os
import pathlib
import re
import shlex
import subprocess
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def find_tool():
    """$ESCAPEMENT_OPT, else the one of $ESCAPEMENT_BUILD, else the newest in a build folder of this checkout."""
    if given := os.environ.get("ESCAPEMENT_OPT"):
        return given
    given = os.environ.get("ESCAPEMENT_BUILD")
    folders = [ROOT / given] if given else ROOT.glob("build*")
    found = [path for folder in folders if (path := folder / "tools/escapement-opt").exists()]
    if not found:
        pytest.fail("tools/escapement-opt is not built: ./dev build")
    return str(max(found, key=lambda path: path.stat().st_mtime))


def run_opt(arguments, text):
    """(exit status, standard output, standard error)"""
    done = subprocess.run([find_tool(), *arguments], input=text, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@dataclass
class Golden:
    arguments: list
    text: str
    expected: str = ""
    error: str | None = None


def parse(content):
    """The parts of a golden file; ValueError if it is none."""
    header, _, rest = content.partition("\n")
    run = re.fullmatch(r"# run: escapement-opt\s*(.*)", header)
    if not run:
        raise ValueError("the first line must be `# run: escapement-opt ...`")
    arguments = shlex.split(run[1])
    if match := re.search(r"^# expect-error: *(.*)\n?\Z", rest, re.MULTILINE):
        return Golden(arguments, rest[:match.start()], error=match[1])
    text, mark, expected = rest.partition("# expect\n")
    if not mark:
        raise ValueError("neither `# expect` nor `# expect-error:`")
    return Golden(arguments, text, expected)


def blessed(golden, status, output, message):
    """The file's content with what the run really did."""
    head = "# run: escapement-opt " + " ".join(golden.arguments) + "\n" + golden.text
    if status == 0:
        return head + "# expect\n" + output
    return head + "# expect-error: " + message.removeprefix("error: ").splitlines()[0] + "\n"
