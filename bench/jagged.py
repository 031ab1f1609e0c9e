"""The first call of a program over a jagged batch, end to end: under our backend and under Dynamo with an empty backend.

    python bench/jagged.py [--rounds N] [--json FILE]

pieces   torch.split(values, lengths.tolist()); each piece is scaled and summed; the sums are stacked
total    the same, and sum(lengths) == values.size(0) is asserted first
Columns: process time of the first call of a fresh torch.compile, in milliseconds, medians; and ours over the empty backend's. The two are
interleaved in one process after a first call of each. The target is 1.5 at every number of lengths. This measures; it asserts nothing.
"""

import argparse
import json
import statistics
import time

import torch
import torch._dynamo

COUNTS = (1, 8, 50, 200, 500)


def pieces(values, lengths):
    return torch.stack([(piece * 2).sum(0) for piece in torch.split(values, lengths.tolist())])


def total(values, lengths):
    sizes = lengths.tolist()
    torch._check(sum(sizes) == values.size(0))
    return torch.stack([(piece * 2).sum(0) for piece in torch.split(values, sizes)])


def empty(graph, inputs):
    return graph.forward


CASES = {"pieces": pieces, "total": total}
BACKENDS = {"empty": empty, "escapement": "escapement"}


def first_call(program, backend, count):
    lengths = torch.arange(count) % 5 + 1
    values = torch.ones(int(lengths.sum()), 8)
    torch._dynamo.reset()
    start = time.process_time()
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True), torch.no_grad():
        torch.compile(program, backend=backend, dynamic=True)(values, lengths)
    return (time.process_time() - start) * 1e3


def measure(program, count, rounds):
    times = {name: [] for name in BACKENDS}
    for _ in range(rounds):
        for name, backend in BACKENDS.items():
            times[name].append(first_call(program, backend, count))
    return {name: statistics.median(found) for name, found in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--counts", nargs="*", type=int, default=COUNTS)
    parser.add_argument("--json")
    options = parser.parse_args()
    lines = []
    for program in CASES.values():
        for backend in BACKENDS.values():
            first_call(program, backend, 3)
    for case, program in CASES.items():
        for count in options.counts:
            cell = measure(program, count, options.rounds)
            lines.append({"case": case, "lengths": count, **cell, "factor": cell["escapement"] / cell["empty"]})
            print(f"{case:8} {count:4} lengths  empty {cell['empty']:9.1f}  escapement {cell['escapement']:9.1f} ms  "
                  f"x{lines[-1]['factor']:.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
