"""Functions of torch that take sizes for numbers (`F.avg_pool2d(x, x.shape[-2:])`, `torch.linspace(0, 1, x.shape[-1])`), in terms that take symbols. Where a
size is one, torch.compile traces these instead (steering/size_arguments.py), and a recording of `escapement.jit` calls them (tracer/size_arguments.py).

Each has the signature of the function that it stands for, gives its values and raises its errors, or returns None where it is not made for the
arguments; then torch's own is called. Comparisons of sizes are guards.
"""

import math

import torch
import torch.nn.functional as F

NUMBERS = (int, float, torch.SymInt, torch.SymFloat)
REAL = (torch.float32, torch.float64)   # where ATen's steps are those of the dtype


def has_static_value(number):
    """Under torch.compile torch's own function is in this place, which tells constants from symbols there."""
    return isinstance(number, int)


# --- pooling

def per_axis(sizes, rank):
    sizes = list(sizes) if isinstance(sizes, (list, tuple)) else [sizes]
    return sizes * rank if len(sizes) == 1 else sizes


def windows(x, kernel, stride):
    """The elements of each window in the last axes, of which there are as many as sizes in `kernel`."""
    outer = x.dim() - len(kernel)
    for axis, (size, step) in enumerate(zip(kernel, stride), outer):
        count = (x.shape[axis] - size) // step + 1
        index = torch.arange(count, device=x.device)[:, None] * step + torch.arange(size, device=x.device)
        x = x.index_select(axis, index.reshape(-1)).unflatten(axis, (count, size)).movedim(axis + 1, -1)
    return x


def pool_of(rank, of_windows, filler):
    """`of_windows` pools the last axes. None where a window may be cut off, and where torch refuses."""
    def pooled(x, kernel_size, stride, padding, ceil_mode):
        kernel, padding = per_axis(kernel_size, rank), per_axis(padding, rank)
        if not x.is_floating_point() or x.dim() not in (rank + 1, rank + 2) or len(kernel) != rank or len(padding) != rank or ceil_mode:
            return None
        if any(k < 1 for k in kernel) or any(size < 1 for size in x.shape[-rank - 1:]):
            return None
        padded = not all(has_static_value(p) and p == 0 for p in padding)   # whether a symbol is 0 is not asked
        if padded and any(p < 0 or 2 * p > k for p, k in zip(padding, kernel)):
            return None
        stride = per_axis(stride, rank) if stride is not None and stride != [] and stride != () else kernel
        if len(stride) != rank or any(step < 1 for step in stride):
            return None
        if not padded and all(k == size for k, size in zip(kernel, x.shape[-rank:])):
            return of_windows(x[(..., *[None] * rank, *[slice(None)] * rank)])   # one window
        if padded:
            x = F.pad(x, [p for p in padding[::-1] for _ in range(2)], value=filler)
        return None if any(k > size for k, size in zip(kernel, x.shape[-rank:])) else of_windows(windows(x, kernel, stride))
    return pooled


def average(rank):
    pooled = pool_of(rank, lambda found: found.mean([*range(-rank, 0)]), filler=0.0)

    def avg_pool(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        counted = count_include_pad or all(has_static_value(p) and p == 0 for p in per_axis(padding, rank))
        return pooled(input, kernel_size, stride, padding, ceil_mode) if counted and divisor_override is None else None
    return avg_pool


def largest(rank):
    def of_windows(found):
        if torch.is_grad_enabled() and found.requires_grad:
            return found.flatten(-rank).max(-1).values   # the first of those that are equal gets the gradient
        return found.amax([*range(-rank, 0)])

    pooled = pool_of(rank, of_windows, filler=-math.inf)

    def max_pool(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
        return pooled(input, kernel_size, stride, padding, ceil_mode) if all(step == 1 for step in per_axis(dilation, rank)) else None
    return max_pool


# --- ranges

def options_of(dtype, layout, out, requires_grad, *numbers):
    """The dtype; None for what is left to torch."""
    if out is not None or requires_grad or layout not in (None, torch.strided) or not all(isinstance(number, NUMBERS) for number in numbers):
        return None
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return dtype if dtype in REAL else None


def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    dtype = options_of(dtype, layout, out, requires_grad, start, end)
    if dtype is None or pin_memory or steps < 0:
        return None
    if steps < 2:
        return torch.full((steps,), start, dtype=dtype, device=device)
    first, last = torch.full((), start, dtype=dtype, device=device), torch.full((), end, dtype=dtype, device=device)
    step, index = (last - first) / (steps - 1), torch.arange(steps, device=device)
    return torch.where(index < steps // 2, first + step * index, last - step * (steps - 1 - index))


def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    exponents = linspace(start, end, steps, out=out, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, requires_grad=requires_grad)
    return None if exponents is None or not isinstance(base, NUMBERS) else torch.pow(base, exponents)


def frequencies(whole):
    def fftfreq(n, d=1.0, *, out=None, dtype=None, layout=None, device=None, requires_grad=False):
        dtype = options_of(dtype, layout, out, requires_grad, d)
        if dtype is None or n < 1:
            return None
        index = torch.arange(n if whole else n // 2 + 1, dtype=dtype, device=device)
        return (torch.where(index < (n + 1) // 2, index, index - n) if whole else index) * (1.0 / (n * d))
    return fftfreq


def linspace_from_minus_one(theta, steps, align_corners):
    if steps <= 1:
        return torch.zeros((1,), dtype=theta.dtype, device=theta.device)   # of none and of one
    places = linspace(-1, 1, steps, dtype=theta.dtype, device=theta.device)
    return places if align_corners else places * (steps - 1) / steps


def affine_grid_generator(theta, size, align_corners):
    size = list(size)
    if theta.dtype not in REAL or len(size) != theta.shape[-1] + 1 or len(size) not in (4, 5) or theta.dim() != 3 or any(n < 1 for n in size):
        return None
    batch, _, *sizes = size
    places = [linspace_from_minus_one(theta, n, align_corners) for n in sizes]
    axes = [place.reshape([-1 if at == axis else 1 for at in range(len(sizes))]).expand(sizes) for axis, place in enumerate(places)]
    base = torch.stack([*axes[::-1], torch.ones(sizes, dtype=theta.dtype, device=theta.device)], -1)
    grid = base.reshape(1, -1, len(sizes) + 1).expand(batch, -1, -1).bmm(theta.transpose(1, 2))
    return grid.view([batch, *sizes, len(sizes)])


# --- windows of signals: `of` makes the n values of one that is symmetric

def window(of):
    def made(window_length, periodic=True, *numbers, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **named):
        dtype = options_of(dtype, layout, None, requires_grad, *numbers, *named.values())
        if dtype is None or pin_memory or window_length < 2 or not isinstance(periodic, bool):
            return None
        count = window_length + 1 if periodic else window_length
        values = of(torch.arange(count, dtype=dtype, device=device), count, *numbers, **named)
        return values[:-1].data if periodic else values   # torch takes the part below autograd: nothing says that it is one
    return made


def hann(index, count):
    return hamming(index, count, 0.5, 0.5)


def hamming(index, count, alpha=0.54, beta=0.46):
    return (index * (math.pi * 2 / (count - 1))).cos() * -beta + alpha


def blackman(index, count):
    angle = index * (math.pi / (count - 1))
    return (angle * 4).cos() * 0.08 - (angle * 2).cos() * 0.5 + 0.42


def bartlett(index, count):
    rising = index * (2 / (count - 1))
    return torch.where(index < (count - 1) // 2 + 1, rising, 2 - rising)


# --- signals put together again

def istft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, normalized=False, onesided=None, length=None, return_complex=False):
    """To a length that is a size: all other numbers are constants."""
    hop, wide = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    if return_complex or length is None or not all(map(has_static_value, (n_fft, hop, wide))) or not 0 < hop <= wide <= n_fft:
        return None
    if not (has_bins_and_frames(input, n_fft, onesided) and (window is None or is_row_of(window, wide))) or length < 1:
        return None
    frames, start = input.shape[-1], n_fft // 2 if center else 0
    whole = n_fft + hop * (frames - 1)
    if start + length > whole:   # torch warns, and pads
        return None
    window = torch.ones(wide, dtype=input.real.dtype, device=input.device) if window is None else window
    before = (n_fft - wide) // 2
    window = F.pad(window, (before, n_fft - wide - before))
    parts = torch.fft.irfft((input if input.dim() == 3 else input[None]).transpose(1, 2), n_fft, -1, norm="ortho" if normalized else "backward") * window
    sums, weights = (torch.ops.aten.unfold_backward(part, (part.shape[0], whole), 1, n_fft, hop).narrow(1, start, length)
                     for part in (parts, window.pow(2).expand(1, frames, n_fft)))
    torch._assert_async(weights.abs().min() >= 1e-11, "istft: window overlap add min: 1")
    return sums / weights if input.dim() == 3 else (sums / weights)[0]


def has_bins_and_frames(spectrum, n_fft, onesided):
    if not spectrum.is_complex() or spectrum.dim() not in (2, 3) or any(size < 1 for size in spectrum.shape):
        return False
    bins = spectrum.shape[-2]
    return bins == n_fft // 2 + 1 if onesided or onesided is None and bins != n_fft else bins == n_fft


def is_row_of(window, count):
    return window.dim() == 1 and not window.is_complex() and window.shape[0] == count


# --- indices

def one_hot(tensor, num_classes=-1):
    if tensor.dtype != torch.int64 or num_classes < 1:
        return None
    return torch.zeros([*tensor.shape, num_classes], dtype=torch.int64, device=tensor.device).scatter_(-1, tensor.unsqueeze(-1), 1)


def triangle(part):
    def indices(row, col, offset=0, *, dtype=torch.int64, layout=None, device=None, pin_memory=False):
        if layout not in (None, torch.strided) or pin_memory or row < 0 or col < 0 or dtype not in (torch.int32, torch.int64):
            return None
        places = part(torch.ones((row, col), dtype=torch.bool, device=device), offset)
        return torch.stack(places.nonzero().unbind(1)).to(dtype)
    return indices


def as_tensor(data, dtype=None, device=None):
    if not isinstance(data, (tuple, list, *NUMBERS)):
        return None
    return torch.tensor(list(data) if isinstance(data, (tuple, list)) else data, dtype=dtype, device=device)


def tensor_split(input, indices_or_sections, dim=0):
    count = indices_or_sections
    if type(count) is not int or count < 1 or not -input.dim() <= dim < input.dim():
        return None
    found, start = [], 0
    for place in range(count):
        length = (input.shape[dim] + count - 1 - place) // count
        found.append(input.narrow(dim, start, length))
        start = start + length
    return tuple(found)


def diagonal(input, offset=0, dim1=0, dim2=1):
    if input.dim() < 2:
        return None
    planes = input.movedim((dim1, dim2), (-2, -1))
    return (planes[..., offset:] if offset >= 0 else planes[..., -offset:, :]).diagonal(0, -2, -1)


# --- of which functions of torch, and methods

PARTS = {
    torch.avg_pool1d: average(1), torch._C._nn.avg_pool2d: average(2), torch._C._nn.avg_pool3d: average(3),
    torch.max_pool1d: largest(1), torch.max_pool2d: largest(2), torch.max_pool3d: largest(3),
    torch.linspace: linspace, torch.logspace: logspace, torch.affine_grid_generator: affine_grid_generator,
    torch.fft.fftfreq: frequencies(True), torch.fft.rfftfreq: frequencies(False), torch._C._nn.one_hot: one_hot,
    torch.hann_window: window(hann), torch.hamming_window: window(hamming), torch.blackman_window: window(blackman), torch.bartlett_window: window(bartlett),
    torch.tril_indices: triangle(torch.tril), torch.triu_indices: triangle(torch.triu), torch.as_tensor: as_tensor, torch.istft: istft,
}
METHODS = {"diagonal": diagonal, "tensor_split": tensor_split}
OF_IMAGES = {PARTS[function] for function in (torch._C._nn.avg_pool2d, torch._C._nn.avg_pool3d, torch.max_pool2d, torch.max_pool3d)}   # channels last, torch's results are, too
OF_ITS_SIZES = {tensor_split}   # no argument is a size, but torch counts with the tensor's
PARTS.update((getattr(torch, name), parts) for name, parts in METHODS.items())
