"""Programs that people wrote who did not know the code, one row for each way in which an answer was another one than eager's, the process ended, or a
call ran eagerly for no reason."""
import dataclasses

import pytest
import torch
import torch.distributions as D
from torch.utils import _pytree

import escapement


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Flat(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1), x * 2

    @staticmethod
    def backward(ctx, *gradients):
        return gradients[0]


class Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


# torch writes into what it keeps of a view, which a recorded one had not: the process ended.
FUNCTIONS = {
    "its argument": lambda x: Identity.apply(x * 2) + 1, "an argument of the program": lambda x: Identity.apply(x) * 2, "a view": lambda x: Flat.apply(x)[0] + Flat.apply(x)[1].sum(),
    "a view of what was made": lambda x: Flat.apply(x + 1)[0], "what it wrote": lambda x: Written.apply(x + 1), "the same twice": lambda x: Identity.apply(Identity.apply(x)) + 1,
    "and is a view": lambda x: x * (2 if Identity.apply(x)._is_view() else 3),
}


@pytest.mark.parametrize("grad", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_autograd(function, grad):
    compiled = escapement.jit(FUNCTIONS[function])
    with grad():
        for rows in (3, 5, 1, 2):
            x = torch.arange(2.0 * rows).reshape(rows, 2)
            torch.testing.assert_close(compiled(x.clone()), FUNCTIONS[function](x.clone()))
    assert escapement.explain(compiled)(x).functions[0]


# Gradients are switched on, and nobody wants any.
SWITCHED = {
    "entropy": lambda x: D.Categorical(logits=x).entropy(), "sample": lambda x: D.Categorical(logits=x).sample(), "probabilities": lambda x: D.Bernoulli(logits=x).probs,
    "drawn": lambda x: D.Normal(x, 1.0).rsample(), "gradient": lambda x: torch.func.grad(lambda w: (x @ w).sum())(torch.ones(4)), "scope": torch.enable_grad()(lambda x: x * 2),
    "asked": torch.enable_grad()(lambda x: x * (2 if torch.is_grad_enabled() else 3)),
}
# These do want some: eagerly.
WANTED = {
    "a leaf": torch.enable_grad()(lambda x: torch.ones(4, requires_grad=True) * x), "backward": torch.enable_grad()(lambda x: backward_of(x)),
    "asked of what was made": torch.enable_grad()(lambda x: (x * 2).requires_grad_() * 3), "a parameter": torch.enable_grad()(lambda x: torch.nn.Parameter(x * 2) * 3),
    "of an argument": torch.enable_grad()(lambda x: torch.autograd.grad((y := x.detach().requires_grad_()).square().sum(), y)[0]),
}


def backward_of(x):
    weight = torch.ones(4, requires_grad=True)
    (weight * x).sum().backward()
    return weight.grad


@pytest.mark.parametrize("program", [*SWITCHED, *WANTED])
def test_gradients_switched_on_inside(program):
    function = {**SWITCHED, **WANTED}[program]
    compiled = escapement.jit(function)
    escapement.reset()
    with torch.no_grad():
        for rows in (3, 5, 2, 7):
            x = torch.linspace(-1, 1, 4 * rows).reshape(rows, 4)
            torch.manual_seed(rows)
            wanted = function(x)
            torch.manual_seed(rows)
            got = compiled(x)
            torch.testing.assert_close(got, wanted)
            assert got.requires_grad == wanted.requires_grad and (got.grad_fn is None) == (wanted.grad_fn is None)
    assert escapement.stats().get("hits", 0) == (3 if program in SWITCHED else 0)


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    seen: list


@dataclasses.dataclass
class Kept:
    x: torch.Tensor
    seen: list


_pytree.register_pytree_node(Batch, lambda batch: ([batch.x, batch.seen], None), lambda parts, _: Batch(parts[0], list(parts[1])))   # a list of its own
_pytree.register_pytree_node(Kept, lambda batch: ([batch.x, batch.seen], None), lambda parts, _: Kept(*parts))


@pytest.mark.parametrize("kind", [Batch, Kept])
def test_a_registered_type_whose_list_grows(kind):
    def program(batch):
        batch.seen.append(batch.x * 2)
        return batch.x + 1

    compiled = escapement.jit(program)
    with torch.no_grad():
        for rows in (3, 4, 2):
            batch = kind(torch.ones(rows), [])
            torch.testing.assert_close(compiled(batch), torch.full((rows,), 2.0))
            assert len(batch.seen) == 1 and torch.equal(batch.seen[0], torch.full((rows,), 2.0))


# einsum takes sums for matrix products only where there is something to sum, and autocast knows only products.
@pytest.mark.parametrize("equation, sizes", [("ij,ij->i", (2,)), ("ij,kj->ik", (2,)), ("bij,bjk->bik", (2, 3)), ("ij,ij->", ())])
def test_einsum_under_autocast(equation, sizes):
    def program(x):
        return torch.einsum(equation, x, x.transpose(-1, -2) if "bjk" in equation else x)

    compiled = escapement.jit(program)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for n in (5, 1, 7, 2):
            x = torch.linspace(-1, 1, 2 * 3 * n).reshape(2, 3, n) if "b" in equation else torch.linspace(-1, 1, 2 * n).reshape(2, n)
            got, wanted = compiled(x), program(x)
            assert got.dtype == wanted.dtype, n
            torch.testing.assert_close(got, wanted)


@torch.library.custom_op("escapement_people::add_rows", mutates_args=("out",))
def add_rows(x: torch.Tensor, out: torch.Tensor) -> None:
    out.add_(x.sum(0))


@pytest.mark.parametrize("way", ["jit", "compile"])
def test_an_operator_that_writes_its_second_argument(way):
    def program(x, out):
        add_rows(x.exp(), out)
        return out * 2

    torch.compiler.reset()
    escapement.reset()
    compiled = escapement.jit(program) if way == "jit" else torch.compile(program, backend="escapement")
    with torch.no_grad():
        for rows in (3, 5, 7, 4):
            x, ours, eagers = torch.ones(rows, 2), torch.ones(2), torch.ones(2)
            torch.testing.assert_close(compiled(x, ours), program(x, eagers))
            torch.testing.assert_close(ours, eagers)
    assert escapement.stats()["hits"] >= 2   # at its first call torch's object of the operator changes


def test_the_text_of_an_error_that_is_caught():
    def program(x, position):
        try:
            return x[position]
        except IndexError as error:
            return str(error)

    compiled = escapement.jit(program)
    with torch.no_grad():
        for rows in (2, 3, 1, 3):
            assert compiled(torch.ones(rows), 3) == program(torch.ones(rows), 3)


# What is refused is not recorded for ever, and not never again.
REFUSED = {"storage_access": lambda x: (x.sum(), x.tolist()), "argument_reshaped": lambda x: x.t_() * 2, "unsupported_tensor": lambda x: (x * 1j).conj()}


@pytest.mark.parametrize("reason", REFUSED)
def test_refused_functions_rest(reason, monkeypatch):
    monkeypatch.setattr("escapement.tracer.jitted.REST", 10)
    compiled = escapement.jit(REFUSED[reason])
    with torch.no_grad():
        for call in range(90):
            x = torch.full((2 + call % 3, 2), float(call))
            got, wanted = compiled(x.clone()), REFUSED[reason](x.clone())
            torch.testing.assert_close(got, wanted)
    eager = compiled.info()["eager"]
    assert eager.get(reason) == 10 + 16, eager   # 32 calls, a rest of 10, 32 calls, what is left of a rest of 20
