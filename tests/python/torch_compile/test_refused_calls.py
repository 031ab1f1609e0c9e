"""What is refused for one kind of call keeps no other kind from being compiled, whatever code they share, and each call that runs eagerly is counted."""

import concurrent.futures
import threading

import pytest
import torch
from escapement.ledger import FAILED, LEDGER, MANY_KINDS, SPENT
from escapement.limits import COMPILES, KINDS
from escapement.report import Report
from escapement.steering import refusals
from escapement.steering.keys import number_of
from torch import nn
from torch.overrides import TorchFunctionMode

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
DTYPES, SHAPES = (torch.float32, torch.float64, torch.bfloat16), ((3,), (2, 3), (2, 2, 3), (2, 2, 2, 3))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 8)

    def forward(self, x):
        return self.linear(x).relu()


def compiled(function, **options):
    return torch.compile(function, backend="escapement", **options)


def flat():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU())


def images():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU()).eval()


def serves(function, make, sizes, compiles=1, eager=None):
    """Calls it with each size: the answers are eager's, and all of the calls ran compiled, with as many compiles."""
    before, ran = counted(), escapement.stats().get("calls", 0)
    for n in sizes:
        x = make(n)
        torch.testing.assert_close(function(x), (eager or function._orig_mod)(x), rtol=1e-5, atol=1e-5)
    after = counted()
    assert after["compiles"] - before["compiles"] == compiles and escapement.stats().get("calls", 0) - ran == len(sizes)
    assert [after[name] - before[name] for name in ("refused_calls", "skipped_frames")] == [0, 0]


def counted():
    return escapement.stats()["dynamo"]


def reasons():
    return {why: calls for function in LEDGER.functions() for why, calls in function.refused.items()}


def rows(width):
    return lambda n: torch.randn(n, width)


def squares(n):
    return torch.randn(2, 3, n, n)


def misuse(function, calls=3):
    for n in range(3, 3 + calls):
        with pytest.raises(RuntimeError):
            function(torch.randn(n, 7))


# --- (A) what ends for one ends for no other

@pytest.mark.parametrize("make", [Net, flat])
@torch.no_grad()
def test_wrong_calls_keep_neither_right_ones_nor_other_modules_from_being_compiled(make):
    first = compiled(make())
    misuse(first)
    assert counted()["skipped_frames"] == 3 and not counted()["compiles"]
    serves(first, rows(6), range(1, 21))
    serves(compiled(make()), rows(6), range(1, 21), compiles=0)   # one version serves both
    serves(compiled(images()), squares, range(5, 25))


@torch.no_grad()
def test_wrong_calls_are_tried_ever_more_rarely_and_all_of_them_are_counted():
    function = compiled(Net())
    misuse(function, 40)
    assert counted()["skipped_frames"] == 3 + 1 + 1 + 1   # and behind 0, 3 and 15 calls at rest
    assert counted()["skipped_frames"] + counted()["refused_calls"] == 40 and set(reasons()) == {FAILED}
    for n in range(1, 64):
        function(torch.randn(n, 6))
    assert counted()["compiles"] == 1
    serves(function, rows(6), range(2, 10), compiles=0)


@torch.no_grad()
def test_a_spent_budget_is_the_kinds_own_and_each_call_beyond_it_is_counted():
    function = compiled(lambda x, word: x.relu() * len(word) if word < "d" else x.relu() - len(word))
    for i in range(60):
        function(torch.randn(3 + i % 4), "abcdef"[i % 6])
    assert counted()["compiles"] == COMPILES and reasons() == {SPENT: 30}
    assert f"run eagerly: 30 calls that no version takes ({SPENT})" in str(Report(LEDGER.functions()))
    for i in range(20):
        function(torch.randn(3 + i % 4, 5), "a")
    assert counted()["compiles"] == COMPILES + 1 and counted()["refused_calls"] == 30


@torch.no_grad()
def test_what_cannot_be_compiled_keeps_no_other_model_from_it():
    class Talks(nn.Module):
        def __init__(self, aloud):
            super().__init__()
            self.linear, self.aloud = nn.Linear(6, 8), aloud

        def forward(self, x):
            for _ in range(2):
                if self.aloud:
                    print(end="")   # a graph break in a loop: Dynamo gives up this frame
                x = x.relu()
            return self.linear(x)

    aloud, silent = compiled(Talks(True)), compiled(Talks(False))
    for n in range(2, 12):
        aloud(torch.randn(n, 6))
    assert counted()["skipped_frames"] == 2 and counted()["refused_calls"] == 8
    serves(silent, rows(6), range(2, 10))


@torch.no_grad()
def test_a_function_that_fails_for_each_kind_of_call_is_tried_ever_more_rarely():
    def talks(x, aloud=True):
        for _ in range(2):
            if aloud:
                print(end="")
            x = x.relu()
        return x

    function = compiled(talks)
    for rank in range(1, 21):
        function(torch.ones([2] * rank))
    assert counted()["skipped_frames"] == 3 + 1 + 1 and counted()["skipped_frames"] + counted()["refused_calls"] == 20
    for n in range(2, 40):
        function(torch.ones(3, n, dtype=torch.float64), False)
    assert counted()["compiles"] == 1


@torch.no_grad()
def test_a_module_without_operators_or_a_call_without_tensors_ends_no_other_module():
    nothing, dropped = compiled(nn.Identity()), compiled(nn.Sequential(nn.Dropout(0.0)).eval())
    for n in (3, 5):
        nothing(torch.randn(n, 6)), dropped(torch.randn(n, 6)), nothing(n)
    serves(compiled(flat()), rows(6), range(2, 10))


def test_a_new_object_at_the_address_of_a_dead_one_has_a_budget_of_its_own():
    first = nn.Identity()
    address, number = id(first), number_of(first)
    del first
    later = [nn.Identity()]
    while id(later[-1]) != address and len(later) < 1000:
        later.append(nn.Identity())
    if id(later[-1]) != address:
        pytest.skip("the address is not used again")
    assert number_of(later[-1]) != number and number_of(later[-1]) == number_of(later[-1])


# --- (B) torch's limits

def kind_of(x):
    return (x * 2).sum(-1).relu()


@pytest.mark.parametrize("fullgraph", [False, True])
@torch.no_grad()
def test_torchs_limit_counts_the_versions_of_one_kind_of_call(fullgraph):
    function = compiled(kind_of, fullgraph=fullgraph)
    for dtype in DTYPES:
        for shape in SHAPES:
            serves(function, lambda n: torch.randn(shape).to(dtype), range(5), eager=kind_of)   # noqa: B023
    assert counted()["compiles"] == len(DTYPES) * len(SHAPES) > torch._dynamo.config.recompile_limit


@torch.no_grad()
def test_many_modules_compiled_by_themselves():
    layers = [compiled(nn.Sequential(*[nn.Linear(6, 6), nn.ReLU()][:1 + i % 2], *[nn.Tanh()] * (i // 2))) for i in range(12)]
    for layer in layers:
        serves(layer, rows(6), (3, 5, 2))


@torch.no_grad()
def test_kinds_of_calls_end_and_those_of_another_compile_do_not(monkeypatch):
    monkeypatch.setattr("escapement.ledger.KINDS", 2)
    function = compiled(kind_of)
    for shape in SHAPES:
        for _ in range(5):
            function(torch.randn(shape))
    assert counted()["compiles"] == 2 < KINDS and reasons() == {MANY_KINDS: 10}
    serves(compiled(lambda x: kind_of(x) + 1), lambda n: torch.randn(2, 2, 2, n), range(2, 7), eager=lambda x: kind_of(x) + 1)


@torch.no_grad()
def test_a_limit_that_the_user_sets_holds_and_what_it_ends_is_counted():
    with torch._dynamo.config.patch(recompile_limit=1):
        function = compiled(kind_of)
        for shape in SHAPES[:2] * 5:
            function(torch.randn(shape))
    assert counted()["compiles"] == 1 and reasons() == {refusals.LIMIT: 5}
    serves(function, lambda n: torch.randn(2, 2, n), range(2, 7), eager=kind_of)   # another kind, without that setting


@torch.no_grad()
def test_versions_of_living_models_end_where_torch_says_and_compiles_of_dead_ones_do_not_count():
    with torch._dynamo.config.patch(accumulated_recompile_limit=3):
        for fold in range(5):
            torch._dynamo.eval_frame.reset_code(kind_of.__code__)
            serves(compiled(kind_of), lambda n: torch.randn(2, n), range(2, 5), eager=kind_of)
        kept = [compiled(kind_of) for _ in SHAPES]
        for function, shape in zip(kept, SHAPES):
            for _ in range(3):
                function(torch.randn(shape))
    assert reasons() == {refusals.LIMIT: 3}


@torch.no_grad()
def test_without_dynamic_sizes_torchs_limit_is_counted_too():
    function = compiled(kind_of, dynamic=False)
    for n in range(1, 21):
        function(torch.randn(2, n))
    limit = torch._dynamo.config.recompile_limit
    assert counted()["compiles"] == limit and reasons() == {refusals.LIMIT: 20 - limit}
    serves(compiled(kind_of), rows(6), range(2, 7), eager=kind_of)


# --- (C) what parameters are is part of the kind

def test_layers_that_are_unfrozen_one_by_one():
    model = nn.Sequential(*[nn.Linear(6, 6) for _ in range(6)])
    function = compiled(model.requires_grad_(False))
    for layer in model:
        layer.requires_grad_(True)
        for n in range(2, 10):
            function(torch.randn(n, 6)).sum().backward()
    assert counted()["compiles"] == 6 and counted()["refused_calls"] == 0 and not counted()["fallbacks"]


@pytest.mark.parametrize("how", ["module", "method", "closure", "global"])
@torch.no_grad()
def test_a_model_of_tokens_that_is_cast(how):
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 8), nn.ReLU())
    globals()["of_tokens"] = model
    function = compiled({"module": model, "method": model.forward, "closure": lambda x: model(x) + 1, "global": lambda x: of_tokens(x) + 1}[how])   # noqa: F821
    for dtype in (torch.float32, torch.bfloat16, torch.float64, torch.float16, torch.float32):
        model.to(dtype)
        for n in (3, 5, 4):
            assert function(torch.randint(10, (2, n))).dtype == dtype
    assert counted()["compiles"] == 4 and counted()["refused_calls"] == 0


# --- what asking costs others

@torch.no_grad()
def test_a_mode_sees_what_it_sees_in_eager():
    class Names(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return function(*args, **(kwargs or {}))

    function = compiled(kind_of)
    for shape in SHAPES:
        seen = []
        with Names():
            kind_of(torch.randn(shape))
        wanted, seen = seen, []
        with Names():
            function(torch.randn(shape))
        assert seen in ([], wanted[:1], wanted)   # what is compiled, Dynamo has traced with the mode


@pytest.mark.parametrize("method", ("__len__", "__iter__", "items", "__getattribute__", "__str__"))
@pytest.mark.parametrize("base", (dict, list, tuple, object), ids=lambda base: base.__name__)
def test_a_key_asks_no_class_of_the_programs_own(base, method):
    def fails(self, *given):
        raise NotImplementedError("the program's own")

    members = {method: fails if method != "__getattribute__" else lambda self, name: object.__getattribute__(self, name) if name == "__class__" else fails(self)}
    value = type("Own", (base,), members)()
    held = {value: 1.5} if base in (tuple, object) and method == "__str__" else {"own": value}
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x * (2 if held is not None else 3), backend="escapement")
    for rows in (2, 3, 1, 5):
        assert torch.equal(compiled(torch.ones(rows, 4)), torch.full((rows, 4), 2.0))


@pytest.mark.parametrize("fullgraph", (False, True))
def test_a_function_that_is_disabled_but_for_what_it_calls(fullgraph):
    """Torch looks who called it: nothing of ours may stand between."""
    ran = []

    def called(x):
        return x * 2

    inner = torch.compile(called, backend="escapement", fullgraph=fullgraph)

    @torch.compiler.disable(recursive=False)
    def between(x):
        ran.append(torch.compiler.is_compiling())
        return inner(x) + 1

    torch._dynamo.reset()
    outer = torch.compile(lambda x: between(x + 1) * 3, backend="escapement")
    for rows in (3, 5, 1):
        assert torch.equal(outer(torch.ones(rows)), torch.full((rows,), 15.0))
    assert ran == [False] * 3


def test_threads_that_come_together_spend_one_compile():
    """Each would compile the same version, and with the budget spent on one of them the function's other branch would run eagerly for ever."""
    def body(x):
        return (x * 2).sum(-1) if x.shape[0] > 4 else x * 3

    compiled, together = torch.compile(body, backend="escapement"), threading.Barrier(8)

    def first_call(number):
        x = torch.ones(2 + number % 3, 3)
        together.wait()
        return torch.equal(compiled(x), body(x))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(first_call, range(8)))
    assert LEDGER.counters()["compiles"] == 1
    refused = LEDGER.counters()["refused_calls"]
    assert refused <= 7
    for size in (3, 9, 4, 6, 1, 12):
        assert torch.equal(compiled(torch.ones(size, 3)), body(torch.ones(size, 3)))
    seen = LEDGER.counters()
    assert (seen["compiles"], seen["refused_calls"], seen["causes"]) == (2, refused, {"first": 1, "branch": 1})
