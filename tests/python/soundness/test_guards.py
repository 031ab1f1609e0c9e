"""Soundness of the entry checks, from both sides. What they accept gives eager's result, for random programs at shapes, layouts and types
far from the recorded ones, with one recording. And each of them is needed: leaving out any one relation of a version (the option
drop_guard, which counts itself) makes some call wrong. The same of the checks inside, of what is born while the program runs. A relation that
no call needs would only cost recordings."""

import functools
import random

import pytest
import torch
from harness import core, region
from test_random_programs import argument, outcome, program, twin


def counted(name):
    return core().stats().get(name, 0)


# --- accepted means right

ODD = [lambda x: x, lambda x: x.t().contiguous().t(), lambda x: x.double(), lambda x: x.to(torch.int32), lambda x: x[:, ::2], lambda x: x[None],
       lambda x: x[0], lambda x: x[:1].expand(3, -1), lambda x: x[1:], lambda x: torch._neg_view(x), lambda x: x[:, :0]]


def same(ours, eager):
    if isinstance(eager, Exception) or isinstance(ours, Exception):
        return type(ours) is type(eager)
    if len(ours) != len(eager):
        return False
    for a, b in zip(ours, eager):
        if not isinstance(b, torch.Tensor):
            if a != b:
                return False
        elif a.shape != b.shape or a.dtype != b.dtype or any(n > 1 and p != q for n, p, q in zip(b.shape, a.stride(), b.stride()) if b.numel()):
            return False
        elif not torch.allclose(a.double(), b.double(), rtol=2e-5, atol=2e-5, equal_nan=True):
            return False
    return True


@pytest.mark.parametrize("seed", range(60))
def test_what_is_accepted_is_right(seed):
    numbers, generator = random.Random(seed), torch.Generator()
    generator.manual_seed(seed)
    function = program(numbers)
    made = region(function, 2, max_recordings=1)
    first = argument(numbers, generator, 5, 3), torch.randn(5, 3, generator=generator).round()
    for _ in range(70 if seed % 2 else 1):  # guards that are asked often become machine code
        made(*map(twin, first))
    for _ in range(12):
        rows, columns = numbers.choice([1, 2, 3, 5, 8, 33]), numbers.choice([1, 2, 3, 7, 16])
        x = numbers.choice(ODD)(argument(numbers, generator, rows, columns))
        y = numbers.choice(ODD)(torch.randn(numbers.choice([rows, 2]), columns, generator=generator).round())
        mine, theirs = (x, x.clone()) if x.is_neg() or 0 in x.stride() else (twin(x), twin(x))
        eager = outcome(function, theirs, y)
        ours = outcome(made, mine if not (x.is_neg() or 0 in x.stride()) else x.clone(), y)
        assert same(ours, eager), (seed, x.shape, x.stride(), x.dtype, y.shape, ours, eager)
    assert len(made.info()["versions"]) <= 1


def test_guards_of_a_hot_version_become_machine_code():
    made = region(lambda x, y: [x.view(-1, 2) * 2 + y.shape[0]] if x.shape[0] % 2 == 0 and y.shape[0] < 9 else [x + 1], 2)
    before = counted("guards_compiled")
    shapes = [(random.Random(i).randrange(0, 12), random.Random(-i).randrange(0, 12)) for i in range(150)]
    for i, (n, m) in enumerate([(4, 3), (3, 3), (4, 10)] + [(4, 3)] * 63 + shapes):
        x, y = torch.randn(n), torch.randn(m)
        even = n % 2 == 0 and m < 9
        assert torch.equal(made(x, y)[0], x.view(-1, 2) * 2 + m if even else x + 1), (i, n, m)
    info = made.info()
    assert counted("guards_compiled") > before and len(info["versions"]) == 3 and not info["fallbacks"]


# --- each relation is needed
#
# A case: a function of tensors, how its inputs are described, the arguments it is recorded with, and other arguments. Those are such
# that memory is not left, whatever a missing relation lets through.

def numbers(*shape, dtype=torch.float32):
    return torch.arange(1, 1 + functools.reduce(int.__mul__, shape, 1), dtype=dtype).reshape(shape)


def forms(make):
    """The calls that differ from the recorded one in what every tensor has: kind, dtype, rank, layout."""
    x = make()
    yield torch._neg_view(make())
    yield make().to(torch.int32)
    yield make().unsqueeze(-1)
    yield numbers(*x.shape, 2)
    if x.dim() > 1:
        yield make().transpose(0, -1).contiguous().transpose(0, -1)
    else:
        yield numbers(2 * x.numel())[::2]


def add_case():
    make = lambda: numbers(3, 4)  # noqa: E731
    others = [(x, make()) for x in forms(make)] + [(make(), y) for y in forms(make)]
    others += [(make(), numbers(6, 4)), (make(), numbers(3, 9)), (numbers(6, 4), make()), (numbers(3, 9), make())]
    return lambda x, y: [x + y], [("tensor", [])] * 2, (make(), make()), others


def branch_case():
    make = lambda: numbers(4, 3)  # noqa: E731

    def branches(x):
        return [x * 2 if x.shape[0] > 3 else x + 1]

    return branches, [("tensor", [])], (make(),), [(x,) for x in forms(make)] + [(numbers(2, 3),)]


def multiple_case():
    make = lambda: numbers(8)  # noqa: E731

    def pairs(x):
        return [x.view(-1, 2).sum(1) if x.shape[0] % 2 == 0 else x.sum()]

    return pairs, [("tensor", [])], (make(),), [(x,) for x in forms(make)] + [(numbers(9),)]


def constant_size_case():
    make = lambda: numbers(4, 3)  # noqa: E731
    return lambda x: [x * 2], [("tensor", (4, ("sym", 0)))], (make(),), [(x,) for x in forms(make)] + [(numbers(6, 3),)]


def expression_case():
    make = lambda: numbers(6)  # noqa: E731
    specs = [("tensor", (("sym", 0),)), ("tensor", (("mul", ("sym", 0), 2),))]
    others = [(x, numbers(12)) for x in forms(make)] + [(make(), y) for y in forms(lambda: numbers(12))] + [(make(), numbers(14))]
    return lambda x, y: [x.sum() + y], specs, (make(), numbers(12)), others


def transposed_case():
    make = lambda: numbers(4, 3).t()  # noqa: E731
    others = [(torch._neg_view(make()),), (make().to(torch.int32),), (make().unsqueeze(-1),)]
    others += [(numbers(8, 6)[:4, :3].t(),), (numbers(3, 8)[:, ::2],), (numbers(4, 6)[:, ::2].t(),), (make().contiguous(),),
               (numbers(40).as_strided((3, 4), (2, 3)),)]
    return lambda x: [x * 2], [("tensor", [])], (make(),), others


def stepped_case():
    make = lambda: numbers(3, 8)[:, ::2]  # noqa: E731
    others = [(torch._neg_view(make()),), (numbers(3, 8, dtype=torch.int32)[:, ::2],), (make().unsqueeze(-1),), (numbers(4, 6)[:, ::2].t(),)]
    return lambda x: [x * 2], [("tensor", [])], (make(),), others


def written_case():
    make = lambda: numbers(7)  # noqa: E731

    def together():
        memory = numbers(20)
        return memory[0:7], memory[3:10]

    others = [(x, make()) for x in forms(make)] + [(make(), y) for y in forms(make)] + [(make(), numbers(9)), together()]

    def adds(x, y):
        x.add_(y)
        return [x * 1]

    return adds, [("tensor", [])] * 2, (make(), make()), others


def integer_case():
    make = lambda: numbers(5)  # noqa: E731
    others = [(x, 3) for x in forms(make)] + [(make(), 2.5), (make(), torch.tensor(2.0))]
    return lambda x, n: [x * n], [("tensor", []), ("int", 7)], (make(), 3), others


# --- checks inside: of sizes and values that are born while the program runs

def found_size_case():
    """As many elements are found as `y` has: a check after nonzero()."""
    def adds(x, y):
        return [x.nonzero()[:, 0] + y]

    return adds, [("tensor", [])] * 2, (numbers(5), numbers(5)), [(torch.tensor([1.0, 0, 2, 0, 3]), numbers(5)), (numbers(3), numbers(6))]


def found_branch_case():
    def branches(x):
        found = x.nonzero()[:, 0]
        return [found * 2 if found.shape[0] > 2 else found + 7]

    return branches, [("tensor", [])], (numbers(5),), [(torch.tensor([1.0, 0, 0]),), (torch.zeros(4),)]


def value_branch_case():
    return lambda x: [x * 2 if x.sum() > 3 else x - 1], [("tensor", [])], (numbers(4),), [(-numbers(4),)]


def integer_value_case():
    def repeats(x, n):
        for _ in range(n.item()):
            x = x * 2
        return [x + 1]

    return repeats, [("tensor", [])] * 2, (numbers(4), torch.tensor(2)), [(numbers(4), torch.tensor(n)) for n in (0, 1, 3)]


def real_value_case():
    return lambda x, n: [x * 2 if n.item() > 0.5 else x + 1], [("tensor", [])] * 2, (numbers(4), torch.tensor(0.75)), \
        [(numbers(4), torch.tensor(0.25))]


def total_case():
    """The lengths of a split add up to what is split."""
    def splits(x, lengths):
        return [(piece * 2).sum() for piece in torch.split(x, [lengths[i].item() for i in range(3)])]

    return splits, [("tensor", [])] * 2, (numbers(9), torch.tensor([2, 3, 4])), \
        [(numbers(9), torch.tensor(found)) for found in ([2, 3, 3], [4, -1, 6], [-2, 5, 6], [4, 6, -1])]


INSIDE = {case.__name__: case for case in (found_size_case, found_branch_case, value_branch_case, integer_value_case, real_value_case,
                                           total_case)}
CASES = {case.__name__: case for case in (add_case, branch_case, multiple_case, constant_size_case, expression_case, transposed_case, stepped_case,
                                          written_case, integer_case)}


def relations_of(case):
    function, specs, first, _ = case()
    made = core().Region(function, specs, {"max_recordings": 1}, "all")
    made(*first)
    return made.info()["versions"][0]["entry"]


def checks_of(case):
    function, specs, first, _ = case()
    made = core().Region(function, specs, {"max_recordings": 1}, "all")
    made(*first)
    return [guard["guard"] for guard in made.info()["versions"][0]["guards"] if not guard["at_entry"]]


def wrong_calls(case, dropped):
    """How many of the other calls are wrong if a relation is left out (0: none is)."""
    function, specs, first, _ = case()
    made = core().Region(function, specs, {"max_recordings": 1, "drop_guard": dropped}, f"without {dropped}")
    made(*first)
    wrong = 0
    for mine, theirs in zip(case()[3], case()[3]):
        wrong += not same(result(made, mine), result(function, theirs))
    return wrong


def result(function, arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return error


@pytest.mark.parametrize("name", [*CASES, *INSIDE])
def test_all_relations_together_are_enough(name):
    assert wrong_calls({**CASES, **INSIDE}[name], 0) == 0


@pytest.mark.parametrize("name", CASES)
def test_no_relation_can_be_left_out(name):
    before = counted("dropped_guards")
    relations = relations_of(CASES[name])
    needless = [text for number, text in enumerate(relations, 1) if wrong_calls(CASES[name], number) == 0]
    assert needless == []
    assert counted("dropped_guards") - before == len(relations)


@pytest.mark.parametrize("name", INSIDE)
def test_no_check_inside_can_be_left_out(name):
    before, case = counted("dropped_guards"), INSIDE[name]
    entry, checks = len(relations_of(case)), checks_of(case)
    assert checks
    needless = [text for number, text in enumerate(checks, entry + 1) if wrong_calls(case, number) == 0]
    assert needless == []
    assert counted("dropped_guards") - before == len(checks)
    assert wrong_calls(case, entry + len(checks) + 1) == 0 and counted("dropped_guards") - before == len(checks)


def test_nothing_is_left_out_unless_asked():
    before = counted("dropped_guards")
    relations_of(add_case)
    assert counted("dropped_guards") == before


def test_numbers_that_the_trace_took_for_constants_are_compared():
    made = core().Region(lambda x, f, flag: [x * f if flag else x + f], [("tensor", []), ("other",), ("other",)], {"max_recordings": 1}, "pinned")
    for f, flag in [(2.5, True), (2.5, False), (-0.0, True), (0.5, True)]:
        x = numbers(3)
        assert torch.equal(made(x, f, flag)[0], x * f if flag else x + f)
    assert made.info()["versions"][0]["hits"] == 0
