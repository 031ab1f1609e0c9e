"""Methods of classes that a frame runs, found by name at each call of the program: `Net.act = other` is noticed, and other code in the same function, which
is how a notebook reloads a file; so is an attribute that a derived class gets in front of its base's, and one that comes where a class's own `__getattr__` was
asked, which is asked only where nobody else has the name. Dynamo guards the classes of objects and takes for granted what stands in a class.

Each frame has one guard for all of them: the core compares what their classes hold under their names (`Contents`, src/torch/python/contents.h).
"""

import functools
import gc
import types

import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.guards import GuardBuilder, get_verbose_code_parts, install_guard
from torch._dynamo.source import GlobalStateSource
from torch._dynamo.variables.user_defined import UserDefinedClassVariable, UserDefinedObjectVariable

from ..core import core
from ..recording.locator import FRAMEWORK

Inlined = symbolic_convert.InliningInstructionTranslator
NOT_SEARCHED = frozenset(("builtins", "torch", "torch.nn.parameter"))   # classes of numbers, containers and tensors: functions take them first, too
ATTRIBUTES_OF = UserDefinedClassVariable, UserDefinedObjectVariable
BUILT_IN = object, type   # nobody puts anything there
CODE = ["the methods of classes are what they were"]


def install(current_session):
    Inlined.build_inline_tracer = staticmethod(noting(Inlined.build_inline_tracer, current_session))
    for kind in ATTRIBUTES_OF:
        kind.var_getattr = noting_classes_before(kind.var_getattr, current_session)


def possible():
    return hasattr(Inlined, "build_inline_tracer") and hasattr(GuardBuilder, "NOT_PRESENT_IN_GENERIC_DICT") and all("var_getattr" in vars(kind) for kind in ATTRIBUTES_OF)


def noting(build, current_session):
    @functools.wraps(build)
    def call(parent, function, args, *rest, **named):
        if current_session() is not None and may_be_replaced(function.get_code()):
            note(parent.output, getattr(function, "fn", None), args)
        return build(parent, function, args, *rest, **named)

    return call


def may_be_replaced(code):
    """The program's own; of torch's the modules' (`torch.nn.Linear.forward = with_adapters`)."""
    return code.co_name == "forward" or not code.co_filename.startswith(FRAMEWORK)


def note(output, function, args):
    """If it is a method of its first argument."""
    found = isinstance(function, types.FunctionType) and args and places_of_method(function, class_of(args[0]))
    if found:
        add(output, found, (function,))


def noting_classes_before(get, current_session):
    """An attribute of a class is another one when a class comes before it, in which somebody puts that name."""
    @functools.wraps(get)
    def call(variable, tx, name):
        if current_session() is not None and variable.source is not None:
            is_class = isinstance(variable, UserDefinedClassVariable)
            kind = variable.value if is_class else type(variable.value)
            before = classes_before(kind, name)
            if before is None and asks_by_name(type(kind) if is_class else kind):
                before = (*kind.__mro__, *(type(kind).__mro__ if is_class else ()))
                if not is_class:
                    hold_absence(variable, name)
            if before:
                add(tx.output, [(kind, name) for kind in before if kind not in BUILT_IN], ())
        return get(variable, tx, name)

    return call


def classes_before(kind, name):
    """None: no class has that name."""
    if kind.__module__ in NOT_SEARCHED or kind.__module__.startswith("torch."):
        return ()
    mro = kind.__mro__
    return next((mro[:at] for at, part in enumerate(mro) if name in vars(part)), None)


def asks_by_name(kind):
    """Whether it has a `__getattr__` of the program's own. (What torch's modules find by theirs they have guards of.)"""
    found = next((vars(part)["__getattr__"] for part in kind.__mro__ if "__getattr__" in vars(part)), None)
    return found is not None and found is not torch.nn.Module.__getattr__


def hold_absence(variable, name):
    try:
        own = object.__getattribute__(variable.value, "__dict__")
    except AttributeError:
        return
    if type(own) is dict and name not in own:
        install_guard(variable.source.make_guard(functools.partial(GuardBuilder.NOT_PRESENT_IN_GENERIC_DICT, attr=name)))


def add(output, places, run):
    if not hasattr(output, "escapement_methods"):
        methods, functions = set(), set()
        output.escapement_methods = methods, functions, GlobalStateSource().make_guard(functools.partial(hold, methods=methods, functions=functions))
    methods, functions, guard = output.escapement_methods
    methods.update(places)
    functions.update(run)
    output.guards.add(guard)   # each time: what the tracer takes back takes its guards with it


def class_of(variable):
    try:
        kind = variable.python_type()
        kind = variable.as_python_constant() if issubclass(kind, type) else kind
    except Exception:   # what the tracer does not know the type of
        return None
    return None if kind.__module__ in NOT_SEARCHED else kind


def places_of_method(function, kind):
    """[(class, name)] under which it stands there, whatever its own name is; and where another one of that name would come before it."""
    parts = getattr(kind, "__mro__", ())
    for at, part in enumerate(parts):
        found = [name for name, member in vars(part).items() if function_of(member) is function]
        if found:
            return [(place, name) for place in parts[:at + 1] for name in found]
    return []


def function_of(member):
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def hold(builder, guard, methods, functions):
    """The guard is made when all of the frame has been traced."""
    places = [(space_of_class(kind), name, vars(kind).get(name)) for kind, name in methods]
    contents = core().Contents([], [*places, *((function, None, parts_of(function)) for function in functions)])
    builder.guard_manager.root.add_lambda_guard(lambda _: contents.same(), get_verbose_code_parts(CODE, guard), guard.user_stack)


def parts_of(function):
    """As Contents compares them: a copy of what can change in place."""
    return function.__code__, function.__defaults__, function.__kwdefaults__ and dict(function.__kwdefaults__)


def space_of_class(kind):
    return next(space for space in gc.get_referents(vars(kind)) if isinstance(space, dict))
