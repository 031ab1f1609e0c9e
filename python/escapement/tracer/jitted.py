"""escapement.jit(fn): plain eager code, recorded without Dynamo. docs/jit.md is the contract.

Call mode. A call is flattened (tree.py); everything that eager's behaviour depends on and that is no tensor, integer or
float is the key; each key has one Region of the core (jit_entry.py). Tensor sizes and integers are symbols in it, so a key
serves all of them. What a call cannot have compiled runs `fn` itself, counted under a reason of REASONS; only call mode's contract (Python state is read when recording, not at every call) is unguarded, and `check=` tests it.

The quick way, for arguments that all are tensors, numbers or constants, is the core's Entrance: calls that an existing version serves do not
reach Python at all. What it may serve is written in rows, which change with the table that they stand in. All other calls, and every
recording, come to __call__.
"""

import collections
import enum
import functools
import inspect
import threading
import types
import weakref

import torch
from torch.autograd import forward_ad

from ..core import CoreMissing, core
from ..errors import CompileError, DimError, OptionError
from ..interrupts import is_interrupt
from ..ledger import LEDGER
from ..limits import EXACT, FLOATS, GENERATORS, KEYS, REST, SERVED, SETTLED, TABLES, TURNS, UNSTABLE, WORTHWHILE
from ..locks import fork_safe_lock
from ..option_values import disabled, resolve
from ..recording import symbols
from ..recording.locator import place_of
from .aftermath import close_unstarted, hand_over, put_in_order, tensors_of
from .apart import Apart, Lying, holds_containers
from .check import Checker
from .homes import is_own
from .jit_entry import KEY, RECORDING, Bypass, Entry, Marked, NeedsTape, call_names, cannot_record, is_about_symbols, is_done, is_raised_by_program, kind_of
from .objects import is_a
from .outside import calls_watched
from .ran import Everything, Ran, seen_whole
from .replayed import replayed
from .results import copies_of, is_recorded, real
from .search import Kept, space_of
from .stand_ins import StandIns
from .tree import Constant, Copies, Unsupported, flatten, generators_in
from .watch import Watch

REASONS = {
    "gradient": "gradients are wanted; compiled code builds no tape",
    "unsupported_argument": "an argument is no tensor, number, constant or known container",
    "argument_elsewhere": "an argument is an object that the function also finds in a global, attribute or closure",
    "argument_attributes": "an argument is a tensor with attributes of Python that the function names",
    "unsupported_result": "a result is no tensor, number, constant or known container, or one that is held elsewhere, too",
    "tensor_attributes": "the function puts Python attributes on tensors, which a recording does not keep",
    "torch_mode": "a torch function mode, dispatch mode, functorch transform, torch.jit.trace or level of forward-mode derivatives is active",
    "too_many_values": "more values of numbers than there are versions for programs that must know them",
    "too_many_values_elsewhere": "attributes, globals or closure variables that the function reads take more values than there are versions for",
    "too_many_keys": "more kinds of calls (structures, strings, flags, torch's modes) than there are versions for",
    "recording_raised": "the program fails on symbolic sizes or numbers",
    "state_changed": "the program rebinds attributes, globals or closure variables",
    "state_not_compared": "the function reads what cannot be compared at every call: iterators, files, very large containers or arrays, objects nested very deep",
    "replaced": "parameters, buffers or submodules are replaced again and again with few calls between",
    "graph_break": "torch.compile breaks the graph at a tensor's value",
    "no_core": "the compiled core is missing",
    "disabled": "compilation is switched off",
}
# The function itself runs at every call, its operators are deferred: nothing is assumed of what stood in the way.
REPLAYED = {"unsupported_argument", "argument_elsewhere", "argument_attributes", "unsupported_result", "state_changed", "state_not_compared", "too_many_values_elsewhere", "tensor_attributes", "graph_break"}
# Reasons for which regions go on in replay mode, too: where they give nothing else, they are asked no more.
LASTING = {"made_unseen", "result_read", "data_dependent_guard", "too_many_exits", "too_many_recordings", "budget_used", "state_changed"}
# Reasons for which regions run the function as it is. Each time it is recorded up to where it is refused, and its result taken apart: they rest.
REFUSED = {"storage_access", "argument_reshaped", "unsupported_tensor", "unsupported_input", "recorder_refused"}
FAILURES = {Bypass: "unsupported_result", Marked: "tensor_attributes", NeedsTape: "gradient"}
REGION, STATE = 5, 8   # in a row

grad_mode, inference_mode, default_dtype = torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype
any_autocast = torch._C._is_any_autocast_enabled
function_modes, dispatch_modes = torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack
transforms, tracing = torch._C._functorch.peek_interpreter_stack, torch._C._get_tracing_state
is_dynamo_compiling = torch.compiler.is_dynamo_compiling


def jit(fn=None, dims=None, mode="call", check=None, **options):
    """`fn` recorded at its first call and compiled; also a decorator, with or without arguments."""
    if fn is None:
        return functools.partial(jit, dims=dims, mode=mode, check=check, **options)
    if mode == "replay" and callable(fn):
        return replayed(fn, dims, check, options)
    return jitted_type()(fn, dims, mode, check, options)


@functools.cache
def jitted_type():
    """Jitted behind the core's entrance; without a core, Jitted itself, which then runs everything eagerly."""
    try:
        entered = types.new_class("Jitted", (Jitted, core().Entrance))
    except CoreMissing:
        return Jitted
    core().enable_entrance(entered, RECORDING)
    return entered


class Health:
    """What went wrong with one function's recordings, over all its tables."""

    def __init__(self):
        self.unstable = 0     # recordings in a row in which the program rebound some state
        self.leaks = False    # that state may hold tensors of a recording
        self.keeps_generators = False   # results hold generators
        self.dropped = 0      # times all versions were forgotten because what they hold was replaced
        self.wasted = 0       # of these in a row, those whose versions had hardly been used
        self.ran = None       # (what has run,), where a recording ran code that the search had left out


class Table:
    """All versions for one state of the modules' `training` flags, and of the plain values that the function reads from elsewhere."""

    def __init__(self, watch, flags, health, changed):
        self.flags, self.health, self._changed = flags, health, changed
        self._key_of = watch  # keeps what its key names by identity
        self.rows = ()        # what the core may serve, see entrance.cpp
        self.follow(watch)
        self.families = {}    # structure with all numbers dynamic, and ambient state -> Family
        self.settled = None   # the reason for which all further calls go on in replay mode
        self.unstable = False # settled because the program changes its state itself, or it cannot be compared
        self.floats = False   # whatever plain values are read: there are too many
        self._unserved, self._hits, self._lasting, self._refused = collections.Counter(), 0, 0, 0
        self.rests_for, self._rest, self._left = None, REST, 0   # the reason for which the next calls run eagerly; how many at a time, and still

    def move(self, watch):
        """To its key."""
        self._key_of = watch
        self.follow(watch)

    def follow(self, watch):
        """The function was searched anew, and all that it reads is the same."""
        self.watch, self._plain, self._lying = watch, watch.plain_contents(), None
        self._state = None if watch.empty else watch.contents() or self
        self.rows = tuple((*row[:STATE], *self._beside(row[0]), *row[STATE + 2:]) for row in self.rows)

    def current(self):
        if self.unstable:   # nothing is assumed of what changes at each call
            return self.watch.flags() == self.flags
        return self.watch.empty or (self.floats or self._plain.same()) and self.watch.same() and self.watch.flags() == self.flags

    def note(self, served, reason=None):
        """Whether a version answered a call that came here; the quick way's do not."""
        if not served:
            self._unserved[reason] += 1
            if self._unserved.total() >= SETTLED:
                self._settle()

    def _settle(self):
        reasons, self._unserved = self._unserved, collections.Counter()
        regions = [entry.region.info() for family in [*self.families.values()] for entry in [*family.entries.values()]]   # others may add
        before, self._hits = self._hits, sum(version["hits"] for region in regions for version in region["versions"])
        lasting, refused = fallbacks(regions, LASTING), fallbacks(regions, REFUSED)
        earlier, self._lasting = self._lasting, lasting.total()
        refused_earlier, self._refused = self._refused, refused.total()
        if self._hits - before >= SERVED * SETTLED:
            return   # the quick way serves most calls of this function
        del reasons[None]
        if reasons.total() >= SETTLED // 2:
            self.settled = reasons.most_common(1)[0][0]
        elif self._lasting - earlier >= SETTLED // 2:
            self.settled = lasting.most_common(1)[0][0]
        elif self._refused - refused_earlier >= SETTLED // 2:
            self.rests_for, self._left = refused.most_common(1)[0][0], self._rest
        if self.settled or self.rests_for:
            self.rows = ()
            self._changed(self)

    def rests(self):
        """Whether this call runs eagerly at once. After the last of them all is tried anew."""
        self._left -= 1
        if self._left >= 0:
            return True
        self.rests_for, self._rest, self._refused, self.families = None, 2 * self._rest, 0, {}
        return False

    def withdraw(self, entry):
        """From the quick way."""
        self.rows = tuple(row for row in self.rows if row[REGION] is not entry.region)
        self._changed(self)

    def offer(self, entry, state, kinds, names):
        beside = self._beside(kinds)
        if self.current():   # still, when that was looked at
            self.rows = (*self.rows, (kinds, names, *state, entry.region, entry.results, entry.lone, *beside, entry.recipes))
            self._changed(self)

    def _beside(self, kinds):
        """Of a row: the state in which it serves, and the identities of what no argument may be."""
        if not holds_containers(kinds) or not self.lying().ids:
            return self._state, self.watch.elsewhere
        known = self.watch.elsewhere | self.lying().ids
        return self.watch.contents(True) or Apart(self, known), known

    def lying(self):
        lying = self._lying   # another thread may come between
        if lying is None or not lying.same():
            lying = self._lying = Lying(self.watch.plain.places)
        return lying

    def meets(self, containers):
        """Whether the function finds one of these elsewhere, too; what only a new search can tell is not asked here."""
        return not containers.isdisjoint(self.lying().ids)

    def clear(self):
        self.rows = ()
        for family in self.families.values():
            family.entries.clear()
        self._changed(self)

    def forget(self, entry):
        """The next such call records anew."""
        self.withdraw(entry)
        for key, kept in list(entry.family.entries.items()):
            if kept is entry:
                entry.family.entries.pop(key, None)

    def repair(self):
        """Attributes that hold a tensor or number of a finished recording get the real one."""
        self.health.leaks = False
        self.watch.replace(is_recorded, real)


def fallbacks(regions, reasons):
    """How often regions ran the function for each of these."""
    found = collections.Counter()
    for region in regions:
        found.update({why: times for why, times in region["fallbacks"].items() if why in reasons})
    return found


class Family:
    """The entries of calls that differ in the values of numbers only."""

    def __init__(self):
        self.entries = {}
        self.exact = False    # integers too are constants: the program failed on symbolic ones


class Jitted:
    """The compiled function. Attributes that it lacks are those of what it wraps."""

    def __init__(self, fn, dims, mode, check, options):
        checked_arguments(fn, mode)
        own = self.__dict__   # __setattr__ forwards to what is wrapped
        own.update(_fn=fn, _mode=mode, _given=(dims, mode, check, options), _lock=fork_safe_lock())
        own.update(_tables={}, _table=None, _kinds=frozenset(), _health=Health(), _options=resolve(None, options), _replayed=None)
        own["_checker"] = Checker(fn, check, self.run_entry)
        wrapped = fn.forward if isinstance(fn, torch.nn.Module) else fn
        own["_parameters_named"] = parameter_names(wrapped)
        own["_switched_off"] = gradients_switched_off(fn)
        own.update(_generators=0, _stand_ins=None, _ran=Everything(), _turns=0)
        own["_dims"] = declared(fn, dims, self._options) if dims else None
        own["escapement_contract"] = self._dims and self._dims.contract
        own.update({name: getattr(wrapped, name) for name in functools.WRAPPER_ASSIGNMENTS if hasattr(wrapped, name)})
        own["__wrapped__"], own["_kept_as"] = fn, f"escapement.jit of {getattr(fn, '__qualname__', '')}"

    # --- calling

    def __call__(self, /, *args, **kwargs):
        if is_dynamo_compiling():   # what compiles the caller compiles this too
            return self._fn(*args, **kwargs)
        return self._call(args, kwargs)

    def _call(self, args, kwargs):
        if RECORDING and threading.get_ident() in RECORDING:
            if core().recording():
                return self._fn(*args, **kwargs)   # part of what is being recorded
            RECORDING.discard(threading.get_ident())   # an interrupt came before the end of a recording was noted
        if self._dims is not None:
            self._dims.check(args, kwargs)
        if function_modes() or dispatch_modes() or transforms() is not None or tracing() is not None or forward_ad._current_level >= 0:
            return self._eager("torch_mode", args, kwargs)
        if self._options["disable"] or disabled():
            return self._eager("disabled", args, kwargs)
        try:
            table = self._current_table()
            if self._generators > GENERATORS and self._may_lend(table, args, kwargs):
                with self._stand_ins.lent(args, kwargs) as (lent, named):
                    return self(*lent, **named)
            return self._compiled(table, args, kwargs)
        except Unsupported as error:
            return self._eager("unsupported_argument", args, kwargs, error)
        except CoreMissing as error:
            return self._eager("no_core", args, kwargs, error)

    def _may_lend(self, table, args, kwargs):
        """A function that keeps or hands back a generator gets the caller's own."""
        if self._stand_ins is None:
            with self._lock:
                self.__dict__["_stand_ins"] = self._stand_ins or StandIns()
        return not (self._health.unstable or self._health.keeps_generators) and self._stand_ins.needed(args, kwargs, table.watch.generators)

    def _compiled(self, table, args, kwargs):
        if table.settled and not core().has_begun_a_call():
            if table.settled == "state_not_compared" and self._may_follow_what_runs(table, args):
                return self._followed(table, args, kwargs)
            self._count(table.settled, self._unknown(table))
            return self._replay(args, kwargs)
        if table.rests_for and not self._options["strict"] and self._dims is None and table.rests():
            return self._eager(table.rests_for, args, kwargs)
        if grad_mode() and (any_requires_grad(args) or table.watch.needs_gradient()):
            return self._with_gradients(args, kwargs)   # before anything else is looked at: a training loop comes here at every call
        leaves, copies = [], Copies()
        structure = flatten_call(args, kwargs, leaves, copies, True)
        if copies.met and (table.meets(copies.met) or table.watch.meets(copies.met) and Watch(self._fn, self._kinds, self._ran).meets(copies.met)):
            return self._eager("argument_elsewhere", args, kwargs)
        if table.watch.asked and table.watch.may_be_asked(leaves):
            return self._eager("argument_elsewhere", args, kwargs)
        if grad_mode() and any_requires_grad(leaves):
            return self._with_gradients(args, kwargs)
        if any(map(table.watch.plain.is_named, core().attributed(leaves))):
            return self._eager("argument_attributes", args, kwargs, None, table)
        with self._lock:
            entry, leaves = self._entry(table, structure, leaves, args, kwargs)
        if isinstance(entry, str):
            return self._eager(entry, args, kwargs, None, table)
        run, before = self._checker.run if self._checker.active else self.run_entry, entry.runs
        try:
            result = run(entry, entry.tensors(leaves), copies.originals, args, kwargs)
        finally:
            if self._health.leaks:
                table.repair()
        if self._dims is None and not self._checker.active:
            table.note(entry.runs == before)
        if self._dims is not None and entry.runs != before:
            self._hold(entry, leaves, args, kwargs)
        return result

    # --- which code counts (ran.py)

    def _may_follow_what_runs(self, table, args):
        if self._turns or self._options["strict"]:
            return False
        return not (grad_mode() and (any_requires_grad(args) or table.watch.needs_gradient()))

    def _followed(self, table, args, kwargs):
        """Eagerly, to see what runs: of that perhaps everything can be compared."""
        self._count(table.settled, self._unknown(table))
        code = {}
        with calls_watched(code):
            result = self._fn(*args, **kwargs)
            whole = seen_whole(code)
        self._search_what_ran(Ran(code) if whole else None)
        return result

    def _unknown(self, table):
        return table.watch.unknown or ("code that nobody sees, or that is another one at each call" if self._turns > TURNS else None)

    def _search_what_ran(self, ran):
        """None: nobody knows."""
        with self._lock:
            own, before = self.__dict__, self._ran
            own["_turns"] = self._turns + 1 if ran else TURNS + 1
            own["_ran"], self._health.ran = ran if self._turns <= TURNS else Everything(), None
            kept = self._still_compared() if self._turns <= TURNS and type(before) is type(self._ran) else None
            for key in [key for key, table in self._tables.items() if table is kept]:
                del self._tables[key]   # which names what was searched until now
            self._release()
            own["_table"] = kept
            if kept is not None:
                self._tables[kept.watch.key()] = kept

    def _search(self):
        """What the function reaches now. Code that has run and that this does not meet is searched beside it."""
        watch = Watch(self._fn, self._kinds, self._ran)
        more = watch.searched.unmet()
        if more is None:
            return watch
        self.__dict__["_ran"] = more
        return Watch(self._fn, self._kinds, more)

    def _still_compared(self):
        """The table of the state that is, whose versions have read less than is compared from now on; None if they would be found no more."""
        if self._table is None or not self._table.current():
            return None
        watch = self._search()
        if watch.unknown:
            return None
        self._table.move(watch)
        return self._table

    def _with_gradients(self, args, kwargs):
        """Unless the function itself is one that switches them off."""
        if self._switched_off is None:
            return self._eager("gradient", args, kwargs)
        with self._switched_off():
            return self(*args, **kwargs)

    def _hold(self, entry, leaves, args, kwargs):
        """A version that does not keep to the declared dims is an error now, and again at the next such call."""
        try:
            with self._lock:
                self._dims.hold(entry, leaves, self.place, args, kwargs)
        except DimError:
            entry.table.forget(entry)
            raise

    def run_entry(self, entry, leaves, originals, args, kwargs):
        """One call of a region, without any check beside it."""
        before, failure = entry.runs, None
        try:
            found = entry.region(*leaves)
        except BaseException as error:
            if not isinstance(error, Exception) or is_interrupt(error):
                try:
                    self._stopped(entry, error, originals, leaves)
                finally:
                    raise error
            failure = error
        if failure is not None:   # no longer handled: what the function raises when it runs again has no context that eager has not
            try:
                return self._failed(entry, failure, leaves, originals, args, kwargs)
            finally:
                del failure
        if entry.runs != before:
            self._settle_run(entry, found, originals, leaves)
        return entry.results[found[-1]](found, originals)

    def _settle_run(self, entry, found, originals, leaves):
        """The function itself has run."""
        given, away = entry.take_given(), entry.take_put_away()
        pairs = [*(tensors_of(given, leaves) if self._health.leaks else ()), *copies_of(away, originals)]
        put_in_order(pairs, ours=(given, away, *away, pairs, *pairs))
        if grad_mode() and any_requires_grad(found):
            entry.give_up("gradient")   # through a tensor that no argument and no module holds

    def _stopped(self, entry, error, originals, leaves):
        """By what nobody can repeat. What the function has done until then is done."""
        entry.take_failure()
        hand_over(entry.take_ended(), error, originals, leaves)

    def _failed(self, entry, error, leaves, originals, args, kwargs):
        """An exception from a region: the program's own, or one that only symbolic values bring about."""
        failure, ended = entry.take_failure(), entry.take_ended()
        try:
            reason = "unsupported_result" if failure is None else FAILURES.get(type(error), "recording_raised")
            if failure is not None and failure.repeatable() and not is_done(error, failure):
                put_in_order(ended.given(leaves) if ended and failure.changed_host() else (), error=error)   # what the first run has kept
                if self._options["strict"] and self._needs_constants(entry, reason):
                    return self._once_more(failure, entry, args, kwargs)
                close_unstarted(error)
                result = self._again(failure, args, kwargs)
            else:
                result = hand_over(ended, error, originals, leaves)
                if not isinstance(error, Bypass):
                    self._raise(entry, error, failure, reason)
            if failure is not None:
                with self._lock:
                    self._forget(entry, reason)
            self._refuse_if_strict(reason, error)   # an error of the program's own has been raised above: it is eager's, too
            self._count(reason, error)
            return result
        finally:
            del error   # its traceback holds this frame: it would outlive its handler, and with it what the program's frames hold

    def _raise(self, entry, error, failure, reason):
        """What has been done is done. An int that C code wants would be missed by every recording."""
        if failure is not None and is_about_symbols(error):
            with self._lock:
                self._forget(entry, reason)
        try:
            raise error if failure is None or is_raised_by_program(error) else cannot_record(error)
        finally:
            del error

    def _again(self, failure, args, kwargs):
        failure.restore()
        return self._fn(*args, **kwargs)   # raises what eager raises

    def _needs_constants(self, entry, reason):
        return reason == "recording_raised" and not entry.family.exact and entry.has_integers

    def _once_more(self, failure, entry, args, kwargs):
        """Where nothing may run eagerly, the call itself is recorded with the numbers as constants, not only the next one."""
        failure.restore()
        with self._lock:
            self._forget(entry, "recording_raised")
        return self(*args, **kwargs)

    def _forget(self, entry, reason):
        """After a failure: once more with the numbers as constants, else eagerly from now on."""
        family = entry.family
        if self._needs_constants(entry, reason):
            family.exact = True
            family.entries.clear()
        else:
            entry.give_up(reason)
        entry.table.withdraw(entry)

    def _eager(self, reason, args, kwargs, detail=None, table=None):
        self._refuse_if_strict(reason, detail)
        self._count(reason, detail)
        if reason not in REPLAYED:
            return self._fn(*args, **kwargs)
        if table is not None and self._dims is None:
            table.note(False, reason)
        return self._replay(args, kwargs)

    def _refuse_if_strict(self, reason, detail=None):
        if self._options["strict"] and reason != "disabled":
            raise CompileError(f"{reason}: {REASONS.get(reason, reason)}{f' ({detail})' if str(detail or '') else ''}") from detail

    def _replay(self, args, kwargs):
        if self._replayed is None:
            self.__dict__["_replayed"] = replayed(self._fn, None, None, self._given[3])
        return self._replayed(*args, **kwargs)

    def _count(self, reason, detail):
        LEDGER.note_eager(self, reason, str(detail or ""))

    # --- versions

    def _current_table(self):
        if self._health.ran is not None:
            self._search_what_ran(*self._health.ran)
        table = self._table
        if table is not None and table.current():
            return table
        with self._lock:
            return self._new_table()

    def _new_table(self):
        watch = self._table.watch if self._table is not None else None
        if watch is not None and not watch.same():   # what the recordings hold is not what the function would use
            self._drop()
            watch = None
        if watch is None or not watch.reaches_the_same():
            watch = self._search()
        table = self._tables.get(watch.key())
        if table is None:
            table = self._table_for(watch)
        elif table.watch is not watch:
            table.follow(watch)
        self.__dict__["_table"] = table
        self._enter(table)
        return table

    def _table_for(self, watch):
        table = Table(watch, watch.flags(), self._health, weak_method(self._enter))
        if watch.plain.unknown or self._turns > TURNS:
            reason = "state_not_compared"
        elif self._health.unstable >= UNSTABLE:   # the program changes them itself
            reason = "state_changed"
        elif len(self._tables) >= TABLES:
            reason = "too_many_values_elsewhere"
        else:
            self._tables[watch.key()] = table
            return table
        table.floats, table.unstable, table.settled = True, reason != "too_many_values_elsewhere", reason
        return table

    def _enter(self, table):
        """Tells the core which calls it may serve. It forgets them with the table."""
        if type(self) is not Jitted and table is self._table:   # else there is no core
            core().set_rows(self, table.rows)

    def _drop(self):
        regions = [entry.region.info() for entry in self.entries()]
        hits = sum(version["hits"] for region in regions for version in region["versions"])
        self._health.dropped += 1
        self._health.wasted = 0 if hits >= WORTHWHILE else self._health.wasted + 1
        self._release()

    def _release(self):
        """Entries, families and tables name each other; without this their memory would wait for the collector."""
        for table in self._tables.values():
            table.clear()
        self._tables.clear()

    def _entry(self, table, structure, leaves, args, kwargs):
        """(entry or reason, its leaves)."""
        key = ambient(), structure, self._dims and self._dims.key(self._names(structure), leaves)
        if key not in table.families:
            if self._meets(structure):
                return self._entry(self._current_table(), structure, leaves, args, kwargs)
            if len(table.families) >= KEYS:
                return "too_many_keys", None
        family = table.families.setdefault(key, Family())
        floats = any(type(leaf) is float for leaf in leaves)
        if not floats and not family.exact:
            return self._known(table, family, structure, leaves), leaves
        fewer = []
        narrow = flatten_call(args, kwargs, fewer, Copies(), False, exact=family.exact)
        entry = family.entries.get(narrow)
        if entry is None and len(family.entries) >= (EXACT if family.exact else FLOATS):
            if family.exact:
                return "too_many_values", None
            return self._known(table, family, structure, leaves), leaves
        return self._known(table, family, narrow, fewer), fewer

    def _meets(self, structure):
        """Whether there are new classes of the program's own or of packages among the arguments: what their methods read is watched from now on."""
        kinds = {kind for kind in types_in(structure) if is_own(kind)}
        with self._lock:
            if kinds <= self._kinds | self._current_table().watch.kinds:
                return False
            self.__dict__["_kinds"] = self._kinds | kinds
            self._release()
            self.__dict__["_table"] = None
            return True

    def _known(self, table, family, structure, leaves):
        entry = family.entries.get(structure)
        if entry is None:
            names = self._names(structure)
            specs = self._dims and self._dims.input_specs(names, leaves)
            entry = Entry(self._fn, self.place[0], table, family, structure, leaves, self._options, names, specs)
            family.entries[structure] = entry
            self.__dict__["_generators"] += bool(generators_in(structure))
            entry.reason = self._unsound()
            self._note(entry)
            if not entry.reason and not (self._dims and self._dims.loose(names, leaves)):
                self._offer(table, entry, structure)
        return entry.reason or entry

    def _unsound(self):
        """Why new recordings of this function would not last, or None."""
        if self._health.unstable >= UNSTABLE:
            return "state_changed"
        return "replaced" if self._health.wasted > self._options["max_recordings"] else None

    def _offer(self, table, entry, structure):
        """To the quick way, if that way can tell such calls apart."""
        positional, names, named = structure
        kinds = tuple(map(kind_of, (*positional, *named)))
        asks = table.watch.asked or grad_mode() and table.watch.tensors   # that way asks neither which tensor it is nor whether one wants gradients
        if all(kinds) and not any_autocast() and not self._checker.active and not asks:
            table.offer(entry, (grad_mode(), inference_mode(), default_dtype()), tuple(kind for kind, in kinds), names)

    def _note(self, entry):
        LEDGER.note_region(self, entry.region, entry.leaf_names)

    def _names(self, structure):
        return call_names(structure, self._parameters_named)

    def enroll(self):
        """Stands in the ledger again after it was cleared: the versions are still in use."""
        known = LEDGER.function(self).regions()
        for entry in self.entries():
            if entry.region not in known:
                self._note(entry)

    # --- what the user asks

    def entries(self):
        families = [family for table in self._tables.values() for family in table.families.values()]
        return [entry for family in families for entry in family.entries.values()]

    def info(self):
        """What was compiled: keys, recordings, versions, reasons for eager calls."""
        with self._lock:
            regions = [{**entry.region.info(), "eager": entry.reason, "dims": entry.dim_lines()} for entry in self.entries()]
        function = LEDGER.function(self)
        return {"name": self.place[0], "mode": self._mode, "keys": len(regions), "regions": regions,
                "recordings": sum(region["recordings"] for region in regions),
                "versions": sum(len(region["versions"]) for region in regions),
                "eager": dict(function.eager), "dropped": self._health.dropped, "checks": self._checker.count}

    def clear(self):
        """Forgets all versions."""
        with self._lock:
            self._release()
            self.__dict__.update(_table=None, _health=Health(), _replayed=None, _ran=Everything(), _turns=0)

    @property
    def place(self):
        """Name, file and line, for the report."""
        return place_of(self._fn)

    # --- standing in for what it wraps

    def __getattr__(self, name):
        return getattr(self.__dict__["_fn"], name)

    def __setattr__(self, name, value):
        """Attributes of a function are state of the program's (`f.calls += 1`), and so the function's own, where they are looked for."""
        if name in self.__dict__:
            self.__dict__[name] = value
        else:
            setattr(self._fn, name, value)

    def __delattr__(self, name):
        delattr(self._fn, name)

    def __get__(self, instance, owner=None):
        """As a method: each object gets its own, kept in the object. What has no place for one is an argument. Not under the method's name, where Python would find
        it before what a class says by then; and a shallow copy of the object comes with the object's."""
        if instance is None:
            return self
        space = space_of(instance)
        if type(space) is not dict:
            return types.MethodType(self, instance)
        name, number = self._kept_as, 1
        while (unbound := unbound_of(kept := space.get(name), instance)) is not self:
            if unbound is None:
                kept = space[name] = Kept(jitted_type()(types.MethodType(self._fn, instance), *self._given[:3], self._given[3]), weakref.ref(self))
                break
            number += 1   # another method of this name
            name = f"{self._kept_as} {number}"
        return kept.bound

    def __reduce__(self):
        return rebuild, (self._fn, *self._given)

    def __repr__(self):
        return f"<escapement.jit of {self._fn!r}>"


def unbound_of(kept, instance):
    """The method that this one was made of for the object. None: there is none, or that of the object which this is a copy of, or the method is no more."""
    return kept.unbound() if is_a(kept, Kept) and kept.bound is not None and kept.bound._fn.__self__ is instance else None


def weak_method(method):
    """A call of the method while its object lives: a table is owned by its function and must not own it."""
    reference = weakref.WeakMethod(method)

    def call(*args):
        found = reference()
        if found is not None:
            found(*args)

    return call


def rebuild(fn, dims, mode, check, options):
    return jitted_type()(fn, dims, mode, check, options)


def checked_arguments(fn, mode):
    if not callable(fn):
        raise TypeError(f"escapement.jit takes a function or module, not {type(fn).__name__}")
    if mode != "call":
        raise OptionError(f"mode={mode!r} is not known; escapement.jit takes 'call' and 'replay'")


def declared(fn, dims, options):
    """Imported only where dims are declared: what they mean is worked out with sympy, which takes longer to load than a first call."""
    from .jit_dims import JitDims

    return JitDims(fn, dims, options)


DECORATED = torch.no_grad()(lambda: None).__code__   # of every function that a context of torch's decorates
AUTOCAST = torch.autocast("cpu", enabled=False)(lambda: None).__code__


def gradients_switched_off(fn):
    """Makes the context (`torch.no_grad`, `torch.inference_mode`) by which a function is decorated, or None."""
    fn = getattr(fn, "__func__", fn)
    while isinstance(fn, types.FunctionType) and fn.__code__ in (DECORATED, AUTOCAST):
        factory = dict(zip(fn.__code__.co_freevars, fn.__closure__)).get("ctx_factory")
        factory = factory and factory.cell_contents
        context = factory and factory()
        if isinstance(context, torch.no_grad) or isinstance(context, torch.inference_mode) and context.mode:
            return factory
        fn = fn.__wrapped__
    return None


def any_requires_grad(values):
    return any(value.requires_grad for value in values if is_a(value, torch.Tensor))


def ambient():
    """All of torch's thread state that changes what the same call does."""
    autocast = ()
    if any_autocast():
        autocast = (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled())
    return grad_mode(), inference_mode(), default_dtype(), autocast


def types_in(structure):
    """The classes that a structure names."""
    for part in structure:
        if isinstance(part, type):
            yield part
        elif is_a(part, Constant) and is_a(part.value, (enum.Enum, type)):
            yield part.value if is_a(part.value, type) else type(part.value)
        elif isinstance(part, tuple):
            yield from types_in(part)


def flatten_call(args, kwargs, leaves, copies, dynamic_floats, exact=False):
    positional = tuple(flatten(value, leaves, copies, dynamic_floats, exact) for value in args)
    return positional, (*kwargs,), tuple(flatten(value, leaves, copies, dynamic_floats, exact) for value in kwargs.values())


def parameter_names(fn):
    """Of the positional parameters, and of the one that takes the rest."""
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return [], "args"
    rest = next((p.name for p in found if p.kind is p.VAR_POSITIONAL), "args")
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)], rest
