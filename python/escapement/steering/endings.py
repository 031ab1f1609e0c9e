"""How a graph ends that an exception ends, as the program would have ended.

An assertion stands in a graph for the exception that the program raises, which is in its text: graphs know one kind of exception, programs raise others. And
what a graph has switched (`with torch.no_grad()` is two calls, of which the second is not reached) is switched back.
"""

import builtins
import functools
import re

import torch
from torch.nn import attention

MARK = "escapement raises "
TEXT = re.compile(MARK + r"(\w+)(?:: (.*))?", re.DOTALL)

# What switches -> (what is on, the call that restores it).
SWITCHES = {
    torch._C._set_grad_enabled: (torch.is_grad_enabled, torch._C._set_grad_enabled),
    torch._C._set_fwd_grad_enabled: (torch._C._is_fwd_grad_enabled, torch._C._set_fwd_grad_enabled),
    attention._sdpa_kernel: (functools.partial(attention._cur_sdpa_kernel_backends, with_priority=True),
                             functools.partial(attention._sdpa_kernel, set_priority=True)),
}


def text(error, message):
    """Of an exception class of Python's with this message, or with none."""
    return MARK + error.__name__ + ("" if message is None else f": {message}")


def as_the_program_ends(gm, run):
    """`run`, which executes the graph; the same object where no ending of it is another than the program's."""
    nodes = [node for module in gm.modules() if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes]
    switches = [SWITCHES[target] for target in dict.fromkeys(node.target for node in nodes if node.op == "call_function") if target in SWITCHES]
    if switches:
        run = switched_back(run, switches)
    return raising(run) if any(map(stands_for_another, nodes)) else run


def stands_for_another(node):
    return "assert" in str(node.target) and any(isinstance(value, str) and value.startswith(MARK) for value in node.args)


def switched_back(run, switches):
    def restoring(*arguments):
        before = [(restore, read()) for read, restore in switches]
        try:
            return run(*arguments)
        except BaseException:
            for restore, value in before:
                restore(value)
            raise

    return restoring


def raising(run):
    def checked(*arguments):
        try:
            return run(*arguments)
        except RuntimeError as error:
            found = TEXT.fullmatch(str(error))
            if found is None:
                raise
        kind, message = found.groups()
        raise getattr(builtins, kind)(*(() if message is None else (message,)))

    return checked
