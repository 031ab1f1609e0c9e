"""escapement.compile of functions whose graph breaks at a tensor's value: they go on in replay mode, where no gradients are wanted."""

import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


def branch(x):
    y = torch.softmax(x * 2, -1)
    return y + 1 if y.sum() > 3.5 else y - 1   # a row sums to 1


def count(x):
    y = torch.softmax(x * 2, -1)
    return [y * 2] * int(y.sum().round())


def rows(x):
    y = torch.softmax(x * 2, -1)
    return y * 2, sum(y.sum(-1).tolist())


def steps(x):
    x.add_(1)
    while x.sum() < 50:
        x.mul_(1.5)
    return x + 1


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        y = self.layer(x)
        return y * 2 if y.sum() > 0 else y


def inputs(call, sizes=(2, 3, 4, 5)):
    return torch.rand(sizes[call % len(sizes)], 4, generator=torch.Generator().manual_seed(call))


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("program", [branch, rows, steps], ids=lambda program: program.__name__)
def test_it_goes_on_in_replay_mode(program):
    compiled = escapement.compile(program)
    sizes = (5, 1, 2, 3, 7, 127) if program is steps else (5, 0, 1, 2, 3, 7, 127)   # of nothing the sum stays 0, and it never ends
    with torch.no_grad():
        for call in range(30):
            ours, theirs = inputs(call, sizes), inputs(call, sizes)
            same(compiled(ours), program(theirs))
            same(ours, theirs)
    stats = escapement.stats()
    assert stats["jit"]["eager"]["graph_break"] >= 29 and stats["dynamo"]["compiles"] <= 3
    assert stats["hits"] > 20 and stats["launches"] > 20 and "specialisations" not in stats


def test_what_does_not_break_stays():
    compiled = escapement.compile(lambda x: torch.softmax(x, -1) + 1)
    for call in range(10):
        same(compiled(inputs(call)), torch.softmax(inputs(call), -1) + 1)
    assert "graph_break" not in escapement.stats()["jit"]["eager"]


def test_a_number_that_is_no_branch():
    compiled = escapement.compile(count)
    for call in range(10):
        same(compiled(inputs(call)), count(inputs(call)))


def test_a_module():
    model = Model()
    compiled = escapement.compile(model)
    with torch.no_grad():
        for call in range(12):
            same(compiled(inputs(call)), model(inputs(call)))
    assert model.calls == 24 and escapement.stats()["jit"]["eager"]["graph_break"] >= 10
    assert isinstance(compiled, torch.nn.Module) and compiled.state_dict().keys() == model.state_dict().keys() or compiled._orig_mod is model


def test_gradients_stay_with_dynamo():
    model = Model()
    compiled = escapement.compile(model)
    for call in range(6):
        loss = compiled(inputs(call)).sum()
        loss.backward()
        ours = model.layer.weight.grad.clone()
        model.zero_grad()
        model(inputs(call)).sum().backward()
        same(ours, model.layer.weight.grad)
        model.zero_grad()
    before = escapement.stats()["jit"]["eager"].get("graph_break", 0)
    with torch.no_grad():
        same(compiled(inputs(1)), model(inputs(1)))
    assert escapement.stats()["jit"]["eager"]["graph_break"] == before + 1


def test_gradients_that_nobody_sees_coming():
    """The function reaches the parameters by a name of its own: replay mode runs what needs a tape at once."""
    model = Model()
    compiled = escapement.compile(lambda x: model(x) * 2)
    for call in range(6):
        compiled(inputs(call)).sum().backward()
        ours = model.layer.weight.grad.clone()
        model.zero_grad()
        (model(inputs(call)) * 2).sum().backward()
        same(ours, model.layer.weight.grad)
        model.zero_grad()


def test_inside_another_compiled_function():
    inner = escapement.compile(branch)
    with torch.no_grad():
        inner(inputs(0))
        outer = torch.compile(lambda x: inner(x) * 2, backend="escapement")
        for call in range(6):
            same(outer(inputs(call)), branch(inputs(call)) * 2)


def test_the_report_says_so():
    compiled = escapement.compile(branch)
    with torch.no_grad():
        compiled(inputs(0))
        text = str(escapement.explain(compiled)(inputs(1)))
    assert "replay mode: torch.compile breaks the graph at a tensor's value" in text and "test_continued.py" in text


def test_a_wish_for_one_graph_is_kept():
    with pytest.raises(Exception, match="(?i)data.dependent"):
        escapement.compile(branch, fullgraph=True)(inputs(0))
