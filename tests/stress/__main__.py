"""./dev stress [--seconds N] [--seed S]: exits are taken by force, in the programs of tests/python/call_mode/test_trace_tree.py.

A call comes to an exit, and though a side trace fits, the function itself goes on from there: each time, each second, third, ... time. Sizes,
signs and random numbers change from call to call. Compared with eager are results and arguments (values, dtypes, strides), which of them share
memory, and the generator. One process for each core. Ends with status 1 at the first difference, with what shows it again.
"""

import argparse
import multiprocessing
import os
import sys

from exits import PROGRAMS, stress


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        found = pool.starmap(stress, [(given.seed + number, given.seconds) for number in range(os.cpu_count())])
    differences = [text for *_, text in found if text]
    print(f"{sum(exits for exits, *_ in found)} exits taken in {sum(calls for _, calls, _ in found)} calls of {len(PROGRAMS)} programs:",
          "\n".join(differences) or "as eager")
    return min(len(differences), 1)


if __name__ == "__main__":
    sys.exit(main())
