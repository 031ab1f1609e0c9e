"""What a program looks for and does not find: an attribute, a key. Dynamo traces the `except` or the default behind it and guards nothing, so that a call
by which it has come is answered as if it had not. Here each such look is a guard. So are the variables of the process as `os.getenv` reads them, a global of
the standard library, of which Dynamo guards none.
"""

import functools

from torch._dynamo import exc as dynamo_exc
from torch._dynamo import symbolic_convert
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import SkipGuardSource
from torch._dynamo.variables import builtin, dicts

Absent = dynamo_exc.ObservedAttributeError
Inlined = symbolic_convert.InliningInstructionTranslator
CHANGING = frozenset(("environ", "environb"))   # globals of `os` that programs change


def install(current_session):
    asks, lookup, own = builtin.GetAttrBuiltinVariable, dicts.ConstDictVariable, dicts.DunderDictVariable
    there = builtin.HasAttrBuiltinVariable
    there.call_function = holding_presence(there.call_function, current_session)
    asks._call_getattr = holding_attributes(asks._call_getattr, current_session)
    lookup.getitem_const_raise_exception_if_absent = holding_keys(lookup.getitem_const_raise_exception_if_absent, current_session)
    Inlined.get_globals_source_and_value = holding_environment(Inlined.get_globals_source_and_value, current_session)
    own.install_dict_contains_guard = holding_attributes_as_keys(own.install_dict_contains_guard, lookup.install_dict_contains_guard, current_session)


def possible():
    return (hasattr(builtin, "GetAttrBuiltinVariable") and hasattr(builtin.GetAttrBuiltinVariable, "_call_getattr") and hasattr(builtin, "HasAttrBuiltinVariable") and hasattr(dicts, "DunderDictVariable")
            and hasattr(dicts.ConstDictVariable, "getitem_const_raise_exception_if_absent") and hasattr(Inlined, "get_globals_source_and_value") and hasattr(GuardBuilder, "HASATTR"))


def holding_attributes(get, current_session):
    """`getattr` and every `.name` of a program."""
    @functools.wraps(get)
    def call(function, tx, args, kwargs):
        try:
            found = get(function, tx, args, kwargs)
        except Absent:
            hold(current_session, *args[:2])
            raise
        if len(args) > 2 and found is args[2]:
            hold(current_session, *args[:2])
        return found

    return call


def holding_presence(ask, current_session):
    """`hasattr`, which Dynamo guards for some kinds of owners only."""
    @functools.wraps(ask)
    def call(function, tx, args, kwargs):
        found = ask(function, tx, args, kwargs)
        hold(current_session, *args)
        return found

    return call


def hold(current_session, owner, name):
    if current_session() is not None and owner.source is not None and name.is_python_constant():
        install_guard(owner.source.make_guard(functools.partial(GuardBuilder.HASATTR, attr=name.as_python_constant())))


def holding_keys(get, current_session):
    @functools.wraps(get)
    def call(table, tx, key):
        if current_session() is not None and dicts.HashableTracker(key) not in table.items:
            table.install_dict_contains_guard(tx, [key])
        return get(table, tx, key)

    return call


def holding_attributes_as_keys(stock, of_dicts, current_session):
    """`vars(o)` and `o.__dict__`, of which Dynamo guards no keys."""
    @functools.wraps(stock)
    def call(table, tx, keys):
        return (of_dicts if current_session() is not None else stock)(table, tx, keys)

    return call


def holding_environment(get, current_session):
    @functools.wraps(get)
    def call(translator, name):
        module, variable, source = get(translator, name)
        if current_session() is not None and name in CHANGING and isinstance(source, SkipGuardSource):
            source = source.base
        return module, variable, source

    return call
