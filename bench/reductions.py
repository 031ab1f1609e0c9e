"""Reductions and row programs over every set of axes and every layout of their operand, against eager: one thread, the two taking turns in one
process, median of rounds, by the clock of the processor (other programs may run beside it). One line a cell, the worst last, and a summary a program.

    ./dev bench reductions [--rounds N] [--only TEXT] [--dtypes f32 f64 bf16] [--sizes small odd large] [--below X]
"""

import argparse
import itertools
import math
import statistics
import time

import torch

import escapement

SHAPES = {
    "small": [(16, 24), (4, 6, 16), (2, 4, 8, 8)],
    "odd": [(67, 131), (7, 33, 65), (3, 19, 13, 27)],
    "large": [(512, 1024), (32, 96, 196), (16, 64, 56, 56)],
}
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i32": torch.int32}
SEVERAL = {   # over any set of axes
    "sum": lambda x, axes: x.sum(axes),
    "amax": lambda x, axes: x.amax(axes),
    "mean": lambda x, axes: x.mean(axes),
    "var": lambda x, axes: x.var(axes),
}
ONE = {       # over one axis
    "argmax": lambda x, axes: x.argmax(axes[0]),
    "softmax": lambda x, axes: torch.softmax(x, axes[0]),
    "log_softmax": lambda x, axes: torch.log_softmax(x, axes[0]),
}
LAST = {"layer_norm": lambda x, axes: torch.nn.functional.layer_norm(x, x.shape[axes[0]:])}


def layouts(shape):
    """name -> a tensor of this shape, laid out so."""
    dims = len(shape)
    orders = {"contiguous": tuple(range(dims)), "transposed": (*range(dims - 2), dims - 1, dims - 2)}
    if dims == 3:
        orders["rolled"] = (2, 0, 1)
    if dims == 4:
        orders["channels_last"] = (0, 2, 3, 1)
        orders["channels_first"] = (0, 3, 1, 2)   # NCHW, seen as NHWC
        orders["reversed"] = (3, 2, 1, 0)
    for name, memory in orders.items():   # the axes as they lie in memory, outermost first
        yield name, memory


def laid_out(shape, memory, dtype):
    back = [memory.index(d) for d in range(len(shape))]
    plain = torch.randn([shape[d] for d in memory])
    return (plain * 100 if dtype is torch.int32 else plain).to(dtype).permute(back)


def axis_sets(program, dims):
    if program in SEVERAL:
        return [axes for n in range(1, dims + 1) for axes in itertools.combinations(range(dims), n)]
    return [(axis,) for axis in range(1 if program in LAST else 0, dims)]


def cells(options):
    programs = {**SEVERAL, **ONE, **LAST}
    for size, dtype in itertools.product(options.sizes, options.dtypes):
        for name, shape in itertools.product(programs, SHAPES[size]):
            for (layout, memory), axes in itertools.product(layouts(shape), axis_sets(name, len(shape))):
                label = f"{name}({','.join(map(str, axes))}) {dtype} {'x'.join(map(str, shape))} {layout}"
                integers_too = name in ("sum", "amax", "argmax")
                if options.only in label and (integers_too or dtype != "i32"):
                    yield label, programs[name], axes, shape, memory, DTYPES[dtype]


def block(function, x, repeats):
    start = time.thread_time()
    for _ in range(repeats):
        function(x)
    return (time.thread_time() - start) / repeats


def compare(eager, ours, x, rounds):
    """Median seconds of each."""
    for function in (eager, ours, ours, ours):
        function(x)
    repeats = max(1, int(0.003 / max(1e-7, min(block(eager, x, 2), block(ours, x, 2)))))
    pairs = [(block(eager, x, repeats), block(ours, x, repeats)) for _ in range(rounds)]
    return [statistics.median(side) for side in zip(*pairs)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtypes", nargs="+", default=list(DTYPES))
    parser.add_argument("--sizes", nargs="+", default=list(SHAPES))
    parser.add_argument("--below", type=float, default=math.inf, help="list cells below so many times eager only")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for label, program, axes, shape, memory, dtype in cells(options):
        x = laid_out(shape, memory, dtype)

        def eager(x, program=program, axes=axes):
            return program(x, axes)

        plain, ours = compare(eager, escapement.jit(eager), x, options.rounds)
        found.append((plain / ours, label, plain, ours, x.numel()))
    for gain, label, plain, ours, elements in sorted(found, reverse=True):
        if gain < options.below:
            print(f"{gain:6.2f} times  eager {plain * 1e6:8.1f} us, ours {ours * 1e6:8.1f} us, {ours * 1e9 / elements:7.3f} ns an element  {label}")
    gains = [gain for gain, *_ in found]
    print(f"{len(gains)} cells: {math.exp(statistics.mean(map(math.log, gains))):.2f} times eager in the geometric mean, {min(gains):.2f} at least, "
          f"{sum(gain < 1 for gain in gains)} below 1, {sum(gain < 0.8 for gain in gains)} below 0.8")


if __name__ == "__main__":
    main()
