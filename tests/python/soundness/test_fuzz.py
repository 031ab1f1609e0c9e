"""A fixed slice of ./dev fuzz, the corpus of what it found before, and that the fuzzer itself works: it makes the programs that it
should, sees a wrong answer, a crash and a hang, and cuts them down."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

FUZZ = Path(__file__).parents[2] / "fuzz"
sys.path.insert(0, str(FUZZ))
import check  # noqa: E402
import children  # noqa: E402
import fuzzer  # noqa: E402
import opinfo  # noqa: E402
from findings import Findings  # noqa: E402
from generate import generated  # noqa: E402
from known import OPERATORS, SEEDS  # noqa: E402
from program import Kept  # noqa: E402
from templates import TEMPLATES  # noqa: E402
from ways import WAYS, Way  # noqa: E402

CORPUS = sorted((FUZZ / "corpus").glob("*.py"))
# Seeds of each kind. ./dev fuzz takes others, for longer.
SLICE = {"call": range(1000, 1100), "replay": range(1000, 1100), "guards": range(1000, 1020), "states": range(1000, 1015),
         "states-replay": range(1000, 1015)}
CASES = {"call": 150, "replay": 150, "compile": 12}   # of OpInfo's
pytestmark = pytest.mark.skipif(not hasattr(WAYS["call"], "make"), reason="needs the compiled core")


@pytest.fixture(scope="module", autouse=True)
def warm():
    before = torch.get_num_threads()
    fuzzer.warm()
    yield
    torch.set_num_threads(before)
    torch._dynamo.reset()


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_was_found_is_mended(path):
    kept = Kept(path)
    assert [found for way in kept.ways or ("call", "replay") if (found := fuzzer.outcome(kept, way))] == []


@pytest.mark.parametrize("kind", SLICE)
def test_random_programs(kind, tmp_path):
    """In a process of its own: the fuzzer forks, and where other tests have run operators on several threads a child would wait for those."""
    ran = subprocess.run([sys.executable, __file__, kind, tmp_path], capture_output=True, text=True, timeout=500)
    assert (ran.returncode, ran.stderr[-3000:]) == (0, "")


def run_slice(kind, folder):
    fuzzer.warm()
    made, seeds = fuzzer.Fuzzer(Findings(folder), say=lambda *_, **__: None, most=2), SLICE[kind]
    for first, count in without(seeds):
        made.run(kind, first, count)
    assert made.programs[kind] >= len(seeds) - len(SEEDS)
    found = {name: (folder / entry["file"]).read_text() for name, entry in made.findings.known.items()}
    assert not found, "\n".join(found.values())   # a process of its own: what is not said here, nobody sees


def without(seeds):
    """The stretches of seeds between those of known.py, as (first, how many)."""
    edges = [seeds.start - 1, *sorted(SEEDS.keys() & set(seeds)), seeds.stop]
    return [(one + 1, other - one - 1) for one, other in zip(edges, edges[1:]) if other - one > 1]


@pytest.mark.parametrize("way", CASES)
def test_samples_of_operators(way):
    cases = [case for case in opinfo.cases()[:: len(opinfo.cases()) // CASES[way]] if case.split(" ")[0] not in OPERATORS]
    count, found = opinfo.differences(cases, way)
    assert count == len(cases) >= CASES[way] - len(OPERATORS) and [f"{one.kind}: {one.text}" for one in found] == []


# --- the fuzzer itself


class Wrong(Way):
    """Compiled by somebody who takes 3 for a special size."""

    name = "wrong"

    def make(self, function, options):
        def run(*args):
            if any(isinstance(a, torch.Tensor) and 3 in a.shape for a in args):
                self.fault(args)
            return function(*args)
        return run

    def fault(self, args):
        next(a for a in args if isinstance(a, torch.Tensor) and 3 in a.shape).zero_()


class Dies(Wrong):
    def fault(self, args):
        os.abort()


@pytest.mark.parametrize("way, kind", [(Wrong, ("values", "raises")), (Dies, ("crash",))])
def test_a_fault_is_found_and_cut_down(way, kind, monkeypatch, tmp_path):
    monkeypatch.setitem(WAYS, "wrong", way)
    made = fuzzer.Fuzzer(Findings(tmp_path), say=lambda *_, **__: None, most=1)
    made.run("wrong", 0, 8)
    [entry] = made.findings.known.values()
    assert entry["kind"] in kind and len(entry["steps"]) <= 1 and made.programs == {"wrong": 8}
    kept = Kept(tmp_path / entry["file"])
    assert check.compared(kept, "replay") is None and fuzzer.outcome(kept, "wrong") is not None


def test_a_hang_is_seen(monkeypatch):
    monkeypatch.setattr(children, "SILENCE", 0.3)
    monkeypatch.setattr(children, "write_stacks", lambda pid: "")   # which takes a debugger's time, and leaves a file
    with pytest.raises(children.Ended, match="hang"):
        list(children.child(lambda: (time.sleep(60), iter(()))[1]))


def test_programs_are_the_same_from_the_same_seed():
    assert generated(5) == generated(5) != generated(6)


def test_programs_reach_every_kind_of_step():
    programs = [generated(seed) for seed in range(400)]
    used = {step.kind for program in programs for step in program.steps}
    missing = [section for section, templates in TEMPLATES.items() if not used & {template.text for template in templates}]
    assert missing == [] and len(used) > 250
    assert sum(len(program.steps) for program in programs) > 800


if __name__ == "__main__":
    run_slice(sys.argv[1], Path(sys.argv[2]))
