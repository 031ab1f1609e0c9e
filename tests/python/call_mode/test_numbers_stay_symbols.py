"""What Python does with a size, or with a number among the arguments, and stays an expression: one recording serves all of them, to the last bit of eager's number,
with eager's errors. Functions of `math` and NumPy, `int()`, `float()`, `len()`, bits; functions of torch whose schemas want a number; `lru_cache`."""

import functools
import itertools
import math
import operator
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from answered import outcome

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SIZES = (3, 4, 5, 6, 7, 2, 9, 16, 33, 64, 100, 3)

# Of a size n: a number. Recordings: 1, unless it is said.
NUMBERS = {
    "int": int, "int of a half": lambda n: int(n / 2), "int of a part": lambda n: int(n * 0.7), "int of a text's base": lambda n: int(n, *()), "float": float, "float of a half": lambda n: float(n / 2),
    "round": lambda n: round(n * 0.7), "floor": lambda n: math.floor(n * 0.7), "ceil": lambda n: math.ceil(n / 3), "trunc": lambda n: math.trunc(n / 3),
    **{name: getattr(math, name) for name in ("sqrt", "isqrt", "log2", "log10", "log1p", "fabs", "sin", "cos", "tan", "tanh", "atan")}, "log": math.log,
    "log to a base": lambda n: math.log(n, 7), "exp": lambda n: math.exp(-n), "expm1": lambda n: math.expm1(1 / n), "pow": lambda n: math.pow(n, 0.37),
    "pow of": lambda n: math.pow(0.9, n), "power": lambda n: float(n) ** -0.5, "entropy": lambda n: math.log(n) / math.log(512), "steps": lambda n: int(math.ceil(n / 4)) * 4, "levels": lambda n: int(math.log2(n)),
    "prod": lambda n: math.prod((n, 3, n)), "mapped": lambda n: sum(map(int, (n / 2, n / 3))), "np.sqrt": lambda n: float(np.sqrt(n)),
    "np.ceil": lambda n: int(np.ceil(n / 2)), "np.floor": lambda n: int(np.floor(n / 3)), "np.prod": lambda n: int(np.prod((n, 4))), "left": lambda n: n << 3, "right": lambda n: n >> 1, "masked": lambda n: n & 7,
    "mask of": lambda n: 15 & n, "odd": lambda n: (n & 1) + 2, "padded": lambda n: (n + 7) & ~7 if False else (n + 7) // 8 * 8, "bits of a negative": lambda n: (-n) & 3, "right of a negative": lambda n: (-n) >> 1,
    "int of an int": lambda n: int(int(n)), "float of float": lambda n: float(float(n)), "int of a float": lambda n: int(float(n)), "round trip": lambda n: int(math.sqrt(n * n)),
}
READ = {   # the value itself matters: a recording each
    "log of a base": lambda n: math.log(100, n), "levels by log": lambda n: math.floor(math.log(n) / math.log(2) + 1e-9),
    "or": lambda n: n | 1, "xor": lambda n: n ^ 5, "mask with holes": lambda n: n & 5, "shift by it": lambda n: 1 << min(n, 20), "gcd": lambda n: math.gcd(n, 12), "digits": lambda n: round(n / 3, 2), "text": lambda n: len(f"{n}"),
    "bit_length": lambda n: n.bit_length(), "int of text": lambda n: int(str(n)), "comb": lambda n: math.comb(n, 2),
}


def shown(value):
    return type(value), value.hex() if isinstance(value, float) else value


@pytest.mark.parametrize("name", [*NUMBERS, *READ])
def test_of_a_size(name):
    asked = NUMBERS.get(name) or READ[name]
    jitted = escapement.jit(lambda x: (asked(x.shape[0]), x * asked(x.shape[0])))
    with torch.no_grad():
        for n in SIZES:
            x = torch.ones(n, 1)
            number, product = jitted(x)
            assert shown(number) == shown(asked(n)) and torch.equal(product, x * asked(n)), n
    if name in NUMBERS:
        assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


@pytest.mark.parametrize("name", [name for name in NUMBERS if not {"bits", "right", "left", "masked", "mask", "odd", "isqrt"} & set(name.split())])
@pytest.mark.parametrize("kind", [int, float])
def test_of_a_number(name, kind):
    """Where it is not defined, too."""
    asked = NUMBERS[name]
    jitted = escapement.jit(lambda x, n: (asked(n), x * 2))
    with torch.no_grad():
        for n in (3, 4, 1, 0, -1, -5, 7, 1000, 10, 2**40, 2**53 + 1, 12, *(() if kind is int else (0.5, math.inf, -math.inf, math.nan, 1e300, -0.0, 1e-300))):
            wanted, found = (outcome(lambda x, n, run=run: shown(run(x, n)[0]), torch.ones(2), kind(n)) for run in (lambda x, n: (asked(n), x), jitted))
            assert found == wanted or type(found) is type(wanted) is tuple and "nan" in (*found, *wanted)[1::2], (n, wanted, found)


def counted(rows):
    @functools.lru_cache(maxsize=None)
    def padded(n):
        return (n + rows - 1) // rows * rows
    return padded


@functools.lru_cache(maxsize=None)
def padded(n):
    return (n + 7) // 8 * 8


@functools.lru_cache(maxsize=128)
def shape_for(shape, heads=2):
    batch, *rest = shape
    return (batch, heads, math.prod(rest) // heads)


# Of a tensor (n, 4): a tensor. Recordings, for all sizes.
TENSORS = {
    "len": (lambda x: x.sum() / len(x), 1), "len of parts": (lambda x: x * len(x[1:]), 1), "zeros(len)": (lambda x: torch.zeros(len(x), 1) + x, 1), "len of a list": (lambda x: x * len([x, x]), 1),
    "len of what is not indexed": (lambda x: x * len(x.shape), 1), "key=len": (lambda x: max([x[:1], x], key=len) * 2, 1), "arange(len)": (lambda x: x + torch.arange(len(x))[:, None], 1),
    "tensor(n)": (lambda x: x * torch.tensor(x.shape[0]), 1), "tensor([n])": (lambda x: x * torch.tensor([x.shape[0], 2])[0], 1), "tensor of shape": (lambda x: torch.tensor(x.shape).prod() + x, 1),
    "tensor of a half": (lambda x: x * torch.tensor(x.shape[0] / 2), 1), "tensor with dtype": (lambda x: x * torch.tensor(x.shape[0], dtype=torch.float32), 1), "nested": (lambda x: torch.tensor([[x.shape[0], 1], [2, 3]]) + x.sum(), 1),
    "as_tensor": (lambda x: x * torch.as_tensor(x.shape[0]), 1), "linspace": (lambda x: x * torch.linspace(0, 1, x.shape[0])[:, None], 1), "linspace to n": (lambda x: torch.linspace(0, x.shape[0], 5) + x.sum(), 1),
    "logspace": (lambda x: x + torch.logspace(0, 1, x.shape[0])[:, None], 1), "hann": (lambda x: x * torch.hann_window(x.shape[0])[:, None], 1), "bartlett": (lambda x: x * torch.bartlett_window(x.shape[0])[:, None], 1),
    "avg_pool": (lambda x: F.avg_pool2d(x[None, None], x.shape) + 1, 1), "avg_pool1d": (lambda x: F.avg_pool1d(x.t()[None], x.shape[0]) + 1, 1), "max_pool": (lambda x: F.max_pool2d(x[None, None], (x.shape[0], 1)) + 1, 1),
    "one_hot": (lambda x: F.one_hot(torch.arange(x.shape[0]), x.shape[0]) @ x.long(), 1), "tril_indices": (lambda x: torch.tril_indices(x.shape[0], 4).sum() + x, 1), "diagonal": (lambda x: x.diagonal(x.shape[0] // 64) * 2, 2),
    "fftfreq": (lambda x: x * torch.fft.fftfreq(x.shape[0])[:, None], 1), "tensor_split": (lambda x: x.tensor_split(2)[0] * 2, 2),
    "cached": (lambda x: F.pad(x, (0, 0, 0, padded(x.shape[0]) - x.shape[0])) + 1, 1), "cached with a closure": (lambda x, f=counted(8): x * f(x.shape[0]), 8), "cached shape": (lambda x: x.reshape(shape_for(x.shape)) + 1, 1),
    "cached keyword": (lambda x: x.reshape(shape_for(shape=x.shape, heads=4)) + 1, 1), "isinstance": (lambda x: x * (2 if isinstance(int(x.shape[0]), int) else 3), 1), "type": (lambda x: x * (2 if type(float(x.shape[0])) is float else 3), 1),
    "index": (lambda x: x[int(x.shape[0] * 0.5)] + 1, 1), "slice": (lambda x: x[: math.ceil(x.shape[0] / 2)] + 1, 1), "topk": (lambda x: x.topk(int(math.sqrt(x.shape[0])), dim=0)[0] + 1, 1), "interpolate": (lambda x: F.interpolate(x.t()[None], size=int(x.shape[0] * 1.5)) + 1, 1),
}


@pytest.mark.parametrize("name", TENSORS)
def test_of_a_tensor(name):
    fn, recordings = TENSORS[name]
    jitted = escapement.jit(fn)
    with torch.no_grad():
        for n in (3, 4, 5, 6, 7, 9, 10, 33, 65, 3):
            x = torch.arange(4.0 * n).reshape(n, 4)
            found, wanted = jitted(x), fn(x)
            torch.testing.assert_close(found, wanted)
            assert found.stride() == wanted.stride() and found.dtype is wanted.dtype, n
    assert jitted.info()["recordings"] <= recordings and not jitted.info()["eager"]


def test_outside_of_recordings_they_are_what_they_were():
    escapement.jit(lambda x: x * math.log(len(x)))(torch.ones(3))
    assert math.log(2) == 0.6931471805599453 and int("7", base=8) == 7 and int() == 0 and float("1.5") == 1.5 and int(2.9) == 2
    assert type("Sub", (int,), {})(3) == 3 and int.__new__(bool.__mro__[1], 5) == 5 and isinstance(torch.SymInt, type) and len([1]) == 1
    for wrong in (lambda: int([]), lambda: int("x"), lambda: int(1, 2, 3), lambda: float({}), lambda: math.sqrt(-1), lambda: math.log(0), lambda: int(x=1)):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    assert "len" not in globals() and torch.linspace.__module__ != "escapement" and operator.index(3) == 3


def test_while_another_thread_records():
    """What stands in for names of a library, and of builtins, for the time of a recording, is no change of the program's."""
    def used(x):
        return x * torch.linspace(0, 1, len(x))[:, None] + torch.tensor(len(x)) + F.avg_pool1d(x.t()[None], 1)[0].t() + x.diagonal(0).sum()

    jitted, ended = escapement.jit(used), threading.Event()

    def record():
        while not ended.is_set():
            escapement.jit(lambda x: x * len(x) + torch.linspace(0, 1, x.shape[0])[:, None])(torch.ones(3, 4))

    with torch.no_grad():
        jitted(torch.ones(5, 4))
        other = threading.Thread(target=record)
        other.start()
        try:
            for n in [5, 4, 6, 7] * 40:
                torch.testing.assert_close(jitted(torch.ones(n, 4)), used(torch.ones(n, 4)))
        finally:
            ended.set()
            other.join()
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"] and jitted.info()["keys"] == 1


def test_they_are_the_same_functions():
    """Tables that somebody has made of them find them (Dynamo has one)."""
    code = """
import math, torch
table = {getattr(math, name): name for name in dir(math) if callable(getattr(math, name))} | {int: "int", float: "float", len: "len"}
hashes = [*map(hash, table)]
import escapement
f = escapement.jit(lambda x: x * math.log(x.shape[0]) * math.sqrt(x.shape[0]) * int(x.shape[0] / 2) * float(len(x)))
f(torch.ones(3)); f(torch.ones(4))
assert f.info()["recordings"] == 1 and [*map(hash, table)] == hashes
assert table[math.log] == "log" and table[math.sqrt] == "sqrt" and table[int] == "int"
def warm(n):
    return math.sqrt(n) + math.log(n) + math.pow(n, 2) + int(n) + float(n) + len([n])
for _ in range(1000):
    warm(4.0)
g = escapement.jit(lambda x: x * warm(x.shape[0]))
for n in (3, 4, 5, 6):
    assert torch.equal(g(torch.ones(n)), torch.ones(n) * warm(n))
assert g.info()["recordings"] == 1, g.info()["recordings"]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


# Of a tensor: what Python's builtins read of its data, which is what `item()` reads.
DATA = {
    "int of a sum": lambda x: x.flatten()[: int((x > 0).sum())] * 2, "zeros of an int": lambda x: torch.zeros(int((x > 0).sum()) + 1) + 1, "float of a maximum": lambda x: x * float(x.max()),
    "index": lambda x: x[int(x[:, 0].argmax())] * 2, "float of an integer": lambda x: x * float(x.argmax()), "int of a float": lambda x: x * int(x.sum()), "float of half": lambda x: x * float(x.half().mean()),
    "int of a bool": lambda x: x * int((x > 0).any()), "returned": lambda x: (x, int(x.argmax()), float(x.sum())), "compared": lambda x: x * 2 if float(x.sum()) > 0 else x - 1, "loop": lambda x: sum(x * i for i in range(int(x.shape[0]))),
    "of one element": lambda x: x * float(x.sum().reshape(1)), "of two": lambda x: x * float(x[:2, 0]), "of none": lambda x: x * int(x[:0, 0]), "infinite": lambda x: x * int(x.sum() / 0), "len of a number": lambda x: x * len(x.sum()), "len of a size": lambda x: x * len(x.shape[0]),
    "mapped": lambda x: x * sum(map(float, x[:2, 0])), "of a parameter": lambda x: x * len(torch.nn.Parameter(x)),
}


@pytest.mark.parametrize("name", DATA)
def test_of_data(name):
    fn = DATA[name]
    jitted = escapement.jit(fn)
    with torch.no_grad():
        for seed, n in enumerate((3, 4, 2, 5, 3, 6, 7, 8, 9, 4)):
            x = torch.randn(n, 4, generator=torch.Generator().manual_seed(seed))
            wanted, found = outcome(fn, x), outcome(jitted, x)
            assert type(found) is type(wanted)
            if isinstance(wanted, (torch.Tensor, tuple)) and not isinstance(wanted[0], type):
                torch.testing.assert_close(found, wanted, equal_nan=True, rtol=1e-5, atol=1e-5)
            else:
                assert found == wanted
    if name in ("int of a sum", "zeros of an int", "float of a maximum", "index", "float of half", "returned", "mapped"):
        assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]
RAISE = "of two", "of none", "infinite", "len of a number", "len of a size"


@pytest.mark.parametrize("name", [*TENSORS, *(name for name in DATA if name not in RAISE), "log", "sqrt", "exp"])
def test_behind_a_write_and_before_a_branch(name):
    """The program may have to run once more, where nothing is recorded and numbers are Python's: what was said in other words then cannot be left out."""
    asked = TENSORS[name][0] if name in TENSORS else DATA[name] if name in DATA else lambda x: x * getattr(math, name)(x.shape[0] / 10)

    def program(x):
        x.add_(1)
        y = asked(x)
        y = y[0] if isinstance(y, tuple) else y
        return (y * 2 if y.sum() > 30 else y - 1) if x[0, 0] > 3 else y + len(x)

    jitted = escapement.jit(program)
    with torch.no_grad():
        for start, n in itertools.product((0.0, 5.0, -50.0, 3.0, -3.0), (3, 4, 7, 3)):
            ours, theirs = (start + torch.arange(4.0 * n).reshape(n, 4) for _ in range(2))
            torch.testing.assert_close(jitted(ours), program(theirs))
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("name", [*TENSORS, *(name for name in DATA if name not in RAISE)])
def test_where_nothing_is_recorded_any_more(name):
    """Arguments that share memory are not recorded behind the exit: the program is run once more by itself."""
    asked = TENSORS[name][0] if name in TENSORS else DATA[name]

    def program(x, z):
        z.add_(x)
        y = asked(torch.stack([x, x * 2, x, x + 1], 1))
        y = y[0] if isinstance(y, tuple) else y
        return (y + 1 if x.sum() > 0 else y - 1), y

    jitted = escapement.jit(program)
    with torch.no_grad():
        for size, sign in ((2, 1), (1, -1), (1, 1), (3, -1), (4, 1), (1, -1)):
            ours, theirs = ((sign * torch.arange(1.0, 1 + 2 * size))[::2] for _ in range(2))
            torch.testing.assert_close(jitted(ours, ours[:]), program(theirs, theirs[:]))
            assert torch.equal(ours, theirs)


VERSIONS = {"pow": 2, "key=len": 3, "hann": 3, "bartlett": 3, "linspace": 2, "logspace": 2, "diagonal": 2, "tensor_split": 2, "len of parts": 2, "fftfreq": 2}   # at 0 and 1 they do something else
OTHER = "cached with a closure", "avg_pool1d"   # read; the stride of an axis of one element is another


@pytest.mark.parametrize("name", [*NUMBERS, *(name for name in TENSORS if name not in OTHER)])
def test_at_sizes_0_and_1_and_primes(name):
    """Compiled code answers, not the function."""
    asked = NUMBERS.get(name)
    fn = (lambda x: x * asked(x.shape[0])) if asked else TENSORS[name][0]
    jitted, answered, raised = escapement.jit(fn), 0, 0
    with torch.no_grad():
        for n in (7, 1, 0, 13, 2, 1, 0, 31, 1):
            x = torch.ones(n, 4)
            wanted, found = outcome(fn, x), outcome(jitted, x)
            if isinstance(wanted, torch.Tensor):
                torch.testing.assert_close(found, wanted, equal_nan=True)
                assert found.stride() == wanted.stride(), n
                answered += 1
            else:
                assert found == wanted
                raised += 1
    info = jitted.info()
    hits = sum(version["hits"] for region in info["regions"] for version in region["versions"])
    assert info["recordings"] <= VERSIONS.get(name, 2 if raised else 1) and not info["eager"] and not any(region["fallbacks"] for region in info["regions"]), info
    assert hits >= answered - info["recordings"]
