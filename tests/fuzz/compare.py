"""What one call did, and how two calls differ: exception class, values, dtypes, sizes, strides, what shares memory with what, the
arguments afterwards, the state of the random generator.

Not compared, as documented: strides of axes of size 1 and of tensors without elements, which NaN, the sign of zero where extremes are
taken (nor what is made of these two), messages of exceptions.
"""

import copy
import functools
import math
import re
import warnings

import torch

from states import MODES, TRANSFORMS

EXTREMES = re.compile(r"softshrink|max|min|clamp|relu|hardtanh|sort|topk|clip|threshold|argsort")
# Infinite or not a number, as the order of the terms has it: what overflows in one order may cancel in another, and so does eager's running mean.
IN_ORDER = re.compile(r"_norm|norm\(|var_mean|std_mean|var\(|std\(|sum\(|mean\(|prod\(|cumsum|cumprod|_add|loss|entropy|trapezoid|nansum|nanmean")
RUNNING_MEAN = re.compile(r"var_mean|std_mean")   # not a number where the mean itself is infinite
REMAINDERS = re.compile(r"remainder|fmod|floor_divide| % | // |rounding_mode")   # eager's vectorised functions give up where the quotient is very large
# Terms so large that they overflow in the one order only: then what is lost is ours alone.
HUGE = re.compile(r" special|\bfloat16|\.half\(|prod\(")
TELLS_SIGNS = re.compile(r"atan2|copysign|signbit|angle|reciprocal|div|/|pow")
REINTERPRETED = re.compile(r"\.view\(torch\.")   # any number may come of it, and double precision says nothing
DIVIDES = re.compile(r"[a-z0-9)] (/|//|%) |fmod|remainder|div|log|sqrt|pow|reciprocal|asin|acos")   # of zeros it is not a number
TELLS_NAN = re.compile(r"copysign|signbit")   # has a sign, which is not promised
STATE = 1234
MOST = 40   # leaves whose sharing is compared, which takes the square of their number


class Outcome:
    """One call of a function. What it raises is its result; a finding of its own is told apart by `difference`."""

    def __init__(self, function, arguments, mode):
        torch.manual_seed(STATE)
        self.arguments, self.error, self.result = arguments, None, None
        try:
            with warnings.catch_warnings(), MODES[mode]():
                warnings.simplefilter("ignore")
                self.result = TRANSFORMS.get(mode, as_it_is)(function)(*arguments.values())
        except Exception as error:
            self.error = error
        self.state = torch.get_rng_state()

    def leaves(self):
        return [*leaves("result", self.result), *self.argument_leaves()]

    def argument_leaves(self):
        return [leaf for name, value in self.arguments.items() for leaf in leaves(name, value)]


def as_it_is(function):
    return function


def leaves(path, value):
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        return [leaf for i, part in enumerate(value) for leaf in leaves(f"{path}[{i}]", part)]
    if isinstance(value, dict):
        return [leaf for key, part in value.items() for leaf in leaves(f"{path}[{key!r}]", part)]
    return [(path, value)]


def form(value):
    if not isinstance(value, (tuple, list)) or isinstance(value, torch.Size):
        return type(value).__name__
    return type(value).__name__, tuple(form(part) for part in value)


class Judge:
    """Tells the first difference, as (kind, text). `loose`: results have no names, any exception is as good as another, and what
    shares memory is not promised. Values that are compared by tolerance may be those of eager or, each, those of eager in double precision
    (`finer`, an Outcome, made when it is asked for): where eager's own cancel, to be right is no fault,
    nor to be as far from it as eager is. Where they overflow and those of double
    precision do not, eager has no value to compare with."""

    def __init__(self, program, loose=False):
        self.near, self.results, self.loose = program.near, program.results, loose
        self.paths = frozenset()   # of leaves that are near as well
        self.signed = not EXTREMES.search(program.source())
        self.in_order = IN_ORDER.search(program.source())
        self.bits = REINTERPRETED.search(program.source())
        text = program.source() + " ".join(map(str, program.arguments.values()))
        self.overflows = self.in_order and HUGE.search(text)
        self.special, self.text = " special" in text, program.source()
        self.rough = max((rough for name, rough in NARROW.items() if re.search(name, text)), default=0)
        self.finer = None

    def with_near(self, paths):
        """This judge, to whom the values at `paths` may be off by roundings as well."""
        other = copy.copy(self)
        other.paths = self.paths | paths
        return other

    def paths_of_other_values(self, one, other):
        pairs = zip(one.leaves(), other.leaves())
        return frozenset(path for (path, a), (_, b) in pairs if type(a) is type(b) and isinstance(a, (torch.Tensor, float)) and self.are_other_values(a, b))

    def are_other_values(self, a, b):
        if isinstance(a, float):
            return a != b and not a != a
        return a.shape == b.shape and a.dtype == b.dtype and not same_bits(a.detach(), b.detach(), False)

    def is_near(self, path):
        if self.loose:
            return bool(self.near)
        if path in self.paths:
            return True
        index = re.match(r"result\[(\d+)\](.*)", path)
        text = self.results[int(index[1])] + index[2] if index else path
        return any(name in self.near for name in {text, text.split("[")[0], *re.findall(r"\b(?:v\d+|[a-h])\b", text)})

    def difference(self, ours, eager, finer=lambda: None):
        self.finer = functools.cache(lambda: by_path(finer()))
        if ours.error is not None or eager.error is not None:
            return self.errors(ours, eager) or self.compare_leaves(ours.argument_leaves(), eager.argument_leaves())
        if form(ours.result) != form(eager.result):
            return "form", f"{form(ours.result)} against {form(eager.result)}"
        found = self.compare_leaves(ours.leaves(), eager.leaves()) or not self.loose and self.sharing(ours.leaves(), eager.leaves()) or None
        if not found and not torch.equal(ours.state, eager.state):
            return "random state", "the generator's state differs"
        return found

    def errors(self, ours, eager):
        a, b = type(ours.error), type(eager.error)
        if a is b or self.loose and ours.error and eager.error:
            return None
        said = f"{a.__name__}: {first_line(ours.error)} against {b.__name__}: {first_line(eager.error)}"
        if ours.error is None:
            return "does not raise", said
        return ("raises" if eager.error is None else "raises another", said)

    def compare_leaves(self, ours, eager):
        for (path, a), (_, b) in zip(ours, eager):
            found = self.tensor(path, a, b) if isinstance(b, torch.Tensor) else self.plain(path, a, b)
            if found:
                return found
        return None

    def plain(self, path, a, b):
        same = a == b or a != a and b != b or isinstance(b, torch.nn.Module)
        if not same and type(a) is type(b) is float and self.is_near(path):
            fine = self.finer().get(path)
            same = any(abs(a - known) <= 1e-3 * (1 + abs(known)) for known in (b, fine) if isinstance(known, float))
            same = same or bool(self.overflows) and not math.isfinite(a)
        same = same or type(a) is type(b) is not float and self.tells_nan()   # a number that was made of its bits
        return None if same and type(a) is type(b) else ("plain value", f"{path}: {a!r} against {b!r}")

    def tensor(self, path, a, b):
        for what in ("dtype", "shape", "is_inference"):
            mine, theirs = ((x() if callable(x) else x) for x in (getattr(a, what), getattr(b, what)))
            if mine != theirs:
                return None if what == "shape" and self.is_finer(path, a) else (what, f"{path}: {mine} against {theirs}")
        if b.numel() and any(s != 1 and m != t for s, m, t in zip(b.shape, a.stride(), b.stride())):
            return "strides", f"{path}: {tuple(a.shape)} {a.stride()} against {b.stride()}"
        if lacks_memory(a) and lacks_memory(b):   # both have failed at the same resize
            return None
        return self.values(path, a.detach(), b.detach())

    def values(self, path, a, b):
        if same_bits(a, b, self.signed) or self.is_near(path) and self.is_close(path, a, b) or self.shows_nan(a, b) or self.shows_sign(a, b):
            return None
        if self.special and REMAINDERS.search(self.text) and self.gives_up(path, a, b):
            return None
        if self.special and self.is_finer(path, a):   # eager's vectorised functions lose what is below the smallest normal number
            return None
        wrong = (a != b) & ~((a != a) & (b != b)) if a.dtype != torch.bool else a ^ b
        places = wrong.nonzero()
        at = tuple(places[0].tolist()) if len(places) else ()
        shown = f"{a[at]} against {b[at]}" if len(places) else "sign of zero"
        return "values", f"{path} {b.dtype} {tuple(b.shape)}: {len(places)} of {b.numel()} differ, first at {at}: {shown}"

    def shows_nan(self, a, b):
        """Which NaN is seen where its bits are taken for integers, or its sign."""
        if self.bits and all_nan(a, b):
            return True
        return self.tells_nan() and not b.is_floating_point()

    def tells_nan(self):
        """Whether there may be such, whose bits or sign are looked at."""
        return bool((self.special or DIVIDES.search(self.text)) and (self.bits or TELLS_NAN.search(self.text)))

    def shows_sign(self, a, b):
        """The sign of a zero, which is not promised, where something is made of it: infinities, what copies signs, angles."""
        if self.signed or not b.is_floating_point():
            return False
        equal = (a == b) | (a != a) & (b != b) | torch.isinf(a) & torch.isinf(b)
        return bool((equal | is_axis(a) & is_axis(b) | (a == -b)).all()) if TELLS_SIGNS.search(self.text) else False

    def is_close(self, path, a, b):
        if b.dtype not in ROUGH:   # what becomes of numbers that are not the same: nothing to measure
            return bool(self.bits or self.overflows) or self.is_finer(path, a)
        rough = max(ROUGH[b.dtype], self.rough)
        near = near_places(a, b, rough)
        if self.in_order:
            near |= is_lost(a) & (is_lost(b) | bool(self.overflows))
            if self.overflows:   # what eager lost, ours may have kept
                near |= ~places(torch.isfinite, b)
        if self.special and RUNNING_MEAN.search(self.text):
            near |= places(torch.isnan, b)
        if not self.signed:   # the sign of a zero, turned over
            near |= places(torch.isinf, a) & places(torch.isinf, b)
        if bool(near.all()):
            return True
        fine = self.finer().get(path)
        if self.bits and bool((near | ~places(torch.isfinite, b)).all()):
            return True
        if not isinstance(fine, torch.Tensor) or fine.shape != b.shape or fine.is_complex() != b.is_complex():
            return False
        fine = fine.detach().to(b.dtype)
        return bool((near | near_places(a, fine, rough, AS_FAR * off(b, fine)) | places(torch.isfinite, fine) & ~places(torch.isfinite, b)).all())

    def is_finer(self, path, a):
        """Whether it is just what eager in double precision has there: how many elements, which of them, where a rounding or an overflow decides."""
        fine = self.finer().get(path) if self.is_near(path) or self.special else None
        return isinstance(fine, torch.Tensor) and fine.shape == a.shape and fine.dtype == a.dtype and torch.equal(fine, a)

    def gives_up(self, path, a, b):
        """Whether ours are eager's where those are numbers, and those of eager in double precision where they are not."""
        fine = self.finer().get(path)
        if not b.is_floating_point() or not isinstance(fine, torch.Tensor) or fine.shape != b.shape or fine.is_complex():
            return False
        return bool(((a == b) | torch.isnan(b) & near_places(a, fine.detach().to(b.dtype), ROUGH.get(b.dtype, 0))).all())

    def sharing(self, ours, eager):
        mine, theirs = shared(ours), shared(eager)
        pairs = [k for k in theirs if mine.get(k) != theirs[k]] + [k for k in mine if k not in theirs]
        return ("sharing", f"{pairs[0]}: {mine.get(pairs[0])} against {theirs.get(pairs[0])}") if pairs else None


def shared(found):
    """Pairs of leaves that are one object or share memory, and how far apart they begin."""
    tensors, pairs = [(path, t) for path, t in found if isinstance(t, torch.Tensor)][:MOST], {}
    for i, (one, a) in enumerate(tensors):
        for two, b in tensors[i + 1:]:
            if a is b:
                pairs[one, two] = "the same"
            elif a.numel() and b.numel() and a.untyped_storage()._cdata == b.untyped_storage()._cdata:
                pairs[one, two] = b.storage_offset() * b.element_size() - a.storage_offset() * a.element_size()
    return pairs


def is_axis(x):
    """An angle at which a sign of zero decides."""
    quarters = x.double().abs() / (math.pi / 2)
    return (quarters - quarters.round()).abs() < 1e-2


def lacks_memory(tensor):
    """A resize that raises leaves the new sizes with the old memory; whoever reads it reads foreign memory, in eager too."""
    if tensor.layout != torch.strided or tensor.is_quantized or not tensor.numel():
        return False
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return (last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes()


def same_bits(a, b, signed=True):
    if b.dtype == torch.complex32:
        a, b = a.to(torch.complex64), b.to(torch.complex64)
    if torch.equal(a, b) and not (signed and b.is_floating_point()):
        return True
    if b.is_complex():
        return same_bits(torch.view_as_real(a.resolve_conj()), torch.view_as_real(b.resolve_conj()), signed)
    if not b.is_floating_point():
        return False
    equal = (a == b) | (a != a) & (b != b)
    if signed:
        equal &= (torch.signbit(a) == torch.signbit(b)) | (b != b)
    return bool(equal.all())


ROUGH = {torch.float64: 1e-9, torch.float32: 2e-4, torch.float16: 2e-2, torch.bfloat16: 6e-2, torch.complex64: 2e-4, torch.complex128: 1e-9}
AS_FAR = 16   # times eager's own distance from double precision: what cancels has no better value
# A wide result of narrower numbers is as rough as they are.
NARROW = {r"bfloat16": 6e-2, r"\bfloat16|\.half\(": 2e-2, r"float32|\.float\(": 1e-5}


def as_real(x):
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def places(test, x):
    return test(as_real(x))


def off(a, b):
    """How far apart they are at most, where both are finite."""
    a, b = as_real(a).double(), as_real(b).double()
    finite = torch.isfinite(a) & torch.isfinite(b)
    return (a - b)[finite].abs().max().item() if bool(finite.any()) else 0


def all_nan(a, b):
    """Whether integers, wherever they differ, are the bits of what is not a number."""
    read_as = {torch.int16: (torch.float16, torch.bfloat16), torch.int32: (torch.float32,), torch.int64: (torch.float64,)}
    odd = a != b
    ours, eager = a[odd], b[odd]
    return any(bool((ours.view(dtype).isnan() & eager.view(dtype).isnan()).all()) for dtype in read_as.get(b.dtype, ()))


def near_places(a, b, rough, far=0):
    """Where `a` is `b`: the same infinity, both not a number, near in units of the tensor's largest finite value, or not farther than `far`."""
    a, b = as_real(a).double(), as_real(b).double()
    finite = torch.isfinite(b) & torch.isfinite(a)
    scale = b[finite].abs().max().clamp(min=1) if bool(finite.any()) else 1
    return torch.where(finite, (a - b).abs() <= rough * scale + far, (a == b) | (a != a) & (b != b))


def is_lost(x):
    """Infinite, not a number or zero: what a partial result that overflowed or vanished leaves, as it meets the others."""
    real = as_real(x)
    return ~torch.isfinite(real) | (real == 0)


def by_path(outcome):
    return {} if outcome is None or outcome.error is not None else dict(outcome.leaves())


def first_line(error):
    return str(error).strip().split("\n")[0][:200]
