"""A number that comes from the data, in each place that takes a number: values are eager's, and so are exceptions, whether the
operator raises them or Python does."""

import math

import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("fresh")

NUMBERS = 3, 0, -1, 9, 1
ANOTHER_TEXT = "idx", "idxneg", "set", "unflat"    # of `select` for `x[n]`, or with the address of a frame in it


def one_row_written(x, n):
    y = x.clone()
    y[n] = 7.0
    return y


def rows_written(x, n):
    y = x.clone()
    y[:n] = 7.0
    return y


def added_in_a_loop(x, n):
    for number in range(n):
        x = x + number
    return x


def counted_down(x, n):
    while n > 0:
        x, n = x + 1, n - 1
    return x


PROGRAMS = {
    "idx": lambda x, n: x[n],
    "idxneg": lambda x, n: x[-n],
    "slice": lambda x, n: x[:n],
    "slice2": lambda x, n: x[n:],
    "slice3": lambda x, n: x[1:n],
    "step": lambda x, n: x[::n],
    "narrow": lambda x, n: x.narrow(0, n, 1),
    "narrow2": lambda x, n: x.narrow(0, 0, n),
    "zeros": lambda x, n: torch.zeros(n),
    "view": lambda x, n: x.view(n, -1),
    "view2": lambda x, n: x.view(-1, n),
    "expand": lambda x, n: x[:1].expand(n, 2),
    "arange": lambda x, n: torch.arange(n),
    "arange2": lambda x, n: torch.arange(n, 5),
    "repeat": lambda x, n: x.repeat(n, 1),
    "roll": lambda x, n: x.roll(n, 0),
    "select": lambda x, n: x.select(0, n),
    "split": lambda x, n: x.split(n),
    "chunk": lambda x, n: x.chunk(n),
    "full": lambda x, n: torch.full((n, 2), 1.5),
    "fullv": lambda x, n: torch.full((2, ), n),
    "pad": lambda x, n: F.pad(x, (n, 0)),
    "unfold": lambda x, n: x.unfold(0, n, 1),
    "eye": lambda x, n: torch.eye(n),
    "topk": lambda x, n: x.topk(n, 0)[0],
    "onehot": lambda x, n: F.one_hot(torch.zeros(2, dtype=torch.long), n),
    "tril": lambda x, n: x.tril(n),
    "lin": lambda x, n: torch.linspace(0, 1, n),
    "loop": lambda x, n: x*sum(range(n)),
    "list": lambda x, n: x*[1, 2, 3, 4][n],
    "mul": lambda x, n: x*len([0]*n),
    "div": lambda x, n: x*(1/n),
    "mod": lambda x, n: x*(7%n),
    "fdiv": lambda x, n: x*(7//n),
    "sqrt": lambda x, n: x*math.sqrt(n),
    "log": lambda x, n: x*math.log(n),
    "pow": lambda x, n: x*2**n,
    "pown": lambda x, n: x*n**-1,
    "dict": lambda x, n: x*{1:2, 3:4}[n],
    "tuple": lambda x, n: x*len((1, 2, 3)[:n]),
    "cat": lambda x, n: torch.cat([x]*n),
    "stack": lambda x, n: torch.stack([x]*n),
    "unsq": lambda x, n: x.unsqueeze(n),
    "sum": lambda x, n: x.sum(n),
    "transpose": lambda x, n: x.transpose(0, n),
    "perm": lambda x, n: x.permute(n, 0),
    "flatten": lambda x, n: x.flatten(0, n),
    "softmax": lambda x, n: x.softmax(n),
    "rand": lambda x, n: torch.rand(n, 2)*0,
    "randint": lambda x, n: torch.randint(n, (2, ))*0,
    "randperm": lambda x, n: torch.randperm(n)*0,
    "dropout": lambda x, n: F.dropout(x, n, training=False),
    "interp": lambda x, n: F.interpolate(x[None], size=n),
    "rshift": lambda x, n: x*(8>>n),
    "lshift": lambda x, n: x*(1<<n),
    "diag": lambda x, n: torch.diag(x[0], n),
    "kth": lambda x, n: x.kthvalue(n, 0)[0],
    "scatter": lambda x, n: x.scatter(0, torch.full((1, 2), n), 9.0),
    "gather": lambda x, n: x.gather(0, torch.full((1, 2), n)),
    "isel": lambda x, n: x.index_select(0, torch.tensor([n])),
    "set": lambda x, n: one_row_written(x, n),
    "setsl": lambda x, n: rows_written(x, n),
    "emb": lambda x, n: F.embedding(torch.tensor([n]), x),
    "ix": lambda x, n: x[torch.tensor([n])],
    "asstr": lambda x, n: torch.as_strided(x, (n, ), (1, )),
    "strd": lambda x, n: torch.as_strided(x, (2, ), (n, )),
    "new": lambda x, n: x.new_zeros(n, 2),
    "empty": lambda x, n: torch.empty(n).numel(),
    "unflat": lambda x, n: x.unflatten(0, (n, -1)),
    "tile": lambda x, n: x.tile((n, 1)),
    "rep_int": lambda x, n: x.repeat_interleave(n, 0),
    "cumul": lambda x, n: x.cumsum(n),
    "bern": lambda x, n: torch.zeros(2).bernoulli_(n)*0,
    "mpool": lambda x, n: F.max_pool1d(x[None], n),
    "apool": lambda x, n: F.avg_pool1d(x[None], n),
    "conv": lambda x, n: F.conv1d(x[None], torch.ones(1, 4, 1), stride=n),
    "fft": lambda x, n: torch.fft.fft(x, n).real,
    "norm": lambda x, n: x.norm(p=n),
    "clamp": lambda x, n: x.clamp(n, 2),
    "fill": lambda x, n: torch.zeros(2, dtype=torch.uint8).fill_(n),
    "tensor": lambda x, n: torch.tensor([n, 1]),
    "bincount": lambda x, n: torch.bincount(torch.ones(2, dtype=torch.long), minlength=n),
    "hist": lambda x, n: torch.histc(x, n),
    "quant": lambda x, n: x.quantile(n),
    "mpow": lambda x, n: torch.linalg.matrix_power(torch.eye(2)*2, n),
    "tensorsplit": lambda x, n: x.tensor_split(n),
    "vsplit": lambda x, n: torch.stack(x.vsplit(n)),
    "swap": lambda x, n: x.movedim(0, n),
    "rot": lambda x, n: x.rot90(n),
    "size": lambda x, n: x*x.size(n),
    "dimsh": lambda x, n: x*x.shape[n],
    "stride": lambda x, n: x*x.stride(n),
    "comp": lambda x, n: x*2 if n>2 else x*3,
    "str": lambda x, n: (x, str(n)),
    "fmt": lambda x, n: (x, f"{n}!"),
    "float": lambda x, n: x*float(n),
    "ret": lambda x, n: (x, n),
    "iter": lambda x, n: added_in_a_loop(x, n),
    "wh": lambda x, n: counted_down(x, n),
    "gn": lambda x, n: F.group_norm(x[None], n),
    "multin": lambda x, n: torch.multinomial(torch.ones(9), n)*0,
    "unbind": lambda x, n: x.unbind(n)[0],
    "ls": lambda x, n: torch.logspace(0, 1, n),
    "triui": lambda x, n: torch.triu_indices(n, 3),
    "comb": lambda x, n: torch.combinations(x[:, 0], n),
    "cart": lambda x, n: torch.vander(x[:, 0], n),
    "hann": lambda x, n: torch.hann_window(n),
    "pixel": lambda x, n: F.pixel_shuffle(torch.ones(1, 4, 2, 2), n),
    "glu": lambda x, n: F.glu(x, n),
}

# Functions of one number, and of two with the number in each place.
OF_MATH = [name for name in dir(math) if callable(getattr(math, name)) and not name.startswith("_")]
FORMS = {"alone": lambda function, n: function(n), "first": lambda function, n: function(n, 3), "second": lambda function, n: function(3, n)}


def outcome(function, *arguments):
    torch.manual_seed(0)
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


def same(ours, eager, text=True):
    if isinstance(eager, torch.Tensor):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-6, equal_nan=True)
    elif isinstance(eager, tuple) and isinstance(eager[0], type) and not text:
        assert ours[0] is eager[0]
    elif isinstance(eager, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(eager)
        for one, other in zip(ours, eager):
            same(one, other)
    else:
        assert type(ours) is type(eager) and ours == eager, (ours, eager)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_argument(name):
    def body(x, numbers):
        return PROGRAMS[name](x * 1.0, numbers.sum().item())

    compiled = torch.compile(body, backend="escapement")
    for number in NUMBERS:
        x = torch.arange(8.0).view(4, 2)
        same(outcome(compiled, x, torch.tensor([number, 0])), outcome(body, x, torch.tensor([number, 0])), name not in ANOTHER_TEXT)


def with_gradient(function, x, numbers):
    x = x.clone().requires_grad_()
    result = outcome(function, x, numbers)
    gradient = torch.autograd.grad(result.sum(), x)[0] if isinstance(result, torch.Tensor) and result.requires_grad else None
    return (result.detach(), gradient) if gradient is not None else result


@pytest.mark.parametrize("name", ["idx", "narrow", "narrow2", "zeros", "view", "pad", "topk", "empty", "rep_int", "quant", "sum", "loop", "sqrt", "set"])
def test_an_argument_in_training(name):
    """Operators that AOTAutograd takes apart, or whose checks come before them, say what they say of themselves."""
    def body(x, numbers):
        return PROGRAMS[name](x * 1.0, numbers.sum().item())

    compiled = torch.compile(body, backend="escapement")
    for number in NUMBERS:
        call = torch.arange(8.0).view(4, 2), torch.tensor([number, 0])
        same(with_gradient(compiled, *call), with_gradient(body, *call), name not in ANOTHER_TEXT)


@pytest.mark.parametrize("numbers", [(3, 0, -1, 1000), (0.5, -1.5, 0.0, math.inf, math.nan)], ids=["ints", "floats"])
@pytest.mark.parametrize("name", OF_MATH)
def test_of_math(name, numbers):
    for form in FORMS.values():
        def body(x, numbers):
            return x * form(getattr(math, name), numbers.sum().item())   # noqa: B023

        calls = [(torch.ones(2), torch.tensor([number])) for number in numbers]
        eager = [outcome(body, *call) for call in calls]
        if all(isinstance(answer, tuple) and answer[0] is TypeError for answer in eager):
            continue
        torch._dynamo.reset()
        compiled = torch.compile(body, backend="escapement")
        for call, wanted in zip(calls, eager):
            same(outcome(compiled, *call), wanted, text=False)
