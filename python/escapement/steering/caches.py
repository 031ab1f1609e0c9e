"""`functools.lru_cache` and `functools.cache`: a function that is called once for its arguments hands out that result from then on.

Dynamo traces what is inside, at every call anew: a buffer that the program keeps there and writes into is a fresh one each time, an object that is to be the only
one of its kind is one of many. Here a call whose arguments are constants is made while tracing, as the program would make it, and the result is an input of the
graph, which the same call hands out each time. Where a size is among the arguments, what is inside is traced as ever; random numbers in it, or an object that
it makes, are a graph break. Lists and dicts of values are read as they are (einops keeps such): a program that writes into one, or hands it out, gets a graph break there.

`functools.cached_property` of Python 3.11 and older takes a lock, which Dynamo does not trace: there it is read as of 3.12, which takes none.
"""

import functools

import torch
from torch._dynamo import exc as dynamo_exc
from torch._dynamo import symbolic_convert
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import CallFunctionNoArgsSource, GlobalSource
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew, VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.functions import UserFunctionVariable, WrapperUserFunctionVariable
from torch._dynamo.variables.lists import BaseListVariable, ListVariable, SizeVariable, TupleVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._subclasses.fake_tensor import unset_fake_temporarily

OF_PYTHON = frozenset(("dropout", "alpha_dropout", "feature_alpha_dropout"))   # these draw, and take no generator
MANY = 16
GET = functools.cached_property.__get__
Inlined = symbolic_convert.InliningInstructionTranslator
PLAIN = (bool, int, float, str, bytes, type(None))


def install(current_session):
    WrapperUserFunctionVariable.call_function = kept(WrapperUserFunctionVariable.call_function, current_session)
    if "lock" in GET.__code__.co_names:
        Inlined.build_inline_tracer = staticmethod(without_lock(Inlined.build_inline_tracer, current_session))


def kept(call_function, current_session):
    @functools.wraps(call_function)
    def call(variable, tx, args, kwargs):
        function = variable.wrapper_obj
        session = current_session()
        if session is None or not isinstance(function, functools._lru_cache_wrapper) or is_of_torch(function) or function.cache_parameters()["maxsize"] == 0:
            return call_function(variable, tx, args, kwargs)
        given = (*variable.self_args(), *args)
        if all(value.is_python_constant() for value in (*given, *kwargs.values())):
            again = functools.partial(function, *[value.as_python_constant() for value in given],
                                      **{name: value.as_python_constant() for name, value in kwargs.items()})
            return handed_out(session, tx, again) or call_function(variable, tx, args, kwargs)
        effects = tx.output.side_effects
        before, changed = len(tx.output.graph.nodes), count_changed(effects)
        result = call_function(variable, tx, args, kwargs)
        if any(map(draws, list(tx.output.graph.nodes)[before:])) or count_changed(effects) != changed or not is_value(result):
            leave(function)
        return only_read(result)

    return call


def leave(function):
    dynamo_exc.unimplemented(gb_type="escapement: a result that is kept", context=str(function), hints=[],
                             explanation="a function whose results are kept draws random numbers, changes something or makes an object: the program calls it")


def is_of_torch(function):
    return (getattr(function, "__module__", None) or "").split(".")[0] == "torch"


def handed_out(session, tx, again):
    """None: it raises something, which tracing finds out in the program's way."""
    if (again.func.cache_parameters()["maxsize"] or MANY) < MANY:
        dynamo_exc.unimplemented(gb_type="escapement: results that are soon forgotten", context=str(again.func), hints=[],
                                 explanation="a function that keeps few results hands out another one when it has been called for others")
    before = torch.get_rng_state()
    try:
        with unset_fake_temporarily(), torch._C.DisableTorchFunctionSubclass():
            result = again()
    except Exception:
        return None
    if not torch.equal(torch.get_rng_state(), before):
        session.drawn = torch.get_rng_state()     # Dynamo puts back the one from before the compile
    source = CallFunctionNoArgsSource(GlobalSource(tx.output.install_global("__kept_result", again)))
    if type(result) not in PLAIN:
        return VariableTracker.build(tx, result, source)
    install_guard(source.make_guard(GuardBuilder.EQUALS_MATCH))
    return ConstantVariable.create(result)


def count_changed(effects):
    """Objects that were there: one that is new (the variables of a comprehension are) matters only if it is handed out."""
    return sum(effects.is_modified(variable) for variable in list(effects.id_to_variable.values())
               if not variable.is_tensor() and not isinstance(variable.mutation_type, (AttributeMutationNew, ValueMutationNew)))


def is_value(variable):
    """Which is as good as another of its kind, as long as nobody writes to it."""
    variable = variable.realize()
    if isinstance(variable, (TupleVariable, SizeVariable)) or is_new(variable, ListVariable):
        return all(map(is_value, variable.items))
    if is_new(variable, ConstDictVariable):
        return all(is_value(part) for key, value in variable.items.items() for part in (key.vt, value))
    if isinstance(variable, (BaseListVariable, ConstDictVariable)):
        return variable.source is not None   # the program's own, which it has wherever it is
    return variable.is_tensor() or variable.is_python_constant() or isinstance(variable, SymNodeVariable)


def is_new(variable, kind):
    """A list or a dict and nothing more, which the function has made."""
    return type(variable) is kind and variable.source is None and getattr(variable, "user_cls", dict) is dict


class Kept:
    """Nobody writes into it (Dynamo takes what has no kind of mutation for a constant) and nobody gets it: it would have to be the same object at the next call."""

    def reconstruct(self, codegen):
        leave(self.python_type())


class KeptList(Kept, ListVariable):
    pass


class KeptDict(Kept, ConstDictVariable):
    pass


def only_read(variable):
    variable = variable.realize()
    if is_new(variable, ListVariable):
        return KeptList([only_read(item) for item in variable.items], mutation_type=None)
    if is_new(variable, ConstDictVariable):
        return KeptDict({key: only_read(value) for key, value in variable.items.items()}, mutation_type=None)
    return type(variable)([only_read(item) for item in variable.items]) if type(variable) is TupleVariable else variable


def draws(node):
    name = getattr(node.target, "__name__", node.target)
    return node.op in ("call_function", "call_method") and name in random_names() | OF_PYTHON


@functools.cache
def random_names():
    schemas = torch._C._jit_get_all_schemas()
    return frozenset(schema.name.removeprefix("aten::") for schema in schemas if any(argument.name == "generator" for argument in schema.arguments))


# --- cached_property

def without_lock(build, current_session):
    @functools.wraps(build)
    def call(parent, function, *rest, **named):
        if current_session() is not None and getattr(function, "fn", None) is GET:
            function = UserFunctionVariable(computed_once)
        return build(parent, function, *rest, **named)

    return call


def computed_once(self, instance, owner=None):
    """functools.cached_property.__get__."""
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    if self.attrname not in instance.__dict__:
        instance.__dict__[self.attrname] = self.func(instance)
    return instance.__dict__[self.attrname]
