"""Objects of Python's own library whose state stands in no dict: an OrderedDict's order, what a StringIO holds, whether a lock is held, the context of decimal,
the shape of an array. What can be asked without changing it is read at every call and compared like a plain value (plain.py).

Of data that their methods read (settings, graphs) what those name counts, too. Of the rest nobody knows what they say next: iterators and generators, files, sockets,
databases, what extension modules hold in C. A function that names one is not recorded
(UNKNOWN): it goes on in replay mode.
"""

import builtins
import collections
import functools
import gc
import importlib.machinery
import io
import operator
import sys
import threading
import types
import weakref

import torch

from ..limits import ARRAY_BYTES
from .homes import file_of, of_package, source_of
from .objects import is_a

UNKNOWN = object()
EXTENSIONS = tuple(importlib.machinery.EXTENSION_SUFFIXES)
SUSPENDED = """_socket.socket socket.socket ssl.SSLSocket select.epoll select.poll sqlite3.Connection sqlite3.Cursor zlib.Compress zlib.Decompress _bz2.BZ2Compressor
               _bz2.BZ2Decompressor _lzma.LZMACompressor _lzma.LZMADecompressor xml.etree.ElementTree.Element torch.storage.UntypedStorage torch.storage.TypedStorage
               _contextvars.Context""".split()   # by name: few programs load them
LOCKS = frozenset(("locked", "acquire", "_is_owned"))   # who says so asks a lock
COUNTS = frozenset(("is_set", "get_value", "locked"))   # or one of several processes'
CONTEXTS = frozenset(("getcontext", "localcontext", "Decimal"))   # who says so computes in decimal's context
# Their objects hold what the program gave them. Of others in the standard library, too, but of these too much hangs on them.
HOLDERS = ("numpy.ma", "torch.distributions", "torch.optim", "torch.amp", "torch.utils.data")
# Their objects are data, which their methods read, whatever the program names.
DATA = frozenset("argparse calendar configparser csv email gettext http mailbox networkx numpy optparse pprint reprlib scipy sklearn statistics string textwrap".split())
OPAQUE = frozenset(("pandas", "PIL"))   # of which most lies in C
FIXED = ("pandas._libs", "pandas.core.dtypes", "frozendict", "regex", "msgspec", "numba", "llvmlite")   # what never changes, or holds nothing itself, also in C
IMMUTABLE = 1 << 8   # of a type's flags: a static one, as Python's own are
NO_HOLDERS = ("builtins", "ctypes", "importlib", "logging", "types", "typing", "unittest", "sys", "_io")
OF_PROCESSES = "torch.distributed.distributed_c10d"


VIEWS = tuple({type(ask(kind())) for kind in (dict, collections.OrderedDict) for ask in (kind.keys, kind.values, kind.items)})
WALKED = collections.deque, set, frozenset   # which the core walks itself, but not what is derived from them


class Looked:
    """`now` is what is compared: texts, numbers, and tuples of such."""

    __slots__ = ("_read",)

    def __init__(self, read):
        self._read = read

    @property
    def now(self):
        try:
            return self._read()
        except Exception as error:   # closed, released
            return type(error)


def is_holder(kind):
    if type(kind.__module__) is not str:
        return False
    home = kind.__module__.partition(".")[0]
    return home in sys.stdlib_module_names and home not in NO_HOLDERS or kind.__module__.startswith(HOLDERS) or issubclass(kind, types.SimpleNamespace)


def data_parts(kind):
    """The classes of such libraries that an object is of."""
    return [part for part in kind.__mro__[:-1] if type(part.__module__) is str and part.__module__.partition(".")[0] in DATA]


@functools.lru_cache(maxsize=4096)
def is_opaque(kind):
    return any(map(is_of_opaque_c, kind.__mro__[:-1]))


def is_of_opaque_c(kind):
    """A class of an installed package whose objects keep what they hold in C, where nobody can look."""
    if type(kind.__module__) is not str or kind.__module__.startswith(FIXED):
        return False
    if kind.__module__ == "builtins":   # or by other languages' binders, which give no name of a module
        return not kind.__flags__ & IMMUTABLE and not kind.__dictoffset__ and vars(builtins).get(kind.__name__) is not kind
    file = file_of(kind)
    return kind.__module__.partition(".")[0] in OPAQUE or file is not None and of_package(file) and file.endswith(EXTENSIONS)


def behind(value):
    """What a view of a dict, or a weak proxy, stands for; None of anything else."""
    if type(value) in VIEWS:
        return behind(value.mapping)
    if type(value) is types.MappingProxyType:
        return next((found for found in gc.get_referents(value) if is_a(found, dict)), None)
    if type(value) in weakref.ProxyTypes:
        try:
            return getattr(value.__init__, "__self__", None)
        except ReferenceError:
            return None
    return None


def reading(value, names, is_own):
    """How the state of an object is read; None where it has none beyond what is compared anyway; UNKNOWN. `names`: those in the program's own code."""
    kind = type(value)
    if is_opaque(kind):
        return UNKNOWN
    if is_a(value, BaseException):
        return functools.partial(BaseException.args.__get__, value)
    if is_mock(value):
        return UNKNOWN if vars(value)["_mock_children"] else functools.partial(answers_of, value)
    known = READINGS.get(f"{kind.__module__}.{kind.__qualname__}")
    if known is not None:
        return known(value, names)
    if is_a(value, collections.OrderedDict):
        return functools.partial(keys_of, value)
    if is_a(value, collections.defaultdict):
        return functools.partial(factory_of, value)
    if is_array(value):
        return functools.partial(form_of, value)
    if kind is collections.deque and value.maxlen is not None:
        return functools.partial(getattr, value, "maxlen")
    if is_a(value, WALKED) and kind not in WALKED:
        return functools.partial(tuple, value)
    if is_own(kind) or kind in weakref.ProxyTypes:
        return None
    if f"{kind.__module__}.{kind.__qualname__}" in SUSPENDED or is_a(value, torch.UntypedStorage):
        return UNKNOWN
    if hasattr(kind, "__next__"):
        return UNKNOWN if not is_a(value, io.IOBase) or is_readable(value) else None   # to write is to print
    return functools.partial(digest_of, value) if hasattr(kind, "hexdigest") and hasattr(kind, "copy") else None


def answering(function):
    """How what a function of a library tells is read, where that stands in containers of the library's own."""
    if not is_a(function, types.FunctionType):
        return None
    if function is threading.active_count:
        return function
    if function is threading.enumerate:
        return threads_that_run
    return groups_of_processes if function.__module__ == OF_PROCESSES else None


def threads_that_run():
    return tuple(map(id, threading.enumerate()))


def groups_of_processes():
    world = vars(sys.modules[OF_PROCESSES])["_world"]
    first = world.default_pg
    return first is not None and (id(first), first.rank(), first.size(), len(world.pg_map))


def of_decimal(names):
    """The context in which this thread computes."""
    decimal = sys.modules.get("decimal")
    return None if decimal is None or CONTEXTS.isdisjoint(names) else lambda: form_of_context(decimal.getcontext(), names)


def is_mock(value):
    mock = sys.modules.get("unittest.mock")
    return mock is not None and is_a(value, mock.NonCallableMock)


def answers_of(mock):
    """What it gives when it is called."""
    return tuple(vars(mock).get(name) for name in ("_mock_return_value", "_mock_side_effect", "_mock_wraps"))


def calls_of(mock):
    """Of itself and its children."""
    return vars(mock).get("_mock_mock_calls")


def keys_of(ordered):
    return tuple(collections.OrderedDict.__iter__(ordered))


def factory_of(container):
    return collections.defaultdict.default_factory.__get__(container)


def form_of(array):
    """With what it holds, where that is not one piece of memory, which the core compares."""
    apart = not (array.flags.forc or array.dtype.hasobject)
    return array.shape, array.strides, array.dtype.str, sys.modules["numpy"].ndarray.tobytes(array) if apart else None


def digest_of(value):
    return value.copy().hexdigest()


def is_array(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and is_a(value, numpy.ndarray)


def is_readable(file):
    try:
        return file not in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) and file.readable()
    except ValueError:   # closed
        return False


def of_memory_file(file, names):
    return functools.partial(held_by, file)


def held_by(file):
    """What is longer is something else each time."""
    place = file.tell()
    size = file.seek(0, io.SEEK_END)
    file.seek(place)
    return (place, file.getvalue()) if size <= ARRAY_BYTES else (place, size, object())


def of_lock(lock, names):
    return None if LOCKS.isdisjoint(names) else lock.locked


def of_recursive_lock(lock, names):
    return None if LOCKS.isdisjoint(names) else lambda: repr(lock)


def of_process_lock(lock, names):
    return None if COUNTS.isdisjoint(names) else lock._get_value


def of_numpy_generator(generator, names):
    """Draws are noticed anyway (watch.py)."""
    return (lambda: repr(generator.bit_generator.state)) if "bit_generator" in names else None


def of_finalizer(finalizer, names):
    return lambda: finalizer.alive


def of_queue(queue, names):
    return queue.qsize


def of_future(future, names):
    return functools.partial(operator.attrgetter("_state", "_result", "_exception"), future)


def of_context(context, names):
    return functools.partial(form_of_context, context, names)


def form_of_context(context, names):
    """Computing sets flags."""
    flags = (*context.flags.values(),) if "flags" in names else ()
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp, (*context.traps.values(),), flags


def of_cache(cached, names):
    """Which objects it hands out; plain values are what they are."""
    return functools.partial(handed_out_ids, cached)


def handed_out_ids(cached):
    return tuple(map(id, handed_out(cached)))


def handed_out(cached):
    """The results of functools.lru_cache that somebody may write into, and keys. What packages keep they do not write to."""
    if of_package(source_of(cached.__wrapped__)):
        return []
    if not cached.cache_info().currsize:
        return []
    others = cached.__wrapped__, cached.__dict__
    held = [value for value in gc.get_referents(cached) if not any(value is other for other in others)]
    if cached.cache_parameters()["maxsize"] is None:   # one dict
        held = [value for space in held if type(space) is dict for value in space.values()]
    return [value for value in held if not is_unchanging(value) and not is_table_of_links(value)]


def is_table_of_links(value):
    """The cache's own, by which it finds what it has."""
    return type(value) is dict and all(type(link).__name__ == "_lru_list_elem" for link in value.values()) and bool(value)


def is_unchanging(value):
    return type(value) in UNCHANGING or type(value) in (tuple, frozenset, torch.Size) and all(map(is_unchanging, value))


UNCHANGING = frozenset((object, int, float, complex, str, bytes, bool, type(None), types.FunctionType, type, torch.dtype, torch.device, functools._lru_cache_wrapper))
READINGS = {"functools._lru_cache_wrapper": of_cache, "_io.StringIO": of_memory_file, "_io.BytesIO": of_memory_file, "_queue.SimpleQueue": of_queue, "_thread.lock": of_lock, "_thread.RLock": of_recursive_lock,
            "_asyncio.Future": of_future, "_asyncio.Task": of_future, "decimal.Context": of_context, "_multiprocessing.SemLock": of_process_lock, "weakref.finalize": of_finalizer,
            "numpy.random._generator.Generator": of_numpy_generator}
