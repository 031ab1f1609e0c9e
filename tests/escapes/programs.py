"""The planted escapes: a table of small programs, each with the ledger entries that its first call must leave, and no others.

`@program(make, (kind, relation, path), ...)`: `make(d)` gives the arguments for sizes d.a, d.b, ... (5, 7, 11, 3 in the first call, then
random). The entries stand in the order of the lines marked `# escape`, in the function or in one of its `helpers`. A program without
entries pins nothing. Marks, each with its reason where it is used:

  most=N      compiles that one function and key may take, where it is not the promised 3
  fixed       the layout of the arguments is part of the program: other strides are not tried
  raises      eager raises for some sizes, and so must we: the same class
"""

import dataclasses
import math
import typing

import torch
import torch.nn.functional as F


@dataclasses.dataclass
class Program:
    function: typing.Callable
    make: typing.Callable
    entries: tuple
    helpers: tuple = ()
    most: int = 3
    fixed: bool = False
    raises: bool = False

    @property
    def name(self):
        return getattr(self.function, "__name__", type(self.function).__name__)


PROGRAMS = []


def program(make, *entries, **marks):
    def note(function):
        made = function() if isinstance(function, type) else function
        PROGRAMS.append(Program(made, make, entries, **marks))
        return function
    return note


def matrix(d):
    return (torch.randn(d.a, d.b),)


def two(d):
    return torch.randn(d.a, d.b), torch.randn(d.a, d.b)


def vector(d):
    return (torch.randn(d.a),)


# --- nothing escapes

@program(two)
def pointwise(x, y):
    return x * 2 + y


@program(matrix)
def size_to_a_torch_op(x):
    return torch.zeros(x.size()) + x.new_ones(x.size(0), x.size(1)) + x


@program(matrix)
def arithmetic_on_sizes(x):
    rows, columns = x.shape
    return x.new_zeros(rows * 2 + 1, columns // 2).sum() + x.sum() * rows


@program(matrix)
def square_root_of_a_size(x):
    return x / math.sqrt(x.shape[-1] + 1)


@program(lambda d: (torch.randn(1, d.b), torch.randn(d.a, d.b)))
def expand_by_twice_a_size(x, y):
    return x.expand(2 * y.size(0), -1) + 1


@program(lambda d: (torch.randn(d.a, d.b, d.c),))
def flattened_and_back(x):
    return x.reshape(x.size(0), x.size(1) * x.size(2)).view(x.shape) + 1


@program(lambda d: (torch.randn(d.a, d.b), torch.randn(d.c, d.b)))
def concatenated(x, y):
    return torch.cat([x, y]) * 2


@program(lambda d: ([torch.randn(d.a, d.b), torch.randn(d.c, d.b)], {"w": torch.randn(d.b)}))
def in_containers(xs, named):
    return torch.cat(xs) * named["w"]


@program(lambda d: (torch.randn(d.a), d.b))
def integer_argument(x, n):
    return x * n + n


@program(lambda d: (torch.randn(d.a), d.b * 0.5))
def float_argument(x, scale):
    return x * scale + scale


@program(lambda d: (torch.randn(d.a), [d.b, d.c]))
def integers_in_a_list(x, numbers):
    return x * numbers[0] + numbers[1]


@program(lambda d: (torch.randn(d.a, d.b), d.c))
def slice_with_a_computed_end(x, n):
    return x[:, : n // 2] * 2


@program(lambda d: (torch.randn(d.a, 3).relu(),))
def nonzero_pointwise_reduction(x):
    return (x.nonzero().double() * 2 + 1).sum(0)


@program(lambda d: (torch.randn(d.a),))
def masked(x):
    return x[x > 0].sum() * 2


@program(lambda d: (torch.randn(d.a), torch.tensor(d.b)))
def item_as_a_number(x, n):
    return x * n.item()


@program(lambda d: (torch.randn(d.a, d.b),))
def softmax_over_a_dim(x):
    return torch.softmax(x, -1)


@program(lambda d: (torch.randn(d.a, 8),))
class linear_layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self.eval()

    def forward(self, x):
        return self.second(F.gelu(self.first(x)))


@program(lambda d: (torch.randn(d.a, d.b),))
class module_attributes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.times = 0.5, 3

    def forward(self, x):
        return x * self.scale + self.times


OFFSET = torch.arange(4.0)
RATE = 0.25


@program(lambda d: (torch.randn(d.a, 4),))
def globals_and_closures(x):
    return x * RATE + OFFSET


@program(lambda d: (torch.randn(d.a, d.b),))
def keyword_arguments(x, *, dim=-1):
    return x.cumsum(dim=dim)


@program(lambda d: (torch.randn(d.a, d.b),))
def strides_in_the_graph(x):
    return x.t().contiguous() + 1


@program(lambda d: (torch.randn(d.a, d.b), torch.randn(d.b, d.c)))
def matrix_product(x, y):
    return x @ y + 1


@program(lambda d: (torch.randn(d.a),))
def size_in_a_comparison_that_is_decided(x):
    return x * 2 if x.size(0) >= 0 else x


@program(lambda d: (torch.randn(d.a),))
def cond_on_a_value(x):
    return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))


@program(lambda d: (torch.randn(d.a),))
def cond_on_a_size(x):
    return torch.cond(x.size(0) > 4, lambda t: t * 2, lambda t: t - 1, (x,))


@program(lambda d: (torch.randn(d.a),), fixed=True)  # eager's own while_loop refuses other strides
def while_loop_over_values(x):
    return torch._higher_order_ops.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x))[1]


# --- branches

@program(vector, ("branch", "L['x'].size(0) > 4", "L['x'] -> size(0) -> gt"))
def branch_on_a_size(x):
    if x.size(0) > 4:  # escape
        return x * 2
    return x + 1


@program(matrix, ("branch", "L['x'].size(1) != 10", "L['x'] -> size(1) -> eq"))
def equal_to_ten(x):
    if x.size(1) == 10:  # escape
        return x * 2
    return x + 1


@program(matrix, ("branch", "L['x'].size(1) > L['x'].size(0)", "L['x'] -> size(1) -> gt"))
def one_size_against_another(x):
    return x.sum(0) if x.shape[1] > x.shape[0] else x.sum(1)  # escape


@program(matrix, ("branch", "Mod(L['x'].size(0), 2) != 0", "L['x'] -> size(0) -> mod -> eq"))
def parity(x):
    if x.size(0) % 2 == 0:  # escape
        return x[::2] * 1
    return x * 3


@program(lambda d: (torch.randn(d.a, d.b), torch.randn(d.c, d.b)),
         ("branch", "L['x'].size(0) + L['y'].size(0) > 12", "L['x'] -> cat -> size(0) -> gt"))
def branch_after_cat(x, y):
    z = torch.cat([x, y])
    if z.size(0) > 12:  # escape
        return z * 2
    return z - 1


@program(lambda d: (torch.randn(d.a, d.b),), ("branch", "L['x'].size(0)*L['x'].size(1) > 12", "L['x'] -> reshape -> size(0) -> gt"))
def branch_after_reshape(x):
    y = x.reshape(-1)
    return y * 2 if y.size(0) > 12 else y  # escape


@program(lambda d: (torch.randn(d.a, 3),), ("branch", "L['x'].size(0) <= 6", "L['x'] -> matmul -> size(0) -> gt"))
def branch_after_matmul(x):
    y = x @ torch.ones(3, 2)
    if y.size(0) > 6:  # escape
        return y.relu()
    return y


@program(vector, ("branch", "L['x'].size(0) <= 8", "L['x'] -> size(0) -> gt"),
         ("branch", "L['x'].size(0) <= 6", "L['x'] -> size(0) -> gt"), ("branch", "L['x'].size(0) > 4", "L['x'] -> size(0) -> gt"))
def chain_of_branches(x):
    if x.size(0) > 8:  # escape
        return x * 2
    if x.size(0) > 6:  # escape
        return x + 1
    if x.size(0) > 4:  # escape
        return x - 1
    return x / 2


@program(vector, ("branch", "L['x'].size(0) != 0", "L['x'].size(0)"))
def truth_of_a_size(x):
    if x.size(0):  # escape
        return x * 2
    return x.new_ones(3)


@program(lambda d: (torch.randn(d.a), d.b), ("branch", "L['n'] > 3", "L['n'] -> gt"))
def branch_on_an_integer(x, n):
    if n > 3:  # escape
        return x * n
    return x + n


@program(matrix, ("branch", "L['x'].size(0)*L['x'].size(1) > 30", "L['x'] -> numel -> gt"))
def branch_on_the_number_of_elements(x):
    if x.numel() > 30:  # escape
        return x.sum()
    return x.mean() + 1


def helper(t):
    if t.shape[0] > 6:  # escape
        return t * 2
    return t + 3


@program(matrix, ("branch", "L['x'].size(1) > 6", "L['x'] -> t -> size(0) -> gt"), helpers=(helper,))
def branch_in_a_callee(x):
    return helper(x.t()) + 1


@program(matrix, ("branch", "L['x'].size(0) <= 6", "L['x'] -> size(0) -> gt"), ("branch", "L['x'].size(1) > 6", "L['x'] -> size(1) -> gt"))
def two_branches_on_two_dims(x):
    y = x * 2 if x.size(0) > 6 else x + 1  # escape
    return y.sum(0) if x.size(1) > 6 else y.sum(1)  # escape


@program(lambda d: (torch.randn(d.a, d.b, d.c),), ("branch", "L['x'].size(1) > 4", "L['x'] -> size(1) -> gt"))
def one_of_three_dims_is_read(x):
    if x.shape[1] > 4:  # escape
        return x.sum(1)
    return x.amax(2) if x.size(2) else x.sum(2)


@program(lambda d: (torch.randn(d.a), d.b * 0.5), ("branch", "L['scale'] > 1.0", "L['scale'] -> item -> gt"))
def branch_on_a_float(x, scale):
    if scale > 1.0:  # escape
        return x * scale
    return x - scale


@program(lambda d: (torch.randn(1, 2, d.n),), ("branch", "L['x'].size(0) == 1 and L['x'].size(1) == 2 and L['x'].size(2) == 3", "L['x'].size(0)"), raises=True)
def assert_on_a_shape(x):
    assert x.shape == (1, 2, 3)  # escape
    return x * 2


@program(vector, ("branch", "L['x'].size(0) > 2", "L['x'].size(0)"), raises=True)
def assert_on_a_size(x):
    assert x.size(0) > 2, "too short"  # escape
    return x * 2


@program(lambda d: (torch.randn(d.a, d.b),), ("branch", "L['x'].size(0) <= 20", "L['x'] -> size(0) -> gt"), raises=True)
def raises_for_a_size(x):
    if x.size(0) > 20:  # escape
        raise ValueError("too long")
    return x * 2


# --- exact values

@program(lambda d: (torch.randn(d.a, 3),), ("exact value", "L['x'].size(0) == 5", "L['x'] -> size(0)"))
def loop_over_a_size(x):
    total = x.sum()
    for i in range(x.size(0)):  # escape
        total = total + x[i].sum() * i
    return total


@program(vector, ("exact value", "L['x'].size(0) == 5", "L['x'] -> size(0)"))
def length_of_a_range(x):
    y = x * 2
    return y * len(range(x.size(0)))  # escape


@program(vector, ("exact value", "L['x'].size(0) == 5", "L['x'] -> size(0)"))
def list_of_a_size(x):
    zeros = [0] * x.size(0)  # escape
    return x + len(zeros)


@program(matrix, ("exact value", "L['x'].size(1) == 7", "L['x'] -> size(1)"))
def in_an_f_string(x):
    names = {f"k{x.size(1)}": 2.0}  # escape
    return x * list(names.values())[0]


@program(vector)
def in_a_format_operator(x):
    # Dynamo has no rule for `%` of a string and a symbol: the function runs eagerly, and the report says so.
    return x * len("k%d" % x.size(0))


@program(vector, ("exact value", "L['x'].size(0) == 5", "L['x'] -> size(0)"))
def as_a_key(x):
    table = {5: 2.0, 6: 3.0}
    return x * table.get(x.size(0), 1.0)  # escape


@program(lambda d: (torch.randn(d.a), torch.tensor([d.b, d.c])))
def tolist_as_numbers(x, numbers):
    first, second = numbers.tolist()
    return x * first + second


@program(lambda d: (torch.randn(d.a, d.b),))
def integer_of_a_size(x):
    return x * int(x.size(0)) + float(x.size(1))


# --- operators

@program(lambda d: (torch.randn(d.a, d.b), torch.randn(d.c, d.b)))
def broadcasting_leading_dims(x, y):
    return x.unsqueeze(1) * y.unsqueeze(0)


@program(lambda d: (torch.randn(d.a), torch.randn(d.one_or_a)))
def broadcasting_at_one(x, y):
    return (x + y) * 2


@program(lambda d: (torch.randn(2 * d.a + d.n % 2),), raises=True)
def reshape_in_pairs(x):
    return x.reshape(-1, 2).sum(1)


@program(lambda d: (torch.randn(d.a), d.n), raises=True)
def checked(x, n):
    torch._check(n <= x.size(0), lambda: "n is too large")
    return x * n


@program(lambda d: (torch.randn(d.a), torch.tensor(d.n)), raises=True)
def index_out_of_range(x, i):
    return x[i.item()] * 2


@program(lambda d: (torch.randn(d.a, d.b), torch.randn(d.b if d.n % 2 else d.c, 2)), raises=True)
def inner_sizes_disagree(x, y):
    return x @ y


@program(lambda d: ([torch.randn(d.a) for _ in range(d.n)],))
def lists_of_any_length(xs):
    return sum(x.sum() for x in xs) + torch.zeros(1)


@program(lambda d: (torch.randn(d.a, d.b, d.c),), ("branch", "L['x'].size(0)*L['x'].size(1)*L['x'].size(2) != 0", "L['x'].size(0)"))
def view_of_a_product(x):
    return x.view(x.size(0) * x.size(1), -1).sum() if x.numel() else x.sum()  # escape


@program(lambda d: (torch.randn(d.a, d.b), d.b % 2), ("framework", "L['dim'] == 1", "L['dim']"))
def dim_as_an_argument(x, dim):
    return x.sum(dim)  # escape
