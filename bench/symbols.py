"""How our part of a compile grows with the number of symbols, the number of operators being the same: 1, 8, 64, 256, 500 symbols.

    python bench/symbols.py [--rounds N] [--json FILE]

inputs   500 tensors, each of one size; k different sizes among them; each is scaled, summed, and all sums are added up
jagged   values [sum(lengths), 8] split into 500 pieces by k lengths read from a tensor; each piece is scaled and reduced
broken   as jagged, but the pieces are joined again and normalised as one batch
Columns: record (the eager run under the recorder), passes, plan, codegen, program, in milliseconds, medians; and the sum over the sum at one
symbol. The target is a factor of 2 at 500. This measures; it asserts nothing.
"""

import argparse
import json
import statistics

import torch
from escapement import _C

COUNTS = (1, 8, 64, 256, 500)
PIECES = 500
PASSES = ("dce", "expand", "cse", "epilogue", "dce_late")


def inputs_case(k):
    specs = [("tensor", (("sym", i % k), 4)) for i in range(PIECES)]
    tensors = [torch.ones(3 + i % k % 7, 4) for i in range(PIECES)]

    def program(*xs):
        total = xs[0].sum() * 0
        for x in xs:
            total = total + (x * 2).sum()
        return (total,)

    return program, specs, tensors


def lengths_of(lengths, k):
    """500 lengths, k of them different; what is read of the tensor beyond these stays a tensor, so that the number of ops is the same."""
    found = [lengths[i].item() for i in range(k)]
    others = [lengths[i] + 1 for i in range(k, PIECES)]
    return [found[i % k] for i in range(PIECES)], others


def jagged_inputs(k):
    lengths = torch.arange(PIECES) % k % 5 + 1
    total = int(sum(lengths[i % k] for i in range(PIECES)))
    return [("tensor", (("sym", 0), 8)), ("tensor", (("sym", 1),))], [torch.ones(total, 8), lengths]


def jagged_case(k):
    specs, tensors = jagged_inputs(k)

    def program(values, lengths):
        found, others = lengths_of(lengths, k)
        return (torch.stack([(piece * 2).sum(0) for piece in torch.split(values, found)]), *others)

    return program, specs, tensors


def broken_case(k):
    specs, tensors = jagged_inputs(k)

    def program(values, lengths):
        found, others = lengths_of(lengths, k)
        joined = torch.cat([piece + 1 for piece in torch.split(values, found)])
        return (joined / (1 + joined.abs().sum(-1, keepdim=True)), *others)

    return program, specs, tensors


CASES = {"inputs": inputs_case, "jagged": jagged_case, "broken": broken_case}


def measure(case, k):
    program, specs, tensors = CASES[case](k)
    region = _C.Region(program, specs, {"max_ops_per_kernel": 64})
    region(*tensors)
    info = region.info()
    if not info["versions"]:
        raise RuntimeError(f"{case} with {k} symbols is not compiled: {info['fallbacks']}")
    version = info["versions"][0]
    times = version["timings"]
    found = {"record": version["record_ms"], "passes": sum(times[p] for p in PASSES if p in times), "plan": times["plan"],
             "codegen": times["codegen"], "program": times.get("program", 0.0)}
    found["ops"] = version["ops"]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="*", default=list(CASES))
    parser.add_argument("--json")
    options = parser.parse_args()
    lines = []
    for case in options.cases:
        first = None
        for k in COUNTS:
            rounds = [measure(case, k) for _ in range(options.rounds)]
            cell = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}
            total = sum(v for name, v in cell.items() if name != "ops")
            first = first or total
            lines.append({"case": case, "symbols": k, "total": total, "factor": total / first, **cell})
            parts = "  ".join(f"{name} {value:8.1f}" for name, value in cell.items())
            print(f"{case:8} {k:4} symbols  {parts}  total {total:8.1f} ms  x{total / first:.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
