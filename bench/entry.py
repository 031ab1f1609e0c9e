"""What a call costs before and after the work: three ops on 16 elements, by every way in. One process, blocks of calls
interleaved, medians, ratios against eager (above 1 is faster), nanoseconds only beside them.

    ./dev bench entry [rounds]

ours_region is the compiled program alone, as the others reach it; what escapement.jit adds to it is its entry. `module` is
the same function as a module with one parameter: its tree is compared at every call. One JSON line per row.
"""

import json
import statistics
import sys
import time

import torch

import escapement
from escapement.option_values import resolve


def fn(x, y):
    return torch.relu(x * 2 + y)


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.y = torch.nn.Parameter(torch.ones(16))

    def forward(self, x):
        return torch.relu(x * 2 + self.y)


def contenders():
    x, y, module = torch.randn(16), torch.randn(16), Module()
    region = escapement._C.Region(lambda *args: [fn(*args)], [("tensor", [])] * 2, resolve(), "bench")
    jitted = escapement.jit(fn)
    return {
        "eager": lambda: fn(x, y),
        "region": lambda: region(x, y),
        "jit": lambda: jitted(x, y),
        "jit_keyword": lambda f=jitted: f(x, y=y),
        "torch_compile": lambda f=torch.compile(fn, backend="escapement"): f(x, y),
        "module_eager": lambda: module(x),
        "module_jit": lambda f=escapement.jit(module): f(x),
        "module_torch_compile": lambda f=torch.compile(module, backend="escapement"): f(x),
    }


def block(call, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats * 1e9


def main(rounds):
    calls = contenders()
    times = {name: [] for name in calls}
    with torch.no_grad():
        for call in calls.values():
            [call() for _ in range(50)]
        for _ in range(rounds):
            for name, call in calls.items():
                times[name].append(block(call, 2000))
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, value in medians.items():
        base = medians["module_eager" if name.startswith("module") else "eager"]
        print(json.dumps({"way": name, "ns": round(value), "ratio_to_eager": round(base / value, 3),
                          "over_region_ns": round(value - medians["region"])}))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
