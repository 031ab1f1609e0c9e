"""Generates, runs, cuts down, counts. Programs run in children, a batch of them in each."""

import dataclasses
import functools
import itertools
import random
import signal

import torch

from arguments import drawn, symbols

from check import Difference, check, run_eagerly
from children import Ended, child
from findings import alike, signature
from generate import generated
from program import Program, Step
from shrink import shrunk
from states import DISTURBANCES, MODES
from vocabulary import WEIGHTS

ENDLESS = 120   # seconds
BATCH = {"call": 60, "exits": 60, "replay": 60, "compile": 12, "train": 12, "exported": 12, "guards": 40, "states": 40, "states-replay": 40}
STATES = {"states": "call", "states-replay": "replay"}
WAY_OF = {**STATES, "guards": "call", "exits": "call"}   # kinds that are not called as the way that they run
MANY = 30
# Many writes, many looks at values behind them.
EXITS = {**WEIGHTS, "writes": 14, "items": 4, "control": 9, "control_sums": 1, "random": 2}
FEWER = {"compile": 4, "train": 4, "exported": 4}   # calls of a program, where each may cost a second


def warm():
    """What the first use of each way imports is imported once, here, and not in every child."""
    torch.set_num_threads(1)
    program = Program({"a": "float32 [n] contiguous grid"}, (Step("v0 = a + 1", "v0"),), ("v0",), ({"n": 2},) * 3)
    for kind in BATCH:
        check(program, WAY_OF.get(kind, kind))


def made(seed, kind):
    """The program of a seed, for a kind of fuzzing."""
    if kind in STATES:
        return with_states(generated(seed, sections={**WEIGHTS, "random": 0}), random.Random(seed))
    if kind == "exits":
        return with_exits(generated(seed, sections=EXITS), seed)
    program = generated(seed)
    if kind == "train":
        return with_gradients(program)
    if kind == "guards":
        return with_all_sizes(program, random.Random(seed))
    calls = program.calls[:FEWER.get(kind)]
    return dataclasses.replace(program, calls=[without_negatives(call) for call in calls] if kind == "exported" else calls)


class NoEnd(BaseException):
    """No Exception: the generator takes these for an answer of the program, and goes on."""


def made_in_time(seed, kind):
    """The generator runs what it makes: a loop that has no end is no program."""
    def give_up(*_):
        raise NoEnd

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(ENDLESS)
    try:
        return made(seed, kind)
    except NoEnd:
        return None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def without_negatives(call):
    """A file's range of an integer begins at 2, for which 0 and 1 are let in, and nothing below (docs/exported.md)."""
    return {name: abs(value) if type(value) is int else value for name, value in call.items()}


def with_gradients(program):
    """Gradients are sums in an order of their own."""
    calls = tuple({**call, "mode": "grad"} for call in program.calls[:FEWER["train"]])
    return dataclasses.replace(program, calls=calls, near=program.near | {"gradients"})


def with_exits(program, seed):
    """Each exit, each second or third one is taken, though a side trace fits; each call comes twice, so that there is one."""
    return dataclasses.replace(program, calls=(*program.calls, *program.calls), options=(("force_exits", 1 + seed % 3),))


def with_states(program, numbers):
    """Each call under a mode and a disturbance of its own; the first as it is, the rest mostly of the same sizes, so that they are served."""
    calls = [{**numbers.choice([program.calls[0], call]), "mode": numbers.choice(list(MODES)), "state": numbers.choice(DISTURBANCES)}
             for call in program.calls + program.calls[1:]]
    for call in calls:
        if (call["mode"], call["state"]) == ("vmap", "thread"):   # vmap's tensors belong to the thread that made them, in eager too
            call["state"] = "threads"
    return dataclasses.replace(program, calls=(program.calls[0], *calls))


def with_all_sizes(program, numbers):
    """Every combination of small sizes: whatever a version's guards compare, calls lie on both sides of it."""
    names = symbols(program.arguments)
    grid = [dict(zip(names, sizes)) for sizes in itertools.product(range(5), repeat=len(names))]
    calls = [{**program.calls[0], **sizes} for sizes in numbers.sample(grid, min(len(grid), MANY))]
    return dataclasses.replace(program, calls=(*program.calls[:2], *filter(functools.partial(drawable, program), calls)))


def drawable(program, call):
    try:
        drawn(program.arguments, call)
    except Exception:
        return False
    return True


def batch(kind, seeds):
    """In a child: says which seed it is at, and what is found."""
    for seed in seeds:
        yield "at", seed
        found = check(made(seed, kind), WAY_OF.get(kind, kind))
        if found:
            yield "found", found


def one(program, way):
    yield check(program, way)


def alone(program, way):
    run_eagerly(program, way)
    yield None


def ends_in_eager(program, way):
    """Whether it hangs, or ends the process, without us."""
    try:
        list(child(alone, program, way))
    except Ended:
        return True
    return False


def outcome(program, way):
    """The Difference of one program in a child of its own, or None."""
    try:
        return next(iter(list(child(one, program, way))), None)
    except Ended as ended:
        return Difference(way, ended.kind, ended.text)


class Fuzzer:
    """`most`: so many failures are cut down, the rest is counted only."""

    def __init__(self, findings, say=print, most=1000):
        self.findings, self.say, self.most, self.programs, self.found = findings, say, most, {}, 0

    def run(self, kind, first, count):
        """Programs of `count` seeds. A child that ends takes only the program with it that it was at."""
        seeds = list(range(first, first + count))
        while seeds:
            at = seeds[0]
            try:
                for what, value in child(batch, kind, list(seeds)):
                    if what == "at":
                        at = value
                        self.programs[kind] = self.programs.get(kind, 0) + 1
                    else:
                        self.take(made(at, kind), value, at)
                return
            except Ended as ended:
                program = made_in_time(at, kind)
                if program is not None and not ends_in_eager(program, WAY_OF.get(kind, kind)):
                    self.take(program, Difference(WAY_OF.get(kind, kind), ended.kind, ended.text), at)
                seeds = seeds[seeds.index(at) + 1:]

    def take(self, program, found, seed):
        self.found += 1
        known = self.findings.explains(program, found)
        if known:
            return self.findings.count(known)
        if len(self.findings.known) >= self.most:
            return None
        small, seen = self.smallest(program, found)
        key = signature(small, seen)
        if key in self.findings.known:
            return self.findings.count(key)
        small = dataclasses.replace(small, ways=(seen.way,), note=f"{seen.kind}: {seen.text} (seed {seed}, {seen.way})")
        name = self.findings.add(key, small, seen, seed)
        self.say(f"\n--- {name}: {seen.kind}: {seen.text}\n    seed {seed}, call {seen.call} of {list(small.calls)}\n    {small.arguments}\n{small.source()}", flush=True)

    def smallest(self, program, found):
        last = [found]

        def fails(candidate):
            seen = outcome(candidate, found.way)
            same = alike(found, seen)
            if same:
                last[0] = seen
            return same

        if not fails(program):
            return program, dataclasses.replace(found, text=found.text + " [not again in a process of its own]")
        return shrunk(program, fails), last[0]
