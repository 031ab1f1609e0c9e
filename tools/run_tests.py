"""Runs all Python tests in portions, each a process of its own, some at once, and counts them as one.

    run_tests.py --xml FOLDER [--at-once N] [--also FILE ...] [pytest arguments]

A portion is some files of one folder: a process that has loaded all 30,000 tests spends half a second on each collection of garbage, and one folder
would keep a core busy long after the others. (Nor can the module of tests/recorder and the library live in one process.) What a portion prints
comes when it has ended; the last line counts the tests of all, and those in the JUnit files of --also. Ends with status 1 where one failed, or a
process ended without its results.
"""
import argparse
import concurrent.futures
import pathlib
import signal
import subprocess
import sys
import time

import ci_summary

ROOT = pathlib.Path(__file__).resolve().parents[1]
LONGEST = ("torch_compile", "soundness", "call_mode", "questions")   # begin first, so that nothing long is left to the end
FILES = 12          # of a portion
NO_TESTS = 5        # pytest's status where its arguments left none
WHOLE = 0, 1        # all ran, and some may have failed


def portions():
    """(name, files), the longest first."""
    found = []
    for folder in sorted({test.parent for test in (ROOT / "tests").rglob("test_*.py")}, key=lambda each: (rank(each), each)):
        files = sorted(str(each.relative_to(ROOT)) for each in folder.glob("test_*.py"))
        count = -(-len(files) // FILES)
        for number in range(count):   # every `count`-th, since neighbours by name are alike in length
            name = ".".join(folder.relative_to(ROOT / "tests").parts)
            found.append((f"{name}.{number + 1}" if count > 1 else name, files[number::count]))
    return found


def rank(folder):
    return LONGEST.index(folder.name) if folder.name in LONGEST else len(LONGEST)


class Portions:
    """`xml`: the folder of what they leave; `arguments`: pytest's."""

    def __init__(self, xml, arguments):
        self._xml, self._arguments, self._running = xml, arguments, set()

    def run(self, name, files):
        """The JUnit file that was written, or None where there was nothing to run."""
        result, log = self._xml / f"{name}.xml", self._xml / f"{name}.log"
        begun = time.monotonic()
        with open(log, "w") as out:
            command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={result}", *self._arguments, *files]
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            self._running.add(process)
            status = process.wait()
            self._running.remove(process)
        print(f"--- {name}: {len(files)} files, {time.monotonic() - begun:.0f} s, status {status}\n{log.read_text(errors='replace')}", flush=True)
        if status not in WHOLE:
            result.unlink(missing_ok=True)   # whatever it holds is not all
        return None if status == NO_TESTS else result

    def end(self):
        for process in tuple(self._running):
            process.terminate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--xml", type=pathlib.Path, required=True, help="the folder that JUnit files and logs are written to")
    parser.add_argument("--at-once", type=int, default=1, help="how many processes")
    parser.add_argument("--also", action="append", default=[], help="a JUnit file of other tests, counted too")
    options, arguments = parser.parse_known_args()
    options.xml.mkdir(parents=True, exist_ok=True)
    for old in options.xml.iterdir():
        old.unlink()
    signal.signal(signal.SIGTERM, signal.default_int_handler)   # who ends this ends all
    running = Portions(options.xml, arguments)
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        try:
            results = [*pool.map(lambda portion: running.run(*portion), portions())]
        except KeyboardInterrupt:
            pool.shutdown(wait=False, cancel_futures=True)
            running.end()
            raise
    return ci_summary.main([*options.also, *map(str, filter(None, results))])


if __name__ == "__main__":
    sys.exit(main())
