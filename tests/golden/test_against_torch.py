"""The rules of types, sizes and layouts against torch itself, on random strided tensors of fixed sizes.

What the rule says is read from escapement-opt's `rebuild`; what is true comes from running the op. Empty tensors are left out of the
comparison of strides: those address nothing (docs/ir.md).
"""
import random
import re

import pytest

from golden import run_opt

torch = pytest.importorskip("torch")

DTYPES = {"b8": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
          "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def make(rng, sizes, dtype, dense_only=False):
    """A tensor of these sizes with its axes in a random order in memory, sometimes with gaps or an expanded axis."""
    order = list(range(len(sizes)))
    if rng.random() < 0.7:
        rng.shuffle(order)
    gap = 2 if not dense_only and rng.random() < 0.25 else 1
    dense = torch.ones([sizes[axis] for axis in order[:-1]] + [sizes[order[-1]] * gap] if order else []).to(dtype)
    if gap > 1 and order:
        dense = dense[..., ::gap]
    tensor = dense.permute([order.index(axis) for axis in range(len(sizes))])
    if not dense_only and order and rng.random() < 0.15:
        axis = rng.randrange(len(sizes))
        tensor = tensor.narrow(axis, 0, 1).expand(sizes) if sizes[axis] else tensor
    return tensor


def declare(number, tensor):
    text = lambda values: ", ".join(map(str, values))
    strided = "" if tensor.is_contiguous() else " strided"
    return f'  %{number}: {NAMES[tensor.dtype]}[{text(tensor.size())}]{{{text(tensor.stride())}}} = "x{number}"{strided}\n'


def ask(cases):
    """[(operand tensors, instruction)] in one run; the result types as (dtype, sizes, strides)."""
    inputs, body, number = "", "", 0
    total = sum(len(operands) for operands, _ in cases)
    for index, (operands, instruction) in enumerate(cases):
        names = []
        for operand in operands:
            inputs += declare(number, operand)
            names.append(f"%{number}")
            number += 1
        body += f"  %{total + index}: f32[] = {instruction.replace('OPERANDS', ', '.join(names))}\n"
    status, output, message = run_opt(["--passes=rebuild,verify,print"], f'trace "x"\nin\n{inputs}do\n{body}out\n')
    assert status == 0, message
    types = re.findall(r"^  %\d+: (\w+)\[([\d, ]*)\](?:\{([\d, ]*)\})?[^=]* = (?!\")", output, re.MULTILINE)
    assert len(types) == len(cases)
    integers = lambda text: [int(n) for n in text.split(",")] if text else []
    return [(dtype, integers(sizes), integers(strides) if strides else None) for dtype, sizes, strides in types]


def compare(cases, truths, layouts=True):
    for (operands, instruction), said, truth in zip(cases, ask(cases), truths):
        seen = [(NAMES[t.dtype], list(t.size()), t.stride()) for t in operands]
        dtype, sizes, strides = said
        assert (dtype, sizes) == (NAMES[truth.dtype], list(truth.size())), f"{instruction} of {seen}"
        if layouts and truth.numel():
            said_strides = strides if strides is not None else list(torch.empty(sizes, device="meta").stride())
            assert said_strides == list(truth.stride()), f"{instruction} of {seen}"


def random_sizes(rng, rank):
    return [rng.choice([1, 2, 3, 5]) for _ in range(rank)]


def broadcastable(rng, sizes):
    kept = [1 if rng.random() < 0.2 else size for size in sizes]
    return kept[rng.choice([0, 0, 0, 1]):] if kept else kept


def mixed(rng, sizes):
    """Two operands: of one floating dtype, or of any two and dense. (In eager an operand that is converted becomes dense before its strides
    count; the rule does not know that, and the recorder sees that it disagrees.)"""
    one = rng.choice([torch.float16, torch.float32, torch.float64])
    if rng.random() < 0.5:
        return [make(rng, broadcastable(rng, sizes), one) for _ in range(2)]
    return [make(rng, broadcastable(rng, sizes), rng.choice(list(DTYPES.values())), dense_only=True) for _ in range(2)]


def test_pointwise_types_and_layouts():
    rng = random.Random(1)
    cases, truths = [], []
    for _ in range(400):
        sizes = random_sizes(rng, rng.randrange(5))
        a, b = mixed(rng, sizes)
        name = rng.choice(["add", "mul", "div", "maximum", "lt"])
        cases.append(((a, b), f"{name} OPERANDS"))
        truths.append(getattr(torch, name)(a, b))
    compare(cases, truths)


def test_three_operands():
    rng = random.Random(2)
    cases, truths = [], []
    for _ in range(200):
        sizes = random_sizes(rng, rng.randrange(1, 5))
        c = make(rng, broadcastable(rng, sizes), torch.bool)
        a, b = mixed(rng, sizes)
        cases.append(((c, a, b), "where OPERANDS"))
        truths.append(torch.where(c, a, b))
    compare(cases, truths)


def test_numbers_as_second_operand():
    cases, truths = [], []
    for dtype in DTYPES.values():
        for sizes in [], [3]:
            for text, number in ("true", True), ("2", 2), ("0.5", 0.5):
                x = torch.ones(sizes).to(dtype)
                cases.append(((x,), f"mul OPERANDS, value={text}"))
                truths.append(x * number)
                cases.append(((x,), f"div OPERANDS, value={text}"))
                truths.append(x / number)
    compare(cases, truths)


def test_unary_types():
    cases, truths = [], []
    for dtype in DTYPES.values():
        x = torch.ones(2, 3).to(dtype).t()
        for name in ["exp", "sqrt", "isnan", "logical_not", "sigmoid", "rsqrt"]:
            cases.append(((x,), f"{name} OPERANDS"))
            truths.append(getattr(torch, name)(x))
    compare(cases, truths)


REDUCTIONS = {
    "sum": torch.sum, "prod": lambda x, dim, keepdim: torch.prod(x, dim[0], keepdim), "amax": torch.amax, "mean": torch.mean,
    "argmin": lambda x, dim, keepdim: torch.argmin(x, dim[0], keepdim), "any": torch.any, "logsumexp": torch.logsumexp,
    "var": lambda x, dim, keepdim: torch.var(x, dim, correction=0, keepdim=keepdim),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    rng = random.Random(3)
    cases, truths = [], []
    for _ in range(40):
        sizes = random_sizes(rng, rng.randrange(1, 4))
        integers = name in ("sum", "prod", "amax", "argmin", "any")
        dtypes = [dtype for dtype in DTYPES.values() if dtype != torch.bool or name != "argmin"]
        x = make(rng, sizes, rng.choice(dtypes) if integers else torch.float32)
        axes = sorted(rng.sample(range(len(sizes)), 1 if name in ("prod", "argmin") else rng.randint(1, len(sizes))))
        keepdim = rng.random() < 0.5
        cases.append(((x,), f"{name} OPERANDS, axes={axes}, keepdim={str(keepdim).lower()}"))
        truths.append(REDUCTIONS[name](x, dim=axes, keepdim=keepdim))
    compare(cases, truths)


def test_composites():
    rng = random.Random(4)
    F = torch.nn.functional
    cases, truths = [], []

    def add(operands, instruction, truth):
        cases.append((operands, instruction))
        truths.append(truth)

    for _ in range(40):
        x = make(rng, [rng.choice([1, 2, 3]), 4, 6], torch.float32)
        add((x,), "softmax OPERANDS, axis=2", torch.softmax(x, 2))
        add((x,), "log_softmax OPERANDS, axis=1", torch.log_softmax(x, 1))
        add((x, torch.ones(6), torch.ones(6)), "layer_norm OPERANDS, axes=[2], eps=1e-05", F.layer_norm(x, [6], torch.ones(6), torch.ones(6)))
        add((x,), "tril OPERANDS", torch.tril(x))
        add((x,), "glu OPERANDS, axis=1", F.glu(x, 1))
        mask = make(rng, [4, 1], torch.bool)
        add((x, mask), "masked_fill OPERANDS, value=0.0", x.masked_fill(mask, 0.0))
        add((x, torch.ones(4), torch.ones(4)), "group_norm OPERANDS, axis=2, eps=1e-05", F.group_norm(x, 2, torch.ones(4), torch.ones(4)))
        add((x, x), "cat OPERANDS, axis=0", torch.cat([x, x], 0))
        add((x,), "pad OPERANDS, sizes=[1, 2, 0, 1], value=0.0", F.pad(x, [1, 2, 0, 1]))
    compare(cases, truths)


def test_contractions():
    rng = random.Random(5)
    cases, truths = [], []
    for _ in range(60):
        batch = random_sizes(rng, rng.randrange(3))
        a = make(rng, broadcastable(rng, batch) + [rng.choice([1, 2, 4]), 3], torch.float32)
        b = make(rng, broadcastable(rng, batch) + [3, rng.choice([1, 2, 5])], torch.float32)
        cases.append(((a, b), "matmul OPERANDS"))
        truths.append(torch.matmul(a, b))
        x = make(rng, batch + [3], torch.float32)
        weight, bias = torch.ones(5, 3), torch.ones(5)
        cases.append(((x, weight, bias), "linear OPERANDS"))
        truths.append(torch.nn.functional.linear(x, weight, bias))
    compare(cases, truths, layouts=False)  # the recorder compares layouts of library calls one by one


def test_attention_layout():
    rng = random.Random(7)
    cases, truths = [], []
    for _ in range(30):
        q = make(rng, [rng.choice([1, 2]), 3, rng.choice([1, 4]), 8], torch.float32)
        if q.stride(3) == 1:
            cases.append(((q, q, q), "attention OPERANDS"))
            truths.append(torch.nn.functional.scaled_dot_product_attention(q, q, q))
    assert len(cases) > 5
    compare(cases, truths)


def views(rng, x):
    """(instruction, the view torch makes), None where torch refuses."""
    sizes, rank = list(x.size()), x.dim()
    axis = rng.randrange(rank)
    order = rng.sample(range(rank), rank)
    yield f"permute OPERANDS, axes={order}", x.permute(order)
    yield f"unsqueeze OPERANDS, axis={axis}", x.unsqueeze(axis)
    yield f"select OPERANDS, axis={axis}, start={sizes[axis] - 1}", x.select(axis, sizes[axis] - 1)
    yield f"slice OPERANDS, axis={axis}, start=1, sizes=[{sizes[axis] - 1}]", x.narrow(axis, 1, sizes[axis] - 1)
    yield f"expand OPERANDS, sizes={[4, *sizes]}", x.expand(4, *sizes)
    merged = sizes[:-2] + [sizes[-2] * sizes[-1]] if rank > 1 else [*sizes, 1]
    for target in merged, [1, *sizes], [*sizes[:axis], 1, *sizes[axis:]], [x.numel()]:
        try:
            yield f"reshape OPERANDS, sizes={target}", x.view(target)
        except RuntimeError:
            yield f"reshape OPERANDS, sizes={target}", None


def test_views():
    rng = random.Random(6)
    cases, truths, refused = [], [], 0
    for _ in range(60):
        x = make(rng, random_sizes(rng, rng.randrange(1, 4)), torch.float32)
        for instruction, truth in views(rng, x):
            if truth is None:
                refused += 1
                body = f'trace "x"\nin\n{declare(0, x)}do\n  %1: f32[] = {instruction.replace("OPERANDS", "%0")}\nout\n'
                status, _, message = run_opt(["--passes=rebuild"], body)
                assert status == 1 and "view size is not compatible" in message, body
            else:
                cases.append(((x,), instruction))
                truths.append(truth)
    assert refused > 10
    compare(cases, truths)
