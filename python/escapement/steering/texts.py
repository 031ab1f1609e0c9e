"""A text with a size in it, which nobody reads: `torch._assert(h % 8 == 0, f"height {h} is no multiple of 8")`.

torch puts off what `f"{h}"` is until somebody looks, but not where there is more in the text than the one number: then the number is pinned
when the text is made, and each value of it would be a compile. And an integer argument it takes for its own text, which is a graph break.
Here the whole text is put off. Whoever looks at it pins its numbers, as ever.

The text of an object that says what it holds (`str` of a dataclass, a namespace, a view of a dict) torch makes while it traces, of the very object,
and guards nothing of it. The program makes it, behind a graph break.
"""

import dis
import functools

from torch._dynamo import exc as dynamo_exc
from torch._dynamo import symbolic_convert
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.lazy import LazySymNodeFormatString, LazyVariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

CONVERSION = 0x03    # !s, !r or !a
BUILD_STRING = dis.opmap["BUILD_STRING"]


class Number(LazySymNodeFormatString):
    """torch's own would format the number's text: `f"{h:04d}"` is an error then, and `f"{h:4}"` is flushed left."""

    def __repr__(self):
        return self.fmt_var.as_python_constant().format(self.sym_node_var.evaluate_expr())


class Text(LazySymNodeFormatString):
    """Parts that are put off, and constants between them."""

    def __init__(self, parts):
        self.parts = parts

    def __repr__(self):
        return "".join(part.as_python_constant() for part in self.parts)


def install(current_session):
    base = symbolic_convert.InstructionTranslatorBase
    base._format_value = formatting(base._format_value, current_session)
    for translator in translators(base):
        table = translator.dispatch_table
        table[BUILD_STRING] = joining(table[BUILD_STRING], current_session)
    BuiltinVariable.call_str = texts_of_objects(BuiltinVariable.call_str, current_session)


def translators(kind):
    return [kind, *(found for derived in kind.__subclasses__() for found in translators(derived))]


def formatting(format_value, current_session):
    @functools.wraps(format_value)
    def format(translator, specification, flags):
        number = translator.stack[-1].realize() if current_session() is not None else None
        if not isinstance(number, SymNodeVariable):
            return format_value(translator, specification, flags)
        if flags & CONVERSION:
            dynamo_exc.unimplemented(gb_type="escapement: a number made a text", context="", hints=[],
                                     explanation="a text is formatted otherwise than the number, for which torch would take it")
        translator.pop()
        translator.push(put_off(translator, Number(number, specification)))

    return format


def joining(build_string, current_session):
    @functools.wraps(build_string)
    def build(translator, instruction):
        parts = translator.stack[-instruction.arg:] if current_session() is not None else []
        if not any(map(is_put_off, parts)) or not all(is_put_off(part) or part.is_python_constant() for part in parts):
            return build_string(translator, instruction)
        text = Text(translator.popn(instruction.arg))
        translator.push(put_off(translator, text))

    return build


def texts_of_objects(call_str, current_session):
    @functools.wraps(call_str)
    def call(builtin, translator, argument):
        if current_session() is not None and tells_what_it_holds(argument):
            dynamo_exc.unimplemented(gb_type="escapement: the text of an object", context="", hints=[],
                                     explanation="str() of an object is what the object holds now, for which torch has no guards")
        return call_str(builtin, translator, argument)

    return call


def tells_what_it_holds(argument):
    kind = type(argument.value) if isinstance(argument, UserDefinedObjectVariable) else object
    return kind.__str__ is object.__str__ and kind.__repr__ is not object.__repr__


def put_off(translator, text):
    """Without a source: torch would find the number itself under it."""
    return LazyVariableTracker.create(text, source=None, tx=translator)


def is_put_off(part):
    return isinstance(part, LazyVariableTracker) and not part.is_realized() and isinstance(part.peek_value(), LazySymNodeFormatString)
