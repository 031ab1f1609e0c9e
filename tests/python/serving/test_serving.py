"""The serving interface of the C++ library (include/escapement/serving.h): sessions, warm-up, serving only, metrics, cancelling, weights,
packages, threads. tests/cpp_api/serving.cpp holds the checks; here are the models, and what Python can ask."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from torch.export import Dim

from harness import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "load_exported"), reason="needs the compiled core")

PROGRAM = Path(os.environ.get("ESCAPEMENT_BUILD", "build")) / "tests" / "serving"
CHECKS = ["session", "lent_memory", "session_feeds_itself", "run_into", "errors", "bad_arguments", "serve_only", "serve_only_with_other_weights", "warm_up_keeps_state", "stopping", "cancel_at_any_time", "close_waits",
          "swap_weights", "swap_is_told", "swap_while_running", "packages", "bad_packages", "first_calls", "record_beside_eager", "everything_at_once", "after_fork",
          "fork_while_inside"]


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 5)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.first(x))
        h = (h - h.mean(-1, keepdim=True)) * torch.rsqrt(h.var(-1, keepdim=True, correction=0) + 1e-5)
        return torch.softmax(self.second(h), -1)


class Counter(torch.nn.Module):
    """Adds to buffers; what it computes first takes some steps, so that there is something to cancel."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        y = x
        for _ in range(4):
            y = torch.linalg.matrix_norm(y @ y.T) + y
        self.total.add_(x.sum(0))
        self.calls.add_(1)
        return y


class Lookup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(11, 3))

    def forward(self, ids):
        return self.table[ids] * 1.0, self.table


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 6)
        self.out = torch.nn.Linear(6, 11, bias=False)
        self.out.weight = self.embedding.weight
        self.register_buffer("mixed", torch.randn(11, 6).t())
        self.register_buffer("corner", self.mixed[:2, :3])

    def forward(self, ids):
        return self.out(self.embedding(ids) + torch.tensor(2.0)) @ self.mixed.t() + self.corner.sum()


class Dense(torch.nn.Module):
    def forward(self, x):
        return x.contiguous()


class Tally(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.sum = torch.nn.Parameter(torch.zeros(3))

    def forward(self, x):
        with torch.no_grad():
            self.sum.add_(x.shape[0])
        return x * self.sum


N = Dim("n", max=4096)
MODELS = {"mlp": (Mlp, torch.randn(4, 8)), "counter": (Counter, torch.randn(4, 3)), "lookup": (Lookup, torch.arange(4)),
          "tied": (Tied, torch.arange(4)), "dense": (Dense, torch.ones(5, 4).t()), "tally": (Tally, torch.ones(4, 3))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("serving")
    torch.manual_seed(0)
    for name, (make, example) in MODELS.items():
        dims = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC} if name == "dense" else {0: N}
        torch.export.save(torch.export.export(make(), (example,), dynamic_shapes=(dims,)), path / f"{name}.pt2")
    return path


def run(check, folder, *more, timeout=600):
    done = subprocess.run([PROGRAM, check, folder, *map(str, more)], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{check}: exit status {done.returncode}\n{done.stdout[-5000:]}{done.stderr[-2000:]}"
    return done.stdout


@pytest.mark.parametrize("check", CHECKS)
def test_serving(check, folder):
    run(check, folder)


@pytest.mark.slow
def test_64_threads_call_one_module_10000_times_each(folder):
    run("many_threads", folder, 10_000, timeout=1500)


def test_64_threads_call_one_module(folder):
    run("many_threads", folder, 200)


def test_signature_text(folder):
    text = run("signature", folder)
    symbol = re.match(r"x: float32\[(\w+), 8\]  \1 in 0\.\.4096\n-> float32\[\1, 5\]\n$", text)
    assert symbol, text


def test_prometheus_text(folder):
    lines = run("metrics", folder).splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values['escapement_calls_total{module="a\\"b"}'] == "3"
    assert values['escapement_hits_total{module="a\\"b"}'] == "2"
    assert values['escapement_call_seconds_bucket{module="a\\"b",le="+Inf"}'] == "3"
    buckets = [int(value) for name, value in values.items() if "_bucket" in name]
    assert buckets == sorted(buckets) and len(buckets) == 23
    families = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert {re.sub(r"_(bucket|sum|count)$", "", name.split("{")[0]) for name in values} <= families


def test_a_package_brings_versions_and_code_to_another_process(folder):
    run("packages", folder)
    report = json.loads(run("package_alone", folder))
    assert report["recordings"] == 0 and len(report["versions"]) == 1 and report["versions"][0]["hits"] == 4


IN_A_NEW_PROCESS = """
import json, sys, torch, escapement
module = escapement._C.load_exported(sys.argv[1], {"trust_package": sys.argv[2] == "trusted"})
results = [module(x)[0] for x in torch.load(sys.argv[3])]
torch.save(results, sys.argv[4])
print(json.dumps(escapement.stats()))
"""


def in_a_new_process(package, trusted, inputs, tmp_path):
    torch.save(inputs, tmp_path / "inputs")
    done = subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS, package, trusted, tmp_path / "inputs", tmp_path / "outputs"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return torch.load(tmp_path / "outputs"), json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def package(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "mlp.package"
    module = core().load_exported(str(folder / "mlp.pt2"))
    inputs = [torch.randn(n, 8) for n in (4, 1, 300, 0)]
    module(inputs[0])
    expected = [module(x)[0] for x in inputs]
    module.save(str(path))
    return path, inputs, expected


def same(results, expected):
    return all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


def test_a_trusted_package_records_and_compiles_nothing(package, tmp_path):
    path, inputs, expected = package
    results, stats = in_a_new_process(path, "trusted", inputs, tmp_path)
    assert all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(results, expected, strict=True))
    assert stats["package_versions"] == 1 and stats["package_kernels"] > 0 and stats["hits"] == 4
    assert not {"recordings", "kernels_compiled", "eager_calls", "package_code_stale", "package_trace_stale"} & stats.keys()


def test_a_package_that_is_not_trusted_is_recorded_anew(package, tmp_path):
    path, inputs, expected = package
    results, stats = in_a_new_process(path, "no", inputs, tmp_path)
    assert all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(results, expected, strict=True))
    assert stats["package_not_trusted"] == 1 and stats["recordings"] == 1 and stats["kernels_compiled"] > 0
    assert not {"package_versions", "package_kernels"} & stats.keys()


def changed(path, into, change):
    """A package with other entries: `change` maps a name and its bytes to new ones."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(into, "w") as new:
        for name in old.namelist():
            for entry, data in change(name, old.read(name)):
                new.writestr(entry, data)
    return into


def test_code_of_another_processor_is_made_anew(package, tmp_path):
    path, inputs, expected = package

    def other_keys(name, data):
        if name == "package.json":
            data = re.sub(rb'"([0-9a-f])([0-9a-f]{63})":', lambda m: b'"%x%s":' % ((int(m[1], 16) + 1) % 16, m[2]), data)
        key = re.fullmatch(r"code/([0-9a-f])(\w+)\.o", name)
        yield (f"code/{(int(key[1], 16) + 1) % 16:x}{key[2]}.o" if key else name), data

    results, stats = in_a_new_process(changed(path, tmp_path / "other", other_keys), "trusted", inputs, tmp_path)
    assert all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(results, expected, strict=True))
    assert stats["package_code_stale"] == stats["kernels_compiled"] > 0 and stats["package_versions"] == 1 and "recordings" not in stats


def test_code_that_is_not_what_was_made_is_made_anew(package, tmp_path):
    path, inputs, expected = package

    def flipped(name, data):
        yield name, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:] if name.startswith("code/") else data

    _, stats = in_a_new_process(changed(path, tmp_path / "flipped", flipped), "trusted", inputs, tmp_path)
    assert stats["package_code_stale"] == stats["kernels_compiled"] > 0 and "package_kernels" not in stats


def test_a_trace_of_another_version_is_recorded_anew(package, tmp_path):
    path, inputs, expected = package

    def older(name, data):
        yield name, re.sub(rb'"torch":"[^"]*"', b'"torch":"1.0"', data) if name == "package.json" else data

    _, stats = in_a_new_process(changed(path, tmp_path / "older", older), "trusted", inputs, tmp_path)
    assert stats["package_trace_stale"] == stats["recordings"] == 1 and "package_versions" not in stats


class Defaults(torch.nn.Module):
    """Makes a tensor of the default dtype, in words that torch.export keeps."""

    def forward(self, x):
        return torch.full((x.shape[0],), 0.5) + 1, x * 2


STATES = {
    "the default dtype": "torch.set_default_dtype(torch.float64)",
    "a flag": "torch.backends.mkldnn.set_flags(False)",
    "a flag that has several values": "torch._C._set_sdp_priority_order([2, 1, 0])",
    "a flag that may have none": "torch.sparse.check_sparse_tensor_invariants.enable()",
}
SAVED_IN_A_STATE = """
import sys, torch, escapement
STATE
module = escapement._C.load_exported(sys.argv[1])
for n in (4, 3):
    module(torch.ones(n, 2, dtype=torch.float32))
module.save(sys.argv[2])
"""
READ_IN_TWO = """
import json, sys, torch, escapement
x = torch.ones(4, 2)
module = escapement._C.load_exported(sys.argv[1], {"trust_package": True})

def called():
    return [str(result.dtype) for result in module(x)], escapement.stats()

report = [called()]
STATE
report.append(called())
print(json.dumps(report))
"""


def in_a_state(script, state, *arguments):
    done = subprocess.run([sys.executable, "-c", script.replace("STATE", state), *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def defaults(tmp_path_factory):
    path = tmp_path_factory.mktemp("defaults") / "defaults.pt2"
    exported = torch.export.export(Defaults(), (torch.randn(5, 2),), dynamic_shapes=({0: Dim("n", min=0, max=100)},))
    torch.export.save(exported, path)
    return path


@pytest.mark.parametrize("state", STATES)
def test_a_version_serves_where_torch_is_as_it_was_recorded(defaults, tmp_path, state):
    in_a_state(SAVED_IN_A_STATE, STATES[state], defaults, tmp_path / "package")
    (other, before), (there, after) = json.loads(in_a_state(READ_IN_TWO, STATES[state], tmp_path / "package"))
    assert other == ["torch.float32", "torch.float32"]
    assert before["package_versions"] == before["recordings"] == before["misses"] == 1
    assert there == ["torch.float64" if "dtype" in state else "torch.float32", "torch.float32"]
    assert after["recordings"] == 1 and after["hits"] == before.get("hits", 0) + 1


def test_a_version_is_saved_and_read_behind_torch_compile(defaults, tmp_path):
    """torch.compile changes flags of the process, and leaves them so."""
    compiled = "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"
    in_a_state(SAVED_IN_A_STATE, compiled, defaults, tmp_path / "package")
    report = json.loads(in_a_state(READ_IN_TWO.replace("x = ", compiled + "\nx = ", 1), "", tmp_path / "package"))
    assert report[-1][1]["hits"] == 2 and report[-1][1]["package_versions"] == 1 and "recordings" not in report[-1][1]


def test_checks_that_were_switched_off_are_those_that_nobody_switched_on(defaults, tmp_path):
    in_a_state(SAVED_IN_A_STATE, "torch.sparse.check_sparse_tensor_invariants.disable()", defaults, tmp_path / "package")
    for state in ("", "torch.sparse.check_sparse_tensor_invariants.disable()"):
        report = json.loads(in_a_state(READ_IN_TWO, state, tmp_path / "package"))
        assert report[-1][1]["hits"] == 2 and report[-1][1]["package_versions"] == 1 and "recordings" not in report[-1][1]


def test_a_version_whose_flags_torch_does_not_have_is_recorded_anew(package, tmp_path):
    path, inputs, expected = package
    change = edited("package.json", rb'"enabled_mkldnn":', b'"enabled_nothing":')
    results, stats = in_a_new_process(changed(path, tmp_path / "other", change), "trusted", inputs, tmp_path)
    assert all(torch.allclose(a, b, 1e-5, 1e-6) for a, b in zip(results, expected, strict=True))
    assert stats["package_flags_unnamed"] == stats["recordings"] == 1 and "package_versions" not in stats


def without(entry):
    return lambda name, data: [] if name == entry else [(name, data)]


def edited(entry, old, new):
    def edit(name, data):
        assert name != entry or re.search(old, data), f"{entry} holds no {old}"
        yield name, re.sub(old, new, data, count=1) if name == entry else data
    return edit


LIES = {
    "other format": (edited("escapement_package", b"2", b"1"), "its format is"),
    "no program": (without("model.json"), "without model.json"),
    "no weights": (without("weights.safetensors"), "without weights.safetensors"),
    "no trace": (without("traces/0.txt"), "without traces/0.txt"),
    "program is no JSON": (edited("model.json", b"^{", b"["), "model.json"),
    "a weight that is not there": (edited("package.json", rb'"tensor":"[^"]*"', b'"tensor":"nowhere"'), "is missing"),
    "a weight beyond its bytes": (edited("package.json", rb'"offset":0', b'"offset":4000'), "reaches beyond"),
    "a negative stride": (edited("package.json", rb'"strides":\[8,', b'"strides":[-8,'), "no tensor's"),
    "sizes that overflow": (edited("package.json", rb'"sizes":\[16,', b'"sizes":[4611686018427387904,'), ""),
    "a weight too few": (edited("package.json", rb'"weights":\[{[^}]*},', b'"weights":['), "are listed"),
    "a captured weight that is not there": (edited("package.json", rb'"captured":\[\d+', b'"captured":[99'), "no weight 99"),
    "a default dtype that is none": (edited("package.json", rb'"default_dtype":\d+', b'"default_dtype":99'), "dtype"),
    "too few captured": (edited("package.json", rb'"captured":\[\d+,', b'"captured":['), "other inputs"),
    "code that is not there": (edited("package.json", rb'"code":{', b'"code":{"00":"00",'), "without code/00.o"),
    "a trace that is no trace": (edited("traces/0.txt", rb"^trace", b"tarce"), ""),
    "a trace with an unknown value": (edited("traces/0.txt", rb"%0", b"%999999"), ""),
    "a trace with other sizes": (edited("traces/0.txt", rb", 16\]", b", 17]"), ""),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_package_is_one_clear_error(package, tmp_path, lie):
    change, message = LIES[lie]
    path = changed(package[0], tmp_path / "lie.package", change)
    with pytest.raises(RuntimeError, match="lie.package'") as raised:
        core().load_exported(str(path), {"trust_package": True})
    assert message in str(raised.value)


def test_a_closed_module(folder, tmp_path):
    module = core().load_exported(str(folder / "mlp.pt2"))
    module(torch.randn(2, 8))
    module.close()
    with pytest.raises(RuntimeError, match="closed"):
        module(torch.randn(2, 8))
    with pytest.raises(RuntimeError, match="closed"):
        module.save(str(tmp_path / "a.package"))
    assert list(tmp_path.iterdir()) == []


def test_a_package_is_saved_over_the_one_that_is_mapped(package, tmp_path):
    path, inputs, expected = package
    shutil.copy(path, tmp_path / "mine")
    module = core().load_exported(str(tmp_path / "mine"), {"trust_package": True})
    module.save(str(tmp_path / "mine"))
    assert same([module(x)[0] for x in inputs], expected)
    again = core().load_exported(str(tmp_path / "mine"), {"trust_package": True})
    assert same([again(x)[0] for x in inputs], expected)
    assert [f.name for f in tmp_path.iterdir()] == ["mine"]
