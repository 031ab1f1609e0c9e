"""Everything a program can ask of a tensor, a shape or a number and get as something that is no tensor: one row a question.

The rows are data, for any way of running a program: `ask` is what the program does, in eager Python, and its answer decides nothing yet.
Tests make programs of it that return the answer or branch on it (`returning`, `branching`), and hold them against eager at SHAPES.
A row is written as the expression itself, which is also its name:

    x              a tensor (one of SUBJECTS, made of the function's argument)
    a, b           the sizes of the argument's two axes
    s              the shape itself, a torch.Size
    v, k, t        a float, an integer and a truth value, read from tensors
    n, f           an integer and a float that are arguments of the function

`how` says what escapement.jit's call mode makes of the answer, and so what the number of recordings may be:

    fixed          the same for every call of one form (dtype, rank, ...): nothing to guard
    symbol         goes on as a symbol: one recording for all sizes, if it is returned; branched on it is a relation
    relation       a guard of the relation asked
    value          the exact number was wanted: a guard of this value
    parts          several of these decide, each with a guard; at worst a recording for each call that differs
    escape         memory or identity: the call runs eagerly, counted

What torch does not let be asked through the dispatcher or a virtual method is not here; docs/questions.md names it.
"""

from question_programs import SHAPES, SUBJECTS, branching, given, returning, rows  # noqa: F401  (what its readers use)

TENSOR = list(rows("x", """
    fixed     x.dim()
    fixed     x.ndim
    fixed     x.ndimension()
    fixed     len(x.shape)
    fixed     len(x.size())
    fixed     x.dtype == torch.float32
    fixed     x.dtype.is_floating_point
    fixed     str(x.dtype)
    fixed     str(x.device)
    fixed     x.device.type
    fixed     x.device.index
    fixed     x.get_device()
    fixed     x.layout == torch.strided
    fixed     str(x.layout)
    fixed     x.type()
    fixed     x.type() == 'torch.FloatTensor'
    fixed     type(x) is torch.Tensor
    fixed     isinstance(x, torch.Tensor)
    fixed     isinstance(x, torch.nn.Parameter)
    fixed     torch.is_tensor(x)
    fixed     torch.is_storage(x)
    fixed     torch.typename(x)
    fixed     x.is_floating_point()
    fixed     torch.is_floating_point(x)
    fixed     x.is_complex()
    fixed     torch.is_complex(x)
    fixed     x.is_signed()
    fixed     torch.is_signed(x)
    fixed     x.is_conj()
    fixed     torch.is_conj(x)
    fixed     x.is_neg()
    fixed     torch.is_neg(x)
    fixed     x.is_inference()
    fixed     torch.is_inference(x)
    fixed     x.is_cpu
    fixed     x.is_cuda
    fixed     x.is_xpu
    fixed     x.is_mps
    fixed     x.is_meta
    fixed     x.is_sparse
    fixed     x.is_sparse_csr
    fixed     x.is_quantized
    fixed     x.is_mkldnn
    fixed     x.is_nested
    fixed     x.is_vulkan
    fixed     x.is_ipu
    fixed     x.is_xla
    fixed     x.is_maia
    fixed     x.is_mtia
    fixed     attempt(x.is_coalesced)
    fixed     x.element_size()
    fixed     x.itemsize
    fixed     x.requires_grad
    fixed     x.is_leaf
    fixed     x.retains_grad
    fixed     x.grad is None
    fixed     x.grad_fn is None
    fixed     x.output_nr
    fixed     x.names
    fixed     x.has_names()
    fixed     x._backward_hooks is None
    fixed     hasattr(x, 'something')
    fixed     hasattr(x, 'shape')
    fixed     callable(x)
    fixed     x is x
    fixed     x.requires_grad_(False) is x
    fixed     x.detach() is x
    fixed     x.to(torch.float32) is x
    fixed     x.to('cpu') is x
    fixed     x.float() is x
    fixed     x.cpu() is x
    fixed     x.double() is x
    fixed     x in [x]
    fixed     {x: 3}[x]
    fixed     hash(x) == hash(x)
    fixed     id(x) == id(x)
    fixed     x.is_same_size(x)
    fixed     torch.is_same_size(x, x)
    fixed     str(torch.result_type(x, 2.5))
    fixed     str(torch.result_type(x, x.double()))
    fixed     torch.can_cast(x.dtype, torch.int32)
    fixed     str(torch.promote_types(x.dtype, torch.float64))
    fixed     torch.finfo(x.dtype).bits
    fixed     torch.is_grad_enabled()
    fixed     torch.get_default_dtype() == x.dtype
    fixed     torch.overrides.is_tensor_like(x)
    fixed     torch.overrides.has_torch_function((x,))
    fixed     x.__class__ is torch.Tensor
    fixed     issubclass(type(x), torch.Tensor)
    symbol    x.numel()
    symbol    x.nelement()
    symbol    torch.numel(x)
    value     x.nbytes
    symbol    tuple(x.shape)
    symbol    tuple(x.size())
    symbol    x.shape[-1] if x.dim() else 0
    symbol    x.size(-1) if x.dim() else 0
    parts     x.shape.numel()
    symbol    math.prod(x.shape)
    symbol    sum(x.shape)
    symbol    x.storage_offset()
    parts     x.stride()
    parts     tuple(x.stride(d) for d in range(x.dim()))
    parts     attempt(x.stride, 0)
    parts     attempt(x.stride, -1)
    relation  attempt(x.stride, 7)
    relation  attempt(x.size, 7)
    relation  attempt(len, x)
    relation  x.is_contiguous()
    relation  x.is_contiguous(memory_format=torch.contiguous_format)
    parts     x.is_contiguous(memory_format=torch.channels_last)
    relation  x.is_contiguous(memory_format=torch.channels_last_3d)
    parts     x.dim_order()
    parts     attempt(lambda: x.dim_order(ambiguity_check=True))
    parts     torch.ops.aten.is_non_overlapping_and_dense(x)
    relation  torch._prims_common.is_non_overlapping_and_dense(x)
    parts     torch._prims_common.suggest_memory_format(x) == torch.contiguous_format
    parts     torch._prims_common.is_contiguous(x)
    relation  x.t().is_contiguous() if x.dim() < 3 else x.mT.is_contiguous()
    relation  x.unsqueeze(0).is_contiguous()
    parts     x.is_same_size(x.transpose(0, -1)) if x.dim() else 5
    relation  torch.is_same_size(x, x + 1)
    parts     x.shape == (5, 7)
    parts     x.shape == x.mT.shape if x.dim() > 1 else 5
    parts     (5, 7) == x.shape
    relation  x.shape[:1] == (1,)
    parts     x.shape != (1, 7)
    relation  x.shape < (4, 4)
    parts     1 in x.shape
    parts     x.shape.count(1)
    relation  attempt(x.shape.index, 7)
    relation  bool(x.numel())
    relation  not x.numel()
    parts     max(x.shape, default=0)
    parts     min(x.shape, default=0)
    parts     sorted(x.shape)
    parts     all(x.shape)
    parts     any(size == 1 for size in x.shape)
    parts     attempt(torch.broadcast_shapes, x.shape, (5, 1)) == 'RuntimeError'
    parts     x.squeeze().dim()
    parts     len(x.squeeze().shape)
    relation  x.squeeze(0).dim()
    parts     len(torch.atleast_2d(x.squeeze()).shape)
    value     hash(x.shape)
    parts     {tuple(x.shape): 3} == {(5, 7): 3}
    value     repr(x.shape)
    value     str(x.shape)
    value     f'{x.shape}'
    value     str(list(x.shape))
    parts     str(tuple(x.stride()))
    value     len(list(x.unbind(0))) if x.dim() else 5
    value     [row.dim() for row in x] if x.dim() else 5
    value     len(x.split(2)) if x.dim() else 5
    parts     attempt(lambda: [row.shape[0] for row in x])
    relation  bool((x == x).all())
    relation  torch.equal(x, x)
    relation  torch.equal(x, x + 1)
    relation  torch.equal(x, x.clone())
    relation  torch.allclose(x, x)
    relation  torch.allclose(x, x + 1)
    relation  x.equal(x * 1)
    parts     attempt(bool, x)
    parts     attempt(lambda: x.is_nonzero())
    parts     attempt(torch.is_nonzero, x)
    relation  3.0 in x
    relation  attempt(float, x)
    relation  attempt(int, x)
    relation  attempt(operator.index, x)
    relation  attempt(x.item)
    value     x.tolist()
    escape    x.data_ptr() == x.data_ptr()
    escape    x.data_ptr() % 4
    escape    x.untyped_storage().nbytes()
    escape    x.untyped_storage().data_ptr() == x.data_ptr()
    escape    len(x.untyped_storage())
    escape    x.untyped_storage()._cdata == x.untyped_storage()._cdata
    escape    x.is_set_to(x)
    escape    x.is_set_to(x.view(x.shape))
    escape    x.is_shared()
    escape    x.is_pinned()
    escape    float(x.numpy().sum())
    escape    x.numpy().shape
    escape    x.__array__().shape
    escape    x.__dlpack_device__()[1]
    escape    torch.from_dlpack(x).data_ptr() == x.data_ptr()
    escape    x._cdata == x._cdata
    escape    repr(x)
    escape    str(x)
    escape    f'{x}'
    escape    pickle.loads(pickle.dumps(x)).shape == x.shape
    escape    torch._C._storage_Use_Count(x.untyped_storage()._cdata) > 0
    parts     x.contiguous().stride()
    parts     x.t().contiguous().stride() if x.dim() < 3 else 5
    parts     (x * 2).stride()
    parts     torch.empty_like(x).stride()
    parts     torch.zeros_like(x).stride()
    parts     x.clone().stride()
    parts     x.reshape(-1).stride()
    parts     x.unsqueeze(-1).stride()
    parts     x.mT.stride() if x.dim() > 1 else 5
    relation  x.double().is_contiguous()
    relation  x.expand_as(x) is x
    relation  x.reshape(x.shape) is x
    relation  x.view_as(x) is x
    relation  x.type_as(x) is x
"""))

SHAPE = list(rows("s", """
    fixed     len(s)
    fixed     type(s) is torch.Size
    fixed     isinstance(s, tuple)
    fixed     type(s[:1]) is torch.Size
    fixed     type(s + (3,)) is torch.Size
    symbol    tuple(s)
    value     s.numel()
    value     torch.Size(s).numel()
    symbol    tuple(s + (3,))
    symbol    tuple((3,) + s)
    symbol    tuple(s * 2)
    symbol    s[0]
    symbol    s[-1]
    symbol    tuple(s[1:])
    symbol    tuple(s[::-1])
    symbol    tuple(reversed(s))
    symbol    [*s]
    symbol    [size + 1 for size in s]
    symbol    dict(enumerate(s))
    symbol    functools.reduce(operator.mul, s, 1)
    relation  s == (5, 7)
    relation  s == [5, 7]
    relation  s != (5, 7)
    relation  s < (2, 3)
    relation  s >= (1, 7)
    relation  7 in s
    relation  s.count(1)
    relation  attempt(s.index, 7)
    relation  max(s)
    relation  min(s)
    relation  sorted(s)
    relation  all(s)
    relation  any(s)
    relation  s[0] == s[1]
    value     hash(s)
    value     {s: 1}.get((5, 7), 0)
    value     s in {(5, 7)}
    value     str(s)
    value     repr(s)
    value     f'{s}'
    value     '%s' % (s,)
    value     'x'.join(map(str, s))
    value     list(itertools.product(*(range(size) for size in s)))
"""))

NUMBERS = list(rows("ab", """
    fixed     isinstance(a, int)
    fixed     isinstance(a, float)
    fixed     isinstance(a, bool)
    fixed     isinstance(a, (int, torch.SymInt))
    fixed     isinstance(a / 2, float)
    parts     isinstance(a < b, bool)
    fixed     callable(a)
    symbol    a + b
    symbol    a - b
    symbol    b - a
    symbol    a * b
    symbol    3 + a
    symbol    3 - a
    symbol    -3 * a
    symbol    a + True
    symbol    a * 2 - b // 2
    symbol    a // 2
    symbol    -a // 2
    symbol    a // -2
    symbol    a % 3
    symbol    -a % 3
    symbol    a % -3
    symbol    divmod(a, 3)
    symbol    divmod(-a, 3)
    symbol    -a
    symbol    +a
    relation  abs(a - b)
    symbol    abs(a)
    symbol    a ** 2
    symbol    a ** 0
    symbol    a ** 3
    symbol    a.numerator
    symbol    a.denominator
    symbol    a.real
    symbol    a.imag
    symbol    a.conjugate()
    symbol    round(a)
    symbol    math.floor(a)
    symbol    math.ceil(a)
    symbol    math.trunc(a)
    symbol    torch.sym_int(a)
    symbol    torch.sym_max(a, b)
    symbol    torch.sym_min(a, b)
    symbol    torch.sym_max(a, 3)
    symbol    torch.sym_sum([a, b, 3])
    symbol    sum([a, b, 3])
    symbol    math.prod([a, b, 3])
    symbol    a.as_integer_ratio()
    symbol    (a + b) // 2 * 2
    relation  max(a, b)
    relation  min(a, b, 3)
    relation  max(a, 2.5)
    relation  min(a, 2.5)
    relation  a == b
    relation  a != b
    relation  a < b
    relation  a <= b
    relation  a > b
    relation  a >= b
    relation  3 < a
    relation  1 <= a < b
    relation  a == 1.0
    relation  a < 2.5
    relation  2.5 < a
    relation  a == 'x'
    relation  a != None
    relation  a is None
    relation  a == (1,)
    relation  bool(a)
    relation  not a
    relation  a and b
    relation  a or b
    relation  a < 3 or b < 3
    relation  (a < 3) & (b < 3)
    relation  (a < 3) | (b < 3)
    relation  (a < 3) ^ (b < 3)
    relation  (a < 3) == (b < 3)
    relation  (a < 3) + (b < 3)
    relation  not a < 3
    relation  torch.sym_not(a < 3)
    relation  torch.sym_ite(a < b, a, b)
    relation  a in (1, 5)
    relation  a in [b, 3]
    relation  (a, b) == (5, 7)
    relation  [a, b] < [2, 3]
    relation  sorted([a, b, 3])
    relation  int(a < b)
    relation  float(a < b)
    relation  str(a < b)
    relation  hash(a < b)
    relation  [10, 20][a < b]
    relation  (a < b) is True
    relation  type(a < b) is bool
    relation  attempt(operator.floordiv, a, b)
    relation  attempt(operator.mod, a, b)
    relation  attempt(divmod, a, b)
    relation  attempt(operator.truediv, a, b)
    relation  attempt(operator.truediv, 3, b)
    relation  attempt(operator.floordiv, 3, b)
    relation  attempt(operator.mod, 3, b)
    relation  attempt(divmod, 30, b)
    relation  attempt(pow, a, b - 2)
    relation  attempt(pow, a, -1)
    relation  attempt(pow, a, 0.5)
    relation  attempt(pow, a - b, 0.5)
    relation  attempt(pow, a - b, 2)
    relation  attempt(pow, 2, a)
    relation  attempt(pow, 2, a - b)
    relation  attempt(pow, 2.0, a)
    relation  attempt(pow, -2.0, a)
    relation  attempt(pow, a, 2, 5)
    relation  attempt(pow, a, b)
    relation  a / 2
    relation  a / 2.5
    relation  2.5 / (a + 1)
    relation  a * 0.5
    relation  0.5 * a
    relation  a + 0.5
    relation  0.5 - a
    relation  a // 2.5
    relation  7.5 // (a + 1)
    relation  a % 2.5
    relation  7.5 % (a + 1)
    relation  divmod(a, 2.5)
    relation  divmod(7.5, a + 1)
    relation  a ** 0.5
    relation  (a + 1) ** -0.5
    relation  (a + 1) ** -2
    relation  2 ** a
    relation  2.0 ** -a
    relation  float(a)
    relation  torch.sym_float(a)
    relation  round(a / 3)
    relation  round(a / 3, 1)
    relation  round(a, -1)
    relation  round(a, None)
    relation  math.floor(a / 3)
    relation  math.ceil(a / 3)
    relation  math.trunc(a / 3)
    relation  int(a / 3)
    relation  int(-a / 3)
    relation  int(a * 0.7)
    relation  math.ceil(a * 0.7)
    relation  math.floor(-a * 0.7)
    relation  (a / 2).is_integer()
    relation  (a / 2).as_integer_ratio()
    relation  (a / 2).hex()
    relation  (a / 2) == (b / 2)
    relation  (a / 2) < 2.5
    relation  bool(a / 2)
    relation  abs(a / 2 - b)
    relation  -(a / 2)
    relation  +(a / 2)
    relation  max(a / 2, 1.0)
    relation  max(a / 2, 1)
    relation  torch.sym_max(a / 2, 1.0)
    relation  torch.sym_min(a / 2, b)
    relation  torch.sym_ite(a < b, a / 2, b / 2)
    relation  sum([a / 2, b / 2])
    relation  (a / 2).real
    relation  (a / 2).imag
    relation  (a / 2).conjugate()
    relation  math.sqrt(a)
    relation  torch.sym_sqrt(a)
    relation  math.isqrt(a)
    relation  math.log2(a + 1)
    relation  math.log(a + 1)
    relation  math.log(a + 1, 2)
    relation  math.log10(a + 1)
    relation  math.exp(a / 8)
    relation  math.pow(a + 1, 0.5)
    relation  math.sin(a)
    relation  math.cos(a / 2)
    relation  math.tanh(a)
    relation  math.atan2(a, b + 1)
    relation  math.hypot(a, b)
    relation  math.fmod(a, 3)
    relation  math.gcd(a, b)
    relation  math.lcm(a, b)
    relation  math.comb(a + 2, 2)
    relation  math.factorial(a % 5)
    relation  math.isfinite(a)
    relation  math.isnan(a / 2)
    relation  math.isclose(a, b)
    relation  math.copysign(1.0, a - b)
    relation  math.fabs(a - b)
    relation  math.modf(a / 2)
    relation  math.frexp(a)
    relation  math.ldexp(1.0, a)
    relation  math.dist([a, 0], [0, b])
    relation  a << 2
    relation  a >> 1
    relation  1 << a
    relation  100 >> a
    relation  a & 3
    relation  3 & a
    relation  a | b
    relation  8 | a
    relation  a ^ b
    relation  1 ^ a
    relation  ~a
    relation  a & (a - 1)
    relation  a.bit_length()
    relation  a.bit_count()
    relation  a.to_bytes(2, 'big')
    relation  a.is_integer() if hasattr(int, 'is_integer') else True
    value     int(a)
    value     operator.index(a)
    value     list(range(a))
    value     len(range(a))
    value     list(range(0, b, a + 1))
    value     a in range(3, 9)
    value     list(range(20))[a]
    value     list(range(20))[a:]
    value     list(range(20))[:a]
    value     'abcdefghijklmnop'[a]
    value     [0] * a
    value     a * [0]
    value     'x' * a
    value     (1,) * a
    value     list(itertools.islice(itertools.count(), a))
    value     hash(a)
    value     {a: 1}
    value     {a: 1}.get(5, 0)
    value     {5: 1}.get(a, 0)
    value     {a, b, 5}
    value     a in {5, 9}
    value     {a: 1, b: 2}
    value     str(a)
    value     repr(a)
    value     f'{a}'
    value     f'{a:05d}'
    value     f'{a:>7}'
    value     f'{a!r}'
    value     f'{a / 2:.3f}'
    value     f'{a / 2}'
    value     str(a / 2)
    value     '%d %s' % (a, b)
    value     '%5.2f' % a
    value     '{:x}'.format(a)
    value     '{0}-{1}'.format(a, b)
    value     bin(a)
    value     hex(a)
    value     oct(a)
    value     chr(a + 65)
    value     bytes([a, b])
    value     complex(a, b)
    value     a + 2j
    value     slice(a, b).indices(10)
    value     divmod(a, 4)[1]
    value     list(map(int, [a, b]))
    value     copy.copy(a)
    value     copy.deepcopy(a)
    value     pickle.loads(pickle.dumps(a))
    value     hash((a, b))
    value     hash(a / 2)
    value     {a / 2: 1}
    value     int(str(a))
    value     a.__index__()
    value     a.__int__()
    value     a.__float__()
    value     (a / 2).__int__()
"""))

READ = list(rows("vkt", """
    fixed     isinstance(v, float)
    fixed     isinstance(k, int)
    fixed     isinstance(t, bool)
    value     v
    symbol    k
    symbol    t
    symbol    k + 1
    symbol    k * 2 - 1
    symbol    k // 2
    symbol    k % 3
    value     v + 1
    value     v * k
    value     v ** 2
    value     abs(v) ** 0.5
    value     v // 2
    value     v % 2
    value     divmod(v, 2)
    value     divmod(k, 3)
    value     -v
    value     abs(v)
    value     round(v)
    value     round(v, 1)
    value     attempt(int, v)
    value     attempt(math.floor, v)
    value     attempt(math.ceil, v)
    value     attempt(math.trunc, v)
    value     attempt(int, v * math.inf)
    value     attempt(math.floor, v * math.inf)
    value     attempt(math.ceil, v * math.nan)
    value     attempt(round, v * math.inf)
    value     v.is_integer()
    value     v.as_integer_ratio()
    value     v.hex()
    value     v == 2.5
    value     v < 2.5
    value     v == k
    value     v > k
    value     v != v
    value     bool(v)
    value     not v
    value     math.isnan(v)
    value     math.isinf(v)
    value     math.isfinite(v)
    value     math.sqrt(abs(v))
    value     math.exp(-abs(v))
    value     max(v, 2.5)
    value     max(v, k)
    value     min(v, 3)
    value     str(v)
    value     repr(v)
    value     f'{v}'
    value     f'{v:.3f}'
    value     f'{v:10.2e}'
    value     '%.2f' % v
    value     hash(v)
    value     {v: 1}
    value     complex(v, k)
    value     float(v)
    value     float(k)
    value     int(k)
    value     str(k)
    value     f'{k:03d}'
    value     hash(k)
    value     {k: 1}
    value     list(range(k))
    value     [0] * k
    value     k in (0, 4, 32)
    relation  k == 4
    relation  k > 2
    relation  bool(k)
    relation  not t
    relation  bool(t)
    relation  int(t)
    relation  t == True
    relation  t is True
    relation  t and k > 2
    relation  str(t)
    relation  t + 1
    relation  t * 3
    relation  [10, 20][t]
    relation  hash(t)
    relation  {True: 1, False: 0}[t]
    relation  float(t)
    relation  ~k
    relation  k & 1
    relation  k | 8
    relation  k << 1
    relation  k >> 1
    relation  k ** 2
    value     k ** -1 if k else 0
    value     2 ** -k
    value     k / 4
    value     k ** 0.5
    value     torch.sym_max(k, 3)
    value     torch.sym_ite(k > 3, k, 3)
    value     k.bit_length()
"""))

ARGUMENTS = list(rows("nf", """
    fixed     isinstance(n, int)
    fixed     isinstance(f, float)
    fixed     isinstance(n, bool)
    fixed     isinstance(n, float)
    symbol    n + 1
    symbol    n * n - 2
    symbol    -n
    symbol    n // 2
    symbol    n % 3
    symbol    divmod(n, 4)
    relation  abs(n)
    relation  n ** 2
    relation  n == 3
    relation  n > 3
    relation  bool(n)
    relation  not n
    relation  max(n, 4)
    relation  min(n, f)
    relation  n / 2
    relation  n * f
    relation  n + f
    relation  attempt(pow, n, f)
    relation  attempt(pow, f, n)
    relation  attempt(pow, n, -1)
    relation  attempt(pow, n, 2, 5)
    relation  attempt(pow, 2, n)
    relation  attempt(operator.mod, 7, n)
    relation  attempt(divmod, 7, n)
    relation  attempt(divmod, 7.5, n)
    relation  attempt(operator.truediv, f, n)
    relation  attempt(math.sqrt, n)
    relation  attempt(math.log, n)
    relation  attempt(math.factorial, n)
    relation  n & 5
    relation  n | 5
    relation  n ^ 5
    relation  ~n
    relation  n << 1
    relation  n >> 1
    relation  n.bit_length()
    relation  n.is_integer() if hasattr(int, 'is_integer') else True
    relation  f.is_integer()
    relation  round(f)
    relation  round(f, 1)
    relation  round(n, -1)
    relation  math.floor(f)
    relation  math.ceil(f)
    relation  int(f)
    relation  f // 1
    relation  f % 1
    relation  divmod(f, 1)
    relation  f == 1.5
    relation  f < n
    relation  bool(f)
    relation  abs(f)
    relation  f ** 2
    relation  attempt(pow, f, 0.5)
    relation  f.as_integer_ratio()
    relation  f.hex()
    value     str(n)
    value     str(f)
    value     f'{n:05d}'
    value     f'{f:.2f}'
    value     hash(n)
    value     hash(f)
    value     {n: 1}
    value     {f: 1}
    value     list(range(n))
    value     [0] * n
    value     int(n)
    value     float(f)
    value     operator.index(n)
    value     'abcdefghijkl'[n]
    value     list(range(9))[n:]
    value     complex(n, f)
    value     n in {3, 4}
    value     n in (3, 4)
"""))

ALL = TENSOR + SHAPE + NUMBERS + READ + ARGUMENTS
