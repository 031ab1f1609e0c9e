"""./dev fuzz [--seconds N] [--seed S] [--out FOLDER] [kinds...]: looks for programs that run otherwise than eager.

Kinds: call, replay, compile, exported are random programs, run that way; guards: in call mode at every combination of small sizes;
states, states-replay: under modes that change between calls, beside threads, after forks, after interrupts. opinfo is the samples that PyTorch keeps of each operator.
Each distinct failure of a random program is cut down and written to the folder as a module; `./dev fuzz FILE` runs one again, and so
does `./dev fuzz "opinfo:NAME DTYPE FORM"` for a sample. Ends with status 1 where something was found.
"""

import argparse
import sys
import time
from pathlib import Path

from findings import Findings
from fuzzer import BATCH, Fuzzer, outcome, warm
from program import Kept


def again(path):
    """A kept program, in the ways that it names."""
    kept, bad = Kept(Path(path)), 0
    for way in kept.ways or ("call", "replay"):
        found = outcome(kept, way)
        bad += found is not None
        print(way, found or "as eager")
    return bad


def random_programs(ways, seed, seconds, out):
    fuzzer, end = Fuzzer(Findings(out)), time.monotonic() + seconds
    while time.monotonic() < end:
        for way in ways:
            fuzzer.run(way, seed, BATCH[way])
        seed += max(BATCH.values())
    print(f"programs: {fuzzer.programs}, next seed {seed}, failures {fuzzer.found}, distinct {len(fuzzer.findings.known)}")
    return fuzzer.found


def samples(cases, seconds, ways=("call", "replay")):
    import opinfo

    bad, end = 0, time.monotonic() + seconds
    for way in ways:
        count, found = opinfo.differences(cases or opinfo.cases(), way, lambda: time.monotonic() > end)
        for one in found:
            print(f"{one.way}: {one.kind}: {one.text}", flush=True)
        print(f"samples: {count} cases by {way}, {len(found)} differences", flush=True)
        bad += len(found)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=None)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", default="fuzz-findings")
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    warm()
    files = [kind for kind in given.kinds if kind.endswith(".py")]
    cases = [kind.removeprefix("opinfo:") for kind in given.kinds if kind.startswith("opinfo:")]
    ways = [kind for kind in given.kinds or BATCH if kind in BATCH]
    bad = sum(map(again, files))
    if cases or "opinfo" in given.kinds:
        bad += samples(cases, given.seconds or 1e9)
    if ways:
        seed = given.seed if given.seed is not None else int(time.time()) % 1000000 * 1000
        bad += random_programs(ways, seed, given.seconds or 60, given.out)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
