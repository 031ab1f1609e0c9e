"""Exported programs (torch.export) read in C++: results are those of torch's own loader at any size within the ranges, from one
recording; calls and files that do not fit are one clear error."""

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from harness import core, seeded

pytestmark = pytest.mark.skipif(not hasattr(core(), "load_exported"), reason="needs the compiled core")

B = Dim("b", min=2, max=64)
S = Dim("s", max=512)
I = Dim("i", min=3, max=512)


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 8)

    def forward(self, x):
        return torch.relu(self.linear(x)).mean(1)


class Sizes(torch.nn.Module):
    """Arithmetic on sizes, several inputs and results, an integer among both, None, views, a list of results."""

    def forward(self, x, y, n: int):
        n_plus = n + x.shape[0] // 2 + max(x.shape[1] % 3, 2)
        a, b = torch.cat([x, y], 0).split([x.shape[0], y.shape[0]])
        padded = x.new_full((2, n_plus), float("-inf"))
        return a * n, b[: y.shape[0] * 2 - 1].reshape(-1), n_plus, [padded, None], x.transpose(0, 1), x.topk(1, 0).values


class Counter(torch.nn.Module):
    """Changes buffers, one of them not persistent, and an input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("calls", torch.zeros((), dtype=torch.long), persistent=False)
        self.norm = torch.nn.BatchNorm1d(3)
        self.scale = torch.full((3,), 0.5)

    def forward(self, x, y):
        self.total.add_(x.sum(0))
        self.calls += 1
        y.mul_(2)
        return self.norm(x) * self.scale + self.total + y, self.calls * 1


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 6)
        self.out = torch.nn.Linear(6, 11, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, ids):
        return self.out(self.embedding(ids) + torch.tensor(2.0))


class DataDependent(torch.nn.Module):
    def forward(self, x):
        n = x.sum().to(torch.int64).item()
        torch._check(n >= 2)
        torch._check(n <= 1000)
        found = torch.nonzero(x > 0.5)
        return torch.arange(n) + 1, found + 1


class Indexing(torch.nn.Module):
    def forward(self, x, index):
        out = x.clone()
        out[:, index] = 0
        out[1:] += 1
        return torch.where(out > 0, out, -out), x[index][:, None].to(torch.float64), torch.nn.functional.pad(x, (1, 2))


class GradBlocks(torch.nn.Module):
    """Exported with the block's graph inside a node, and names of it that come twice."""

    def forward(self, x):
        with torch.no_grad():
            a, b, c = x.sin(), x.shape[0] * 2, x.cos()
        y = a + c
        with torch.no_grad():
            z = y.exp()
        return y * b + z


class AutocastBlocks(torch.nn.Module):
    """Blocks inside each other, with and without autocast, one under no_grad, one for a device that is not here."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            with torch.autocast("cpu", enabled=False):
                z = torch.matmul(y.float(), x.t())
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
                half = torch.matmul(x, x.t())
            w = torch.matmul(y, y.t())
        with torch.autocast("cuda"):
            plain = torch.matmul(x, x.t())
        return y, z, half, w + 1, plain, torch.matmul(x.t(), x)


def rows(n, *rest, dtype=torch.float32):
    g = seeded(n, rest)
    return torch.randint(0, 5, (n, *rest), generator=g) if dtype == torch.long else torch.rand(n, *rest, generator=g)


CASES = {
    "linear": (Linear, lambda n: (rows(n, 4),), ({0: B},)),
    "sizes": (Sizes, lambda n: (rows(n, 5), rows(n + 3, 5), n + 2), ({0: Dim.AUTO}, {0: Dim.AUTO}, Dim.AUTO)),
    "counter": (Counter, lambda n: (rows(n + 2, 3), rows(3)), ({0: Dim.AUTO}, None)),
    "tied": (Tied, lambda n: (rows(2, n, dtype=torch.long),), ({1: S},)),
    "no-grad blocks": (GradBlocks, lambda n: (rows(n, 4),), ({0: Dim.AUTO},)),
    "autocast blocks": (AutocastBlocks, lambda n: (rows(n, 4),), ({0: Dim.AUTO},)),
    "indexing": (Indexing, lambda n: (rows(n + 5, n + 5), torch.tensor([0, 2, 4])), ({0: I, 1: I}, None)),
    "data-dependent": (DataDependent, lambda n: (rows(n) + 2,), ({0: Dim.AUTO},)),
}


def save(path, make, example, dynamic_shapes, decompose=False):
    torch.manual_seed(0)
    with torch.enable_grad():  # else blocks under no_grad would not be seen as such
        program = torch.export.export(make().train(make is Counter), example, dynamic_shapes=dynamic_shapes)
        if decompose:
            program = program.run_decompositions()
    torch.export.save(program, path)
    return path


def load(path, **options):
    return core().load_exported(str(path), options)


def assert_equal(ours, eager):
    assert len(ours) == len(eager)
    for mine, theirs in zip(ours, eager):
        if isinstance(theirs, torch.Tensor):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6, equal_nan=True)
        else:
            assert mine == theirs and type(mine) is type(theirs)


def copies(args):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in args]


@pytest.mark.parametrize("decompose", [False, True], ids=["training", "decomposed"])
@pytest.mark.parametrize("case", CASES)
@torch.no_grad()
def test_results_are_those_of_torch_at_every_size(case, decompose, tmp_path):
    make, inputs, dynamic_shapes = CASES[case]
    path = save(tmp_path / "model.pt2", make, inputs(6), dynamic_shapes, decompose)
    model, eager = load(path, strict=True), torch.export.load(path).module()
    core().reset()
    sizes = (6, 7, 2, 13, 1, 64, 31, 0) if case not in ("sizes", "data-dependent") else (6, 7, 2, 13, 3, 64, 31)
    for n in sizes:
        for _ in range(2):
            ours, theirs = copies(inputs(n)), copies(inputs(n))
            assert_equal(model(*ours), pytree.tree_leaves(eager(*theirs), is_leaf=lambda v: v is None))
            assert_equal(ours, theirs)  # inputs that the program changes
    stats = core().stats()
    assert (stats["recordings"], stats["hits"]) == (1, 2 * len(sizes) - 1) and "eager_calls" not in stats, (stats, model.explain())
    assert "specialisations" not in stats and stats["launches"] >= stats["hits"], stats


@torch.no_grad()
def test_static_sizes_are_kept(tmp_path):
    path = save(tmp_path / "model.pt2", Linear, (rows(3, 4),), None)
    model = load(path, strict=True)
    assert_equal(model(rows(3, 4)), [torch.export.load(path).module()(rows(3, 4))])
    with pytest.raises(RuntimeError, match=r"dim 0 of the input 'x' is 5, expected 3; export the program again"):
        model(rows(5, 4))


@torch.no_grad()
def test_an_assertion_of_the_program_that_fails_is_its_error(tmp_path):
    make, inputs, dynamic_shapes = CASES["data-dependent"]
    model = load(save(tmp_path / "model.pt2", make, inputs(6), dynamic_shapes))
    model(*inputs(6))
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression u0 >= 2"):
        model(torch.zeros(4))
    assert_equal(model(torch.ones(4)), [torch.arange(4) + 1, torch.nonzero(torch.ones(4)) + 1])


CALLS = {
    "too many rows": ((rows(65, 4),), r"dim 0 of the input 'x' is 65, expected \w+ with \w+ in 0\.\.64"),
    "another width": ((rows(3, 5),), "dim 1 of the input 'x' is 5, expected 4"),
    "rank": ((rows(3),), r"the input 'x' has 1 dims; the exported program takes 2 \(\w+, 4\)"),
    "dtype": ((rows(3, 4).double(),), "the input 'x' is of dtype Double, expected Float; convert it"),
    "device": ((rows(3, 4).to("meta"),), "the input 'x' is no strided tensor on the CPU"),
    "layout": ((rows(3, 4).to_sparse(),), "the input 'x' is no strided tensor on the CPU"),
    "number": ((3,), "the input 'x' is Int, expected a tensor"),
    "none": ((None,), "the input 'x' is None, expected a tensor"),
    "count": ((rows(3, 4), rows(3, 4)), r"the program takes 1 inputs \(x\), and 2 are given"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_does_not_fit_is_an_error(call, tmp_path):
    inputs, message = CALLS[call]
    model = load(save(tmp_path / "model.pt2", Linear, (rows(6, 4),), ({0: B},)))
    with pytest.raises(RuntimeError, match=message):
        model(*inputs)


@torch.no_grad()
def test_equal_and_derived_sizes_are_compared(tmp_path):
    class Product(torch.nn.Module):
        def forward(self, x, y, z):
            return x @ y, z[::2] + x[:, 0]

    half = Dim("half", min=3, max=50)
    path = save(tmp_path / "model.pt2", Product, (rows(6, 5), rows(5, 6), rows(12)), ({0: half}, {1: half}, {0: 2 * half}))
    model = load(path, strict=True)
    assert_equal(model(rows(7, 5), rows(5, 7), rows(14)), torch.export.load(path).module()(rows(7, 5), rows(5, 7), rows(14)))
    with pytest.raises(RuntimeError, match=r"dim 1 of the input 'y' is 8, expected \w+ = 7"):
        model(rows(7, 5), rows(5, 8), rows(14))
    with pytest.raises(RuntimeError, match=r"dim 0 of the input 'z' is 15, expected \(2\*\w+\) = 14"):
        model(rows(7, 5), rows(5, 7), rows(15))
    with pytest.raises(RuntimeError, match=r"is 2, expected \w+ with \w+ in 3\.\.50"):
        model(rows(2, 5), rows(5, 2), rows(4))


# --- files

def rewritten(source, target, change):
    """The archive with its entries as `change(name, bytes)` wants them; None leaves one out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = change(name.split("/", 1)[1], old.read(name))
            if data is not None:
                new.writestr(name, data)
    return target


def edited(entry, *pairs):
    """A change that replaces text in one entry."""
    def change(name, data):
        if name != entry:
            return data
        for old, new in pairs:
            assert old.encode() in data, (old, data)
            data = data.replace(old.encode(), new.encode(), 1)
        return data
    return change


MODEL, WEIGHTS = "models/model.json", "data/weights/model_weights_config.json"
FILES = {
    "no format": (lambda name, data: None if name == "archive_format" else data, "no torch.export archive"),
    "format": (edited("archive_format", ("pt2", "zip")), 'archive_format "zip"'),
    "byte order": (edited("byteorder", ("little", "big")), 'byteorder "big"'),
    "no model": (lambda name, data: None if name == MODEL else data, "no exported program"),
    "no weight": (lambda name, data: None if name == "data/weights/weight_0" else data, 'weight_0" is missing'),
    "short weight": (lambda name, data: data[:-4] if name == "data/weights/weight_0" else data, r"beyond its data \(124 bytes\)"),
    "not JSON": (edited(MODEL, ("{", "[")), "at byte"),
    "schema": (edited(MODEL, ('"major": 8', '"major": 7')), "schema has version 7.*save it again with PyTorch 2.13"),
    "operator": (edited(MODEL, ("torch.ops.aten.relu.default", "torch.ops.aten.rely.default")), "aten::rely.default is not registered"),
    "file": (edited(MODEL, ("torch.ops.aten.relu.default", "torch.ops.aten.from_file.default")), "opens files"),
    "call": (edited(MODEL, ("torch.ops.aten.relu.default", "os.system")), "no operator of torch"),
    "argument": (edited(MODEL, ('"inputs": [{"name": "self"', '"inputs": [{"name": "shelf"')), 'has no argument "shelf"'),
    "pickled weight": (edited(WEIGHTS, ('"use_pickle": false', '"use_pickle": true')), "pickle, which is never opened"),
    "huge sizes": (edited(WEIGHTS, ('"sizes": [{"as_int": 8}', '"sizes": [{"as_int": 4611686018427387904}')), "no tensor's|sizes overflow"),
    "negative sizes": (edited(WEIGHTS, ('"sizes": [{"as_int": 8}', '"sizes": [{"as_int": -8}')), "no tensor's"),
    "negative offset": (edited(WEIGHTS, ('"storage_offset": {"as_int": 0}', '"storage_offset": {"as_int": -1}')), "no tensor's"),
    "dtype": (edited(WEIGHTS, ('"dtype": 7', '"dtype": 99')), "dtype 99 is unknown"),
    "device": (edited(WEIGHTS, ('"type": "cpu"', '"type": "cuda"')), "export the program on the CPU"),
}


@pytest.mark.parametrize("file", FILES)
def test_a_file_that_does_not_fit_is_an_error_that_names_it(file, tmp_path):
    change, message = FILES[file]
    good = save(tmp_path / "model.pt2", Linear, (rows(6, 4),), ({0: B},))
    bad = rewritten(good, tmp_path / "bad.pt2", change)
    with pytest.raises(RuntimeError, match=message) as raised:
        load(bad)
    assert str(raised.value).startswith(f"escapement: '{bad}' ") and "\n" not in str(raised.value)


def test_a_damaged_file_is_an_error_or_the_same_program(tmp_path):
    """Bytes changed anywhere: an entry that is read has a checksum."""
    bytes_ = save(tmp_path / "model.pt2", Linear, (rows(6, 4),), ({0: B},)).read_bytes()
    expected = load(tmp_path / "model.pt2", disable=True)(rows(6, 4))[0]
    bad, generator = tmp_path / "bad.pt2", torch.Generator().manual_seed(7)
    errors = 0
    for _ in range(400):
        at = int(torch.randint(len(bytes_), (), generator=generator))
        flipped = bytes_[at] ^ int(torch.randint(1, 256, (), generator=generator))
        bad.write_bytes(bytes_[:at] + bytes([flipped]) + bytes_[at + 1:])
        try:
            assert torch.equal(load(bad, disable=True)(rows(6, 4))[0], expected)
        except RuntimeError as error:
            errors += 1
            assert str(error).startswith(f"escapement: '{bad}' ")
    assert errors > 100
    for length in range(0, len(bytes_), 97):
        bad.write_bytes(bytes_[:length])
        with pytest.raises(RuntimeError, match="escapement: '"):
            load(bad)


def test_compressed_entries_are_refused(tmp_path):
    good = save(tmp_path / "model.pt2", Linear, (rows(6, 4),), ({0: B},))
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(tmp_path / "bad.pt2", "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(RuntimeError, match="compressed entry"):
        load(tmp_path / "bad.pt2")


def test_a_graph_inside_an_operator_is_refused_by_name(tmp_path):
    class Branch(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, (x,))

    path = save(tmp_path / "model.pt2", Branch, (rows(3),), None)
    with pytest.raises(RuntimeError, match="torch.ops.higher_order.cond.*an operator with a graph inside"):
        load(path)


def test_blocks_under_no_grad_are_exported_as_such(tmp_path):
    make, inputs, dynamic_shapes = CASES["no-grad blocks"]
    with zipfile.ZipFile(save(tmp_path / "model.pt2", make, inputs(6), dynamic_shapes)) as archive:
        assert archive.read("model/models/model.json").count(b"higher_order.wrap_with_set_grad_enabled") == 2


class BrokenAutocast(torch.nn.Module):
    def forward(self, x, rows):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.matmul(x, x.t()) * x.index_select(0, rows).sum()   # which raises for a row that is not there


def test_an_error_inside_an_autocast_block_leaves_the_thread_as_it_was(tmp_path):
    path = save(tmp_path / "model.pt2", BrokenAutocast, (rows(6, 4), torch.tensor([3])), ({0: Dim.AUTO}, None))
    with zipfile.ZipFile(path) as archive:
        assert b"higher_order.wrap_with_autocast" in archive.read("model/models/model.json")
    model = load(path)
    for row in (3, 7, 4, 7):
        if row == 7:
            with pytest.raises((RuntimeError, IndexError)):
                model(rows(6, 4), torch.tensor([row]))
        else:
            assert model(rows(6, 4), torch.tensor([row]))[0].dtype == torch.bfloat16
        assert not torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") == torch.bfloat16


@pytest.mark.parametrize("change, message", [
    (('"as_bool": true', '"as_int": 1'), "expected a truth value"),
    (('"as_scalar_type": 13', '"as_scalar_type": 7'), "bfloat16 or float16"),
    (("torch.ops.higher_order.wrap_with_autocast", "escapement.enter_autocast"), "is no operator"),
])
def test_an_autocast_block_that_is_none_is_refused(change, message, tmp_path):
    good = save(tmp_path / "model.pt2", BrokenAutocast, (rows(6, 4), torch.tensor([3])), ({0: Dim.AUTO}, None))
    bad = rewritten(good, tmp_path / "bad.pt2", edited(MODEL, change))
    with pytest.raises(RuntimeError, match=message):
        load(bad)


def test_an_unknown_option_is_refused(tmp_path):
    path = save(tmp_path / "model.pt2", Linear, (rows(6, 4),), ({0: B},))
    with pytest.raises((RuntimeError, ValueError), match="strict"):
        load(path, strikt=True)


# --- whole models, and programs without Python

@pytest.mark.slow
@torch.no_grad()
def test_bert_runs_from_one_recording(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(vocab_size=300, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                                     max_position_embeddings=128)

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.BertModel(config)

        def forward(self, ids, mask):
            out = self.model(input_ids=ids, attention_mask=mask)
            return out.last_hidden_state, out.pooler_output

    def inputs(batch, length):
        mask = torch.rand(batch, length, generator=seeded(batch, length)) > 0.3
        mask[:, 0] = True
        return rows(batch, length, dtype=torch.long), mask.long()

    dims = {0: Dim("batch", max=64), 1: Dim("length", max=128)}
    path = save(tmp_path / "model.pt2", Bert, inputs(2, 17), (dims, dims))
    model, eager = load(path, strict=True), torch.export.load(path).module()
    core().reset()
    for batch, length in ((2, 17), (1, 17), (3, 1), (7, 13), (1, 1), (64, 5), (4, 128)):
        assert_equal(model(*inputs(batch, length)), eager(*inputs(batch, length)))
    assert core().stats()["recordings"] == 1 and core().stats()["hits"] == 6


def test_a_program_in_cpp_serves_it_without_python(tmp_path):
    program = Path(os.environ.get("ESCAPEMENT_BUILD", ""), "tests", "embedding")
    if not program.is_file():
        pytest.skip("needs the build folder")
    path = save(tmp_path / "model.pt2", Linear, (rows(6, 4),), ({0: B},))
    sizes = (6, 7, 1, 13, 64)
    done = subprocess.run([program, path, *map(str, sizes)], capture_output=True, text=True, timeout=600)
    *sums, explained, threads = done.stdout.splitlines()
    assert done.returncode == 0 and threads == "threads agree", done.stdout + done.stderr
    eager = torch.export.load(path).module()
    expected = [eager(torch.arange(n * 4).reshape(n, 4).float() / 7).sum().item() for n in sizes]
    assert [float(s) for s in sums] == pytest.approx(expected, rel=1e-5)
    assert json.loads(explained)["recordings"] == 1
    refused = subprocess.run([program, path, "65"], capture_output=True, text=True, timeout=600)
    assert refused.returncode == 1 and re.search("is 65, expected", refused.stdout)


# --- conditions under which the program was exported

class Branches(torch.nn.Module):
    """Asks for sizes and an integer while it is exported; the file has the side that was taken."""

    def forward(self, x, pair, k: int):
        y, more = pair
        if x.shape[0] % 2 == 0:
            return x * 2
        if y.numel() > 2 * k:
            x = x + 1
        if max(y.shape[0], more["z"].shape[0]) == y.shape[0]:
            x = x * 3
        return x.chunk(2)[1] + k


def branches(n, m, k, rest=2):
    return rows(n, 3), (rows(m, 2), {"z": rows(rest)}), k


AUTO = Dim.AUTO
BRANCH_SHAPES = {"x": {0: AUTO}, "pair": ({0: AUTO}, {"z": {0: AUTO}}), "k": AUTO}


@pytest.mark.parametrize("keywords", [False, True], ids=["positional", "keywords"])
@torch.no_grad()
def test_conditions_of_the_export_hold_at_every_call(keywords, tmp_path):
    example = branches(7, 11, 3)
    args, kwargs = (example[:1], dict(zip(("pair", "k"), example[1:]))) if keywords else (example, {})
    torch.export.save(torch.export.export(Branches(), args, kwargs, dynamic_shapes=BRANCH_SHAPES), tmp_path / "model.pt2")
    model, theirs = load(tmp_path / "model.pt2", strict=True), torch.export.load(tmp_path / "model.pt2").module()
    core().reset()
    outcomes = set()
    for n, m, k, rest in [(7, 11, 3, 2), (5, 13, 4, 13), (9, 8, 2, 3), (8, 11, 3, 2), (7, 5, 5, 2), (7, 11, 3, 12), (13, 17, 2, 0), (3, 9, 2, 1), (1, 9, 2, 1)]:
        x, pair, k = branches(n, m, k, rest)
        flat, refused = (x, pair[0], pair[1]["z"], k), False
        try:
            expected = theirs(x, pair=pair, k=k) if keywords else theirs(x, pair, k)
        except AssertionError as error:
            assert "Guard failed" in str(error)
            refused = True
        if refused:
            with pytest.raises(RuntimeError, match=r"the program was exported for calls with .*, and L\['.*export the program again"):
                model(*flat)
        else:
            assert_equal(model(*flat), [expected])
        outcomes.add(refused)
    assert outcomes == {False, True} and core().stats()["recordings"] == 1


@torch.no_grad()
def test_a_condition_that_is_not_arithmetic_is_refused_at_loading(tmp_path):
    path = tmp_path / "model.pt2"
    torch.export.save(torch.export.export(Branches(), branches(7, 11, 3), dynamic_shapes=BRANCH_SHAPES), path)
    for new in ("__import__('os').getpid() % 2", "L['other'].size()[0] % 2", "L['x'].shape[0] % 2", "L['k'].size()[0] % 2"):
        bad = rewritten(path, tmp_path / "bad.pt2", edited(MODEL, ("L['x'].size()[0] % 2", new)))
        with pytest.raises(RuntimeError, match="guards_code: "):
            load(bad)
