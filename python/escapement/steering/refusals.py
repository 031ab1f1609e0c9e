"""Calls that are not compiled: they run eagerly and are counted, each of them, and no other kind of call pays for it.

Dynamo's own ways to ask no more (RUN_ONLY, SKIP) are marks on the code object, and so on every torch.compile(), model and dtype that runs through it;
all modules of torch.nn that are compiled by themselves run through one code object of torch's. Hence Dynamo goes on asking, and a call of a
closed kind (`Function.refusal` in ledger.py) is answered where it asks first, before it writes a line or compares a guard: a hundredth of what
one question costs behind that.

Dynamo's recompile_limit counts the versions of a code object; of ours it counts those of one kind of call, which have a budget of their own.
Its accumulated_recompile_limit stays what it is, for versions that are alive: a call looks through them in turn.
"""

import contextlib
import dataclasses
import functools
import inspect
import sys
import types

import torch
import torch._dynamo.config
from torch._dynamo import convert_frame, decorators, external_utils
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.utils import counters

from ..ledger import LEDGER

torch_asked = convert_frame.CatchErrorsWrapper.__call__
COMPILE_PARAMETERS = tuple(inspect.signature(convert_frame._compile).parameters)
FrameAction, Strategy = (getattr(convert_frame, name, None) for name in ("FrameAction", "FrameExecStrategy"))
# What torch.compile() puts around a module of torch.nn (the last two: inside of `error_on_graph_break`): one code object for all of them.
SHARED = {external_utils.wrap_inline(print).__code__, *(external_utils.wrap_inline_with_error_on_graph_break(print, errors).__code__ for errors in (True, False))}
DISABLED = getattr(decorators, "_nonrecursive_disable_wrapper_code", None)   # what `torch.compiler.disable(recursive=False)` puts around a function
MEANWHILE = "another thread compiled the function meanwhile"   # each would compile it again, and spend the budget on one version
LIMIT = "a limit of torch's on recompiles is reached"

keys = types.SimpleNamespace(of=None)   # of(code, globals, locals, closure, compiler_fn): the key of a call, None where it is not ours


def possible():
    parameters = list(inspect.signature(torch_asked).parameters)
    return (parameters[:2] == ["self", "frame"] and None not in (FrameAction, Strategy, DISABLED) and hasattr(torch._C, "_len_torch_dispatch_stack")
            and hasattr(convert_frame, "compile_lock")
            and "cache_size" in COMPILE_PARAMETERS[7:] and "compile_id" in COMPILE_PARAMETERS)


def install(key_of):
    keys.of = key_of
    convert_frame.CatchErrorsWrapper.__call__ = functools.wraps(torch_asked)(asked)


def asked(wrapper, frame, *rest, **named):
    """Dynamo has found no version for this call."""
    if sys._getframe(1).f_code is DISABLED:   # torch asks this too, of the first frame behind its own file
        return convert_frame.ConvertFrameReturn(apply_to_code=False, skip_reason="disabled, but for what it calls")
    code, converter = frame.f_code, wrapper._torchdynamo_orig_backend
    # With `fullgraph=True` it is another class, and nothing is refused. What a mode of the user's sees is torch's to decide.
    if not isinstance(converter, convert_frame.ConvertFrame) or torch._C._len_torch_dispatch_stack():
        return torch_asked(wrapper, frame, *rest, **named)
    key = keys.of(code, frame.f_globals, frame.f_locals, frame.closure, converter._torchdynamo_orig_backend)
    if key is None:
        return torch_asked(wrapper, frame, *rest, **named)
    if not wants_errors(converter) and LEDGER.refusal(code, key) is not None:
        counters["frames"]["total"] += 1
        return convert_frame.ConvertFrameReturn(frame_exec_strategy=default())
    so_far = LEDGER.compiled(code, key)
    with convert_frame.compile_lock:
        if LEDGER.compiled(code, key) != so_far and not wants_errors(converter):
            LEDGER.note_refusal(code, MEANWHILE)
            return convert_frame.ConvertFrameReturn(frame_exec_strategy=default())
        result = torch_asked(wrapper, frame, *rest, **named)
    if result.guarded_code is None and is_shared(code):   # "skip" would be meant for all of them
        result.apply_to_code = False
    return result


def wants_errors(converter):
    """Inside of `error_on_graph_break(True)` a call that runs eagerly is an error, which only the whole way raises."""
    return bool(converter._inner_convert._box.error_on_graph_break)


def is_shared(code):
    return code in SHARED


def default():
    return Strategy(FrameAction.DEFAULT, FrameAction.DEFAULT)


def raise_eager(why, cause=None):
    """Has Dynamo run this call eagerly; it asks again at the next one."""
    try:
        dynamo_exc.unimplemented(gb_type="escapement: this call runs eagerly", context="", explanation=why, hints=[])
    except dynamo_exc.Unsupported as error:
        error.frame_exec_strategy = default()
        raise error from cause


# --- torch's own limits

def is_limit(error):
    """The only error with this mark: Dynamo has compiled what it may of this code object, and would look for versions only from now on."""
    return isinstance(error, dynamo_exc.Unsupported) and getattr(error.frame_exec_strategy, "cur_action", None) == FrameAction.RUN_ONLY


def run_this_eagerly(code, key, error):
    """What torch's limit ends is one kind of call, and counted."""
    LEDGER.close(code, key, LIMIT)
    error.frame_exec_strategy = default()


def cache_size(rest):
    """`rest`: the arguments of `_compile` behind the first seven."""
    return rest[COMPILE_PARAMETERS.index("cache_size") - 7]


def counted_by_key(rest, compiled):
    """The same arguments, with as many versions as the key has. One at least where there are any: then Dynamo writes down what they missed."""
    place, size = COMPILE_PARAMETERS.index("cache_size") - 7, cache_size(rest)
    versions = min(size.num_cache_entries_with_same_id_matched_objs, max(compiled, 1))
    return (*rest[:place], dataclasses.replace(size, num_cache_entries_with_same_id_matched_objs=versions), *rest[place + 1:])


def compiles_of_the_dead(size, compile_id):
    """Dynamo also counts all compiles of a code object there ever were, whether or not their models are alive. A process that trains one model
    after another would stop at some; kinds of calls of one torch.compile() end by a limit of ours (KINDS)."""
    limit, so_far = torch._dynamo.config.accumulated_recompile_limit, compile_id.frame_compile_id
    if so_far < limit or size.total_cache_entries_all_regions >= limit:
        return contextlib.nullcontext()
    return torch._dynamo.config.patch(accumulated_recompile_limit=so_far + 1)
