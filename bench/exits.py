"""Programs that look at values behind an effect, against themselves run eagerly: interleaved, the median of rounds; small inputs, where the
way into compiled code is what costs, and large ones. Then what an exit costs by itself: a call that finds its side trace against the same program
without the branch, and a call that goes on with the program itself (force_exits=1) against eager.

    ./dev bench exits [--rounds N]
"""

import argparse
import math
import pathlib
import statistics
import sys
import time

import torch

import escapement

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/python/call_mode"))
from test_trace_tree import PROGRAMS, inputs   # noqa: E402

SQUARE = ("list_of_parts", "attention")   # written for four columns


def large(call):
    return torch.randn(512 + call, 256, generator=torch.Generator().manual_seed(call)).abs() * (-1 if call % 2 else 1)


def seconds(function, arguments):
    start = time.perf_counter()
    for argument in arguments:
        function(argument)
    return (time.perf_counter() - start) / len(arguments)


def compare(function, other, make, calls, rounds):
    """Median seconds a call of each."""
    for call in range(2 * calls):
        function(make(call % calls)), other(make(call % calls))
    pairs = [(seconds(function, [make(c) for c in range(calls)]), seconds(other, [make(c) for c in range(calls)])) for _ in range(rounds)]
    return [statistics.median(side) for side in zip(*pairs)]


def branched(x):
    x.mul_(2)
    return x + 1 if x.sum() > 0 else x - 1


def straight(x):
    x.mul_(2)
    return x + 1, x.sum() > 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    gains = {"small": [], "large": []}
    for program in PROGRAMS:
        line = f"{program.__name__:24}"
        for name, make, calls in (("small", inputs, 12), ("large", large, 12)):
            if name == "large" and program.__name__ in SQUARE:
                continue
            eager, ours = compare(program, escapement.jit(program), make, calls, rounds)
            gains[name].append(eager / ours)
            line += f"  {name}: eager {eager * 1e6:8.1f} us, ours {ours * 1e6:8.1f} us, {eager / ours:5.2f} times"
        print(line, flush=True)
    for name, found in gains.items():
        mean = math.exp(statistics.mean(map(math.log, found)))
        print(f"{name}: {len(found)} programs, {mean:.2f} times eager in the geometric mean, {min(found):.2f} at least")
    ours, plain = compare(escapement.jit(branched), escapement.jit(straight), inputs, 12, rounds)
    print(f"an exit whose side is there: {(ours - plain) * 1e9:.0f} ns over the program without a branch ({plain * 1e6:.2f} us)")
    eager, ours = compare(branched, escapement.jit(branched, force_exits=1), inputs, 12, rounds)
    print(f"a call that goes on with the program itself: {ours * 1e6:.0f} us (eager {eager * 1e6:.1f} us)")


if __name__ == "__main__":
    main()
