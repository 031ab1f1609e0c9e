"""One operator at a time, every one that programs use, against eager: sizes, layouts, dtypes; one thread, the two taking turns in one process, median of
rounds, by the clock of the processor (other programs may run beside it). One line a cell, the worst last, and a summary. Nobody compiles a program of one
operator; but a program is no faster than its slowest, and one that is ten times slower than eager's shows here and nowhere else.

    ./dev bench operators [--rounds N] [--only TEXT] [--dtypes f32 bf16 i64] [--sizes small odd large] [--layouts plain transposed] [--mode call]
                          [--below X] [--json FILE]

A program is an expression of: x, y (float or integer matrices), r (a row), c (a column), b (bools), i (indices below the number of rows, as a matrix), p (a
permutation of the rows), t (a target class a row), img (images), w (weights of a convolution), q (queries of attention), m (a square matrix).
"""

import argparse
import json
import math
import statistics

import torch
import torch.nn.functional as F   # noqa: F401  the programs name it

import escapement
from reductions import compare

SHAPES = {"small": (8, 16), "odd": (67, 131), "large": (512, 1024)}
IMAGES = {"small": (1, 3, 8, 8), "odd": (3, 7, 19, 23), "large": (4, 32, 56, 56)}
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "i32": torch.int32}
LAYOUTS = ("plain", "transposed", "sliced", "expanded", "channels_last")

UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac lgamma log log10 log1p log2 logit
neg positive rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc isnan isinf isfinite i0 nan_to_num""".split()
SPECIAL = "entr erfcx i0e i1 i1e log_ndtr ndtr ndtri".split()
ACTIVATIONS = """relu relu6 elu selu celu gelu silu mish softplus softsign tanhshrink hardsigmoid hardswish hardtanh hardshrink softshrink leaky_relu logsigmoid
glu""".split()
BINARY = """add sub mul div atan2 fmod remainder maximum minimum fmax fmin hypot logaddexp logaddexp2 copysign nextafter xlogy eq ne lt le gt ge logical_and
logical_or logical_xor floor_divide true_divide pow""".split()
INTEGER = """x & y; x | y; x ^ y; ~x; x << 2; x >> 1; x // 3; x % 7; x // (y.abs() + 1); x.gcd(y); x.float(); x.bool(); x.abs(); x * y; x + y; x.pow(2); x.sum(); x.cumsum(0);
x.bitwise_and(3)"""
FLOATS = """
x + r; x * c; x + 1.5; 2 - x; x / 3; x ** 2; x ** 3; x ** 0.5; x ** -1; 2 ** x; x.clamp(-1, 1); x.clamp(min=0); torch.clamp(x, y, y + 1); x.lerp(y, 0.3);
torch.where(b, x, y); torch.where(b, x, 0.0); x.masked_fill(b, 0); torch.addcmul(x, x, y); torch.addcdiv(x, x, y.abs() + 1); F.gelu(x, approximate="tanh");
F.prelu(x, x[0, :1]); F.threshold(x, 0.1, 20.0); F.dropout(x, 0.0); F.dropout(x, 0.1, training=False); x.to(torch.float64); x.to(torch.bfloat16);
x.to(torch.int32); x.bool(); x.clone(); x.contiguous(); x.t().contiguous(); x.frexp()[0]; x.ldexp(y); x.heaviside(y); x.polygamma(1) ;
x.sum(); x.sum(0); x.sum(1); x.mean(); c.var(0); c.std(0); c.softmax(0); c.log_softmax(0); (c * c).sum(0); x.mean(0); x.mean(-1, keepdim=True); x.amax(1); x.amin(0); x.max(1)[0]; x.min(0); x.max(); x.argmax(1); x.argmin();
x.prod(1); x.std(1); x.std(0); x.var(); x.norm(); x.norm(dim=1); x.norm(p=1, dim=0); torch.linalg.vector_norm(x, 3, 1); x.any(); x.all(1); (x > 0).any(0);
x.logsumexp(1); x.logsumexp(0); x.nansum(1); x.nanmean(1); x.count_nonzero(1); (x > 0).sum(); (x > 0).sum(1); x.median(1)[0]; x.median(); x.kthvalue(2, 1)[0];
x.mode(1)[0]; x.quantile(0.5, 1); x.aminmax(dim=1); torch.std_mean(x, 1); torch.var_mean(x, 0); x.cumsum(1); x.cumsum(0); x.cumprod(1); x.cummax(1)[0];
x.logcumsumexp(1); x.diff(); torch.trapezoid(x); x.softmax(1); x.softmax(0); x.log_softmax(1); x.log_softmax(0); F.softmin(x, 1); F.normalize(x, dim=1);
F.layer_norm(x, x.shape[1:]); F.layer_norm(x, x.shape[1:], r, r); F.rms_norm(x, x.shape[1:], r); F.cosine_similarity(x, y, 1); F.pairwise_distance(x, y);
F.mse_loss(x, y); F.l1_loss(x, y); F.smooth_l1_loss(x, y); F.huber_loss(x, y); F.binary_cross_entropy_with_logits(x, b.to(x.dtype));
F.binary_cross_entropy(x.sigmoid(), b.to(x.dtype)); F.kl_div(x.log_softmax(1), y.softmax(1)); F.cross_entropy(x, t); F.nll_loss(x.log_softmax(1), t);
F.cross_entropy(x, t, label_smoothing=0.1); F.gaussian_nll_loss(x, y, y.abs() + 1); F.poisson_nll_loss(x, y); F.hinge_embedding_loss(x, y); F.soft_margin_loss(x, y);
F.triplet_margin_loss(x, y, x + 1); F.cosine_embedding_loss(x, y, t.sign()); F.multi_margin_loss(x, t); F.margin_ranking_loss(x, y, y.sign());
x.t(); x[1:]; x[:, ::2]; x[..., None] * r; x.flip(0); x.flip(1); x.roll(3, 0); x.roll(1, 1); x.rot90(); x.tril(); x.triu(1); x.diagonal() + 1; x.diag(); torch.diag_embed(r);
x.repeat(2, 1); x.repeat_interleave(2, 0); x.repeat_interleave(2, 1); x.tile(1, 2); x.expand(3, *x.shape).contiguous(); x.unfold(0, 3, 2).sum(-1);
torch.cat([x, y]); torch.cat([x, y], 1); torch.stack([x, y]); torch.stack([x, y], -1); x.chunk(4)[1] + 1; x.split(3)[0] * 2; x.unbind(0)[1] + 1;
torch.cat([x[:, 8:], x[:, :8]], 1); F.pad(x, (1, 2)); F.pad(x, (1, 1, 2, 2)); F.pad(x[None], (1, 1), mode="reflect"); F.pad(x[None], (1, 1), mode="replicate");
F.pad(x[None], (2, 2), mode="circular"); x.view(-1) + 1; x.reshape(x.shape[1], -1) + 1; x.permute(1, 0) + x.permute(1, 0); x.movedim(0, 1) * 2;
x[p]; x[p, :4]; x[:, :8][p]; x.index_select(0, p); x.index_select(1, t); x.gather(0, i); x.gather(1, i); x.take(i); torch.take_along_dim(x, i, 0); x[i[:, 0], i[:, 1]];
x[b]; x.masked_select(b); x.nonzero(); x[:, 0] + x[:, 1]; F.embedding(i, x); F.embedding(t, x); F.embedding_bag(i[:, :4], x); F.one_hot(t, 64).float();
x.scatter(0, i, y); x.scatter_add(0, i, y); x.index_add(0, p, y); x.index_copy(0, p, y); x.index_fill(0, p[:2], 0); x.index_put((p,), y); x.index_put((p,), y, accumulate=True);
x.scatter_reduce(0, i, y, "amax"); torch.zeros_like(x).index_add_(0, t % x.shape[0], y); x.masked_scatter(b, y); x.select_scatter(r, 0, 0); x.slice_scatter(y[2:], 0, 2);
x.sort(1)[0]; x.sort(0)[1]; x.argsort(1); x.topk(4, 1)[0]; x.topk(4, 1)[1]; x.unique(); torch.searchsorted(r.sort()[0], x); torch.bucketize(x, r.sort()[0]);
torch.histc(x, 10); t.bincount(); torch.isin(x, r); torch.isclose(x, y); torch.allclose(x, y); torch.equal(x, y);
x @ y.t(); x.mm(y.t()); F.linear(x, y); F.linear(x, y, y[:, 0]); torch.addmm(c.t()[:, :x.shape[0]], x, y.t()); x @ r; x.mv(r); torch.outer(r, r); r.dot(r); torch.einsum("ab,cb->ac", x, y);
torch.einsum("ab,ab->a", x, y); torch.bmm(x[None], y.t()[None]); torch.baddbmm(x[None, :, :1], x[None], y.t()[None]); torch.cdist(x, y[:8]); torch.kron(x[:4, :4], y[:4, :4]);
torch.tensordot(x, y, ([1], [1])); torch.cross(x[:, :3], y[:, :3], dim=1); F.gelu(F.linear(x, y)); F.relu(F.linear(x, y, y[:, 0])); F.linear(x[:1], y); F.linear(x[:4], y);
torch.zeros_like(x); torch.ones_like(x); torch.full_like(x, 2); torch.arange(x.shape[1]); torch.eye(x.shape[0]); torch.linspace(0, 1, x.shape[1]); x.new_zeros(x.shape);
torch.rand_like(x); torch.randn_like(x); F.dropout(x, 0.5); torch.bernoulli(x.sigmoid()); torch.randint(0, 9, x.shape); torch.randperm(x.shape[0]); x.softmax(1).multinomial(1);
torch.meshgrid(r, c[:, 0], indexing="ij")[0] + 1; torch.cartesian_prod(r[:8], c[:8, 0]); torch.combinations(r[:16]); torch.vander(r[:8]); torch.cov(x[:8]); torch.corrcoef(x[:8]);
x.fill_(1); x.add_(1); x.mul_(0.5).add_(y); x.copy_(y); x.zero_(); x.clamp_(-1, 1); x[0].fill_(0); x[:, 0] = 1; x[b] = 0; x[p] = y; x.relu_(); x.index_add_(0, p, y); x.scatter_(0, i, y);
x.masked_fill_(b, 0); x.t().add_(1); x[::2].mul_(2); x.exp_(); x.normal_(); x.uniform_(); torch.add(x, y, out=x); x.item() if x.numel() == 1 else 0; x.mul(y).sum(1); x.sub(r).pow(2).mean(0);
torch.fft.fft(x); torch.fft.rfft(x).abs(); torch.fft.ifft(torch.fft.fft(x)).real; torch.complex(x, y).abs(); torch.polar(x.abs(), y).real; torch.view_as_complex(x.view(x.shape[0], -1, 2)).angle();
"""
SQUARE = """m @ m; m.inverse(); torch.linalg.det(m); torch.linalg.solve(m, m); torch.linalg.cholesky(m @ m.t() + 9 * torch.eye(m.shape[0])); torch.linalg.qr(m)[0]; torch.linalg.svdvals(m);
torch.linalg.eigvalsh(m @ m.t()); torch.linalg.matrix_norm(m); torch.linalg.matrix_exp(m); torch.matrix_power(m, 3); m.trace(); torch.linalg.lstsq(m, m)[0]; torch.linalg.pinv(m)"""
# Several operators where an operand repeats along one axis and changes along another that is reduced as well: weights of channels, masks of pixels.
REPEATED = """F.group_norm(img, 1, w[0, :, 0, 0], w[0, :, 1, 1]); F.silu(F.group_norm(img, 1, w[0, :, 0, 0], w[0, :, 1, 1])); (img * w[:, 0, :1, :1]).sum(); (img * w[:, 0, :1, :1]).sum((1, 2, 3));
((img - 1).pow(2) * img[:, :1]).sum(); ((img - 1).pow(2) * img[:, :1]).sum((1, 2, 3)); (img * img[:, :1]).mean((1, 3)); (img * w[:, 0, :1, :1]).flatten(1).softmax(1); (img * img[:, :1]).amax((1, 2, 3));
(img[..., 1:] - img[..., :-1]).abs().sum() + (img[..., 1:, :] - img[..., :-1, :]).abs().sum(); img.var((0, 2, 3)); (img[..., :-1] * img[..., 1:]).sum((0, 2, 3)); img[..., 1:].amax((1, 2, 3));
img * torch.rsqrt(img.pow(2).mean((1, 2, 3), keepdim=True) + 1e-5) * w[:, 0, :1, :1]; (img - img.mean((1, 2, 3), keepdim=True)) / img.std((1, 2, 3), keepdim=True) * w[:, 0, :1, :1]"""
IMAGE = """F.conv2d(img, w); F.conv2d(img, w, padding=1); F.relu(F.conv2d(img, w)); F.conv2d(img, w, stride=2); F.conv2d(img, w[:, :1].expand(img.shape[1], 1, 3, 3), groups=img.shape[1]);
F.conv_transpose2d(img, w.transpose(0, 1)); F.conv1d(img[:, :, 0], w[:, :, 0]); F.max_pool2d(img, 2); F.avg_pool2d(img, 2); F.max_pool2d(img, 3, 2, 1); F.adaptive_avg_pool2d(img, 1);
F.adaptive_avg_pool2d(img, 4); F.adaptive_max_pool2d(img, 2); F.lp_pool2d(img, 2, 2); img.mean((2, 3)); img.sum((0, 2, 3)); img.amax((2, 3)); F.interpolate(img, scale_factor=2); F.interpolate(img, scale_factor=2, mode="bilinear");
F.interpolate(img, size=(7, 9), mode="bicubic"); F.interpolate(img, scale_factor=0.5, mode="area"); F.batch_norm(img, img.mean((0, 2, 3)), img.var((0, 2, 3))); F.batch_norm(img, None, None, training=True);
F.instance_norm(img); F.group_norm(img, 1); F.group_norm(img, img.shape[1]); F.layer_norm(img.permute(0, 2, 3, 1), img.shape[1:2]); F.local_response_norm(img, 3); F.pixel_shuffle(img.repeat(1, 4, 1, 1), 2);
F.pixel_unshuffle(img[:, :, :img.shape[2] // 2 * 2, :img.shape[3] // 2 * 2], 2); F.unfold(img, 3); F.fold(F.unfold(img, 3), img.shape[2:], 3); F.grid_sample(img, F.affine_grid(torch.eye(2, 3)[None].expand(img.shape[0], 2, 3), img.shape));
img.flip(-1); img.permute(0, 2, 3, 1).contiguous(); img.contiguous(memory_format=torch.channels_last); img + img.mean(1, keepdim=True); img * img.sigmoid(); img.flatten(2).softmax(-1); img.softmax(1); img.roll((1, 1), (2, 3));
F.pad(img, (1, 1, 1, 1)); F.pad(img, (1, 1, 1, 1), mode="reflect"); img[:, :, ::2, ::2] + 1; img.cumsum(1); img.argmax(1); F.channel_shuffle(img.repeat(1, 2, 1, 1), 2); img.unfold(2, 3, 3).mean(-1);
torch.cat([img, img], 1); torch.cat([img[:, :, 1:], img[:, :, :1]], 2); F.dropout2d(img, 0.0); F.normalize(img, dim=1); img.norm(dim=1); F.cross_entropy(img, img.argmax(1)); img.std((2, 3));
img.transpose(1, 2).contiguous(); (img - img.mean((2, 3), keepdim=True)) / img.std((2, 3), keepdim=True)"""
ATTENTION = """F.scaled_dot_product_attention(q, q, q); F.scaled_dot_product_attention(q, q, q, is_causal=True); (q @ q.transpose(-1, -2)).softmax(-1) @ q; q.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1);
torch.cat([-q[..., 1::2], q[..., ::2]], -1); q * q[..., :1].cos() + torch.cat([-q[..., q.shape[-1] // 2:], q[..., :q.shape[-1] // 2]], -1) * q[..., :1].sin(); q.repeat_interleave(2, 1);
(q @ q.transpose(-1, -2)).masked_fill(torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).triu(1), -1e9).softmax(-1); torch.einsum("bhqd,bhkd->bhqk", q, q); q.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)"""


def split(text):
    return [piece.strip() for piece in text.replace("\n", " ").split(";") if piece.strip()]


def programs(dtype):
    """Expressions and statements, by what they are over."""
    if not dtype.is_floating_point:
        return split(INTEGER)
    unary = [f"x.{name}()" for name in UNARY] + [f"torch.special.{name}(x)" for name in SPECIAL] + [f"F.{name}(x)" for name in ACTIVATIONS]
    return unary + [f"torch.{name}(x, y)" for name in BINARY] + split(FLOATS) + split(SQUARE) + split(IMAGE) + split(REPEATED) + split(ATTENTION)


def laid_out(tensor, layout):
    """The same shape, laid out so; None where the layout does not apply."""
    if layout == "transposed":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "sliced":
        return torch.stack([tensor, tensor], -1).flatten(-2)[..., ::2]
    if layout == "expanded":
        return tensor[:1].expand_as(tensor)
    if layout == "channels_last":
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else None
    return tensor


def operands(size, dtype, layout):
    torch.manual_seed(0)
    rows, columns = SHAPES[size]

    def values(*shape):
        plain = torch.randn(shape)
        return (plain * 50).to(dtype) if not dtype.is_floating_point else plain.to(dtype)

    image, side = IMAGES[size], min(rows, 128)
    return {
        "x": laid_out(values(rows, columns), layout), "y": laid_out(values(rows, columns), layout), "r": values(columns), "c": values(rows, 1),
        "b": laid_out(torch.rand(rows, columns) > 0.5, layout), "i": laid_out(torch.randint(0, rows, (rows, columns)), layout), "p": torch.randperm(rows),
        "t": torch.randint(0, min(columns, 64), (rows,)), "img": laid_out(values(*image), layout), "w": values(image[1], image[1], 3, 3),
        "q": laid_out(values(2, 4, rows // 4 + 1, 64), layout), "m": laid_out(values(side, side), layout),
    }


def compiled(text):
    """The program as a function of the operands that it names, and their names."""
    tree = compile(text, "<cell>", "exec")
    names = [name for name in operands("small", torch.float32, "plain") if name in tree.co_names]
    statement = " = " in text
    scope = {"torch": torch, "F": F}
    exec(f"def cell({', '.join(names)}):\n  {text if statement else 'return ' + text}", scope)
    return scope["cell"], names


def is_taken(eager, given):
    """Many operators do not take some dtype, layout or size: that cell is none."""
    try:
        eager(*given)
        return True
    except Exception:   # whatever it is, eager says it, too
        return False


def cells(options):
    for size in options.sizes:
        for name in options.dtypes:
            for text in programs(DTYPES[name]):
                for layout in options.layouts:
                    is_image = " img" in text.replace("(", " ") or text.startswith("img")
                    if options.only in text and (layout != "channels_last" or is_image):
                        yield text, name, size, layout


def measure(cell, options):
    text, dtype, size, layout = cell
    function, names = compiled(text)
    of = operands(size, DTYPES[dtype], layout)
    given = [of[name] for name in names]
    if any(value is None for value in given):
        return None
    if not is_taken(function, given):
        return None
    ours = escapement.jit(function, mode=options.mode)
    times = compare(lambda _: function(*given), lambda _: ours(*given), None, options.rounds)
    return {"cell": f"{text}  {dtype} {size} {layout}", "gain": times[0] / times[1], "eager": times[0], "ours": times[1]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--dtypes", nargs="+", default=["f32", "bf16", "i64"])
    parser.add_argument("--sizes", nargs="+", default=list(SHAPES))
    parser.add_argument("--layouts", nargs="+", default=["plain", "transposed", "sliced", "channels_last"], choices=LAYOUTS)
    parser.add_argument("--mode", default="call", choices=("call", "replay"))
    parser.add_argument("--below", type=float, default=math.inf, help="list cells below so many times eager only")
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = []
    for cell in cells(options):
        try:
            one = measure(cell, options)
        except Exception as error:   # a cell that eager takes and we do not is a finding, not the end of the run
            print(f"RAISED  {cell}: {type(error).__name__}: {str(error)[:200]}", flush=True)
            continue
        if one:
            found.append(one)
    for one in sorted(found, key=lambda one: -one["gain"]):
        if one["gain"] < options.below:
            print(f"{one['gain']:6.2f} times  eager {one['eager'] * 1e6:9.1f} us, ours {one['ours'] * 1e6:9.1f} us  {one['cell']}")
    gains = [one["gain"] for one in found]
    print(f"{len(gains)} cells: {math.exp(statistics.mean(map(math.log, gains))):.2f} times eager in the geometric mean, {min(gains):.2f} at least, "
          f"{sum(gain < 1 for gain in gains)} below 1, {sum(gain < 0.8 for gain in gains)} below 0.8, {sum(gain < 0.5 for gain in gains)} below 0.5")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
