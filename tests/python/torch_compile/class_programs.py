"""Programs that make, change and ask objects of classes of their own: `PROGRAMS[name]()` is a function of one tensor with state that is its own. What Python
says of classes, a program each: descriptors, metaclasses, slots, special methods, inheritance. (Kinds of objects: object_programs.py.)"""

import abc
import dataclasses
import functools
import typing

PROGRAMS = {}


def program(factory):
    PROGRAMS[factory.__name__] = factory
    return factory


@program
def descriptor_get():
    class D:
        def __get__(self, o, t):
            return o.n * 2 if o is not None else 5

    class A:
        d = D()

        def __init__(self, n):
            self.n = n

    def f(x):
        return x * A(x.size(0)).d + A.d

    return f


@program
def descriptor_set():
    class D:
        def __set_name__(self, o, n):
            self.k = "_" + n

        def __get__(self, o, t):
            return getattr(o, self.k)

        def __set__(self, o, v):
            if v < 1:
                raise ValueError("too small")
            setattr(o, self.k, v)

    class A:
        d = D()

    def f(x):
        a = A()
        a.d = x.size(0)
        return x + a.d

    return f


@program
def descriptor_delete():
    class D:
        def __get__(self, o, t):
            return o.__dict__.get("v", -1)

        def __set__(self, o, v):
            o.__dict__["v"] = v

        def __delete__(self, o):
            o.__dict__.pop("v")

    class A:
        d = D()

    def f(x):
        a = A()
        a.d = x.size(1)
        y = x * a.d
        del a.d
        return y + a.d

    return f


@program
def property_setter():
    class A:
        def __init__(self):
            self._n = 0

        @property
        def n(self):
            return self._n

        @n.setter
        def n(self, v):
            self._n = v + 1

        @n.deleter
        def n(self):
            self._n = -5

    def f(x):
        a = A()
        a.n = x.size(0)
        y = x * a.n
        del a.n
        return y + a.n

    return f


@program
def slots():
    class A:
        __slots__ = ("n", "m")

        def __init__(self, n):
            self.n = n

    def f(x):
        a = A(x.size(0))
        try:
            r = a.m
        except AttributeError:
            r = 7
        a.m = x.size(1)
        return x * a.n + a.m + r, hasattr(a, "q"), hasattr(a, "__dict__")

    return f


@program
def slots_no_dict():
    class A:
        __slots__ = ("n",)

    def f(x):
        a = A()
        a.n = x.size(0)
        try:
            a.z = 1
        except AttributeError:
            return x * a.n
        return x

    return f


@program
def metaclass_call():
    class M(type):
        def __call__(cls, *a):
            o = super().__call__(*a)
            o.extra = 3
            return o

    class A(metaclass=M):
        def __init__(self, n):
            self.n = n

    def f(x):
        a = A(x.size(0))
        return x * a.n + a.extra

    return f


@program
def metaclass_attr():
    class M(type):
        @property
        def k(cls):
            return 4

        def __len__(cls):
            return 9

        def __iter__(cls):
            return iter([1, 2, x0])

        def __contains__(cls, i):
            return i == 3

        def __getitem__(cls, i):
            return i * 2

    x0 = 5

    class A(metaclass=M):
        pass

    def f(x):
        return x * A.k + len(A) + sum(A), 3 in A, A[x.size(0)]

    return f


@program
def registry_metaclass():
    reg = {}

    class M(type):
        def __new__(m, n, b, d):
            c = super().__new__(m, n, b, d)
            reg[n] = c
            return c

    class A(metaclass=M):
        k = 2

    class B(A):
        k = 3

    def f(x):
        return sum(x * c.k for c in reg.values()), sorted(reg)

    return f


@program
def init_subclass():
    class A:
        kinds = []

        def __init_subclass__(cls, **k):
            super().__init_subclass__()
            A.kinds.append(k.get("w", 1))

    class B(A, w=3):
        pass

    class C(A):
        pass

    def f(x):
        return x * sum(A.kinds)

    return f


@program
def class_made_inside():
    def f(x):
        class Q:
            k = x.size(0)

            def g(self, v):
                return v * self.k

        return Q().g(x)

    return f


@program
def type_made_inside():
    def f(x):
        Q = type("Q", (), {"k": 3, "g": lambda self, v: v * self.k})
        return Q().g(x)

    return f


@program
def getattr_hook():
    class A:
        def __init__(self, n):
            self.n = n

        def __getattr__(self, k):
            if k.startswith("p"):
                return self.n * len(k)
            raise AttributeError(k)

    def f(x):
        a = A(x.size(0))
        return x * a.pp + getattr(a, "q", 2), hasattr(a, "pz"), hasattr(a, "zz")

    return f


@program
def getattribute_hook():
    class A:
        def __init__(self, n):
            self.n = n

        def __getattribute__(self, k):
            v = super().__getattribute__(k)
            return v + 1 if k == "n" else v

    def f(x):
        return x * A(x.size(0)).n

    return f


@program
def setattr_hook():
    class A:
        def __setattr__(self, k, v):
            super().__setattr__(k, v * 2)

    def f(x):
        a = A()
        a.n = x.size(0)
        setattr(a, "m", x.size(1))
        return x * a.n + a.m

    return f


@program
def delattr_hook():
    class A:
        log = 0

        def __delattr__(self, k):
            super().__delattr__(k)
            self.log = 5

    def f(x):
        a = A()
        a.n = 1
        del a.n
        return x * a.log, hasattr(a, "n")

    return f


@program
def dunder_arith():
    class V:
        def __init__(self, n):
            self.n = n

        def __add__(self, o):
            return V(self.n + (o.n if isinstance(o, V) else o))

        __radd__ = __add__

        def __iadd__(self, o):
            self.n += o * 10
            return self

        def __mul__(self, o):
            return NotImplemented

        def __rmul__(self, o):
            return self.n * 3

        def __neg__(self):
            return V(-self.n)

        def __abs__(self):
            return abs(self.n)

        def __matmul__(self, o):
            return o @ o.t()

        def __floordiv__(self, o):
            return self.n // o

        def __divmod__(self, o):
            return divmod(self.n, o)

        def __invert__(self):
            return 8

        def __int__(self):
            return self.n

        def __index__(self):
            return 1

        def __float__(self):
            return float(self.n)

        def __round__(self, k=0):
            return self.n + k

        def __bool__(self):
            return self.n > 2

        def __len__(self):
            return 4

    def f(x):
        v = V(x.size(0))
        w = v + 2
        w = 1 + w
        w += 1
        r = x * w.n + abs(-v) + (~v) + v // 2 + round(v, 2)
        r = r + [10, 20, 30][v] + float(v) + len(v)
        return (r * 2 if v else r), v @ x, divmod(v, 2), 3 * v

    return f


@program
def dunder_compare():
    @functools.total_ordering
    class V:
        def __init__(self, n):
            self.n = n

        def __eq__(self, o):
            return self.n == o.n

        def __lt__(self, o):
            return self.n < o.n

        def __hash__(self):
            return 3

    def f(x):
        a, b = V(x.size(0)), V(x.size(1))
        return x * (a < b) + (a >= b), max(a, b).n, sorted([a, b])[0].n, a == b, a != b, {a: 1}.get(b, 0)

    return f


@program
def dunder_container():
    class C:
        def __init__(self, n):
            self.d = {}
            self.n = n

        def __getitem__(self, k):
            return self.d.get(k, self.n) if not isinstance(k, slice) else k.stop

        def __setitem__(self, k, v):
            self.d[k] = v

        def __delitem__(self, k):
            del self.d[k]

        def __contains__(self, k):
            return k in self.d

        def __iter__(self):
            return iter(self.d)

        def __len__(self):
            return len(self.d)

        def __reversed__(self):
            return iter([1, 2])

        def __missing__(self, k):
            return 1

    def f(x):
        c = C(x.size(0))
        c["a"] = x * 2
        c["b"] = x.size(1)
        del c["b"]
        return c["a"] + c["z"] + len(c), "a" in c, list(c), list(reversed(c)), c[:5]

    return f


@program
def old_iteration():
    class C:
        def __init__(self, n):
            self.n = n

        def __getitem__(self, i):
            if i >= 3:
                raise IndexError
            return self.n + i

    def f(x):
        return sum(x * v for v in C(x.size(0))), list(C(2)), 3 in C(2)

    return f


@program
def callable_object():
    class C:
        def __init__(self):
            self.count = 0

        def __call__(self, x, *, k=2, **kw):
            self.count += 1
            return x * k + self.count + kw.get("z", 0)

    c = C()

    def f(x):
        return c(x) + c(x, k=x.size(0), z=1), c.count

    return f


@program
def context_object():
    class C:
        def __init__(self):
            self.n = 0

        def __enter__(self):
            self.n += 1
            return self

        def __exit__(self, t, v, b):
            self.n += 10
            return t is ValueError

    c = C()

    def f(x):
        with c as k:
            y = x * k.n
        with c:
            y = y + 1
            raise ValueError
        return y + c.n, c.n

    return f


@program
def classmethods():
    class A:
        k = 2

        @classmethod
        def make(cls, n):
            o = cls()
            o.n = n * cls.k
            return o

        @staticmethod
        def st(a):
            return a + 1

    class B(A):
        k = 3

    def f(x):
        return x * B.make(x.size(0)).n + A.st(x.size(1)) + B().st(1)

    return f


@program
def class_counter():
    class A:
        made = 0

        def __init__(self):
            type(self).made += 1

    def f(x):
        A()
        A()
        return x * A.made, A.made

    return f


@program
def class_attr_write():
    class A:
        k = 1

    def f(x):
        A.k = A.k + x.size(0)
        return x * A.k

    return f


@program
def setattr_class():
    class A:
        pass

    def f(x):
        setattr(A, "w%d" % 0, x.size(0))
        return x * A.w0

    return f


@program
def multiple_inheritance():
    class A:
        def g(self, x):
            return x + 1

    class B(A):
        def g(self, x):
            return super().g(x) * 2

    class C(A):
        def g(self, x):
            return super().g(x) + 10

    class D(B, C):
        def g(self, x):
            return super().g(x) - 1

    def f(x):
        return D().g(x), [c.__name__ for c in D.__mro__], isinstance(D(), C), issubclass(D, A)

    return f


@program
def super_explicit():
    class A:
        def g(self, x):
            return x + 1

    class B(A):
        def g(self, x):
            return super(B, self).g(x) * A.g(self, x)

    def f(x):
        return B().g(x)

    return f


@program
def abstract():
    class A(abc.ABC):
        @abc.abstractmethod
        def g(self, x): ...
        @property
        @abc.abstractmethod
        def k(self): ...
    class B(A):
        def g(self, x):
            return x * self.k

        @property
        def k(self):
            return 3

    def f(x):
        try:
            A()
        except TypeError:
            x = x + 1
        return B().g(x), isinstance(B(), A)

    return f


@program
def abc_register():
    class A(abc.ABC):
        pass

    class B:
        pass

    A.register(B)

    def f(x):
        return x * 2 if isinstance(B(), A) else x

    return f


@program
def instancecheck():
    class M(type):
        def __instancecheck__(cls, o):
            return o == 3 or isinstance(o, int)

        def __subclasscheck__(cls, o):
            return True

    class A(metaclass=M):
        pass

    def f(x):
        return x * isinstance(x.size(0), A), issubclass(int, A)

    return f


@program
def protocol():
    @typing.runtime_checkable
    class Pr(typing.Protocol):
        def g(self): ...
    class B:
        def g(self):
            return 2

    def f(x):
        return x * 2 if isinstance(B(), Pr) else x

    return f


@program
def dataclass_slots():
    @dataclasses.dataclass(slots=True, kw_only=True)
    class A:
        n: int
        m: float = 1.5

    def f(x):
        a = A(n=x.size(0))
        a.m = a.m + a.n
        return x * a.m

    return f


@program
def monkeypatch():
    class A:
        def g(self, x):
            return x + 1

    a = A()

    def f(x):
        r = a.g(x)
        a.g = lambda y: y * 5
        return r + a.g(x)

    return f
