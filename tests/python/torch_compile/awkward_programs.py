"""Programs that are hard to trace, as data: PROGRAMS maps a name to a function that makes a fresh program (state and all) of one tensor
of two axes. What each returns, prints, raises and leaves behind in `seen` is what eager leaves behind."""

import collections
import contextlib
import dataclasses
import enum
import functools
import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def plain(function):
    """A program without state of its own."""
    PROGRAMS[function.__name__] = lambda: function
    return function


# --- branches on data and sizes

@plain
def branch_on_a_sum(x):
    return x * 2 if x.sum() > 10 else x - 1


@plain
def branch_on_any(x):
    if (x > 3).any():
        x = x + 1
    return x * (2 if x.shape[0] > 2 else 3)


@plain
def while_on_data(x):
    count = 0
    while x.sum() > 1 and count < 3:
        x, count = x / 2, count + 1
    return x, count


@plain
def item_as_a_size(x):
    n = int((x > 2).sum().item())
    return torch.zeros(n) + 1, x * n


@plain
def tolist_of_a_row(x):
    return [v * 2 for v in x[:1].flatten().tolist()]


@plain
def truth_of_a_tensor(x):
    try:
        return x + 1 if x else x - 1
    except RuntimeError:
        return x * 5


@plain
def match_on_shape(x):
    match tuple(x.shape):
        case (1, n):
            return x * n
        case (m, 1):
            return x - m
        case _:
            return x.sum()


@plain
def early_return(x):
    for k in range(x.shape[0]):
        if k == 2:
            return x * k
    return x


# --- exceptions

@plain
def caught_index_error(x):
    try:
        return x[2] * 2
    except IndexError:
        return x.sum() * 0


@plain
def caught_shape_error(x):
    try:
        return x + torch.ones(3, 5)
    except RuntimeError:
        return x * 7


@plain
def caught_empty_max(x):
    try:
        return x.max()
    except RuntimeError:
        return x.sum() - 1


@plain
def caught_argmax(x):
    try:
        return x.argmax(0)
    except IndexError:
        return x.sum()


@plain
def caught_view(x):
    try:
        return x.t().view(-1) * 2
    except RuntimeError:
        return x * 3


@plain
def caught_stack(x):
    try:
        return torch.stack([x, x[:1]])
    except RuntimeError:
        return x * 4


@plain
def raised_value_error(x):
    if x.shape[0] == 1:
        raise ValueError("one row")
    return x + 1


@plain
def raised_in_a_finally(x):
    out = []
    try:
        out.append(x + 1)
        return out[0]
    finally:
        out.append(x)


@plain
def reraised(x):
    try:
        raise KeyError("a")
    except KeyError as error:
        if x.shape[1] == 1:
            raise RuntimeError("b") from error
        return x * 2


@plain
def uncaught_index(x):
    return x[2] + 1


@plain
def asserted(x):
    assert x.shape[0] != 1, "rows"
    return x * 2


@plain
def suppressed(x):
    with contextlib.suppress(ZeroDivisionError):
        return x * (1 / (x.shape[0] - 1))
    return x


@plain
def divided_by_a_size(x):
    return x * (6 / (x.shape[0] - 1)) + 7 % x.shape[0] + 5 // x.shape[1]


@plain
def caught_division(x):
    try:
        return x * (6 // (x.shape[0] - 1))
    except ZeroDivisionError:
        return x - 1


@plain
def root_of_a_size(x):
    return x * math.sqrt(x.shape[0] - 2)


@plain
def caught_in_a_caller(x):
    def largest(t):
        return t.amax(), t.argmin()
    try:
        return largest(x)
    except Exception:
        return x.sum()


@plain
def batch_norm_of_one(x):
    return F.batch_norm(x, None, None, training=True)


# --- functions, generators, closures

@plain
def generator(x):
    def parts():
        for k in range(3):
            yield x * k
    return sum(parts())


@plain
def generator_sent_to(x):
    def parts():
        got = yield x
        yield x * got
    steps = parts()
    next(steps)
    return steps.send(3)


@program
def closure_that_counts():
    calls = 0

    def run(x):
        nonlocal calls
        calls += 1
        return x * calls

    return run


@plain
def partial_and_lambda(x):
    return functools.partial(torch.add, alpha=2)(x, (lambda t: t * 2)(x))


@plain
def recursion(x):
    def down(t, n):
        return t if n == 0 else down(t * 2, n - 1)
    return down(x, x.shape[0] % 3)


@plain
def star_arguments(x):
    def inner(*args, scale=1, **named):
        return args[0] * scale + sum(named.values())
    return inner(*(x, 2), **{"scale": x.shape[0], "b": x.shape[1]})


@plain
def sorted_by_key(x):
    return [t * 1 for t in sorted([x * 2, x], key=lambda t: len(t.shape))], max([1, x.shape[0]]), list(reversed([x.shape[1], 3]))


@plain
def zipped(x):
    return [a + b for a, b in zip(x.unbind(1), itertools.count())]


@plain
def chained(x):
    return list(itertools.chain([x], (x * k for k in range(2)))), dict(enumerate([x + 1]))


@plain
def comprehension_over_rows(x):
    return [row.sum() for row in x]


# --- containers and classes

Pair = collections.namedtuple("Pair", "a b")


@plain
def named_tuples(x):
    pair = Pair(x + 1, x.shape[0])
    return pair, pair._replace(b=2)


@dataclasses.dataclass
class Box:
    value: object
    scale: int = 2


@plain
def dataclass_objects(x):
    box = Box(x, x.shape[0])
    box.scale += 1
    return box.value * box.scale


class Mode(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


@plain
def enumerations(x):
    mode = Mode.DOUBLE if x.shape[0] > 2 else Mode.TRIPLE
    return x * mode.value, mode is Mode.DOUBLE


class Scaled:
    unit = 3

    def __init__(self, by):
        self.by = by

    @property
    def twice(self):
        return self.by * 2

    @staticmethod
    def plus(t):
        return t + 1

    @classmethod
    def units(cls, t):
        return t * cls.unit

    def __call__(self, t):
        return self.plus(self.units(t)) * self.twice

    def __getattr__(self, name):
        return 5 if name == "missing" else object.__getattribute__(self, name)


@plain
def descriptors(x):
    scaled = Scaled(x.shape[0])
    return scaled(x) + scaled.missing


@program
def dict_mutation():
    seen = {}

    def run(x):
        seen[x.shape[0]] = seen.get(x.shape[0], 0) + 1
        return x * len(seen), dict(seen)

    return run


@program
def list_and_set_mutation():
    items, sizes = [], set()

    def run(x):
        items.append(x.shape[0])
        sizes.add(x.shape[1])
        return x + len(items), sorted(sizes), items[-1]

    return run


@plain
def default_dict(x):
    found = collections.defaultdict(list)
    found["a"].append(x)
    found[x.shape[0]].append(x * 2)
    return [len(v) for v in found.values()], found["a"][0]


@plain
def deque(x):
    queue = collections.deque([x, x + 1], maxlen=2)
    queue.append(x * 3)
    return list(queue)


@plain
def nested_outputs(x):
    return {"a": [x, (x * 2, None)], "b": x.shape[0], "c": {"d": x.dtype}}


@plain
def nothing_returned(x):
    x + 1


@plain
def not_a_tensor(x):
    return x.shape, x.numel(), x.dim(), str(x.dtype), x.is_contiguous()


@plain
def same_tensor_twice(x):
    y = x * 2
    return y, y, x


@plain
def text(x):
    return f"{x.shape[0]} rows" + "%d" % x.shape[1] + str(tuple(x.shape)), x * 1


@plain
def size_as_a_key(x):
    table = {1: 10, 5: 50}
    return x * table.get(x.shape[0], 7)


@plain
def numbers_of_sizes(x):
    return x * math.sqrt(x.shape[0]) + math.gcd(x.shape[0], 6) + (x.shape[0] or 9) + int(x.shape[1] == 1) + float(x.shape[1])


@plain
def copies_of_a_list(x):
    return torch.tensor([x.shape[0]] * 2 + [0] * x.shape[1])


# --- numpy

@plain
def through_numpy(x):
    return torch.from_numpy(np.sin(x.numpy())) + 1


@plain
def numpy_inside(x):
    return torch.as_tensor(np.arange(x.shape[0])) * x.sum()


# --- modules, hooks, state

class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros(1))
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls += 1
        self.steps += 1
        self.last = x.shape[0]
        return x * self.weight * self.calls + self.steps


@program
def module_state():
    return Counting()


@program
def forward_hooks():
    module = Counting()
    module.register_forward_hook(lambda m, args, out: out * 2)
    module.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    return module


@program
def list_of_modules():
    modules = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Identity(), torch.nn.Dropout(0.0)])

    def run(x):
        for module in modules:
            x = module(x)
        return x * len(modules)

    return run


@plain
def gradient_hook(x):
    y = (x * 2).requires_grad_()
    (y * y).sum().backward()
    return y.grad


# --- autograd and transforms

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, by):
        ctx.by = by
        return t * by

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.by, None


@plain
def custom_function(x):
    return Doubled.apply(x, x.shape[0] + 1)


@plain
def functional_grad(x):
    return torch.func.grad(lambda t: (t * t).sum())(x)


@plain
def mapped(x):
    return torch.vmap(lambda row: row * 2 + row.sum())(x)


@plain
def mapped_with_a_number(x):
    return torch.vmap(lambda row, k: row * k, in_dims=(0, None))(x, 3)


@plain
def jacobian(x):
    return torch.func.jacrev(lambda t: t.sum(0))(x)


@plain
def checkpointed(x):
    return checkpoint(lambda t: t.sin() * t, x, use_reentrant=False)


@plain
def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    return y + x, torch.is_grad_enabled()


@plain
def inference(x):
    with torch.inference_mode():
        return (x * 2).sum() + x.shape[0]


@plain
def autocast_switched(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ x
    return y, z


@plain
def detached(x):
    y = x.detach().clone()
    y.zero_()
    return x + y


# --- memory

@plain
def in_place_on_input(x):
    x.add_(1)
    x[:, :1] = 0
    return x * 2


@plain
def view_of_input(x):
    return x.t(), x[1:], x.view(-1)


@plain
def write_through_a_view(x):
    y = x * 1
    y.view(-1)[::2] = 5
    return y


@plain
def out_argument(x):
    out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out


@plain
def masked_assignment(x):
    y = x.clone()
    y[y > 2] = 0
    return y, y[y > 1]


@plain
def resized(x):
    y = x.clone()
    y.unsqueeze_(0)
    return y.squeeze(0), y.shape


# --- kinds of tensors

@plain
def complex_numbers(x):
    y = torch.complex(x, x + 1)
    return y.abs(), y.conj(), torch.view_as_real(y * y)


@plain
def sparse(x):
    return torch.sparse.mm(x.to_sparse(), x.t())


class Tagged(torch.Tensor):
    pass


@plain
def subclass(x):
    return x.as_subclass(Tagged) * 2


@plain
def integers(x):
    return x.long() // 2, x.long() % 3, x.bool().sum(), x.to(torch.int8) << 1


@plain
def random_numbers(x):
    torch.manual_seed(3)
    return torch.rand(x.shape) + x, torch.randn_like(x), torch.randperm(x.shape[0])


# --- torch's own control flow, other compilers, the world

@plain
def conditional(x):
    return torch.cond(x.sum() > 10, lambda t: t * 2, lambda t: t - 1, (x,))


@plain
def nested_compile(x):
    return torch.compile(lambda t: t * 2, backend="eager")(x) + 1


@plain
def disabled_callee(x):
    return _eager_only(x) + 1


@torch.compiler.disable
def _eager_only(x):
    return x * x.shape[0]


@program
def printing():
    def run(x):
        print("rows", x.shape[0])
        return x * 2

    return run


@plain
def context_managers(x):
    @contextlib.contextmanager
    def scaled(by):
        yield x * by
    with scaled(3) as y, torch.set_grad_enabled(False):
        return y + 1


@plain
def default_dtype_read(x):
    return torch.ones(2, dtype=torch.get_default_dtype()) + x.sum()


@plain
def isinstance_questions(x):
    return isinstance(x.shape[0], int), isinstance(x, torch.Tensor), type(x).__name__, callable(x), hasattr(x, "shape"), x * 1


@torch.library.custom_op("awkward::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


@plain
def custom_operator(x):
    return doubled(x) + 1


@torch.library.custom_op("awkward::bumped", mutates_args=("x",))
def bumped(x: torch.Tensor) -> None:
    x.add_(1)


@plain
def mutating_operator(x):
    y = x * 1
    bumped(y)
    return y * 2
