"""Functions whose schemas want a number, given a size: one compile and one recording serve all sizes, with eager's values, gradients and errors."""

import math

import pytest
import torch
import torch.nn.functional as F

import escapement

SHAPES = ((2, 3, 6, 8), (2, 3, 5, 7), (3, 3, 8, 10), (1, 3, 4, 6), (2, 3, 12, 5), (4, 3, 9, 16), (2, 3, 3, 11), (2, 1, 2, 13))


def sizes(x):
    return x.shape[-2:]


def last(x):
    return x.shape[-1]


def bins(x, n):
    """Kernel, stride and padding that cut an image into n by n bins, as pyramids compute them."""
    kernel = [math.ceil(size / n) for size in sizes(x)]
    return kernel, kernel, [math.floor((k * n - size + 1) / 2) for k, size in zip(kernel, sizes(x))]


POOLS = {
    "avg_pool2d": lambda x: F.avg_pool2d(x, sizes(x)), "avg_pool2d of one image": lambda x: F.avg_pool2d(x[0], kernel_size=sizes(x)), "avg_pool1d": lambda x: F.avg_pool1d(x[0], last(x)),
    "avg_pool3d": lambda x: F.avg_pool3d(x, x.shape[-3:]), "avg_pool2d of rows": lambda x: F.avg_pool2d(x, (1, last(x))), "half of it": lambda x: F.avg_pool2d(x, (x.shape[-2] // 2, last(x) // 2)),
    "with a step": lambda x: F.avg_pool2d(x, (x.shape[-2] // 2, 2), stride=(1, 2)), "lp_pool2d": lambda x: F.lp_pool2d(x.abs() + 1, 2.0, sizes(x)),
    "max_pool2d": lambda x: F.max_pool2d(x, sizes(x)), "max_pool1d": lambda x: F.max_pool1d(x[0], last(x)), "max_pool3d": lambda x: F.max_pool3d(x, x.shape[-3:]),
    "max_pool2d of columns": lambda x: F.max_pool2d(x, (x.shape[-2], 1)), "largest of halves": lambda x: F.max_pool2d(x, (x.shape[-2] // 2, last(x) // 2), (2, 1)),
    "padded": lambda x: F.avg_pool2d(x, (x.shape[-2] // 2, 4), stride=1, padding=(x.shape[-2] // 4, 2)), "padded by numbers": lambda x: F.max_pool2d(x, (3, last(x)), stride=1, padding=1),
    "spatial pyramid": lambda x: torch.cat([F.max_pool2d(x, *bins(x, n)).flatten(1) for n in (1, 2)], 1),
    "as text models do": lambda x: torch.cat([F.max_pool1d(torch.relu(x[:, i]), last(x)).squeeze(-1) for i in range(2 if x.shape[1] > 1 else 1)], 1),
}
VERSIONS = {("as text models do", False): 2, ("as text models do", True): 2, ("spatial pyramid", True): 2}
SEVERAL = ("half of it", "with a step", "largest of halves", "padded", "spatial pyramid")   # windows; of one element they have gradients of their own
MADE = {
    "linspace": lambda x: torch.linspace(0, 1, last(x)) + x, "to the size": lambda x: torch.linspace(0, last(x) - 1, last(x)) + x,
    "reference points": lambda x: torch.linspace(0.5, last(x) - 0.5, last(x), dtype=torch.float32) / last(x) + x, "downwards": lambda x: torch.linspace(3, -1, steps=last(x), dtype=torch.float64),
    "a grid": lambda x: torch.stack(torch.meshgrid(torch.linspace(0, 1, x.shape[-2]), torch.linspace(0, 1, last(x)), indexing="ij")),
    "logspace": lambda x: torch.logspace(0, 2, last(x), base=2.0) * x, "fftfreq": lambda x: torch.fft.fftfreq(last(x)) + x, "fftfreq of a rate": lambda x: torch.fft.fftfreq(last(x), 0.1),
    "rfftfreq": lambda x: torch.fft.rfft(x).abs() * torch.fft.rfftfreq(last(x)), "hann": lambda x: torch.hann_window(last(x)) * x, "symmetric hann": lambda x: torch.hann_window(last(x), False) * x,
    "hamming": lambda x: torch.hamming_window(last(x)) * x, "hamming of numbers": lambda x: torch.hamming_window(last(x), True, 0.6, 0.4) * x, "blackman": lambda x: torch.blackman_window(last(x)) * x,
    "bartlett": lambda x: torch.bartlett_window(last(x)) * x, "symmetric bartlett": lambda x: torch.bartlett_window(last(x), periodic=False) * x,
    "one_hot": lambda x: F.one_hot(torch.arange(x.numel()) % last(x), last(x)), "one_hot of a matrix": lambda x: F.one_hot(torch.ones_like(x[0, 0]).long(), num_classes=x.shape[-2] + 1) * 2,
    "affine_grid": lambda x: F.affine_grid(torch.eye(2, 3)[None] * x.mean(), [1, 3, *sizes(x)], align_corners=False),
    "aligned": lambda x: F.affine_grid(torch.eye(2, 3).expand(x.shape[0], 2, 3), x.shape, align_corners=True),
    "of volumes": lambda x: F.affine_grid(torch.eye(3, 4)[None], [1, 1, 2, *sizes(x)], align_corners=False),
    "tril_indices": lambda x: torch.tril_indices(last(x), last(x)), "triu_indices": lambda x: torch.triu_indices(x.shape[-2], last(x), 1, dtype=torch.int32),
    "pairs": lambda x: (x[0, 0].t() @ x[0, 0])[tuple(torch.triu_indices(last(x), last(x), offset=1))] * 2, "as_tensor": lambda x: torch.as_tensor(x.shape) * 2,
    "as_tensor of a dtype": lambda x: torch.as_tensor([last(x), 1], dtype=torch.float32) / 2,
    "tensor_split": lambda x: torch.cat([part.sum(-1, keepdim=True) for part in x.tensor_split(3, -1)], -1), "as a function": lambda x: torch.tensor_split(x, 4, dim=2)[1] + 1,
    "diagonal": lambda x: x.diagonal(last(x) // 2, -2, -1) + 1, "below": lambda x: torch.diagonal(x[0, 0], -(x.shape[-2] // 2)) * 2,
    "sampled": lambda x: F.grid_sample(x, F.affine_grid(torch.eye(2, 3).expand(x.shape[0], 2, 3), x.shape, align_corners=False), align_corners=False),
}


def fresh(f):
    torch._dynamo.reset()
    escapement.reset()
    return torch.compile(f, backend="escapement")


def argument(shape, dtype=torch.float32):
    torch.manual_seed(len(shape))
    return (torch.randn(shape) * 2).round().to(dtype) / 2   # with ties


def result(f, x, gradients):
    x = x.clone().requires_grad_(gradients)
    y = f(x)
    return (y, *torch.autograd.grad(y.sum(), x)) if gradients and y.requires_grad else (y,)


def check(f, compiled, shapes, gradients=False, dtype=torch.float32):
    for shape in (*shapes, *shapes):
        x = argument(shape, dtype)
        for expected, found in zip(result(f, x, gradients), result(compiled, x, gradients), strict=True):
            torch.testing.assert_close(found, expected, msg=lambda text: f"{shape}: {text}")


def assert_served(most=1, recordings=2, count=len(SHAPES)):
    stats = escapement.stats()
    counted = stats["dynamo"]
    assert counted["compiles"] <= most and not counted["graph_breaks"] and not counted["skipped_frames"] and not counted["fallbacks"], counted
    assert stats["recordings"] <= recordings * most and stats["hits"] >= 2 * count - recordings * most, stats
    assert stats.get("launches", 0) + stats.get("library_calls", 0) >= stats["hits"] and not counted["specialised_dims"], stats


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", POOLS)
def test_pools_of_sizes(name, gradients):
    compiled = fresh(POOLS[name])
    shapes = SHAPES[:6] if gradients and name in SEVERAL else SHAPES
    check(POOLS[name], compiled, shapes, gradients)
    assert_served(VERSIONS.get((name, gradients), 1), 3 if gradients else 2, len(shapes))


@pytest.mark.parametrize("name", MADE)
def test_made_of_sizes(name):
    compiled = fresh(MADE[name])
    check(MADE[name], compiled, SHAPES)
    assert_served()


@pytest.mark.parametrize("name", ["linspace", "one_hot", "hann", "bartlett", "affine_grid", "fftfreq"])
def test_gradients_pass_through(name):
    compiled = fresh(MADE[name])
    check(MADE[name], compiled, SHAPES, gradients=True)
    assert escapement.stats()["dynamo"]["compiles"] == 1


@pytest.mark.parametrize("name", [*POOLS, *MADE])
def test_sizes_of_0_and_1(name):
    """As eager, errors too. These are versions of their own."""
    f = {**POOLS, **MADE}[name]
    compiled = fresh(f)
    for shape in ((2, 3, 5, 7), (2, 3, 1, 1), (2, 3, 1, 4), (2, 3, 4, 1), (0, 3, 4, 5), (2, 3, 0, 4), (2, 3, 4, 0), (1, 1, 1, 1), (2, 3, 2, 2), (2, 3, 5, 7)):
        x = argument(shape)
        try:
            expected = f(x)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(x)
            continue
        torch.testing.assert_close(compiled(x), expected, equal_nan=True, msg=lambda text: f"{shape}: {text}")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64])
@pytest.mark.parametrize("name", ["avg_pool2d", "max_pool2d", "half of it", "largest of halves"])
def test_pools_of_other_dtypes(name, dtype):
    compiled = fresh(POOLS[name])
    try:
        result(POOLS[name], argument(SHAPES[0], dtype), False)
    except Exception as error:
        with pytest.raises(type(error)):
            compiled(argument(SHAPES[0], dtype))
    else:
        check(POOLS[name], compiled, SHAPES[:4], dtype=dtype)


def left_alone():
    n = last
    yield "padding", lambda x: F.avg_pool2d(x, (n(x) // 2 * 2 - 1, 3), padding=1, stride=1)
    yield "ceil", lambda x: F.max_pool2d(x, (2, n(x) // 2), ceil_mode=True)
    yield "dilation", lambda x: F.max_pool2d(x, (1, n(x) // 3), dilation=(1, 2))
    yield "indices", lambda x: F.max_pool2d(x, sizes(x), return_indices=True)[1]
    yield "divisor", lambda x: F.avg_pool2d(x, sizes(x), divisor_override=3)
    yield "whole numbers", lambda x: torch.linspace(0, 10, n(x), dtype=torch.int64)
    yield "half types", lambda x: torch.linspace(0, 1, n(x), dtype=torch.bfloat16)
    yield "of tensors", lambda x: torch.linspace(x.min(), x.max(), n(x))
    yield "out", lambda x: torch.linspace(0, 1, n(x), out=torch.empty(n(x)))
    yield "complex", lambda x: torch.linspace(0, 1j, n(x)).real
    yield "gradients of its own", lambda x: torch.linspace(0, 1, n(x), requires_grad=True).requires_grad
    yield "classes of the data", lambda x: F.one_hot(torch.arange(n(x)))


@pytest.mark.parametrize("name, f", [*left_alone()])
def test_what_is_left_to_torch_is_as_eager(name, f):
    compiled = fresh(f)
    for shape in SHAPES[:5]:
        x = argument(shape)
        expected, found = f(x), compiled(x)
        assert type(found) is type(expected)
        torch.testing.assert_close(found, expected) if isinstance(expected, torch.Tensor) else pytest.approx(expected)


def test_classes_that_are_too_large_raise():
    compiled = fresh(lambda x: F.one_hot(torch.arange(6), last(x)))
    for shape, good in (((2, 3, 2, 6), True), ((2, 3, 2, 5), False), ((2, 3, 2, 7), True), ((2, 3, 2, 4), False)):
        if good:
            assert compiled(argument(shape)).shape == (6, shape[-1])
        else:
            with pytest.raises(RuntimeError):
                compiled(argument(shape))


def test_nan_and_infinity_go_through_pools():
    x = argument((2, 3, 4, 4))
    x[0, 0, 1, 1], x[1, 2, 3, 0], x[1, 1, 0, 0] = float("nan"), float("inf"), float("-inf")
    for name in ("avg_pool2d", "max_pool2d", "largest of halves", "half of it"):
        torch.testing.assert_close(fresh(POOLS[name])(x), POOLS[name](x), equal_nan=True)


@pytest.mark.parametrize("name", ["avg_pool2d", "max_pool2d", "half of it", "max_pool2d of columns"])
@pytest.mark.parametrize("laid", [lambda x: x.contiguous(memory_format=torch.channels_last), lambda x: x.transpose(2, 3), lambda x: x[:, :, ::2]], ids=["channels last", "transposed", "every other row"])
def test_layouts_of_pools_are_eagers(name, laid):
    compiled = fresh(POOLS[name])
    for shape in SHAPES[:5]:
        x = laid(argument(shape))
        expected, found = POOLS[name](x), compiled(x)
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride(), shape


WINDOW = torch.hann_window(16)


def there_and_back(x, length=None, window=WINDOW, **named):
    spectrum = torch.stft(x, 16, 4, window=WINDOW if window is None else window, return_complex=True, **{name: named[name] for name in named if name not in ("center", "return_complex")})
    return torch.istft(spectrum, 16, 4, window=window, length=last(x) if length is None else length, **named)


SIGNALS = {
    "a signal": there_and_back, "a row": lambda x: there_and_back(x[0]), "normalized": lambda x: there_and_back(x, normalized=True), "two sided": lambda x: there_and_back(x, onesided=False),
    "a short window": lambda x: there_and_back(x, win_length=12, window=WINDOW[2:14]), "no window": lambda x: there_and_back(x, window=None), "shorter": lambda x: there_and_back(x, last(x) - 5),
    "not centred": lambda x: there_and_back(x, last(x) // 2, WINDOW + 1, center=False),
}


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", SIGNALS)
def test_signals_put_together_again(name, gradients):
    shapes = [(2, n) for n in (64, 100, 41, 37, 80, 53)] + [(1, 31)]
    compiled = fresh(SIGNALS[name])
    check(SIGNALS[name], compiled, shapes, gradients)
    stats = escapement.stats()
    counted = stats["dynamo"]
    assert (counted["compiles"], counted["graph_breaks"], counted["fallbacks"]) == (1, 0, {}), counted   # the window is of 16 elements in any case
    assert stats["recordings"] == 1 + gradients and stats["hits"] == (1 + gradients) * (2 * len(shapes) - 1), stats


@pytest.mark.parametrize("name, f", [("longer", lambda x: there_and_back(x, last(x) + 20)), ("nothing", lambda x: there_and_back(x, last(x) - last(x))), ("no weights", lambda x: there_and_back(x, window=WINDOW * 0)),
                                     ("a wrong window", lambda x: there_and_back(x, window=WINDOW[1:])), ("complex", lambda x: there_and_back(x, onesided=False, return_complex=True))])
def test_signals_that_are_torchs_to_judge(name, f):
    compiled = fresh(f)
    for shape in ((2, 64), (2, 37), (1, 41), (0, 53)):
        x = argument(shape)
        try:
            expected = f(x)
        except Exception as error:
            with pytest.raises(type(error)):
                compiled(x)
            continue
        torch.testing.assert_close(compiled(x), expected)
