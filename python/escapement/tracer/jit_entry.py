"""One key of a jitted function: its Region, the program that the region runs, and how results are put together.

The region knows tensors and integers; this file turns them into the arguments the function was written for, and its result
into leaves with the number of its structure as the last one (which recording a call hits decides what it returns).

While recording it also watches what must not happen unseen: an exception that only symbols bring about, a rebound attribute,
a changed argument container. Attempt is the evidence.
"""

import dis
import itertools
import os
import re
import sys
import threading
import weakref

import torch

from ..core import core
from ..errors import EscapementError
from ..limits import RESULTS
from ..locks import fork_safe_lock
from ..recording import symbols
from ..recording.arithmetic import NUMBERS
from ..recording.locator import FRAMEWORK, FrameLocator
from ..recording.number_calls import numbers_are_called
from .aftermath import recorded_in
from .cached_calls import plain_numbers_are_cached
from .caught import type_errors_noticed
from .compiled_callees import callees_run_their_own_code
from .indexing import numbers_select
from .json_numbers import json_reads_them
from .numpy_products import numpy_multiplies_them
from .number_types import numbers_have_types
from .objects import is_a
from .outside import calls_watched, collect_garbage
from .ran import seen_whole
from .results import Builder, Ended, Results, attributes_of_dict, changed, held_by, is_marked, snapshot, store
from .size_arguments import sizes_are_said
from .tree import KEY, Copies, Reader, Unsupported, generators_in, leaf_names, unflatten
from .watch import host_state, put_back_draws, same_state

RECORDING = set()     # identities of the threads that record a jitted function
os.register_at_fork(after_in_child=lambda: RECORDING.intersection_update({threading.get_ident()}))


class Bypass(EscapementError):
    """The function has run, but its result cannot pass through a region."""

    SAID = "an object in the result is not supported"

    def __init__(self, result):
        super().__init__(self.SAID)
        self.result = result


class Marked(Bypass):
    """Somebody put Python attributes on the tensors of a recording, which would go with them."""

    SAID = "a tensor has an attribute of Python's when the recording ends"


class NeedsTape(EscapementError):
    """The program asked for gradients while it was recorded."""


class Attempt:
    """What was true when a recording started, to tell whether the program may be run again."""

    def __init__(self, tensors, generators, host, undo_host):
        """`host()`: Python's own state, as far as it is looked at."""
        self._tensors, self._host, self._before = tensors, host, host()
        self._versions = None if tensors is None else versions(tensors)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(KEY)):
            self._random = [(generator, generator.get_state()) for generator in (torch.default_generator, *generators)]
        self._world, self._written, self._undo, self._steady = core().World(), True, None, True
        self._undo_host = undo_host
        core().keep_undo()

    def note_end(self):
        """While the recording is not over."""
        self._written, self._steady = core().has_written(), self.steady()
        self._undo = self._undo or core().take_undo()

    def steady(self):
        """Whether Python's state is what it was."""
        (held, *rest), (held_before, *rest_before) = self._host(), self._before
        return same_state(held_before, held) and rest_before == rest

    def changed_host(self):
        return not self._steady

    def wrote(self):
        return self._written

    def wants_gradients(self):
        with plainly():
            return self._tensors is None or any(tensor.requires_grad for tensor in self._tensors)

    def repeatable(self):
        if self._tensors is None or self._world.changed() or self._written and not self._undo.possible():
            return False
        return versions(self._tensors, self._undo if self._written else None) == self._versions

    def restore(self):
        if self._written:
            self._undo.restore()
        if not self._steady:
            self._undo_host.restore()
        for generator, state in self._random:
            generator.set_state(state)
        put_back_draws(self._before[-1])


def versions(tensors, undo=None):
    """Counts of writes, of those that have one: what compiled code inside the program wrote, the recording did not see. `undo`: those before what it knows."""
    with plainly():
        before = [undo and undo.count_before(tensor) for tensor in tensors]
        return [version_of(tensor) if count is None else count for tensor, count in zip(tensors, before)]


def version_of(tensor):
    try:
        return None if tensor.is_inference() else tensor._version
    except RuntimeError:   # its data was replaced by those of a tensor that counts nothing (`x.data = y`)
        return None


def plainly():
    """What is asked of a tensor is not the program's to answer: a parameter that is not initialised yet raises, a tensor of its own class may do anything."""
    return torch._C.DisableTorchFunctionSubclass()


class Entry:
    def __init__(self, fn, name, table, family, structure, leaves, options, leaf_names=None, specs=None):
        """`specs`: what the core is told about each leaf, by name (jit_dims.py)."""
        symbols.install()
        self.table, self.family, self._fn, self._structure = table, family, fn, structure
        self._floats = [type(leaf) is float for leaf in leaves]
        self._integers = [type(leaf) is int for leaf in leaves]
        self._lock, self._numbers, self._failures, self._ended, self._put_away, self._given = fork_safe_lock(), {}, {}, {}, {}, {}
        self.ever_put_away = False
        self.results, self.recipes, self.reason, self.runs = [], [], None, 0
        self.lone = sum(isinstance(leaf, torch.Tensor) for leaf in leaves) < 2   # no two arguments can be one tensor
        self.leaf_names, self.dim_facts, self.held = leaf_names, [], 0   # `held`: versions that kept to the declared dims
        self.region = core().Region(weakly(self), specs or input_specs(leaves), options, name, False)
        self._generators = *generators_in(structure), *table.watch.generators
        for generator in self._generators:
            self.region.know_generator(generator)
        self.region.host_may_ask()
        self.region.replay_after_budget()   # sound, since the function itself then runs at every call
        self._locator = FrameLocator(Entry._run.__code__, catching(self))
        self.region.set_locator(self._locator)

    @property
    def has_integers(self):
        return any(self._integers)

    def give_up(self, reason):
        self.reason = reason
        self.table.withdraw(self)

    def dim_lines(self):
        """For info(): one line for each dim that was declared, or joined to one that was; the same in several versions once."""
        return [*dict.fromkeys(str(fact) for facts in self.dim_facts for fact in facts if fact.said)]

    def tensors(self, leaves):
        """The leaves as the region takes them: a float whose value varies is a tensor without axes."""
        if not any(self._floats):
            return leaves
        return [torch.scalar_tensor(leaf, dtype=torch.float64) if is_float else leaf
                for leaf, is_float in zip(leaves, self._floats)]

    # --- the program

    def forward(self, *leaves):
        if not core().recording():   # eagerly, or in replay mode
            outputs = self._run(leaves)
            self.take_ended()
            return outputs
        thread, watch = threading.get_ident(), self.table.watch
        code = {}
        attempt = Attempt(caller_tensors(sys._getframe(2), watch), self._generators, lambda: (watch.state(), watch.plain_key(), host_state(watch.randoms)), watch.undo())
        try:
            RECORDING.add(thread)
            symbols.note_numbers()
            note_given(leaves)
            plain_numbers_are_cached()
            numbers_are_called()
            self._locator.saw_gradients = False
            with (json_reads_them(), numpy_multiplies_them(), numbers_select(), sizes_are_said(), callees_run_their_own_code(), calls_watched(code),
                  type_errors_noticed(watch.handlers) as caught, watch.metadata.asking() as asked):
                watch.ask_of_gradients(asked)
                with numbers_have_types(watch.type_spaces):
                    outputs = self._run(leaves)
                whole = seen_whole(code)
            if caught.error is not None:
                error, caught.error = caught.error, None
                try:
                    raise error
                finally:
                    del error   # its traceback holds this frame
            self._refuse_tape(attempt)
        except Exception:
            self._note_end(attempt)
            self._failures[thread] = attempt
            raise
        except BaseException as error:
            try:
                self._note_end(attempt)
            finally:
                raise error   # whatever the notes come to
        finally:
            RECORDING.discard(thread)
        self.take_ended()
        steady = attempt.steady() and watch.metadata.is_steady(asked)
        if not steady:   # weakly: what is kept until the recording's end, the core takes for the program's doing
            self._given[thread] = [weakref.ref(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        self._judge(steady)
        self._judge_what_ran(watch.searched, code, whole)
        if steady and watch.metadata.learn(asked):
            renew(self.table)
        return outputs

    def _note_end(self, attempt):
        attempt.note_end()
        if attempt.changed_host():
            self._judge(False)

    def _refuse_tape(self, attempt):
        """Wrappers carry no tape: a region with gradients inside no_grad. (Of an argument that was made to require them the core knows.)"""
        attempt.note_end()
        switched = self._locator.saw_gradients and not torch.is_grad_enabled()
        if switched and attempt.wants_gradients():
            raise NeedsTape("the function switches gradients on")

    def _run(self, leaves):
        self.runs += 1   # of the function itself: what the core answers from compiled code is not counted
        made = []
        args, kwargs = self._arguments(leaves, made)
        before = snapshot(made)
        self.take_put_away()   # of a run that did not end here
        self._ended[threading.get_ident()] = Ended(made, before, leaves, (args, kwargs))   # if it ends otherwise than here
        return self._flattened([self._fn(*args, **kwargs)], made, before, leaves, (args, kwargs))

    def _flattened(self, box, made, before, leaves, given):
        """`box`: the result, which nothing else here holds."""
        copies = Copies()
        copies.bind(made)
        flat = Results(copies)
        try:
            structure = flat.flatten(box[0])
            contents = tuple((number, flat.content(made[number])) for number in changed(made, before))
        except Unsupported as error:
            raise Bypass(box[0]) from error
        if any(map(attributes_of_dict, made)):
            raise Bypass(box[0])
        if core().recording() and any(map(is_marked, (*leaves, *flat.leaves))):
            raise Marked(box[0])
        if flat.held_elsewhere(box) and not (core().recording() and collect_garbage() and not flat.held_elsewhere(box)):
            raise Bypass(box[0])
        if made and flat.given_held(box, made, [*given, *held_by(before)]):
            self._put_away[threading.get_ident()], self.ever_put_away = made, True
        number = self._number(structure, contents)
        if number >= RESULTS:
            raise Bypass(box[0])
        return [*flat.leaves, number]

    def _arguments(self, leaves, made):
        values = Reader([leaf.item() if is_float else leaf for leaf, is_float in zip(leaves, self._floats)])
        positional, keywords, named = self._structure
        args = [unflatten(child, values, made) for child in positional]
        return args, {key: unflatten(child, values, made) for key, child in zip(keywords, named)}

    def _number(self, structure, contents):
        with self._lock:
            if generators_in((structure, contents)):
                self.table.health.keeps_generators = True
            number = self._numbers.setdefault((structure, contents), len(self.results))
            if number == len(self.results) and number < RESULTS:
                recipe = None if contents else recipe_of(structure)
                self.recipes.append(recipe[0] if recipe else NotImplemented)
                self.results.append(builder(structure, contents))
            return number

    def _judge(self, steady):
        """A program that changes state while it is recorded would do so at every call: this recording must not be kept."""
        health = self.table.health
        if steady:
            health.unstable = 0
            return
        health.unstable += 1
        health.leaks = True
        self.table.forget(self)

    def _judge_what_ran(self, searched, code, whole):
        """What code reads that the search has left out is not compared."""
        instead = searched.instead(code, whole)
        if instead is not None:
            self.table.health.ran = instead
            self.table.forget(self)

    def take_failure(self):
        return self._failures.pop(threading.get_ident(), None)

    def take_put_away(self):
        """The copies of the caller's containers, if the function has put one of them somewhere."""
        return self._put_away.pop(threading.get_ident(), ())

    def take_given(self):
        """What stood for the leaves of the call that was recorded, where somebody still holds it."""
        return [reference and reference() for reference in self._given.pop(threading.get_ident(), ())]

    def take_ended(self):
        return self._ended.pop(threading.get_ident(), None)


def note_given(leaves):
    """Numbers among the arguments: the function may put them anywhere, as those that it makes."""
    for leaf in leaves:
        if is_a(leaf, NUMBERS):
            symbols.noted(leaf)


def renew(table):
    """Its recordings depend on more than was known: what the core compares, too."""
    table.follow(table.watch)
    table._changed(table)


def call_names(structure, parameters):
    """What the leaves of a call are to the user, in order. `parameters`: the names of the positional ones, and of the rest."""
    positional, keywords, named = structure
    names, rest = parameters
    roots = itertools.chain(names, (f"{rest}[{i}]" for i in itertools.count()))
    pairs = [*zip(roots, positional), *zip(keywords, named)]
    return [found for name, child in pairs for found in leaf_names(child, name)]


def weakly(entry):
    """The region's program. It does not own the entry, which owns the region: memory goes when the entry does."""
    reference = weakref.ref(entry)
    return lambda *leaves: reference().forward(*leaves)


def catching(entry):
    """Tells the region, which holds who calls this, that the program catches errors."""
    reference = weakref.ref(entry)
    return lambda: reference().region.errors_may_be_caught()


def input_specs(leaves):
    numbers = itertools.count()
    return [("int", next(numbers)) if type(leaf) is int else ("tensor", []) for leaf in leaves]


def caller_tensors(frame, watch):
    """The real tensors of the call being recorded, from the frame that called the region, and those of the modules."""
    given = frame.f_locals.get("leaves")
    if given is None:
        return None
    return [leaf for leaf in given if isinstance(leaf, torch.Tensor)] + watch.tensors


def builder(structure, contents):
    """(outputs of the region, the caller's containers) -> the function's result."""
    def general(found, originals):
        builder = Builder(iter(found), originals)
        result = builder.build(structure)
        for number, content in contents:
            store(originals[number], builder.content(content))
        return result

    return general


def recipe_of(structure):
    """(recipe,) of a result that the core can put together (structures.h), or None."""
    how = structure[0]
    if how == "leaf":
        return (None,)
    if how == "constant":
        return ((structure[1].value,),)
    if how == "argument":
        return (structure[1],)
    return None if how is torch.Size else container_of(structure, recipe_of)   # whose constructor is its own


def kind_of(structure):
    """(kind,) of an argument, or None if the core does not know such."""
    how = structure[0]
    if how == "constant":
        return ((structure[1].value,),)
    if how == "tensor":
        return (structure[1],)
    if how in ("int", "float"):
        return (int if how == "int" else float,)
    return container_of(structure, kind_of)


def container_of(structure, of_child):
    if not isinstance(structure[0], type):
        return None
    how, extra = structure[:2]
    plain = how in (tuple, list, torch.Size) or extra == "named" and how.__bases__ == (tuple,) and not how.__dictoffset__
    if not plain and not (how is dict and all(type(key.value) is str for key in extra)):
        return None
    children = [of_child(child) for child in structure[2]]
    names = tuple(key.value for key in extra) if how is dict else None
    return ([how, names, *(child[0] for child in children)],) if all(children) else None


RAISES = dis.opmap["RAISE_VARARGS"]


def is_raised_by_program(error):
    """By a `raise` or an `assert` in Python, not by what C code, or torch, made of its arguments."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace and trace.tb_frame.f_code
    return code is not None and code.co_code[trace.tb_lasti] == RAISES and not code.co_filename.startswith(FRAMEWORK)


SYMBOLS = re.compile(r"Sym(Int|Float|Bool)\b|\ban? int(eger)?\b")


def is_about_symbols(error):
    return isinstance(error, TypeError) and not is_raised_by_program(error) and SYMBOLS.search(str(error)) is not None


def is_done(error, failure):
    """Whether a run that ended otherwise than in known results is as good as eager's, so that nothing that it did need be done twice."""
    if isinstance(error, Marked):
        return False
    if isinstance(error, Bypass):
        return recorded_in(error.result)[1]
    return (failure.changed_host() or failure.wrote()) and is_raised_by_program(error)


def cannot_record(error):
    """Effects have happened, so the program cannot be run again; say where the error comes from."""
    if hasattr(error, "add_note"):
        error.add_note("escapement: raised while the function was being recorded, after it had changed its inputs; "
                       "run the function itself to see whether it is the program's own error")
    return error
