"""Eager, Inductor (dynamic) and Escapement side by side: one process, blocks of calls interleaved, medians with p10 and p90, outputs
compared first, the memory roof of the same minute beside the results, one line of JSON per cell.

    ./dev bench compare [groups ...] [--no-inductor] [--json FILE] [--quick]      groups: chains rows mixtures small bert cold

Ratios are against eager (above 1 is faster). This measures; it asserts nothing.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(__file__))
import cases  # noqa: E402


def backend():
    if "escapement" in torch.compiler.list_backends():
        return "escapement"
    from escapement.backend import escapement

    return escapement


def roof(elements):
    """Best of a few runs of out = a + b in preallocated memory, bytes per second: two reads and one write."""
    a, b, out = torch.ones(elements), torch.ones(elements), torch.empty(elements)
    best = float("inf")
    for _ in range(7):
        repeats = max(1, 2_000_000 // elements)
        start = time.perf_counter()
        for _ in range(repeats):
            torch.add(a, b, out=out)
        best = min(best, (time.perf_counter() - start) / repeats)
    return 12 * elements / best


def block(function, args, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        function(*args)
    return (time.perf_counter() - start) / repeats


def interleaved(functions, args, rounds):
    """name -> sorted seconds per call; the functions take turns, block by block."""
    repeats = max(1, int(0.01 / max(1e-7, min(block(f, args, 2) for f in functions.values()))))
    repeats = min(repeats, 2000)
    times = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(block(function, args, repeats))
    return {name: sorted(found) for name, found in times.items()}


def summary(found):
    return {"median": statistics.median(found), "p10": found[len(found) // 10], "p90": found[-1 - len(found) // 10]}


def contenders(function, inductor):
    result = {"eager": function, "escapement": torch.compile(function, backend=backend())}
    if inductor:
        torch._dynamo.reset_code_caches() if hasattr(torch._dynamo, "reset_code_caches") else None
        result["inductor"] = torch.compile(function, dynamic=True)
    return result


def compare(outputs):
    for name, output in outputs.items():
        torch.testing.assert_close(output, outputs["eager"], rtol=1e-3, atol=1e-4, msg=lambda m, name=name: f"{name}: {m}")


def run_workload(work, options, emit):
    functions = contenders(work.function, options.inductor)
    for _, _, make in work.cells[:2]:  # both compilers see two sizes before anything is measured
        [f(*make()) for f in functions.values()]
    for label, moved, make in work.cells:
        args = make()
        compare({name: f(*args) for name, f in functions.items()})
        found = interleaved(functions, args, options.rounds)
        cell = {"group": work.group, "workload": work.name, "cell": label, **{n: summary(t) for n, t in found.items()}}
        if moved:
            cell["roof_fraction"] = moved / cell["escapement"]["median"] / roof(moved // 12)
        emit(cell)


def run_bert(options, emit):
    model, requests = cases.bert(), cases.bert_requests(12 if options.quick else 60)
    functions = {"eager": model, "escapement": torch.compile(model, backend=backend())}
    if options.inductor:
        functions["inductor"] = torch.compile(model, dynamic=True)
    call = {n: (lambda f: lambda *ids: [f(i).last_hidden_state for i in ids])(f) for n, f in functions.items()}
    compare({n: f(*requests[:4]) for n, f in call.items()})
    [f(*requests) for f in call.values()]
    found = interleaved(call, requests, max(3, options.rounds // 2))
    emit({"group": "bert", "workload": "bert_4x256_mixed_lengths", "cell": f"{len(requests)} requests", **{n: summary(t) for n, t in found.items()}})


def run_cold(options, emit):
    """Our own part of a cold compile: recording beyond one eager run, passes, planning, code generation."""
    import escapement
    from escapement.ledger import LEDGER

    torch._dynamo.reset()
    escapement.reset()
    model = cases.bert(layers=12, hidden=768)
    ids = torch.randint(0, 5000, (2, 33))
    model(ids)
    start = time.perf_counter()
    model(ids)
    eager = time.perf_counter() - start
    compiled = torch.compile(model, backend=backend())
    start = time.perf_counter()
    compiled(ids)
    total = time.perf_counter() - start
    versions = [v for function in LEDGER.functions() for region in function.regions() for v in region.info()["versions"]]
    ours = sum(sum(v["timings"].values()) + v["record_ms"] for v in versions)
    emit({"group": "cold", "workload": "bert_base_12_layers", "cell": "first call", "eager_ms": eager * 1e3, "total_ms": total * 1e3,
          "ours_ms": ours, "ours_without_the_eager_run_ms": ours - eager * 1e3,
          "steps_ms": {k: round(sum(v["timings"][k] for v in versions), 2) for k in versions[0]["timings"]},
          "record_ms": sum(v["record_ms"] for v in versions)})


class Table:
    def __init__(self, path):
        self.file = open(path, "w") if path else None
        self.ratios = {}

    def note(self, cell):
        if self.file:
            self.file.write(json.dumps(cell) + "\n")
            self.file.flush()
        if "eager" not in cell:
            return print(json.dumps(cell), flush=True)
        eager = cell["eager"]["median"]
        ratios = {n: eager / cell[n]["median"] for n in ("escapement", "inductor") if n in cell}
        for name, ratio in ratios.items():
            self.ratios.setdefault((cell["workload"], name), []).append(ratio)
        text = "  ".join(f"{n} {r:6.2f}x" for n, r in ratios.items())
        roof_text = f"  roof {100 * cell['roof_fraction']:4.0f}%" if "roof_fraction" in cell else ""
        print(f"{cell['workload']:24} {cell['cell']:>12}  eager {eager * 1e6:10.1f} us  {text}{roof_text}", flush=True)

    def close(self):
        print("\ngeomean (min .. max) against eager")
        for (work, name), found in self.ratios.items():
            mean = statistics.geometric_mean(found)
            print(f"  {work:26} {name:11} {mean:6.2f}  ({min(found):.2f} .. {max(found):.2f})")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="*", default=[], choices=[*cases.WORKLOADS, "bert", "cold", []])
    parser.add_argument("--no-inductor", dest="inductor", action="store_false")
    parser.add_argument("--json")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=11)
    return parser.parse_args()


def main():
    options = parse()
    torch.set_grad_enabled(False)
    torch._dynamo.config.recompile_limit = 64  # for the peers: every workload is a function of its own here
    table = Table(options.json)
    table.note({"host": platform.processor() or platform.machine(), "torch": torch.__version__, "threads": torch.get_num_threads(),
                "date": datetime.date.today().isoformat(), "roof_GBps": {f"{n * 4 >> 10}KiB": round(roof(n) / 1e9, 1) for n in (1 << 14, 1 << 18, 1 << 22, 1 << 24)}})
    groups = options.groups or [*cases.WORKLOADS, "bert", "cold"]
    for group in groups:
        for work in cases.WORKLOADS.get(group, lambda: [])():
            run_workload(work, options, table.note)
    if "bert" in groups:
        run_bert(options, table.note)
    if "cold" in groups:
        run_cold(options, table.note)
    table.close()


if __name__ == "__main__":
    main()
