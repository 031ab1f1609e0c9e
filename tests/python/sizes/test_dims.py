"""escapement.compile(fn, dims=...): what may be declared, what a call and a program must keep, and what the user is told.

Results are compared with eager; that one program serves all sizes is proved by counters. Every error names input, dim
and value, or line and relation.
"""

import pytest
import torch
from dims_support import add, compiles, dim_lines, double, doubled_and_one, line_of, rand, recordings, run
from documented import run_examples

import escapement
from escapement import Dim, DimError
from escapement.dims.spec import declared_text, read_spec

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


# --- one program for what was declared

def test_an_unnamed_dim_takes_name_and_range_of_the_one_it_meets():
    compiled = escapement.compile(add, dims={"x": {0: Dim.AUTO}, "y": {0: Dim("dx", 3, 6)}})
    report = escapement.explain(compiled)(rand(4), rand(4))
    x, y = dim_lines(report)
    assert x.startswith("x.size(0) is dx in [3, 6], joined by: L['x'].size(0) == L['y'].size(0) at ") and line_of(add) in x
    assert y == "y.size(0) is dx in [3, 6]"
    for n in (3, 4, 5, 6):
        run(compiled, add, rand(n), rand(n))
    assert (compiles(), recordings()) == (1, 1)
    learned = escapement.learned_dims(compiled)
    assert learned["x"][0] is learned["y"][0] and (learned["x"][0].min, learned["x"][0].max) == (3, 6)


@pytest.mark.parametrize("n", [2, 7])
def test_a_call_outside_the_range_is_an_error_before_anything_runs(n):
    ran = []

    def body(x, y):
        ran.append(n)
        return x + y

    compiled = escapement.compile(body, dims={"y": {0: Dim("dx", 3, 6)}})
    with pytest.raises(DimError, match=rf"^y\.size\(0\) is {n}, but it is declared as dx in \[3, 6\]$"):
        compiled(rand(n), rand(n))
    assert not ran and compiles() == 0


def test_the_range_is_checked_on_every_call():
    compiled = escapement.compile(double, dims={"x": [Dim("n", 3, 6)]})
    for _ in range(3):
        run(compiled, double, rand(3))
        for n in (2, 7):
            with pytest.raises(DimError, match=f"is {n}, "):
                compiled(rand(n))
    assert compiles() == 1


def test_a_dim_error_is_a_value_error_and_ours():
    with pytest.raises(ValueError) as error:
        escapement.compile(double, dims={"x": [Dim("n", 3, 6)]})(rand(9))
    assert isinstance(error.value, escapement.EscapementError)


def test_what_is_not_mentioned_is_dynamic():
    compiled = escapement.compile(double, dims={"x": [Dim("n", 2, 9), None]})
    for a, b in ((3, 4), (5, 6), (9, 2), (2, 30)):
        run(compiled, double, rand(a, b))
    assert (compiles(), recordings()) == (1, 1)


@pytest.mark.parametrize("first", [0, 1, 5])
def test_zero_and_one_belong_to_the_range_whatever_comes_first(first):
    compiled = escapement.compile(double, dims={"x": [Dim("n", 0, 9)]})
    for n in (first, 5, 0, 1, 9):
        run(compiled, double, rand(n))
    assert (compiles(), recordings()) == (1, 1)


def test_a_size_that_needs_a_version_of_its_own_is_no_breach():
    """1 is broadcast: the program at 1 is another one, and the range says nothing against that."""
    compiled = escapement.compile(add, dims={"x": [Dim("n", 1, 8)]})
    for n, m in ((1, 8), (8, 8), (5, 5), (1, 1), (2, 2)):
        run(compiled, add, rand(n), rand(m))
    assert compiles() <= 3


def test_modules():
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU())
    compiled = escapement.compile(model, dims={"input": {0: Dim("batch", 1, 16)}})
    for n in (1, 3, 16):
        run(compiled, model, rand(n, 4))
    with pytest.raises(DimError, match=r"input\.size\(0\) is 17, but it is declared as batch in \[1, 16\]"):
        compiled(rand(17, 4))
    assert compiles() == 1
    assert compiled._orig_mod is model and list(compiled.state_dict()) and not hasattr(model, "escapement_contract")


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(rand(4))

    def forward(self, x, *rest, scale=2.0, bias=None):
        y = x * self.weight * scale + sum(rest)
        return y if bias is None else y + bias


def test_a_module_with_rest_keywords_and_defaults():
    model, n = Scaled(), Dim("n", 2, 6)
    compiled = escapement.compile(model, dims={"x": [n, 4], "rest": [{0: n}], "bias": {0: n}})
    for k in (2, 5, 6):
        run(compiled, model, rand(k, 4), rand(k, 4), scale=3.0)
    assert compiles() == 1
    run(compiled, model, rand(3, 4), rand(3, 4), bias=rand(3, 4))
    run(compiled, model, rand(5, 4), rand(5, 4), bias=rand(5, 1))
    with pytest.raises(DimError, match=r"bias\.size\(0\) is 4, but it is declared as n, which is 3 by x\.size\(0\)"):
        compiled(rand(3, 4), rand(3, 4), bias=rand(4, 4))
    with pytest.raises(DimError, match=r"x\.size\(1\) is 5, but it is declared as 4"):
        compiled(rand(3, 5), rand(3, 5))
    with pytest.raises(DimError, match=r"rest\[0\]\.size\(0\) is 7"):
        compiled(rand(3, 4), rand(7, 4))


def test_keywords_of_an_open_ended_function():
    def body(x, **others):
        return x + others["bias"]

    n = Dim("n", 2, 6)
    for dims in ({"bias": [n]}, {"others": {"bias": [n]}}):
        compiled = escapement.compile(body, dims=dims)
        for k in (3, 6):
            run(compiled, body, rand(k), bias=rand(k))
        with pytest.raises(DimError, match=r"bias\.size\(0\) is 7, but it is declared as n in \[2, 6\]"):
            compiled(rand(7), bias=rand(7))


def test_containers():
    def body(pair, named):
        return pair[0] + pair[1] + named["a"]["b"]

    n = Dim("n", 2, 6)
    compiled = escapement.compile(body, dims={"pair": [{0: n}, [n]], "named": {"a": {"b": {-1: n}}}})
    for k in (2, 4, 6):
        run(compiled, body, (rand(k), rand(k)), {"a": {"b": rand(k)}})
        run(compiled, body, [rand(k), rand(k)], {"a": {"b": rand(k)}})
    assert compiles() <= 2   # a tuple and a list are two structures
    with pytest.raises(DimError, match=r"pair\[1\]\.size\(0\) is 3, but it is declared as n, which is 4 by pair\[0\]"):
        compiled((rand(4), rand(3)), {"a": {"b": rand(4)}})
    with pytest.raises(DimError, match=r"named\['a'\]\['b'\]\.size\(-1\) is 7"):
        compiled((rand(4), rand(4)), {"a": {"b": rand(7)}})
    with pytest.raises(DimError, match="there is no 'b'; did you mean 'bb'"):
        compiled((rand(4), rand(4)), {"a": {"bb": rand(4)}})


def test_optional_arguments_are_checked_when_they_are_there():
    def body(x, y=None):
        return x * 2 if y is None else x * 2 + y

    compiled = escapement.compile(body, dims={"x": [Dim("n", 2, 6)], "y": [Dim("n", 2, 6)]})
    for k in (3, 4):
        run(compiled, body, rand(k))
        run(compiled, body, rand(k), rand(k))
        run(compiled, body, x=rand(k), y=None)
    assert compiles() == 2


def test_integers_of_the_call():
    def body(x, k, sizes):
        return x[:k] * sizes[0] + sizes[1]

    compiled = escapement.compile(body, dims={"k": Dim("k", 1, 4), "sizes": [Dim("a", 2, 9), None]})
    for k in (2, 3, 4, 1):
        run(compiled, body, rand(8), k, [k + 1, k])
    assert compiles() == 1
    with pytest.raises(DimError, match=r"^k is 5, but it is declared as k in \[1, 4\]$"):
        compiled(rand(8), 5, [2, 2])
    with pytest.raises(DimError, match=r"^sizes\[0\] is 1, but it is declared as a in \[2, 9\]$"):
        compiled(rand(8), 2, [1, 2])


# --- derived dims

def test_a_derived_dim_that_the_program_needs_is_no_breach():
    n = Dim("n", 2, 8)
    compiled = escapement.compile(doubled_and_one, dims={"x": [n], "y": [2 * n + 1]})
    for k in (2, 3, 8):
        run(compiled, doubled_and_one, rand(k), rand(2 * k + 1))
    assert compiles() == 1
    with pytest.raises(DimError, match=r"y\.size\(0\) is 8, but it is declared as 2\*n \+ 1, which is 9 because n is 4"):
        compiled(rand(4), rand(8))


def test_without_the_declaration_the_same_program_breaks_its_contract():
    compiled = escapement.compile(doubled_and_one, dims={"x": [Dim("n", 2, 8)], "y": [Dim("m", 2, 20)]})
    with pytest.raises(DimError, match=r"m and n are tied: .*use one Dim for both"):
        compiled(rand(3), rand(7))


def test_a_derived_dim_alone_is_solved():
    compiled = escapement.compile(double, dims={"x": [2 * Dim("n", 2, 8) + 1]})
    for k in (5, 7, 17):
        run(compiled, double, rand(k))
    with pytest.raises(DimError, match=r"x\.size\(0\) is 8, but it is declared as 2\*n \+ 1, which no n in \[2, 8\] gives"):
        compiled(rand(8))
    for k in (3, 19):
        with pytest.raises(DimError, match=rf"x\.size\(0\) is {k}, but it is declared as 2\*n \+ 1 in \[5, 17\]"):
            compiled(rand(k))
    assert compiles() == 1


def test_expressions_of_several_names():
    a, b = Dim("a", 1, 9), Dim("b", 1, 9)

    def body(x, y, z):
        return torch.cat([x, y]) * z

    compiled = escapement.compile(body, dims={"x": [a], "y": [b], "z": [a + b]})
    for m, n in ((1, 2), (3, 4), (9, 9)):
        run(compiled, body, rand(m), rand(n), rand(m + n))
    with pytest.raises(DimError, match=r"z\.size\(0\) is 6, but it is declared as a \+ b, which is 5 because a is 2 .*, b is 3"):
        compiled(rand(2), rand(3), rand(6))
    assert compiles() <= 2


def test_one_unknown_among_several_names_is_solved():
    a, b = Dim("a", 1, 9), Dim("b", 1, 4)
    compiled = escapement.compile(lambda x, z: x.sum() + z, dims={"x": [a], "z": [a + 2 * b]})
    compiled(rand(3), rand(7))
    with pytest.raises(DimError, match=r"declared as a \+ 2\*b, which no b in \[1, 4\] gives"):
        compiled(rand(3), rand(8))


@pytest.mark.parametrize("expression, text", [
    (lambda n, m: 2 * n + 1, "2*n + 1"), (lambda n, m: n - 1, "n - 1"), (lambda n, m: 1 + n + n, "2*n + 1"),
    (lambda n, m: 9 - n, "-n + 9"),
    (lambda n, m: n + m - n, "m"), (lambda n, m: (n + m) * 3, "3*m + 3*n"), (lambda n, m: n - n + 4, "4"),
    (lambda n, m: -n + m, "m - n")])
def test_expressions_print_as_they_are(expression, text):
    n, m = Dim("n", 2, 8), Dim("m", 2, 8)
    assert repr(expression(n, m)) == text
    assert expression(n, m) == expression(Dim("n", 2, 8), Dim("m", 2, 8))


# --- AUTO, STATIC, STATIC_FIRST, integers

def test_a_demoted_dim_is_reported_with_its_reason():
    def body(x):
        return x + torch.ones(4)

    compiled = escapement.compile(body, dims={"x": [Dim.AUTO]})
    (line,) = dim_lines(escapement.explain(compiled)(rand(4)))
    assert line.startswith("x.size(0) is 4, although it is declared as Dim.AUTO: pinned at ") and line_of(body) in line
    run(compiled, body, rand(1))   # eager takes it


def test_an_unnamed_dim_that_a_branch_restricts_is_reported():
    def body(x):
        if x.size(0) > 4:
            return x * 2
        return x + 1

    compiled = escapement.compile(body, dims={"x": [Dim.AUTO]})
    (line,) = dim_lines(escapement.explain(compiled)(rand(6)))
    assert line.startswith("x.size(0) is dynamic, >= 5, this version relies on L['x'].size(0) > 4 at ")
    assert line_of(body) in line
    assert escapement.learned_dims(compiled)["x"][0].min == 5
    for k in (3, 2, 9, 4):
        run(compiled, body, rand(k))
    assert compiles() == 2


def test_the_range_of_an_unnamed_dim_is_checked_too():
    compiled = escapement.compile(double, dims={"x": [Dim.AUTO(min=3, max=6)]})
    run(compiled, double, rand(3))
    with pytest.raises(DimError, match=r"x\.size\(0\) is 7, but it is declared as Dim\.AUTO in \[3, 6\]"):
        compiled(rand(7))


def test_static_is_a_version_per_size():
    compiled = escapement.compile(double, dims={"x": [Dim.STATIC, Dim.AUTO]})
    for i, (a, b) in enumerate(((4, 3), (4, 5), (6, 5), (6, 7), (4, 9))):
        run(compiled, double, rand(a, b))
        assert compiles() == (1, 1, 2, 2, 2)[i]


def test_static_first_becomes_dynamic_when_it_varies():
    compiled = escapement.compile(double, dims={"x": [Dim.STATIC_FIRST, Dim.AUTO]})
    (first, _) = dim_lines(escapement.explain(compiled)(rand(4, 3)))
    assert first == "x.size(0) is 4, Dim.STATIC_FIRST: no other size was seen"
    for a, b in ((4, 5), (6, 5), (7, 7), (4, 9), (0, 2), (1, 1), (99, 3)):
        run(compiled, double, rand(a, b))
    assert compiles() == 2


def test_static_first_integers():
    def body(x, k):
        return x * k

    compiled = escapement.compile(body, dims={"k": Dim.STATIC_FIRST})
    for k in (3, 3, 4, 5, 0, 1, 3):
        run(compiled, body, rand(5), k)
    assert compiles() == 2


def test_integers_are_this_size_and_no_other():
    compiled = escapement.compile(double, dims={"x": {1: 64}})
    for n in (2, 3):
        run(compiled, double, rand(n, 64))
    with pytest.raises(DimError, match=r"^x\.size\(1\) is 63, but it is declared as 64$"):
        compiled(rand(3, 63))
    assert compiles() == 1


def test_two_contracts_on_one_function_do_not_meet():
    small, large = (escapement.compile(double, dims={"x": [Dim("n", low, low + 9)]}) for low in (0, 10))
    run(small, double, rand(5))
    run(large, double, rand(15))
    run(torch.compile(double, backend="escapement"), double, rand(40))
    for compiled, k in ((small, 15), (large, 5)):
        with pytest.raises(DimError):
            compiled(rand(k))


# --- the spec itself

@pytest.mark.parametrize("dims, message", [
    ({"z": [Dim("n")]}, "dims names 'z', which is no argument; the arguments are first, second"),
    ({"frist": [Dim("n")]}, "'frist', which is no argument; did you mean 'first'"),
    ([Dim("n")], "mapping from argument names"),
    ({"first": {0: 2.5}}, "first, axis 0: 2.5 is no dim"),
    ({"first": {0: -1}}, "first, axis 0: -1 is no dim"),
    ({"first": {0: True}}, "True is no dim"),
    ({"first": [Dim("n", 1, 4)], "second": [Dim("n", 1, 5)]},
     r"second.size\(0\) is declared as n in \[1, 5\], but first.size\(0\) as n in \[1, 4\]: one name has one range")])
def test_mistakes_in_a_spec_are_found_at_once(dims, message):
    with pytest.raises(DimError, match=message):
        escapement.compile(lambda first, second: first, dims=dims)


@pytest.mark.parametrize("make, message", [
    (lambda: Dim("n", 1, 2**63), r"from 0 to 2\*\*63 - 1; got 9223372036854775808"),
    (lambda: Dim("n", 5, 4), r"the range \[5, 4\] is empty"), (lambda: Dim("n", -1), "not negative"),
    (lambda: Dim("n", 1.5), "integer"),
    (lambda: Dim("2n"), "named like a variable"), (lambda: Dim("n") * 1.5, "integer coefficients"),
    (lambda: Dim("n") * Dim("m"), "linear"),
    (lambda: Dim.AUTO(min=3, max=2), "is empty")])
def test_mistakes_in_a_dim(make, message):
    with pytest.raises(DimError, match=message):
        make()


@pytest.mark.parametrize("dims, argument, message", [
    ({"x": {3: Dim("n")}}, rand(2, 2), r"dims declares x\.size\(3\) as n, but x has 2 dims"),
    ({"x": [Dim("n")]}, rand(2, 2), r"x has 2 dims, but dims lists 1"),
    ({"x": Dim("n")}, rand(2), "declares x as n, but x has 1 dims"),
    ({"x": {0: Dim("n")}}, 2.5, "x is of type float"),
    ({"x": [[Dim("n")]]}, rand(2, 2), r"dims names x\[0\], but x is a tensor; its dims are named by axis"),
    ({"x": Dim("n")}, True, "is of type bool")])
def test_a_spec_that_does_not_fit_the_argument(dims, argument, message):
    with pytest.raises(DimError, match=message):
        escapement.compile(lambda x: x * 2, dims=dims)(argument)


def test_options_are_checked_when_compiling_not_when_calling():
    with pytest.raises(escapement.OptionError, match="did you mean 'strict'"):
        escapement.compile(double, stric=True)
    run(escapement.compile(double, threads=1, dims={"x": [Dim("n")]}), double, rand(3))


def test_as_a_decorator():
    @escapement.compile(dims={"x": [Dim("n", 1, 4)]})
    def body(x):
        """Twice."""
        return x * 2

    assert torch.equal(body(torch.ones(3)), torch.full((3,), 2.0)) and body.__name__ == "body" and body.__doc__ == "Twice."
    with pytest.raises(DimError):
        body(rand(5))


def test_dims_of_torch_export_are_understood():
    export = torch.export.Dim
    dx = export("dx", min=2, max=9)
    spec = {0: dx, 1: 2 * dx + 1, 2: export.AUTO, 3: export.STATIC, 4: None, 5: export.AUTO(min=3, max=5)}
    leaves = read_spec({"x": spec}, ["x"], False)
    assert [declared_text(leaf.dim) for leaf in leaves] == [
        "dx in [2, 9]", "2*dx + 1 in [5, 19]", "Dim.AUTO", "Dim.STATIC", "Dim.AUTO in [3, 5]"]


# --- torch.export

def exported(model, args, dims):
    return torch.export.export(model, args, dynamic_shapes=dims).module()


class Wrapped(torch.nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, y):
        return self.fn(x, y)


@pytest.mark.parametrize("fn, dims, sizes", [
    (add, {"x": {0: Dim.AUTO}, "y": {0: Dim("dx", 3, 6)}}, [((n,), (n,)) for n in (4, 3, 6)]),
    (doubled_and_one, {"x": [Dim("n", 2, 8)], "y": [2 * Dim("n", 2, 8) + 1]}, [((n,), (2 * n + 1,)) for n in (3, 2, 8)]),
    (lambda x, y: x @ y, {"x": {0: Dim("rows", 2)}}, [((2, 3), (3, 4)), ((5, 4), (4, 9)), ((50, 6), (6, 6))]),
    (lambda x, y: x * 2 + torch.ones(4) + y.sum(), {}, [((3, 4), (2,)), ((7, 4), (5,))])])
def test_what_was_learned_exports(fn, dims, sizes):
    compiled = escapement.compile(Wrapped(fn), dims=dims)
    first = [rand(*size) for size in sizes[0]]
    compiled(*first)
    program = exported(Wrapped(fn), tuple(first), escapement.learned_dims(compiled))
    for pair in sizes:
        args = [rand(*size) for size in pair]
        torch.testing.assert_close(program(*args), fn(*args))


class Nested(torch.nn.Module):
    def forward(self, pair, named, *rest, bias=None):
        return pair[0] + pair[1] + named["a"] + rest[0] + bias


def test_structures_export():
    n = Dim("n", 2, 9)
    compiled = escapement.compile(Nested(), dims={"pair": [{0: n}, {0: n}], "rest": [{0: n}]})

    def call(k):
        return ([rand(k, 3), rand(k, 3)], {"a": rand(k, 3)}, rand(k, 3)), {"bias": rand(3)}

    args, kwargs = call(4)
    compiled(*args, **kwargs)
    learned = escapement.learned_dims(compiled)
    assert [str(learned["named"]["a"][0].__name__), learned["rest"][0][0].max] == ["n", 9]
    program = torch.export.export(Nested(), args, kwargs, dynamic_shapes=learned).module()
    for k in (2, 9):
        args, kwargs = call(k)
        torch.testing.assert_close(program(*args, **kwargs), Nested()(*args, **kwargs))


def test_the_exported_program_keeps_the_range():
    compiled = escapement.compile(Wrapped(add), dims={"y": {0: Dim("dx", 3, 6)}})
    args = (rand(4), rand(4))
    compiled(*args)
    program = exported(Wrapped(add), args, escapement.learned_dims(compiled))
    with pytest.raises(Exception, match="Guard failed|Expected"):
        program(rand(7), rand(7))


def test_learned_dims_need_a_call_and_our_function():
    with pytest.raises(DimError, match="call the compiled function first"):
        escapement.learned_dims(escapement.compile(add))
    with pytest.raises(DimError, match="what escapement.compile returned"):
        escapement.learned_dims(add)


def test_learned_dims_follow_the_most_general_program():
    compiled = escapement.compile(add)
    for n, m in ((1, 5), (5, 5), (7, 7)):
        compiled(rand(n), rand(m))
    learned = escapement.learned_dims(compiled)
    assert [str(learned[name][0]) for name in ("x", "y")] == ["DimHint(AUTO)"] * 2


# --- training, threads, nesting

def test_gradients():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU())
    compiled = escapement.compile(model, dims={"input": {0: Dim("batch", 2, 32)}})
    with torch.enable_grad():
        for n in (3, 5, 32):
            x = rand(n, 4)
            grads = []
            for fn in (compiled, model):
                model.zero_grad()
                fn(x).sum().backward()
                grads.append([p.grad.clone() for p in model.parameters()])
            for ours, eager in zip(*grads):
                torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)
    assert compiles() == 1


def test_a_dim_that_is_pinned_in_training():
    def body(x):
        if x.size(0) > 4:
            return x * 2
        return x + 1

    with torch.enable_grad(), pytest.raises(DimError, match="depends on n > 4"):
        escapement.compile(body, dims={"x": [Dim("n", 2, 8)]})(torch.randn(6, requires_grad=True))


@pytest.mark.parametrize("kind", ["function", "module"])
def test_an_outer_compiled_function_takes_the_program_over(kind):
    """As with torch.compile: what was said to the inner compile does not count. Dims are declared on the outermost
    function."""
    if kind == "function":
        inner = escapement.compile(double, dims={"x": [Dim("n", 2, 8)]})
    else:
        inner = escapement.compile(torch.nn.ReLU(), dims={"input": {0: Dim("n", 2, 8)}})

    def body(x):
        return inner(x) + 1

    compiled = escapement.compile(body, dims={"x": [Dim("m", 2, 20)]})
    for n in (3, 5, 20):
        torch.testing.assert_close(compiled(torch.ones(n)), torch.full((n,), 3.0 if kind == "function" else 2.0))
    with pytest.raises(DimError, match="x.size.0. is 21, but it is declared as m"):
        compiled(rand(21))
    assert compiles() == 1


def test_an_outer_compile_leaves_our_wrapper_alone():
    """Past a graph break torch would compile whatever frames come next, the one that checks the call among them."""
    inner = escapement.compile(double, dims={"x": [Dim("n", 2, 8)]})

    @torch._dynamo.disable(recursive=False)
    def between(x):
        return inner(x)

    compiled = torch.compile(lambda x: between(x + 1) + 1, backend="escapement")
    for n in (3, 8):
        torch.testing.assert_close(compiled(torch.ones(n)), torch.full((n,), 5.0))
    with pytest.raises(DimError, match="x.size.0. is 9, but it is declared as n"):
        compiled(rand(9))
    names = {function.name for function in escapement.ledger.LEDGER.functions()}
    assert not [name for name in names if "checked" in name or "check" in name], names


def test_a_compiled_function_inside_another():
    inner = escapement.compile(double, dims={"x": [Dim("n", 2, 8)]})
    outer = escapement.compile(lambda y: torch._dynamo.disable(inner)(y) + 1, dims={"y": [Dim("m", 2, 4)]})
    for n in (3, 4):
        torch.testing.assert_close(outer(torch.full((n,), 1.0)), torch.full((n,), 3.0))
    with pytest.raises(DimError, match="y.size.0. is 5"):
        outer(rand(5))
    run(inner, double, rand(8))


def test_threads_check_their_own_calls():
    import concurrent.futures

    compiled = escapement.compile(add, dims={"x": [Dim("n", 2, 40)], "y": [Dim("n", 2, 40)]})

    def work(n):
        with torch.no_grad():
            x, y = rand(n), rand(n)
            with pytest.raises(DimError, match=f"is {n + 1}, .* which is {n} by x"):
                compiled(x, rand(n + 1))
            return torch.equal(compiled(x, y), x + y)

    compiled(rand(3), rand(3))   # torch compiles once per thread that comes first at the same time
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(2, 30)))
    assert compiles() == 1


def test_the_same_tensor_under_two_names():
    compiled = escapement.compile(add, dims={"x": [Dim("n", 2, 8)]})
    for k in (3, 5):
        x = rand(k)
        run(compiled, add, x, x)
    with pytest.raises(DimError):
        x = rand(9)
        compiled(x, x)


def test_a_function_without_a_readable_signature():
    with pytest.raises(DimError, match="cannot be read"):
        escapement.compile(torch.add, dims={"x": [Dim("n")]})
    torch.testing.assert_close(escapement.compile(torch.add)(torch.ones(3), torch.ones(3)), torch.full((3,), 2.0))


def test_nothing_declared_is_plain_compile():
    compiled = escapement.compile(add)
    for n in (5, 7, 2, 0):
        run(compiled, add, rand(n, 3), rand(n, 3))
    assert compiles() == 1 and dim_lines(escapement.explain(compiled)(rand(3, 3), rand(3, 3))) == []


# --- the page

def test_the_examples_of_the_page():
    assert run_examples("dims.md") > 20
