"""The facts about a function as lines of text.

One fact a line, in a fixed order, without addresses or times, so that the text can be compared with a stored one; facts that read the
same become one line with a count. Times are lines of their own.
"""

import collections
import re

from .facts import timing_facts, versions
from .ledger import size_name
from .tracer.jitted import REASONS, REPLAYED

# How the core writes where a symbol comes from: an argument by its number, then what of it.
ARGUMENT = re.compile(r"arg(\d+)((?:\.\w+(?:\[\d+\])?)?)")


def function_lines(facts):
    yield f"function {facts['name']} ({facts['where']})"
    for compiled in facts["compiles"]:
        yield from indent(compile_lines(compiled, facts["budget"]))
    for escape in facts["escapes"]:
        yield from indent(escape_lines(escape))
    for source in facts["given_up"]:
        yield f"  host value from now on: {size_name(source)} (the budget of {facts['budget']} compiles is spent)"
    for reason in facts["graph_breaks"]:
        yield f"  graph break: {reason}"
    for reason in facts["skipped"]:
        yield f"  not compiled: {reason}"
    for why, calls in facts["refused"].items():
        yield f"  run eagerly: {calls} calls that no version takes ({why})"
    for name, fact in sorted(facts["eager"].items()):
        detail = f": {fact['detail']}" if fact["detail"] else ""
        how = "replay mode" if name in REPLAYED or name not in REASONS else "eager"
        yield f"  {how}: {REASONS.get(name, 'the core found this at each of many calls')} ({name}, {fact['calls']} calls){detail}"
    for info in facts["regions"]:
        yield from indent(region_lines(info))


def compile_lines(compiled, budget):
    dynamic = compiled["input_dims"] - len(compiled["specialised"])
    number = compiled["number"] + 1
    ordinal = f"{number} of {budget}" if number <= budget else f"{number} (after the budget)"
    key = f" for another rank, dtype, layout or grad mode (key {compiled['key'] + 1})" if compiled["key"] else ""
    yield f"compile {ordinal}{key}: {dynamic} of {compiled['input_dims']} input dims are dynamic"
    for miss in compiled["misses"]:
        yield f"  because version {miss['version']} expected {miss['expected'] or miss['guard']}, seen {miss['seen'] or 'another'}"
    for pinned in compiled["specialised"]:
        yield f"  specialised: {pinned['source']}.size({pinned['dim']}) == {pinned['value']}: {short_path(pinned['why'])}"
    for escape in compiled["escapes"]:
        sources = ", ".join(map(size_name, escape["sources"])) or "no input"
        yield f"  escape: {escape['relation']} at {short_path(escape['where'])}, from {sources}"
    for guard in compiled["guards"]:
        yield f"  guard: {guard['relation']} at {short_path(guard['where'])}"
    for constant in compiled["constants"]:
        yield f"  constant: {short_path(constant)}"
    for fact in compiled["dims"]:
        yield f"  dim: {short_path(fact)}"


def escape_lines(escape):
    """What the escapes of single compiles have in common."""
    cost, seen = escape["cost"], ", ".join(f"{name} = {value}" for name, value in escape["seen"].items())
    yield f"{escape['kind']} at {short_path(escape['where'])}"
    yield f"  path: {' -> '.join(escape['path'])}; first seen: {seen}"
    yield f"  cost: {cost['compiles']} compiles, {cost['recordings']} recordings"
    yield f"  fix: {escape['fix']}"


def region_lines(info):
    yield f"region {info['name']}: {info.get('recordings', 0)} recordings, {len(versions(info))} versions"
    for i, version in enumerate(versions(info)):
        yield from indent(version_lines(i, version, info.get("inputs", ())))
    for miss in info.get("misses", ()):
        yield f"  miss: {miss_text(with_names(miss, info.get('inputs', ())))}"
    for reason, times in sorted(info.get("fallbacks", {}).items()):
        yield f"  fallback: {reason} ({times} times)"


def miss_text(miss):
    """A check inside of the code has no words of its own: what was expected is that it holds."""
    what, expected, rest = miss.partition(": expected ")
    return miss if rest.strip() or not expected else f"{what}: not what was seen when it was recorded"


def version_lines(i, version, inputs):
    yield (f"version {i}: {version.get('ops', 0)} ops, {len(version.get('kernels', ()))} kernels, "
           f"{len(version.get('calls', ()))} calls, {version.get('hits', 0)} hits")
    yield from indent(program_lines(version, inputs))


def program_lines(program, inputs):
    """Of a version, or of a side trace: what it runs, and where it may go another way."""
    for section, line in SECTIONS.items():
        yield from counted(line(fact, inputs) for fact in program.get(section, ()))
    if "exit" in program:
        yield from exit_lines(program["exit"], inputs)


def exit_lines(exit, inputs):
    yield f"exit{place(exit)}: {exit['because']}; {exit['handed_on']} values handed on, {exit['departures']} calls went on with the program itself"
    for i, side in enumerate(exit["sides"]):
        yield f"  side {i}: {len(side['kernels'])} kernels, {len(side['calls'])} calls, {side['hits']} hits"
        yield from indent(indent(program_lines(side, inputs)))


def symbol_line(fact, inputs):
    return f"symbol {fact['symbol']}: {with_names(fact['source'], inputs)}"


def guard_line(fact, inputs):
    when = "at entry" if fact["at_entry"] else "while running"
    return f"guard {fact['guard']}, {when}: {fact['because']}{place(fact)}"


def kernel_line(fact, inputs):
    launches = f" ({fact['launches']} launches)" if fact["launches"] != 1 else ""
    return f"kernel {fact['name']}: {', '.join(fact['ops'])}{launches}"


def call_line(fact, inputs):
    by_whom = "a call of ours" if fact["target"].startswith("escapement::") else "left to ATen"
    return f"{by_whom}: {fact['target']}: {reason(fact)}{place(fact)}"


def apart_line(fact, inputs):
    return f"apart: {op_name(fact['producer'])} | {op_name(fact['consumer'])}: {reason(fact)}"


# The sections of a version in region.info(), in the order in which they are printed.
SECTIONS = {"symbols": symbol_line, "guards": guard_line, "kernels": kernel_line, "calls": call_line, "apart": apart_line}


def reason(fact):
    """The reason's message where the core says it, and always its name."""
    return f"{fact['message']} ({fact['reason']})" if fact.get("message") else fact["reason"]


def op_name(value):
    """"%3 add" is the value and the op that makes it; an input has no op."""
    return value.partition(" ")[2] or "input"


def place(fact):
    return f" at {short_path(fact['location'])}" if fact.get("location") else ""


def short_path(text):
    """Packages by their names, whatever folder they are installed in."""
    return re.sub(r"\S*/(?:site|dist)-packages/", "", text)


def with_names(text, inputs):
    """arg1.size[0] as the user knows it: L['x'].size(0)."""
    def named(found):
        number = int(found[1])
        base = inputs[number] if number < len(inputs) else f"arg{number}"
        return base + found[2].replace("[", "(").replace("]", ")")

    return ARGUMENT.sub(named, text)


def counted(lines):
    """Equal lines once, where the first stood, with their number."""
    for line, times in collections.Counter(lines).items():
        yield f"{line} (x{times})" if times > 1 else line


def indent(lines):
    return ("  " + line for line in lines)


# --- times

def timing_lines(facts):
    for compiled in facts["compiles"]:
        yield f"{facts['name']} compile {compiled['number'] + 1}: capture by Dynamo {compiled['capture_ms']:.1f} ms"
    for escape in facts["escapes"]:
        yield f"{facts['name']} {escape['kind']} at line {escape['line']}: cost {escape['cost']['ms']:.1f} ms"
    for info in facts["regions"]:
        for i, version in enumerate(versions(info)):
            for name, value in timing_facts(version):
                yield f"{info['name']} version {i}: {name} {value:.2f} ms"
