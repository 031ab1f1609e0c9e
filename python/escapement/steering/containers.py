"""What a program does to containers that come from outside, where Dynamo loses some of it: the greatest length of a deque, `+=` to a list's subclass, all changes
to a set's, what `copy.copy` copies of a subclass, and what such a class is called. And the order of a dict, which it guards in some of the questions that depend on
it; of an OrderedDict in none where `move_to_end` has been, which the guards' own walk over a dict does not see. And a range whose elements a function is given.

`tests/python/torch_compile/test_kept_containers.py` has every operation of each kind, `test_order_of_dicts.py` every question of the order.
"""

import collections
import copyreg
import dis
import functools

from torch._dynamo import symbolic_convert
from torch._dynamo.bytecode_transformation import create_call_method, create_instruction
from torch._dynamo.guards import GuardBuilder, get_verbose_code_parts, install_guard
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.source import AttrSource, EphemeralSource
from torch._dynamo.variables import ConstantVariable, functions, user_defined
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import BaseListVariable, CommonListMethodsVariable, DequeVariable, RangeVariable, TupleVariable

from .texts import translators

CALL_FUNCTION_EX = dis.opmap["CALL_FUNCTION_EX"]
OF_AN_ORDER = "copy", "items", "keys", "move_to_end", "popitem", "values", "__iter__", "__reversed__"
NONE = ConstantVariable.create(None)
MOVES = "move_to_end", "popitem"     # the same items in another order


def changes():
    """(class of Dynamo's, its method, what runs around that), in the order in which they are put on."""
    ordered, defaults, mapping, members = (user_defined.OrderedDictVariable, user_defined.DefaultDictVariable, user_defined.UserDefinedDictVariable,
                                           user_defined.UserDefinedSetVariable)
    return (
        (SideEffects, "codegen_update_mutated", with_what_is_left_out),
        (ordered, "call_method", in_order), (defaults, "call_method", in_order), (ordered, "richcompare_impl", where_both_have_an_order),
        *((kind, "repr_impl", by_its_name) for kind in (ordered, mapping, members)),
        *((kind, "as_python_constant", of_its_class) for kind in (mapping, ordered, members)),
        (ConstDictVariable, "call_method", held_where_asked),
        *((ConstDictVariable, name, held) for name in ("as_python_constant", "repr_impl", "unpack_var_sequence", "keys_as_python_constant", "tp_iter_impl")),
        (CommonListMethodsVariable, "call_method", held_where_listed),
        *((DequeVariable, name, no_longer_than_it_may_be) for name in ("call_method", "sq_repeat_impl", "sq_inplace_repeat_impl")),
        *((user_defined.UserDefinedObjectVariable, name, the_object_itself) for name in ("call_method", *in_place())),
    )


def install(current_session):
    def wrap(owner, name, around):
        original = getattr(owner, name)

        @functools.wraps(original)
        def method(*arguments, **options):
            return original(*arguments, **options) if current_session() is None else around(original, *arguments, **options)

        setattr(owner, name, method)

    for change in changes():
        wrap(*change)
    for_instance = BaseListVariable.cls_for_instance
    BaseListVariable.cls_for_instance = staticmethod(lambda value: for_instance(value) if current_session() is None else maker(for_instance, value))
    polyfills()[object.__reduce_ex__].__torch_dynamo_polyfill__ = reduced
    for translator in translators(symbolic_convert.InstructionTranslatorBase):
        table = translator.dispatch_table
        table[CALL_FUNCTION_EX] = with_elements(table[CALL_FUNCTION_EX], current_session)


def possible():
    owners = ((BaseListVariable, "cls_for_instance"), (ConstDictVariable, "install_dict_keys_match_guard"), (SideEffects, "_get_modified_vars"))
    return all(hasattr(owner, name) for owner, name, *_ in (*owners, *changes())) and object.__reduce_ex__ in polyfills()


def in_place():
    """`+=` and its like."""
    return [name for name in dir(user_defined.UserDefinedObjectVariable) if "_inplace_" in name and name.endswith("_impl")]


def polyfills():
    return functions.PolyfilledFunctionVariable._get_polyfill_handlers()


def with_elements(call, current_session):
    """`f(*range(3))`: Dynamo gives the function a range's beginning, end and step."""
    @functools.wraps(call)
    def instruction(translator, inst):
        place = -2 if inst.argval & 1 else -1
        arguments = translator.stack[place].realize() if current_session() is not None else None
        if isinstance(arguments, RangeVariable):
            translator.stack[place] = TupleVariable(arguments.unpack_var_sequence(translator))
        return call(translator, inst)

    return instruction


def maker(for_instance, value):
    """Of what Dynamo makes of a list-like value that comes from outside of the frame. A deque's greatest length is for ever."""
    if type(value) is not collections.deque:
        return for_instance(value)

    def make(items, source=None, **options):
        if source is not None:
            install_guard(AttrSource(source, "maxlen").make_guard(GuardBuilder.CONSTANT_MATCH))
        return DequeVariable(items, maxlen=ConstantVariable.create(value.maxlen), source=source, **options)

    return make


def with_what_is_left_out(codegen_update_mutated, effects, cg, *arguments, **options):
    changed = [var for var in effects._get_modified_vars() if var.source is not None]
    deques = [(var, var.maxlen) for var in changed if isinstance(var, DequeVariable)]
    for var, _ in deques:
        var.maxlen = NONE   # emptied, then filled with no more than it holds: its greatest length makes no difference to that
    try:
        codegen_update_mutated(effects, cg, *arguments, **options)
    finally:
        for var, longest in deques:
            var.maxlen = longest
    for var in changed:
        if rebuilt(var, effects):
            hold_order(base_of(var))
        if isinstance(var, user_defined.UserDefinedSetVariable) and effects.is_modified(var._base_vt):
            filled_anew(cg, var)


def filled_anew(cg, var):
    """By set's own methods, whatever the subclass has made of them. What it shall hold is there before it is emptied: that may be read out of it."""
    cg(var._base_vt, allow_cache=False)
    place = cg.tx.output.new_var()
    cg.append_output(create_instruction("STORE_FAST", argval=place))
    for name, operands in (("clear", ()), ("update", (place,))):
        cg.append_output(cg.create_load_python_module(set))
        cg.load_method(name)
        cg(var.source)
        cg.extend_output([create_instruction("LOAD_FAST", argval=operand) for operand in operands])
        cg.extend_output([*create_call_method(1 + len(operands)), create_instruction("POP_TOP")])


def base_of(var):
    return var._base_vt if isinstance(var, user_defined.UserDefinedDictVariable) else var


def rebuilt(var, effects):
    """Emptied and filled in the order that it had here: all of a subclass's items, a dict's where one has been taken out."""
    if isinstance(var, user_defined.UserDefinedDictVariable):
        return effects.is_modified(var._base_vt)
    return isinstance(var, ConstDictVariable) and var.should_reconstruct_all


def in_order(call_method, var, tx, name, arguments, options):
    if name in OF_AN_ORDER:
        hold_order(var._base_vt)
    kind = type(var.value)
    if name == "copy" and kind.copy is collections.OrderedDict.copy and kind is not collections.OrderedDict:
        return VariableTracker.build(tx, kind, source=EphemeralSource()).call_function(tx, [var], {})
    result = call_method(var, tx, name, arguments, options)
    if name in MOVES:
        var._base_vt.should_reconstruct_all = True
    return result


def held_where_asked(call_method, var, tx, name, arguments, options):
    if name in OF_AN_ORDER:
        hold_order(var)
    elif name == "update":
        for other in arguments:
            if isinstance(other, ConstDictVariable):
                hold_order(other)
    return call_method(var, tx, name, arguments, options)


def held_where_listed(call_method, var, tx, name, arguments, options):
    """`list(names)` is an `extend`; so is `+=`, which nobody notes otherwise where it is called by its name."""
    extends = name == "extend" or name == "__iadd__" and var.is_mutable() and len(arguments) == 1
    if not extends:
        return call_method(var, tx, name, arguments, options)
    for other in arguments:
        if isinstance(other, ConstDictVariable):
            hold_order(other)
    result = call_method(var, tx, "extend", arguments, options)
    return result if name == "extend" else var


def held(question, var, *arguments):
    hold_order(var)
    return question(var, *arguments)


def where_both_have_an_order(compare, var, tx, other, op):
    if isinstance(other, user_defined.OrderedDictVariable):
        hold_order(var._base_vt)
        hold_order(other._base_vt)
    return compare(var, tx, other, op)


def hold_order(var):
    """Of a dict's keys."""
    if var.source is None:
        return
    var.install_dict_keys_match_guard()
    symbolic_convert.InstructionTranslator.current_tx().output.guard_on_key_order.add(var.source)
    if issubclass(var.user_cls, collections.OrderedDict):
        install_guard(var.source.make_guard(order_of_links))


def order_of_links(builder, guard):
    """An OrderedDict's own order, which is another thing than that of the dict in it: asked when all else is as it was."""
    keys = names(builder.get(guard))
    text = f"names({builder.arg_ref(guard)}) == keys"
    builder.add_python_lambda_leaf_guard_to_root([text], get_verbose_code_parts(text, guard), {"names": names, "keys": keys})


def names(ordered):
    return [key if ConstantVariable.is_literal(key) else id(key) for key in collections.OrderedDict.__iter__(ordered)]


def no_longer_than_it_may_be(make, var, tx, *arguments):
    """What comes of a deque is one of the same greatest length."""
    result, most = make(var, tx, *arguments), var.maxlen.as_python_constant()
    if most is None or not isinstance(result, DequeVariable):
        return result
    kept = result.items[max(len(result.items) - most, 0):]
    if result is var:
        var.items[:] = kept
        return var
    return DequeVariable(kept, maxlen=var.maxlen, mutation_type=ValueMutationNew())


def by_its_name(repr_impl, var, tx):
    result, kind = repr_impl(var, tx), var.python_type()
    if not result.is_python_constant():
        return result
    words = result.as_python_constant()
    if issubclass(kind, collections.OrderedDict):
        return VariableTracker.build(tx, kind.__name__ + words.removeprefix("OrderedDict"))
    if kind.__repr__ is set.__repr__:
        return VariableTracker.build(tx, f"{kind.__name__}({words if var.items else ''})")
    return result


def of_its_class(as_python_constant, var):
    value = as_python_constant(var)
    kind = type(var.value)
    if type(value) is kind or not isinstance(value, (dict, set)) or not issubclass(kind, type(value)):
        return value
    made = kind.__new__(kind)
    type(value).update(made, value)
    return made


def the_object_itself(change, var, tx, *arguments):
    result = change(var, tx, *arguments)
    return var if var._base_vt is not None and result is var._base_vt else result


def reduced(obj, protocol, /):
    """What `object.__reduce_ex__` returns, in words that can be traced."""
    kind = type(obj)
    if kind.__reduce__ is not object.__reduce__ and not isinstance(obj, collections.OrderedDict):
        return obj.__reduce__()
    state = obj.__dict__
    elements = iter(list(obj)) if isinstance(obj, list) else None
    items = iter(list(obj.items())) if isinstance(obj, dict) else None
    return (copyreg.__newobj__, (kind,), state, elements, items)
