"""./dev fuzz [--seconds N] [--seed S] [--out FOLDER] [kinds...]: looks for programs that run otherwise than eager.

Kinds: call, replay, compile, train, exported are random programs, run that way (train: with gradients, through torch.compile); guards: in call mode at every combination of small sizes;
exits: in call mode, with many looks at values behind writes, each of which is taken by force;
states, states-replay: under modes that change between calls, beside threads, after forks, after interrupts. opinfo is the samples that
PyTorch keeps of each operator. functions (C++) and ir (traces, loop nests, guards) are programs of the build. Without kinds: all.
Each distinct failure of a random program is cut down and written to the folder as a module; `./dev fuzz FILE` runs one again, and so
does `./dev fuzz "opinfo:NAME DTYPE FORM"` for a sample. Ends with status 1 where something was found.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from findings import Findings
from fuzzer import BATCH, Fuzzer, outcome, warm
from program import Kept

BUILT = ("functions", "ir")
TELLS = 300   # seconds: so often a run says how far it is
# Of the time of a run without kinds, the part of each.
SHARES = {"call": 0.15, "exits": 0.05, "replay": 0.2, "guards": 0.1, "states": 0.05, "states-replay": 0.05, "compile": 0.08, "train": 0.07, "exported": 0.05, "opinfo": 0.1,
          "functions": 0.05, "ir": 0.05}


def again(path):
    """A kept program, in the ways that it names."""
    kept, bad = Kept(Path(path)), 0
    for way in kept.ways or ("call", "replay"):
        found = outcome(kept, way)
        bad += found is not None
        print(f"{Path(path).stem}: {way}: {found.kind}: {found.text}" if found else f"{Path(path).stem}: {way}: as eager", flush=True)
    return bad


def random_programs(fuzzer, kind, seed, seconds):
    """At least one batch."""
    before, now = fuzzer.found, time.monotonic()
    end, told = now + seconds, now
    while True:
        fuzzer.run(kind, seed, BATCH[kind])
        seed += BATCH[kind]
        now = time.monotonic()
        if now >= end:
            return fuzzer.found - before
        if now >= told + TELLS:
            told = now
            print(f"up to seed {seed}: {fuzzer.programs}, failures {fuzzer.found}", flush=True)


def samples(cases, seconds, seed):
    import opinfo

    bad, cases = 0, cases or opinfo.cases()
    cases = cases[seed % len(cases):] + cases[:seed % len(cases)]
    for way, share in (("call", 0.3), ("replay", 0.3), ("compile", 0.4)):
        end = time.monotonic() + seconds * share
        count, found = opinfo.differences(cases, way, lambda: time.monotonic() > end)
        for one in found:
            print(f"{one.way}: {one.kind}: {one.text}", flush=True)
        print(f"opinfo by {way}: {count} cases, {len(found)} differences", flush=True)
        bad += len(found)
    return bad


def built(kind, seconds, seed):
    """A fuzzer in C++; 0 where this build has none."""
    program = Path(os.environ.get("ESCAPEMENT_BUILD", "build")) / "tests" / f"fuzz_{kind}"
    if not program.exists():
        print(f"{kind}: {program} is not built")
        return 0
    return subprocess.run([program, "--seconds", str(int(seconds) + 1), "--seed", str(seed)]).returncode != 0


def run(kind, fuzzer, seed, seconds):
    if kind == "opinfo":
        return samples(None, seconds, seed)
    return built(kind, seconds, seed) if kind in BUILT else random_programs(fuzzer, kind, seed, seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1000000 * 1000)
    parser.add_argument("--out", default="fuzz-findings")
    parser.add_argument("kinds", nargs="*")
    given = parser.parse_args()
    single = [kind for kind in given.kinds if kind.endswith(".py") or kind.startswith("opinfo:")]
    kinds = [kind for kind in given.kinds if kind not in single] or ([] if single else list(SHARES))
    unknown = set(kinds) - set(SHARES)
    if unknown:
        parser.error(f"no such kind: {', '.join(sorted(unknown))}")
    warm()
    fuzzer = Fuzzer(Findings(given.out))
    bad = sum(again(one) if one.endswith(".py") else samples([one.removeprefix("opinfo:")], 1e9, 0) for one in single)
    whole = sum(SHARES[kind] for kind in kinds)
    for kind in kinds:
        bad += run(kind, fuzzer, given.seed, given.seconds * SHARES[kind] / whole)
    print(f"seed {given.seed}; programs: {fuzzer.programs}; failures {fuzzer.found}, distinct {len(fuzzer.findings.known)}, in {given.out}")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
