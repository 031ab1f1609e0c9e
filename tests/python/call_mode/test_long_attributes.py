"""Data that hangs on the objects of a program costs nothing where no code names it, and counts where some does."""

import pytest
import torch

import escapement
from escapement.limits import LONG, VISITED
from escapement.tracer.search import Search
from escapement.tracer.watch import Watch

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


class Held:
    def __init__(self, value):
        self.value, self.weight = value, torch.ones(())

    def gain(self):
        return self.value


class Trainer:
    def __init__(self, count):
        self.samples = [(f"path {i}", i, [Held(1.0)]) for i in range(count)]
        self.by_name = {f"path {i}": Held(1.0) for i in range(count)}
        self.scale = 2.0

    def step(self, x):
        return x * self.scale

    def of_sample(self, x):
        return x * self.samples[-1][2][0].gain() * self.by_name["path 3"].weight

    def by_computed_name(self, x):
        return x * getattr(self, "sam" + "ples"[:4])[-1][2][0].value


class Visits(Search):
    count = 0

    def _visit(self, value, depth):
        Visits.count += 1
        return super()._visit(value, depth)


def visits(function, monkeypatch):
    monkeypatch.setattr("escapement.tracer.watch.Search", Visits)
    Visits.count = 0
    found = Watch(function)
    return Visits.count, found.plain.unknown


def test_what_nobody_names_is_not_searched(monkeypatch):
    few, many = Trainer(2), Trainer(20 * LONG)
    assert visits(many.step, monkeypatch)[0] <= visits(few.step, monkeypatch)[0]
    assert visits(many.of_sample, monkeypatch)[0] > 20 * LONG


def test_a_search_has_an_end(monkeypatch):
    much = Trainer(VISITED // 2)
    assert visits(much.step, monkeypatch)[1] is None
    assert visits(much.of_sample, monkeypatch)[1] is not None


@pytest.mark.parametrize("count", [LONG // 2, LONG + 1, 4 * LONG])
@pytest.mark.parametrize("name", ["step", "of_sample", "by_computed_name"])
@torch.no_grad()
def test_each_change_is_noticed(name, count):
    trainer = Trainer(count)
    program = getattr(trainer, name)
    function = escapement.jit(program)
    for value in (5.0, 9.0, 5.0):
        trainer.scale = trainer.samples[-1][2][0].value = value
        trainer.by_name["path 3"].weight = torch.tensor(value)
        for size in (3, 1, 0, 7):
            x = torch.rand(size)
            assert torch.equal(function(x), program(x)), value
    assert not function.info()["eager"]
