"""The workloads of compare.py. Each yields cells: (size label, arguments); one compiled function serves all cells of a workload."""

import torch
import torch.nn.functional as F


class Workload:
    """name; function of tensors; cells: list of (label, bytes touched by the roof or 0, arguments maker)."""

    def __init__(self, name, function, cells, group):
        self.name, self.function, self.cells, self.group = name, function, cells, group


def chain(ops):
    def function(x, y):
        z = x
        for i in range(ops // 3):
            z = torch.relu(z * y + x) if i % 2 == 0 else torch.abs(z * x - y)
        return z

    return function


def chains():
    sizes = [1 << 10, 1 << 14, 65521, 1 << 18, 1 << 20, 1 << 22, 1 << 24]  # elements: 4 KiB .. 64 MiB
    for ops in (3, 6, 12):
        cells = [(f"{4 * n / 1024:.0f}KiB", 12 * n, lambda n=n: (torch.randn(n), torch.randn(n))) for n in sizes]
        yield Workload(f"chain{ops}", chain(ops), cells, "chains")


def transcendental_chains():
    cells = [(f"{4 * n / 1024:.0f}KiB", 12 * n, lambda n=n: (torch.randn(n), torch.randn(n))) for n in (1 << 14, 1 << 18, 1 << 22)]
    yield Workload("silu_mul", lambda x, y: F.silu(x) * y, cells, "chains")
    yield Workload("bias_gelu_residual", lambda x, y: F.gelu(x + 1.5) + y, cells, "chains")


ROW_LENGTHS = [1, 5, 16, 37, 100, 256, 768, 1023, 4096, 10000]


def rows():
    def cells(extra):
        for n in ROW_LENGTHS:
            count = max(1, 400_000 // n)
            yield (f"{count}x{n}", 8 * count * n, lambda n=n, count=count: (torch.randn(count, n), *extra(count, n)))

    def affine(count, n):
        return torch.randn(n), torch.randn(n)

    yield Workload("softmax", lambda x: torch.softmax(x, -1), list(cells(lambda c, n: ())), "rows")
    yield Workload("softmax_scale_mask", lambda x, m: torch.softmax(x * 0.125 + m, -1), list(cells(lambda c, n: (torch.randn(n),))), "rows")
    yield Workload("layer_norm", lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b), list(cells(affine)), "rows")
    yield Workload("layer_norm_relu_affine", lambda x, w, b: torch.relu(F.layer_norm(x, (x.shape[-1],), w, b)) * w + b,
                   list(cells(affine)), "rows")
    yield Workload("rms_norm", lambda x, w: F.rms_norm(x, (x.shape[-1],), w), list(cells(lambda c, n: (torch.randn(n),))), "rows")
    yield Workload("log_softmax", lambda x: torch.log_softmax(x, -1), list(cells(lambda c, n: ())), "rows")
    yield Workload("masked_mean", lambda x: (x * (x > 0)).sum(-1) / (x > 0).sum(-1).clamp(min=1), list(cells(lambda c, n: ())), "rows")


def mixtures():
    def sized(make):
        return [(f"{b}x{s}", 0, lambda b=b, s=s: make(b, s)) for b, s in ((1, 64), (3, 257), (8, 512), (16, 1023))]

    yield Workload("cat_last_bias", lambda x, y, c: torch.cat([x, y], -1) + c,
                   sized(lambda b, s: (torch.randn(b * s, 128), torch.randn(b * s, 64), torch.randn(192))), "mixtures")
    yield Workload("cat_first_relu", lambda x, y: torch.relu(torch.cat([x, y], 0)),
                   sized(lambda b, s: (torch.randn(b * s, 128), torch.randn(s, 128))), "mixtures")
    yield Workload("slice_diff_abs_mean", lambda x: (x[:, 1:] - x[:, :-1]).abs().mean(-1),
                   sized(lambda b, s: (torch.randn(b * 64, s),)), "mixtures")
    yield Workload("transpose_scale", lambda x: x.transpose(1, 2).contiguous() * 0.5,
                   sized(lambda b, s: (torch.randn(b, s, 8, 64),)), "mixtures")
    yield Workload("transposed_add", lambda x, y: x.t() + y, sized(lambda b, s: (torch.randn(s, 64 * b), torch.randn(64 * b, s))), "mixtures")
    yield Workload("gather_mul", lambda x, i, w: torch.gather(x, 1, i) * w,
                   sized(lambda b, s: (torch.randn(b * 16, s), torch.randint(0, s, (b * 16, s)), torch.randn(s))), "mixtures")
    yield Workload("embedding_mean", lambda t, i: F.embedding(i, t).mean(1),
                   sized(lambda b, s: (torch.randn(5000, 128), torch.randint(0, 5000, (b, s)))), "mixtures")
    yield Workload("embedding_layer_norm",
                   lambda t, p, i, w, c: F.layer_norm(F.embedding(i, t) + p[: i.shape[1]], (128,), w, c),
                   sized(lambda b, s: (torch.randn(5000, 128), torch.randn(1024, 128), torch.randint(0, 5000, (b, s)),
                                       torch.randn(128), torch.randn(128))), "mixtures")
    yield Workload("rotary", lambda q, c, s: q * c + torch.cat([-q[..., 32:], q[..., :32]], -1) * s,
                   sized(lambda b, s: (torch.randn(b, 8, s, 64), torch.randn(s, 64), torch.randn(s, 64))), "mixtures")


def small():
    def many(x, y):
        for _ in range(50):
            x = torch.relu(x * y + y) - x
        return x

    yield Workload("200_ops_64_elements", many, [("64", 0, lambda: (torch.randn(64), torch.randn(64)))], "small")


WORKLOADS = {"chains": lambda: [*chains(), *transcendental_chains()], "rows": rows, "mixtures": mixtures, "small": small}


def bert(layers=4, hidden=256):
    import transformers

    config = transformers.BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
                                     intermediate_size=4 * hidden, vocab_size=5000)
    torch.manual_seed(0)
    return transformers.BertModel(config, add_pooling_layer=False).eval()


def bert_requests(count=60):
    """Batch 1-4 and long-tailed lengths 5..390."""
    generator = torch.Generator()
    generator.manual_seed(1)
    lengths = (torch.randn(count, generator=generator).mul(0.9).add(3.9).exp()).clamp(5, 390).long().tolist()
    return [torch.randint(0, 5000, (1 + i % 4, n)) for i, n in enumerate(lengths)]
