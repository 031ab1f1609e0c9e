"""Programs like those of class_programs.py with kinds of objects: dataclasses, named tuples, enums, subclasses of Python's own types, exceptions, functions
with state, generators, context managers, weak references, patterns, objects as keys."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import operator
import types
import typing
import weakref

from class_programs import program


@program
def dataclass_forms():
    @dataclasses.dataclass(order=True)
    class A:
        n: int
        m: int = 2
        l: list = dataclasses.field(default_factory=list)
        k: int = dataclasses.field(init=False, default=4)

        def __post_init__(self):
            self.k = self.n + 1

    def f(x):
        a = A(x.size(0))
        a.l.append(1)
        b = dataclasses.replace(a, m=7)
        return x * a.k + b.m, dataclasses.asdict(b), dataclasses.astuple(a), a == b, a < b, [q.name for q in dataclasses.fields(a)], repr(A(1))

    return f


@program
def dataclass_frozen():
    @dataclasses.dataclass(frozen=True)
    class A:
        n: int
        t: object = None

    def f(x):
        a = A(x.size(0), x * 2)
        try:
            a.n = 3
        except dataclasses.FrozenInstanceError:
            return a.t + a.n, hash(A(1, 2)) == hash(A(1, 2))
        return x

    return f


@program
def namedtuples():
    class A(collections.namedtuple("A", "n m")):
        __slots__ = ()

        @property
        def s(self):
            return self.n + self.m

    class T(typing.NamedTuple):
        a: int
        b: int = 3

    def f(x):
        a = A(x.size(0), 2)
        t = T(x.size(1))
        b = a._replace(m=9)
        return x * a.s + t.b, a._asdict(), b, t, A._fields, a == (x.size(0), 2), T._make([1, 2]), a + (1,)

    return f


@program
def enums():
    class E(enum.Enum):
        a = 1
        b = 2

    class I(enum.IntFlag):
        r = 1
        w = 2

    def f(x):
        e = E(2)
        p = I.r | I.w
        return x * e.value + p, e.name, E["a"].value, [m.name for m in E], I.r in p, e is E.b, e == E.a, len(E)

    return f


@program
def simple_namespace():
    def f(x):
        n = types.SimpleNamespace(a=x.size(0), b=x * 2)
        n.c = n.a + 1
        return n.b + n.c, sorted(vars(n)), n == types.SimpleNamespace(a=1)

    return f


@program
def int_subclass():
    class N(int):
        def twice(self):
            return self * 2

        def __add__(self, o):
            return N(int(self) * 100 + o)

    n = N(3)

    def f(x):
        return x * n.twice() + (n + 1), isinstance(n, int), n == 3

    return f


@program
def str_subclass():
    class S(str):
        def shout(self):
            return self.upper() + "!"

    def f(x):
        return x, S("ab").shout(), S("a") + "b", {S("q"): 1}["q"], len(S("abc"))

    return f


@program
def list_subclass():
    class L(list):
        def total(self):
            return sum(self)

        def append(self, v):
            super().append(v * 2)

    def f(x):
        l = L([1, 2])
        l.append(x.size(0))
        return x * l.total(), list(l), isinstance(l, list), l[-1], L([1]) + [2]

    return f


@program
def dict_subclass():
    class D(dict):
        def __missing__(self, k):
            return 9

        def __getattr__(self, k):
            return self[k]

        def __setattr__(self, k, v):
            self[k] = v

    def f(x):
        d = D(a=1)
        d.q = x.size(0)
        return x * d["zz"] + d.a + d.q, dict(d)

    return f


@program
def tuple_subclass():
    class T(tuple):
        def __new__(cls, *a):
            return super().__new__(cls, a)

        def first(self):
            return self[0]

    def f(x):
        t = T(x.size(0), 2)
        return x * t.first(), len(t), t == (x.size(0), 2), t[1:]

    return f


@program
def exception_class():
    class E(Exception):
        def __init__(self, n, t):
            super().__init__("m%d" % n)
            self.n = n
            self.t = t

    def f(x):
        try:
            raise E(x.size(0), x * 2)
        except E as e:
            return e.t + e.n, e.args

    return f


@program
def exception_chain():
    def f(x):
        try:
            try:
                raise KeyError("a")
            except KeyError as k:
                raise ValueError("b") from k
        except ValueError as e:
            return x * 2, type(e.__cause__).__name__, str(e)

    return f


@program
def exception_group_finally():
    def f(x):
        l = []

        def g():
            try:
                l.append(1)
                return x * 2
            finally:
                l.append(2)

        y = g()
        for i in range(3):
            try:
                if i == 1:
                    continue
                if i == 2:
                    break
            finally:
                l.append(i + 10)
        else:
            l.append(99)
        return y, l

    return f


@program
def cached_property():
    class A:
        calls = 0

        def __init__(self, n):
            self.n = n

        @functools.cached_property
        def c(self):
            A.calls += 1
            return self.n * 3

    def f(x):
        a = A(x.size(0))
        return x * a.c + a.c, A.calls

    return f


@program
def singledispatch():
    @functools.singledispatch
    def g(v, x):
        return x

    @g.register
    def _(v: int, x):
        return x * v

    @g.register(str)
    def _(v, x):
        return x + len(v)

    def f(x):
        return g(2, x), g("abc", x), g(1.5, x)

    return f


@program
def singledispatchmethod():
    class A:
        @functools.singledispatchmethod
        def g(self, v):
            return 0

        @g.register
        def _(self, v: int):
            return v

    def f(x):
        return x * A().g(3) + A().g("a")

    return f


@program
def partials():
    def h(x, a, b=1):
        return x * a + b

    p = functools.partial(h, b=5)
    q = functools.partial(p, a=2)

    class A:
        def g(self, x, k):
            return x * k

        pm = functools.partialmethod(g, 3)

    def f(x):
        return p(x, x.size(0)) + q(x) + A().pm(x), p.keywords, q.func is h

    return f


@program
def wraps_deco():
    def deco(k):
        def d(fn):
            @functools.wraps(fn)
            def w(*a, **kw):
                w.calls += 1
                return fn(*a, **kw) * k

            w.calls = 0
            return w

        return d

    @deco(3)
    def g(x):
        return x + 1

    def f(x):
        return g(x) + g.calls, g.__name__, g.__wrapped__(x)

    return f


@program
def function_attrs():
    def g(x):
        return x * g.k

    g.k = 2

    def f(x):
        g.k = g.k + 1
        return g(x), g.k, g.__name__

    return f


@program
def default_mutable():
    def g(x, acc=[]):
        acc.append(x.size(0))
        return x * len(acc)

    def f(x):
        return g(x)

    return f


@program
def closure_counter():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * n

    return f


@program
def generator_class():
    class G:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if self.n <= 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(x):
        return sum((x * i for i in G(3)), x), list(G(2)), next(G(5)), next(G(0), "none")

    return f


@program
def generator_send():
    def gen():
        t = 0
        while True:
            v = yield t
            if v is None:
                return 5
            t = t + v

    def f(x):
        g = gen()
        next(g)
        a = g.send(x)
        b = g.send(x)
        try:
            g.send(None)
        except StopIteration as s:
            return a + b, s.value

    return f


@program
def contextmanager_gen():
    l = []

    @contextlib.contextmanager
    def cm(k):
        l.append(k)
        try:
            yield k + 1
        finally:
            l.append(-k)

    def f(x):
        with cm(x.size(0)) as k, contextlib.suppress(ValueError):
            y = x * k
            raise ValueError
        return y, len(l)

    return f


@program
def exitstack():
    def f(x):
        l = []
        with contextlib.ExitStack() as s:
            s.callback(l.append, 3)
            s.callback(lambda: l.append(x.size(0)))
            y = x * 2
        return y, l

    return f


@program
def weakrefs():
    class A:
        pass

    a = A()
    a.k = 3
    r = weakref.ref(a)

    def f(x):
        return x * r().k, r() is a

    return f


@program
def operators_module():
    class A:
        n = 3

        def m(self, k):
            return k + 1

    def f(x):
        ag = operator.attrgetter("n")
        ig = operator.itemgetter(1, 0)
        mc = operator.methodcaller("m", x.size(0))
        return (
            x * ag(A()) + mc(A()),
            ig([1, 2]),
            operator.add(x, 1),
            operator.concat([1], [2]),
            operator.index(x.size(0)),
            operator.truth(x.size(0)),
            operator.countOf([1, 1], 1),
        )

    return f


@program
def match_statement():
    @dataclasses.dataclass
    class Pt:
        a: int
        b: int

    def f(x):
        r = []
        for v in (x.size(0), "s", [1, 2, 3], {"k": x.size(1), "z": 0}, Pt(1, x.size(0)), None, 2.5):
            match v:
                case int(n) if n > 3:
                    r.append(("big", n))
                case int():
                    r.append("int")
                case str():
                    r.append("str")
                case [a, *rest]:
                    r.append((a, rest))
                case {"k": k, **o}:
                    r.append((k, o))
                case Pt(a=1, b=b):
                    r.append(("pt", b))
                case None:
                    r.append("none")
                case _:
                    r.append("other")
        return x * len(r), r

    return f


@program
def del_method():
    l = []

    class A:
        def __del__(self):
            l.append(1)

    def f(x):
        a = A()
        del a
        return x * 2, len(l)

    return f


@program
def new_singleton():
    class S:
        one = None

        def __new__(cls):
            if cls.one is None:
                cls.one = super().__new__(cls)
                cls.one.n = 0
            return cls.one

    def f(x):
        s = S()
        s.n += 1
        return x * s.n, S() is s

    return f


@program
def class_getitem():
    class A:
        def __class_getitem__(cls, k):
            return k * 2

    def f(x):
        return x * A[x.size(0)]

    return f


@program
def format_dunders():
    class A:
        def __init__(self, n):
            self.n = n

        def __str__(self):
            return f"A{self.n}"

        def __repr__(self):
            return "R"

        def __format__(self, s):
            return "F" + s

    a = A(3)

    def f(x):
        return x, str(a), repr(a), f"{a}", f"{a:>3}", f"{a!r}", "%s %r" % (a, a), "{}".format(a), str([a])

    return f


@program
def copy_dunders():
    class A:
        def __init__(self):
            self.l = [1]
            self.n = 2

        def __copy__(self):
            b = A()
            b.n = 9
            return b

        def __deepcopy__(self, m):
            b = A()
            b.n = 11
            return b

    a = A()

    def f(x):
        return x * copy.copy(a).n + copy.deepcopy(a).n

    return f


@program
def nested_functions():
    def f(x):
        def fact(n):
            return 1 if n <= 1 else n * fact(n - 1)

        return x * fact(4) + (lambda *a, **k: len(a) + len(k))(1, 2, z=3)

    return f


@program
def star_forms():
    def g(a, /, b, *c, d=4, **e):
        return a * b + len(c) + d + len(e)

    def f(x):
        a, *b, c = [x, 1, 2, 3]
        l = [*b, *range(2)]
        d = {**{"d": 1}, "q": 2}
        return g(x, x.size(0), *l, **d), l, d

    return f


@program
def walrus_comp():
    def f(x):
        r = [y := i * 2 for i in range(3)]
        s = {i % 2 for i in r}
        d = {i: j for i, j in zip("ab", r)}
        return x * y, r, sorted(s), d, any(i > 3 for i in r), all(r)

    return f


@program
def instance_dict():
    class A:
        pass

    def f(x):
        a = A()
        a.__dict__["n"] = x.size(0)
        a.__dict__.update(m=3)
        return x * a.n + a.m, sorted(a.__dict__), vars(a)["m"]

    return f


@program
def obj_state_across():
    class A:
        def __init__(self):
            self.hist = []
            self.total = None

        def step(self, x):
            self.hist.append(x.size(0))
            self.total = x.sum() if self.total is None else self.total + x.sum()
            return x * len(self.hist) + self.total

    a = A()

    def f(x):
        return a.step(x), list(a.hist)

    return f


@program
def class_swap():
    class A:
        def g(self, x):
            return x + 1

    class B:
        def g(self, x):
            return x + 2

    a = A()

    def f(x):
        r = a.g(x)
        a.__class__ = B if type(a) is A else A
        return r

    return f


@program
def method_patch_class():
    class A:
        def g(self, x):
            return x + 1

    k = [0]

    def f(x):
        r = A().g(x)
        k[0] += 1
        A.g = lambda self, y, z=k[0]: y * z
        return r

    return f


@program
def bound_compare():
    class A:
        def g(self):
            return 1

    a = A()

    def f(x):
        return x, a.g == a.g, a.g is a.g, a.g.__self__ is a, A.g is A.g, callable(a.g), callable(a)

    return f


@program
def bool_of_size_obj():
    class A:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

    def f(x):
        return x * 2 if A(x.size(0)) else x - 1

    return f


@program
def hash_obj():
    class A:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return self.n

        def __eq__(self, o):
            return isinstance(o, A) and o.n == self.n

    d = {A(3): "three", A(5): "five"}

    def f(x):
        return x * 2, d.get(A(x.size(0)), "none")

    return f
