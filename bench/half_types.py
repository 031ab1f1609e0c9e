"""bfloat16 and float16 against eager: element-wise programs by size, row programs by length. One thread, the two taking turns in one process,
median of rounds, by the clock of the processor. One line a cell, the worst last, and a summary a class.

    ./dev bench half_types [--rounds N] [--only TEXT] [--dtypes bf16 f16 f32] [--rows N ...] [--sizes BYTES ...] [--below X]
"""

import argparse
import math
import statistics

import torch
import torch.nn.functional as F
from reductions import compare

import escapement

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
POINTWISE = {
    "add": lambda x, y: x + y,
    "relu": lambda x, y: torch.relu(x),
    "gelu": lambda x, y: F.gelu(x),
    "gelu_tanh": lambda x, y: F.gelu(x, approximate="tanh"),
    "silu": lambda x, y: F.silu(x),
    "sigmoid": lambda x, y: torch.sigmoid(x),
    "tanh": lambda x, y: torch.tanh(x),
    "exp": lambda x, y: torch.exp(x),
    "silu_mul": lambda x, y: F.silu(x) * y,
    "add_mul_relu": lambda x, y: torch.relu((x + y) * y),
    "to_f32": lambda x, y: x.float(),
    "to_f32_and_back": lambda x, y: (x.float() * 1.5).to(x.dtype),
    "to_other_half": lambda x, y: x.to(torch.float16 if x.dtype is torch.bfloat16 else torch.bfloat16),
}
ROWS = {
    "softmax": lambda x, w: torch.softmax(x, -1),
    "scaled_softmax": lambda x, w: torch.softmax(x * 0.125, -1),
    "log_softmax": lambda x, w: torch.log_softmax(x, -1),
    "layer_norm": lambda x, w: F.layer_norm(x, x.shape[-1:], w, w),
    "rms_norm": lambda x, w: F.rms_norm(x, x.shape[-1:], w),
    "sum": lambda x, w: x.sum(-1),
    "mean": lambda x, w: x.mean(-1),
    "amax": lambda x, w: x.amax(-1),
    "sum_of_columns": lambda x, w: x.sum(0),
    "softmax_of_columns": lambda x, w: torch.softmax(x, 0),
}


def cells(options):
    for name, dtype in ((name, dtype) for name in POINTWISE for dtype in options.dtypes):
        for size in options.sizes:
            elements = size // DTYPES[dtype].itemsize
            args = [torch.randn(elements).to(DTYPES[dtype]) for _ in range(2)]
            yield f"{name} {dtype}", f"{size >> 10} KiB", POINTWISE[name], args
    for name, dtype in ((name, dtype) for name in ROWS for dtype in options.dtypes):
        for length in options.rows:
            x = torch.randn(options.elements // length, length).to(DTYPES[dtype])
            yield f"{name} {dtype}", f"rows of {length}", ROWS[name], [x, torch.randn(length).to(DTYPES[dtype])]


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtypes", nargs="+", default=["bf16", "f16"])
    parser.add_argument("--rows", nargs="+", type=int, default=[16, 31, 64, 128, 257, 768, 1024, 4096])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1 << 16, 1 << 20, 1 << 24])
    parser.add_argument("--elements", type=int, default=1 << 18, help="of all rows of a cell")
    parser.add_argument("--below", type=float, default=math.inf, help="list cells below so many times eager only")
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    ours, found, classes = {}, [], {}
    for program, size, function, args in cells(options):
        if options.only not in f"{program} {size}":
            continue
        compiled = ours.setdefault(program, escapement.jit(function))
        plain, mine = compare(lambda _: function(*args), lambda _: compiled(*args), None, options.rounds)
        found.append((plain / mine, f"{program}, {size}", plain, mine, args[0].numel()))
        classes.setdefault(program, []).append(plain / mine)
    for gain, label, plain, mine, elements in sorted(found, reverse=True):
        if gain < options.below:
            print(f"{gain:6.2f} times  eager {plain * 1e9 / elements:7.3f}, ours {mine * 1e9 / elements:7.3f} ns an element  {label}")
    for program, gains in sorted(classes.items(), key=lambda item: -statistics.geometric_mean(item[1])):
        print(f"{program:26} {statistics.geometric_mean(gains):6.2f} times eager ({min(gains):.2f} .. {max(gains):.2f})")
    gains = [gain for gain, *_ in found]
    print(f"{len(gains)} cells: {statistics.geometric_mean(gains):.2f} times eager in the geometric mean, {min(gains):.2f} at least, "
          f"{sum(gain < 1 for gain in gains)} below 1, {sum(gain < 1.5 for gain in gains)} below 1.5")


if __name__ == "__main__":
    main()
