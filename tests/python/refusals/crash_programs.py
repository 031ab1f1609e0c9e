"""Programs that might end a process, raise what eager does not raise, or not raise what it raises. `python crash_programs.py GROUP [MODE]` runs
the rows of one group in a process of its own and prints a line for each that differs from eager in values, types, strides, arguments,
generator state or errors.

A row: a program (text), how its arguments are made from n, and the reason under which it must be counted, if it may not be compiled."""

import sys
import warnings

import torch

import escapement

warnings.simplefilter("ignore")
SIZES = (3, 4, 5, 0, 1, 7, 3)
SOME = (3, 4, 5, 1, 7)


class Sub(torch.Tensor):
    pass


def vector(n):
    return (torch.arange(float(n)) % 3,)


def matrix(n):
    return (torch.arange(float(n * 2)).reshape(n, 2) % 5,)


def rows(n):
    return (torch.arange(float(n * 2 + 2)).reshape(n + 1, 2),)


def square(n):
    return (torch.arange(float(n * n)).reshape(n, n) % 5,)


def with_number(n):
    return torch.ones(3), {7: 2**63 - 1, 5: -2**63}.get(n, n)


def of_rank(rank):
    return lambda n: (torch.ones([1] * (rank - 2) + [n, 2]),)


# --- results that nobody uses, and sizes that are born with them

BORN = """x.nonzero(); x.nonzero(as_tuple=True)[0]; x.unique(); torch.unique(x, return_inverse=True, return_counts=True)[2]
torch.unique_consecutive(x, return_inverse=True)[1]; torch.searchsorted(x, torch.tensor([0.5, 1.0])); x.masked_select(x > 0); x[x > 0]
torch.repeat_interleave(x, x.long()); x.long().bincount(); torch.argwhere(x); torch.unique(x.reshape(-1, 1), dim=0)
torch.nonzero(x, out=torch.empty(0, dtype=torch.long)); torch.masked_select(x, x > 0, out=torch.empty(0)); x.take(x.nonzero())
x.narrow(0, 0, int((x > 0).sum())); torch.arange(int((x > 0).sum())); x.topk(int((x > 0).sum()))[0]
x.split([int((x > 0).sum()), x.shape[0] - int((x > 0).sum())])[1]; torch.nonzero(x > 1)[:, 0] + 1"""
BORN = [one.strip() for line in BORN.splitlines() for one in line.split(";")]
USES = {
    "unused": "(({}), x + 1)[1]",
    "of all": "({}, x.unique(), x[x > 1], x * 2)[3]",
    "size": "x + ({}).shape[0]",
    "branch on the size": "x + 1 if ({}).shape[0] > 2 else x - 1",
    "computed with, unused": "(torch.softmax(({}).float().reshape(-1), 0) * 2, torch.softmax(x, 0))[1]",
    "beside a write": "(({}), x.add_(1))[1]",
}
born = [(f"lambda x: {use.format(one)}", vector) for use in USES.values() for one in BORN]
born += [(f"lambda x: ({one}, x + 1)[1]", vector) for one in (
    "x.sum().item()", "bool(x.sum() > 1)", "int(x.sum())", "x.sort()", "x // 2", "x.median() if x.shape[0] else x", "torch.histc(x, 4, 0, 3)",
    "torch.combinations(x)", "x.long().bincount().shape[0]", "(x.nonzero(), x.sum().item(), x.unique())")]

# --- tensors of other kinds

other = [
    ("lambda x: torch.mm(x.to_sparse(), x).relu() + 1", square, "unsupported_tensor"),
    ("lambda x: x.to_sparse()", square, "unsupported_tensor"),
    ("lambda x: torch.sparse_coo_tensor(torch.zeros(1, 2, dtype=torch.long), torch.ones(2), (3,)).to_dense() + x.sum()", vector, "unsupported_tensor"),
    ("lambda x: x.to_sparse().coalesce().values() * 2", square, "unsupported_tensor"),
    ("lambda x: x.to_sparse()._nnz() + x.sum()", square, "unsupported_tensor"),
    ("lambda x: x.to_sparse_csr().crow_indices() + 1", lambda n: (torch.eye(n + 1),), "unsupported_tensor"),
    ("lambda x: torch.nested.nested_tensor([x, x + 1]).to_padded_tensor(0.) * 2", vector, None),
    ("lambda x: torch.nested.as_nested_tensor([x, x + 1]).unbind()[0] * 2", vector, None),
    ("lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize() + x", vector, "unsupported_tensor"),
    ("lambda x: (x.to_mkldnn() * 2).to_dense() + x", rows, "unsupported_tensor"),
    ("lambda x: torch.complex(x, x).conj().imag * 2", vector, None),
    ("lambda x: torch.complex(x, x).conj()", vector, "unsupported_tensor"),
    ("lambda x: torch.complex(x, x).conj().mul_(2).imag + x", vector, "unsupported_tensor"),
    ("lambda x: torch.fft.rfft(x).abs()", lambda n: (torch.ones(n + 1),), None),
    ("lambda x: (x.to('meta') + 1, x + 1)", vector, "unsupported_tensor"),
    ("lambda x: torch.empty_like(x, device='meta').shape[0] + x", vector, "unsupported_tensor"),
    ("lambda x: x + torch._efficientzerotensor(x.shape[0])", vector, "unsupported_tensor"),
    ("lambda x: torch.nn.Parameter(x * 2, False)", vector, None),
    ("lambda x: x.as_subclass(Sub) * 2", vector, None),
    ("lambda x: x.to(torch.float8_e4m3fn).float() + 1", vector, None),
    ("lambda x: torch.vmap(lambda y: y * 2.)(x)", vector, None),
    ("lambda x: torch.vmap(lambda y: y * y.sum())(x)", matrix, None),
    ("lambda x: x.to_dense() + 1", lambda n: (torch.eye(n).to_sparse(),), "unsupported_input"),
    ("lambda x, y: torch.mm(x, y) + 1", lambda n: (torch.eye(n).to_sparse(), torch.ones(n, 2)), "unsupported_input"),
    ("lambda x, y: x @ y + 1", lambda n: (torch.eye(n + 1).to_sparse_csr(), torch.ones(n + 1, 2)), "unsupported_input"),
    ("lambda x: x * 2", lambda n: (torch.nested.nested_tensor([torch.ones(n + 1), torch.ones(2)]),), "unsupported_input"),
    ("lambda x, y: y * 2", lambda n: (torch.nested.nested_tensor([torch.ones(n + 1), torch.ones(2)]), torch.ones(n)), "unsupported_input"),
    ("lambda x: x.dequantize() + 1", lambda n: (torch.quantize_per_tensor(torch.ones(n), 0.1, 0, torch.quint8),), "unsupported_input"),
    ("lambda x: (x + x).to_dense()", lambda n: (torch.ones(n + 1, 2).to_mkldnn(),), "unsupported_input"),
    ("lambda x: x * 2", lambda n: (torch.ones(n, dtype=torch.cfloat).mul(1j).conj(),), "unsupported_input"),
    ("lambda x: x * 2", lambda n: (torch.ones(n, dtype=torch.cfloat).mul(1j).conj().imag,), "unsupported_input"),
    ("lambda x: x * 2 + 1j", lambda n: (torch.ones(n, dtype=torch.cfloat).mul(1j),), None),
    ("lambda x: x * 2 + 1", lambda n: (torch.ones(n, device='meta'),), "unsupported_input"),
    ("lambda x: x * 2 + 1", lambda n: (torch._efficientzerotensor(n),), "unsupported_input"),
    ("lambda x: torch.nn.functional.layer_norm(x, (2,), None, None) + 1", matrix, None),
    ("lambda x: x[:, None, [0, 0]]", matrix, None),
]

# --- shapes and memory that change in place; writes that eager refuses

RESHAPES = ("unsqueeze_(0)", "squeeze_()", "squeeze_(0)", "t_()", "transpose_(0, 1)", "swapaxes_(0, 1)", "swapdims_(0, 1)", "resize_(2)",
            "resize_as_(torch.ones(1, 2))", "as_strided_((1,), (1,))", "set_(torch.ones(3))", "detach_()")
in_place = []
for change in RESHAPES:
    counted = None if change == "detach_()" else "argument_reshaped"
    in_place += [(f"lambda x: (x.{change}, x + 1)[1]", rows, counted), (f"lambda x: x.{change}", rows, counted),
                 (f"lambda x: (x.mul_(2), x.{change}, x.add_(1), x + 1)", rows, counted),
                 (f"lambda x: (lambda y: (y.{change}, y + 1))(x * 2)", rows, None), (f"lambda x: (x[:1].{change}, x + 1)[1]", rows, None)]
in_place += [
    ("lambda x, o: torch.add(x, 1, out=o)", lambda n: (torch.ones(n), torch.empty(0)), None),
    ("lambda x, o: (torch.nonzero(x, out=o), x + 1)[1]", lambda n: (torch.arange(float(n)) % 2, torch.empty(0, dtype=torch.long)), None),
    ("lambda x: (lambda y: torch.sum(y, 0, out=y))(x + 7)", vector, None),
    ("lambda x: torch.neg(torch.cov(x), out=x)", rows, None),
    # (two rows at least: what a resize grows into is nobody's value, so eager would be compared with whatever the allocator gave)
    ("lambda x: x.max(-1).values.resize_(2)", lambda n: rows(n + 1), "argument_reshaped"),
    ("lambda x: x.expand(3, -1).add_(1)", vector, None),
    ("lambda x: x.expand(3, -1).copy_(torch.ones(3, x.shape[0]))", vector, None),
    ("lambda x, y: x.expand(y.shape[0], 2).add_(1)", lambda n: (torch.arange(2.), torch.ones(n)), None, (1, 3, 1, 4)),
    ("lambda x, y: (x * 1).expand(y.shape[0], 2).fill_(1)", lambda n: (torch.arange(2.), torch.ones(n)), None, (1, 3, 1, 4)),
    ("lambda x: x.add_(1)", lambda n: (torch.arange(2.).expand(n, 2),), None, (1, 3, 1, 4)),
    ("lambda x: x[1:].add_(x[:-1])", lambda n: (torch.arange(n + 1.),), None, (1, 0, 3, 1)),
    ("lambda x: x[2:].copy_(x[:-2])", lambda n: (torch.arange(n + 2.),), None, (1, 2, 3, 7)),
    ("lambda x: x.mul_(x.t())", square, None, (1, 3, 4)),
    ("lambda x: (x[:, :1].add_(x[:, 1:]), x + 1)", matrix, None),
]

# --- nothing, and what is asked of it

EMPTY = """reshape(x.shape[0], -1); reshape(-1, x.shape[0]); view(-1, x.shape[0]); unflatten(0, (-1, x.shape[0])); unflatten(0, (x.shape[0], -1))
reshape(-1); flatten(); chunk(2); chunk(3)[0]; chunk(5); split(2); tensor_split(3); unbind(0); expand(2, -1); roll(1); cumsum(0); mean(0)
as_strided((x.shape[0], 1), (1, 1)); clone().as_strided((2, 2), (1, 1), 1); (x > 1).as_strided((1,), (1,)); unfold(0, 2, 1); (x > 1).unfold(0, 2, 1)
aminmax(); amax(0); argmax(0); max(0); median(0); mode(0); kthvalue(1); topk(1); softmax(0); sort(0); prod(0); std(0)"""
EMPTY = [one.strip() for line in EMPTY.splitlines() for one in line.split(";")]
empty = [(f"lambda x: {one if one.startswith('(') else 'x.' + one}", vector) for one in EMPTY]
empty += [
    ("lambda x: x.unflatten(0, (2, 2))", vector, None, (4, 0, 4)),
    ("lambda x: (torch.nn.functional.max_pool1d(x, 2), x + 1)[1]", lambda n: (torch.ones(2, n),), None, (3, 1, 0, 4)),
    ("lambda b, c: (c.any().item(), b.median(-1)[0])", lambda n: (torch.ones(n, 1), torch.ones(n)), None),
    ("lambda b: (b.nonzero(as_tuple=True)[1].squeeze(0), torch.argwhere(b))[0].split(1, -1)", lambda n: (torch.ones(1, n),), None),
    ("lambda x: x.tensor_split((1, 2))", vector, None),
    ("lambda x: x + torch.ops.aten._local_scalar_dense(x[1:])", vector, None),
    ("lambda x: x * 2 if torch.ops.aten._local_scalar_dense(x) > 1 else x + 1", matrix, None),
]

# --- ranks and numbers beyond limits

limits = []
for rank in (15, 16, 17, 25, 40, 64):
    limits += [("lambda x: (x * 2 + 1).relu()", of_rank(rank), None), ("lambda x: (x * 2 + 1).sum(-1).sum(0)", of_rank(rank), None),
               ("lambda x: (x.add_(1), torch.softmax(x, -1) * 2)[1]", of_rank(rank), None),
               ("lambda x: torch.cat([x, x + 1], -1).permute(*range(x.dim() - 1, -1, -1)) * 2", of_rank(rank), None),
               (f"lambda x: (x.reshape([x.shape[0]] + [1] * {rank - 1}) * 2 + 1).sum(0)", vector, None)]
limits += [("lambda x: (x * 2 + 1).relu().sum(0)", lambda n: (torch.ones([2] * 16 + [n]),), None, (1, 2, 3))]
limits += [(f"lambda x: {one}", vector) for one in (
    "x + 2**63", "x + (2**63 - 1)", "x * 2**64", "x + -2**63", "x.long() + 2**63", "x.long() + (2**63 - 1) + 1", "x.clamp(0, 2**63)",
    "x == 2**63", "x + 10**30", "torch.full((2,), 2**63)", "x.masked_fill(x > 0, 2**63)", "x.long() ** 63")]
limits += [(f"lambda x, n: {one}", with_number, None, (3, 4, 5, 7, 1, 0, 3)) for one in (
    "x + (n + 1)", "x + n", "x * n", "x.long() + n", "x + n * n", "x + (n - 1)", "x + -n", "(n + 1, x)", "(n * n * n, x + 1)",
    "x if n + 1 > 5 else x + 1", "x + abs(n)", "x[:n]", "x + (1 if n * n > 3 else 2)")]

GROUPS = {"born": born, "other": other, "in_place": in_place, "empty": empty, "limits": limits}


def difference(a, b, where="result"):
    """What a caller can see of two results, or None."""
    if type(a) is not type(b):
        return f"{where}: {type(a).__name__} against {type(b).__name__}"
    if isinstance(a, torch.Tensor):
        return tensor_difference(a, b, where)
    if isinstance(a, (tuple, list)):
        found = (difference(x, y, f"{where}[{i}]") for i, (x, y) in enumerate(zip(a, b)))
        return f"{where}: length" if len(a) != len(b) else next(filter(None, found), None)
    return None if a == b or a != a and b != b else f"{where}: {a!r} against {b!r}"


def tensor_difference(a, b, where):
    if (a.layout, a.dtype, a.is_nested, a.is_quantized) != (b.layout, b.dtype, b.is_nested, b.is_quantized):
        return f"{where}: kind of tensor"
    if a.is_nested:
        return difference(list(a.unbind()), list(b.unbind()), where)
    if a.shape != b.shape:
        return f"{where}: {tuple(a.shape)} against {tuple(b.shape)}"
    if a.is_meta:
        return None
    if a.layout != torch.strided:
        a, b = a.to_dense(), b.to_dense()
    elif a.numel() and any(a.shape[d] > 1 and a.stride(d) != b.stride(d) for d in range(a.dim())):
        return f"{where}: strides {a.stride()} against {b.stride()}"
    if a.is_quantized:
        a, b = a.dequantize(), b.dequantize()
    close = torch.allclose(a.to(torch.complex128), b.to(torch.complex128), 1e-5, 1e-6, True)
    return None if close else f"{where}: {a} against {b}"


def outcome(function, arguments):
    """(result, None), or (None, which error)."""
    torch.manual_seed(7)
    try:
        return function(*arguments), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}".splitlines()[0]


def compare(function, compiled, make, sizes):
    for n in sizes:
        ours, eagers = make(n), make(n)
        (want, error), state = outcome(function, eagers), torch.get_rng_state()
        got, ours_error = outcome(compiled, ours)
        found = f"{error} against {ours_error}" if (error is None) != (ours_error is None) else difference(want, got)
        found = found or difference(eagers, ours, "arguments")
        if found is None and not torch.equal(state, torch.get_rng_state()):
            found = "generator"
        if found is not None:
            return f"n={n}: {found}"
    return None


def reasons(compiled):
    info = compiled.info()
    return {*info["eager"], *(name for region in info["regions"] for name in region["fallbacks"])}


def check(row, mode):
    text, make, expected, sizes = (*row, None, None)[:4] if len(row) < 4 else row
    function = eval(text, globals())
    compiled = torch.compile(function, backend="escapement") if mode == "compile" else escapement.jit(function, mode=mode)
    found = compare(function, compiled, make, sizes or SIZES)
    if found is None and mode == "call":
        counted = reasons(compiled)
        if "internal_error" in counted or expected is not None and expected not in counted:
            return f"counted as {counted}, not {expected}"
    return found


def main(group, mode="call"):
    torch.set_num_threads(1)
    for row in GROUPS[group]:
        print("?", row[0], flush=True)   # the last one is that which ended the process
        found = check(row, mode)
        if found is not None:
            print("differs", row[0], "--", found, flush=True)
    print("done", len(GROUPS[group]))


if __name__ == "__main__":
    main(*sys.argv[1:])
