"""How often twelve architectures are compiled, and why: ours against Dynamo's own (an empty backend, dynamic=True).

    python bench/compiles.py [MODEL ...]

Each model runs at the shapes below, batch 1 and length 1 first and last, once through each backend. A compile is one graph handed to
the backend; "frames" are the functions that have at least one. The causes are the ledger's (docs: explain).
"""

import collections
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
from models import MODELS, build, tensors_of  # noqa: E402

import escapement  # noqa: E402
from escapement.ledger import LEDGER  # noqa: E402

SHAPES = [(1, 1), (1, 9), (2, 7), (3, 12), (5, 33), (4, 1), (2, 7), (1, 9), (1, 1)]


class Count:
    """A backend that does nothing but count."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, gm, inputs):
        self.graphs += 1
        return gm.forward


def run(model, inputs, backend, **options):
    """Compiles after each shape; every result is compared with eager's."""
    compiled, counts = torch.compile(model, backend=backend, **options), []
    for shape in SHAPES:
        torch.manual_seed(1)
        args = inputs(*shape)
        with torch.no_grad():
            for ours, eager in zip(tensors_of(compiled(**args)), tensors_of(model(**args)), strict=True):
                torch.testing.assert_close(ours, eager, rtol=1e-3, atol=1e-4)
        counts.append(backend.graphs if isinstance(backend, Count) else LEDGER.counters()["compiles"])
    return counts


def fresh():
    torch._dynamo.reset()
    escapement.reset()


def compare(name):
    model, inputs = build(name)
    fresh()
    theirs = run(model, inputs, Count(), dynamic=True)
    fresh()
    ours = run(model, inputs, "escapement")
    seen = LEDGER.counters()
    recordings = sum(region.info()["recordings"] for function in LEDGER.functions() for region in function.regions())
    return theirs[-1], ours[-1], seen["functions"], collections.Counter(seen["causes"]), recordings, seen


def main(names):
    rows = {name: compare(name) for name in names or MODELS}
    causes = sorted({cause for row in rows.values() for cause in row[3]}, key=lambda cause: (cause != "first", cause))
    print("model".ljust(12), "dynamo", " ours", "frames", "recordings", "breaks", "eager", *causes, sep="  ")
    for name, (theirs, ours, frames, why, recordings, seen) in rows.items():
        eager = seen["refused_calls"] + seen["skipped_frames"]
        cells = [f"{theirs:6}", f"{ours:5}", f"{frames:6}", f"{recordings:10}", f"{seen['graph_breaks']:6}", f"{eager:5}"]
        print(name.ljust(12), *cells, *(f"{why[cause]:{len(cause)}}" for cause in causes), sep="  ")
    worse = [name for name, row in rows.items() if row[1] > row[0]]
    print("more compiles than Dynamo's own:", ", ".join(worse) or "none")
    return bool(worse)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
