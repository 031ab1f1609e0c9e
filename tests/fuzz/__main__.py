"""./dev fuzz [--seconds N] [--seed S] [--out FOLDER] [kinds...]: looks for programs that run otherwise than eager.

Kinds of programs: call, replay, compile. Each distinct failure is cut down and written to the folder as a module that
`./dev fuzz FILE` runs again. Ends with status 1 where something was found.
"""

import argparse
import sys
import time
from pathlib import Path

from findings import Findings
from fuzzer import BATCH, Fuzzer, outcome, warm
from program import Kept


def replay_file(path):
    kept, bad = Kept(Path(path)), 0
    for way in kept.ways or ("call", "replay"):
        found = outcome(kept, way)
        bad += found is not None
        print(way, found or "as eager")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--out", default="fuzz-findings")
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    warm()
    files = [kind for kind in given.kinds if kind.endswith(".py")]
    if files:
        return min(1, sum(map(replay_file, files)))
    ways = given.kinds or ["call", "replay"]
    fuzzer, start = Fuzzer(Findings(given.out)), time.monotonic()
    seed = given.seed if given.seed is not None else int(time.time()) % 1000000 * 1000
    while time.monotonic() - start < given.seconds:
        for way in ways:
            fuzzer.run(way, seed, BATCH[way])
        seed += max(BATCH.values())
    print(f"programs: {fuzzer.programs}, next seed {seed}, failures {fuzzer.found}, distinct {len(fuzzer.findings.known)}")
    return 1 if fuzzer.found else 0


if __name__ == "__main__":
    sys.exit(main())
