"""What autograd knows of the views that a replayed function makes: what they are views of, and what may be done with them; as in eager."""

import pytest
import torch

import escapement

PROGRAMS = {
    "of an argument": lambda x: (x.t(), x[1:], x.view(1, *x.shape), x.unsqueeze(0).squeeze(0)),
    "of a result that is kept": lambda x: (y := x + 1, y.t(), y[0]),
    "of a result that nobody keeps": lambda x: ((x + 1).t(), (x * 2)[1:]),
    "of a view of one": lambda x: ((x + 1).t()[1:].unsqueeze(-1),),
    "a view between them is kept": lambda x: (y := (x + 1).t(), y[1:], y[:1]),
    "a view of an argument's view": lambda x: (x[1:].t()[:2],),
    "several at once": lambda x: (*(x + 1).unbind(0), *x.split(1), *x.chunk(2, 1)),
    "one of several": lambda x: (x.unbind(0)[1].unsqueeze(0), (x * 2).split(2)[0]),
    "detached": lambda x: (x.detach(), (x + 1).detach(), (x + 1).t().detach(), x.detach().t()),
    "no views": lambda x: (x + 1, x.contiguous(), x.reshape(-1).clone(), x.t().contiguous()),
    "reshaped": lambda x: (x.reshape(-1), x.t().reshape(-1), (x + 1).reshape(1, -1), x.flatten()),
    "expanded": lambda x: (x.sum(0).expand(3, -1), x[:1].expand_as(x), x.sum(0).broadcast_to(x.shape)),
    "written": lambda x: ((y := x + 1).t().mul_(2), y),
    "a view is written": lambda x: (y := x * 2, y[0].add_(1)),
    "diagonal, unfold, as_strided": lambda x: (x.diagonal(), (x + 1).unfold(0, 2, 1), x.as_strided((2,), (1,))),
    "seen as another type": lambda x: ((x + 1).view(torch.int32), x.view(torch.int32)),
    "alias": lambda x: (x.view_as(x), (x + 1).view(x.shape), x.squeeze(), x.expand(-1, -1)),
    "behind a read": lambda x: (y := x + 1, y.t() if y.sum() > -1e9 else y[0], y.t()),
    "many": lambda x: tuple((x + i)[0] for i in range(5)),
    "no gradients meanwhile": lambda x: without(lambda: ((x + 1).t(), x[0])),
    "no gradients for the first": lambda x: (y := without(lambda: x.t()), y[0]),
    "in a loop": lambda x: loop(x),
    "of an index": lambda x: (x[0, 1:], x[..., 0], x[None, :, 1], x[x > 0]),
    "of a library call": lambda x: (x.sort(0)[0].t(), x.matmul(x.t())[0], x.cumsum(0)[1:]),
    "transposed, movedim, permute": lambda x: (x.transpose(0, 1), x.movedim(0, 1), x.permute(1, 0), x.mT, x.swapaxes(0, 1)),
    "handed on": lambda x: (given(x.t()), given((x + 1)[0])),
}


def without(program):
    with torch.no_grad():
        return program()


def given(tensor):
    return tensor.view(tensor.shape)


def loop(x):
    y = x
    for _ in range(3):
        y = (y + 1).t()
    return y, y[0]


def tuple_of(results):
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def error_of(act):
    try:
        act()
    except RuntimeError as error:
        return str(error).split(".")[0]
    return None


def family(argument, results):
    """What each result is a view of: which of the tensors around, or what it looks like."""
    around = [argument, *results]
    found = []
    for tensor in results:
        base = tensor._base if not tensor.is_inference() else None
        known = next((i for i, other in enumerate(around) if base is other), None)
        looks = None if base is None or known is not None else (base.shape, base.stride(), base.tolist(), base.dtype)
        found.append((tensor._is_view(), known, looks, tensor.is_leaf))
    return found


def allowed(argument, results):
    """What may be done with them afterwards: detach_, and writing where what they are views of wants a gradient."""
    found = []
    for tensor in results:
        if tensor._is_view() and tensor._base.is_floating_point() and not tensor.is_inference():
            base = tensor._base
            shared = base.requires_grad
            base.requires_grad_()
            found.append(error_of(lambda tensor=tensor: tensor.add_(0)) if tensor.is_floating_point() else None)
            if not shared and base.is_leaf:
                base.requires_grad_(False)
        found.append(error_of(lambda tensor=tensor: tensor.detach_()))
    return found


def arguments():
    for rows, columns in ((2, 3), (4, 4), (2, 5), (3, 2)):
        yield torch.arange(rows * columns, dtype=torch.float32).view(rows, columns).clone() - 2
        yield torch.zeros(rows + 1, columns + 2)[1:, 2:]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("name", PROGRAMS)
def test_views_are_of_what_eager_says(name, mode):
    program = PROGRAMS[name]
    compiled = escapement.jit(lambda x: tuple_of(program(x)), mode="replay")
    for _ in range(3):
        for given_argument in arguments():
            mine, theirs = given_argument, given_argument.clone()
            if given_argument._is_view():
                theirs = torch.zeros_like(given_argument._base)[1:, 2:]
                theirs.copy_(given_argument)
            with mode():
                want, got = tuple_of(program(theirs)), compiled(mine)
            assert family(mine, got) == family(theirs, want)
            assert allowed(mine, got) == allowed(theirs, want)


def test_a_view_says_what_it_is_of_while_it_is_pending():
    @escapement.jit(mode="replay")
    def program(x):
        y = x + 1
        view = y.t()
        return view._is_view(), view._base is y, y._is_view(), y._base is None, view

    for _ in range(4):
        assert program(torch.ones(2, 3))[:4] == (True, True, False, True)
        with torch.inference_mode():
            assert program(torch.ones(2, 3))[:4] == (False, False, False, True)


def test_what_a_view_is_of_lives_as_long_as_it():
    @escapement.jit(mode="replay")
    def program(x):
        return (x + 1).t()[1:]

    for _ in range(4):
        view = program(torch.ones(2, 3))
        assert torch.equal(view._base, torch.full((2, 3), 2.0))
        view.zero_()
        assert view._base.tolist() == [[2, 0, 0], [2, 0, 0]] and view._version == view._base._version == 1
