"""Random programs. A program grows by running: each new step is tried on two draws of the arguments, and what raises is mostly taken
back, so that programs are long and few of them end in an error. The same seed gives the same program, whatever ran before.
"""

import contextlib
import dataclasses
import random
import re
import warnings

import torch

from arguments import LAYOUTS, TENSOR, VALUES, drawn, symbols
from memory import little_memory
from program import RESERVED, Program, Step
from templates import CONDITION_LINES, PLACE, TEMPLATES
from vocabulary import DTYPES, WEIGHTS

SIZES = [0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 11, 17, 33]
DTYPE_WEIGHTS = {"float32": 10, "float64": 2, "bfloat16": 2, "float16": 2, "int64": 3, "int32": 2, "uint8": 1, "int8": 1, "int16": 1,
                 "bool": 2, "complex64": 0.5}
SHAPES = [["n", "m"]] * 8 + [["n"]] * 4 + [["m"], ["n", 1], [1, "m"], ["n", "m", 3], ["n", 2, "m"], ["n", "n"], [], [4, 4], ["h", "n", "m"],
          ["n", 3, "m", "h"]]
LARGEST = 20000      # elements of a value; bigger ones are not used
SPARE = 256 << 20    # bytes: a step that wants more than its values (the covariance of 16,641 rows) raises, and is taken back
CALLS = 6
ALIASES = ["= a", "= a[1:]", "= a.t()", "= a[..., :1]", "= a.view(-1)", "= a.detach()", "= a[None]", "= a.flatten()[1:]"]
ON_GRID = {"grid", "index", "zero"}   # kinds of values whose sums are exact
MODES = ["no_grad"] * 6 + ["grad"] * 2 + ["inference"]
# Views at some sizes and copies at others: what is written through one may show in the other, in draws that are not tried here.
SOMETIMES_VIEWS = re.compile(r"contiguous|reshape|flatten|ravel|\.to\(|type_as|\.(float|double|half|int|long|bool|bfloat16)\(|attempt|resolve|real|imag|atleast|conj| if ")
NUMBERS = ["0", "1", "2", "-1", "3", "0.5", "-1.5", "2.0", "True", "0.1", "1e-3", "7", "100"]


class Scope:
    """One draw of the arguments and what the steps have made of it."""

    def __init__(self, arguments, call):
        self.names, self.alive = {**RESERVED, **drawn(arguments, call)}, True

    def run(self, text):
        if "return" in text:
            return None
        try:
            with warnings.catch_warnings(), little_memory(SPARE):
                warnings.simplefilter("ignore")
                exec(text, self.names)
        except Exception as error:
            return error
        return None


def pick(numbers, weights):
    return numbers.choices(list(weights), list(weights.values()))[0]


def small(value):
    return isinstance(value, torch.Tensor) and value.numel() <= LARGEST and value.dim() <= 6


def on_grid(value):
    """Small multiples of a half: sums are exact in any order, also in half precision."""
    if not isinstance(value, torch.Tensor) or value.is_complex():   # a step may have bound the name anew
        return False
    if not value.numel():
        return True
    wide = value.double()
    return bool(torch.isfinite(wide).all()) and wide.abs().max().item() * max(value.numel(), 32) <= 2 ** 18 and torch.equal(wide * 2, (wide * 2).round())


def lacks_memory(value):
    """An operator that fails to resize what it was to write leaves sizes behind for which there is no memory. Reading it would end the process, in eager too."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not value.numel():
        return False
    last = value.storage_offset() + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride()))
    return (last + 1) * value.element_size() > value.untyped_storage().nbytes()


class Generator:
    def __init__(self, seed, sections=WEIGHTS):
        self.numbers, self.sections = random.Random(seed), sections
        self.near, self.steps, self.pool, self.steps_end, self.kin = set(), [], [], False, {}
        self.arguments = self.some_arguments()
        self.calls = self.some_calls()
        self.scopes = [Scope(self.arguments, call) for call in self.calls[:2]]
        # What depends on a real number, which varies between calls: what is exact for one is not for the next.
        self.scaled = {name for call in self.calls for name, value in call.items() if type(value) is float}
        self.pool = list(self.arguments)

    def some_arguments(self):
        numbers, made = self.numbers, {}
        for name in "abcd"[:numbers.choice([1, 1, 2, 2, 2, 3, 4])]:
            if made and numbers.random() < 0.12:
                made[name] = numbers.choice(ALIASES)
                continue
            dtype = pick(numbers, DTYPE_WEIGHTS)
            layout = numbers.choice(["contiguous"] * 5 + list(LAYOUTS))
            kind = numbers.choice(["grid"] * 4 + list(VALUES))
            sizes = numbers.choice(SHAPES) if made else numbers.choice(SHAPES[:20])
            made[name] = f"{dtype} [{', '.join(map(str, sizes))}] {layout} {kind}"
        for name in "kq"[:numbers.choice([0, 0, 0, 1, 2])]:
            made[name] = "number"
        return made

    def some_calls(self):
        numbers, calls = self.numbers, []
        mode, kinds = numbers.choice(MODES), {"k": numbers.choice(["int", "int", "bool"]), "q": numbers.choice(["float", "float", "int"])}
        while len(calls) < CALLS:
            call = {name: numbers.choice(SIZES) for name in symbols(self.arguments)}
            if call and numbers.random() < 0.15:
                call[numbers.choice(list(call))] = 129
            for name, text in self.arguments.items():
                if text == "number":
                    call[name] = self.some_number(kinds[name])
            call.update(seed=numbers.randrange(1000), mode=mode)
            with contextlib.suppress(Exception):
                drawn(self.arguments, call)
                calls.append(call)
                continue
            call.update({name: max(call[name], 3) for name in symbols(self.arguments)})
            with contextlib.suppress(Exception):
                drawn(self.arguments, call)
                calls.append(call)
                continue
            for name, text in list(self.arguments.items()):   # this alias never fits
                if text.startswith("="):
                    del self.arguments[name]
        return calls

    def some_number(self, kind):
        draw = {"int": lambda: self.numbers.choice([0, 1, 2, 3, 5, -1]), "bool": lambda: self.numbers.random() < 0.5,
                "float": lambda: self.numbers.choice([0.0, 1.0, 0.5, -2.0, 0.1, 1e6])}
        return draw[kind]()

    # --- operands

    def tensors(self, test):
        names = self.scopes[0].names
        return [name for name in self.pool if name in names and small(names[name]) and test(names[name])]

    def value(self, name):
        return self.scopes[0].names.get(name)

    def choose(self, names):
        """The newest names more often, so that programs are chains rather than brooms."""
        return self.numbers.choices(names, [1 + 3 * (i / len(names)) ** 2 for i in range(len(names))])[0] if names else None

    def operand(self, place, filled, template):
        steady = lambda name: name not in self.near or "steps" not in template.flags
        tests = {"f": lambda t: t.is_floating_point(), "g": lambda t: t.is_floating_point(), "b": lambda t: t.dtype == torch.bool,
                 "i": lambda t: not t.is_floating_point() and not t.is_complex() and t.dtype != torch.bool}
        tests["j"] = tests["i"]
        if place in "xyzfgijbw":
            names = [name for name in self.tensors(tests.get(place, lambda t: True)) if steady(name)]
            first = next((filled[p] for p in "xfw" if p in filled), None)
            if first is not None and place in "yzgb" and self.numbers.random() < 0.7:
                names = [n for n in names if self.fits(self.value(first), self.value(n))] or names
            return self.choose(names)
        if place in "de":
            first = next((filled[p] for p in "xfw" if p in filled), None)
            rank = self.value(first).dim() if first else 0
            return str(self.numbers.randrange(-rank, rank) if rank else 0)
        if place == "t":
            return self.numbers.choice(DTYPES)
        if place == "q":
            return None
        return self.number(place)

    def fits(self, a, b):
        try:
            torch.broadcast_shapes(a.shape, b.shape)
        except RuntimeError:
            return False
        return True

    def number(self, place):
        names = [name for name in self.scopes[0].names if name in self.arguments or name.startswith("v")]
        kinds = (int,) if place == "k" else (int, float, bool)
        found = [name for name in names if type(self.value(name)) in kinds and name not in self.near]
        if found and self.numbers.random() < 0.6:
            return self.numbers.choice(found)
        return self.numbers.choice(["0", "1", "2", "3", "-1"] if place == "k" else NUMBERS)

    def filled(self, template):
        """(text, first operand, operands with what is written first), or None where an operand is missing."""
        text, places = template.text, {}
        if "{q}" in text:
            text = text.replace("{q}", self.numbers.choice(CONDITION_LINES))
        order = sorted(dict.fromkeys(PLACE.findall(text)), key=lambda p: (p in "de", "xfw".find(p) if p in "xfw" else 3))
        for place in order:
            if place == "v":
                continue
            places[place] = self.operand(place, places, template)
            if places[place] is None:
                return None
        first = next((p for p in PLACE.findall(text) if p in places), None)
        written = places.get("w")
        operands = [p for p in dict.fromkeys((written, *places.values())) if p]
        return PLACE.sub(lambda match: places.get(match[1], match[0]), text), places.get(first), operands

    # --- steps

    def grow(self):
        template = self.numbers.choice(TEMPLATES[pick(self.numbers, self.sections)])
        found = self.filled(template)
        if found is None:
            return
        text, first, operands = found
        target = f"v{len(self.steps)}"
        binds = not template.statement or "{v}" in template.text
        text = text.replace("{v}", target) if template.statement else f"{target} = {text}"
        sums = "sums" in template.flags
        scaled = not self.scaled.isdisjoint(re.findall(r"\w+", text))
        exact = sums and not scaled and self.sums_are_exact(first)
        errors = [scope.run(text) for scope in self.scopes if scope.alive]
        if any(errors) and any(lacks_memory(value) for scope in self.scopes for value in list(scope.names.values())):
            self.steps_end = True
            return
        if sums and not (exact and self.sums_are_exact(first)):   # it may have written its operand
            template = dataclasses.replace(template, flags=template.flags | {"near"})
        if any(errors) and not self.keeps(errors):
            for scope in self.scopes:
                scope.names.pop(target, None)
            return
        for scope, error in zip([s for s in self.scopes if s.alive], errors):
            scope.alive = scope.alive and error is None
        host = "host" in template.flags or any(condition in text for condition in (" if ", "while ", "assert "))
        self.steps.append(Step(text, target if binds else "", host, template.text))
        self.after(target, template, operands, errors)
        if scaled:
            self.scaled.add(target)
            self.spread(operands if "writes" in template.flags or template.statement else [], self.scaled)

    def sums_are_exact(self, operand):
        """In the draws tried, and by the kinds of values in all others. Integers may be summed as floats."""
        kinds = {parts["values"] for parts in map(TENSOR.fullmatch, self.arguments.values()) if parts and ("float" in parts["dtype"] or parts["values"] == "special")}
        return kinds <= ON_GRID and all(operand in scope.names and on_grid(scope.names[operand]) for scope in self.scopes if scope.alive)

    def keeps(self, errors):
        """A step that fails everywhere ends the program; one that fails for one draw goes on with the other."""
        return self.numbers.random() < (0.02 if all(errors) else 0.08)

    def after(self, target, template, operands, errors):
        if not self.scopes[0].alive and any(scope.alive for scope in self.scopes):
            self.scopes.reverse()
        value = self.value(target)
        made = [target] if isinstance(value, torch.Tensor) else []
        if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
            made = [f"{target}[{i}]" for i, part in enumerate(value[:3]) if isinstance(part, torch.Tensor)]
            for scope in self.scopes:
                scope.names.update({n: scope.names[target][i] for i, n in enumerate(made) if target in scope.names and i < len(scope.names[target])})
        self.pool += made
        if SOMETIMES_VIEWS.search(template.text):
            family = set(made).union(*(self.kin.get(name, {name}) for name in operands))
            self.kin.update(dict.fromkeys(family, family))
        if "near" in template.flags or any(name in self.near for name in operands) or target in self.near:
            self.near.update([*made, target])
            self.spread(operands if "writes" in template.flags or template.statement else [], self.near)

    def spread(self, written, names):
        """What shares memory with something written by such values is such a one."""
        storages = {self.value(n).untyped_storage()._cdata for n in written[:1] if isinstance(self.value(n), torch.Tensor)}
        for name in self.pool:
            value = self.value(name)
            if isinstance(value, torch.Tensor) and value.untyped_storage()._cdata in storages:
                names.update(self.kin.get(name, {name}))

    def results(self):
        names = self.tensors(lambda t: True) or self.pool
        chosen = [self.choose(names) for _ in range(self.numbers.choice([1, 1, 2, 3]))]
        plain = [step.target for step in self.steps if step.target and step.target not in self.pool and step.target in self.scopes[0].names]
        if plain and self.numbers.random() < 0.6:
            chosen.append(self.numbers.choice(plain))
        return tuple(dict.fromkeys(chosen)) if self.numbers.random() < 0.95 else tuple(chosen)

    def program(self):
        wanted, tries = self.numbers.choice([1, 2, 3, 3, 4, 4, 5, 6, 8, 12]), 0
        while len(self.steps) < wanted and tries < 60 and not self.steps_end and any(scope.alive for scope in self.scopes):
            self.grow()
            tries += 1
        return Program(dict(self.arguments), tuple(self.steps), self.results(), tuple(self.calls), frozenset(self.near))


def generated(seed, **settings):
    """Nothing that a step changes outside of its own draw is left behind."""
    state, mode = torch.get_rng_state(), torch.is_grad_enabled()
    try:
        with torch.no_grad():
            torch.manual_seed(seed)
            return Generator(seed, **settings).program()
    finally:
        torch.set_rng_state(state)
        torch.set_grad_enabled(mode)
