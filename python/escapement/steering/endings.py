"""How a graph ends that an exception ends, as the program would have ended.

An assertion stands in a graph for the exception that the program raises, which is in its text: graphs know one kind of exception, programs raise others. Where
the framework asserts something of a size that the data tell (that `rows[mask][0]` has a row), it says in its own words, and too early, what an operator would
say: the operators of the graph are asked, on copies of the arguments. And what a graph has switched (`with torch.no_grad()` is two calls, of which the second
is not reached) is switched back.
"""

import builtins
import functools
import re

import torch
from torch.nn import attention

MARK = "escapement raises "
OF_FRAMEWORK = re.compile(r"Runtime assertion failed for expression (.*) on node '")
TEXT = re.compile(MARK + r"(\w+)(?:: (.*))?", re.DOTALL)

DEVICES = "cpu", "cuda"


def autocast_now():
    """Counts how deep it is: at none the weights that it has converted are forgotten."""
    depth = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return depth, torch.is_autocast_cache_enabled(), [(device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in DEVICES]


def restore_autocast(before):
    depth, caches, devices = before
    for _ in range(autocast_now()[0] - depth):
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()
    torch.set_autocast_cache_enabled(caches)
    for device, enabled, dtype in devices:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)


# What switches -> (what is on, the call that restores it).
SWITCHES = {
    torch.amp.autocast_mode._enter_autocast: (autocast_now, restore_autocast),
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
    nodes = nodes_of(gm)
    run = with_switches(nodes, run)
    return raising(gm, run) if any(map(asserts, nodes)) else run


def as_its_operators_raise(gm, run):
    """`run` executes what the operators of `gm` were taken apart into, whose exceptions say other things than theirs."""
    return raising(gm, with_switches(nodes_of(gm), run), anything=True)


def nodes_of(gm):
    return [node for module in gm.modules() if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes]


def with_switches(nodes, run):
    switches = [SWITCHES[target] for target in dict.fromkeys(node.target for node in nodes if node.op == "call_function") if target in SWITCHES]
    return switched_back(run, switches) if switches else run


def asserts(node):
    return "_assert_" in str(node.target)


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


def raising(gm, run, anything=False):
    def checked(*arguments):
        try:
            return run(*arguments)
        except Exception as error:
            another = instead_of(error, gm, arguments, anything)
            if another is None:
                raise
        raise another

    return checked


def instead_of(error, gm, arguments, anything):
    found = TEXT.fullmatch(str(error))
    if found is not None:
        kind, message = found.groups()
        return getattr(builtins, kind)(*(() if message is None else (message,)))
    return raised_by_operators(gm, arguments) if anything or OF_FRAMEWORK.match(str(error)) else None


class Unchecked(torch.fx.Interpreter):
    """A graph without its assertions, and without what is computed for them only."""

    def __init__(self, gm):
        super().__init__(gm, garbage_collect_values=False)
        self.extra_traceback, self.left_out = False, set()
        for node in reversed(gm.graph.nodes):
            if asserts(node) or node.users and self.left_out.issuperset(node.users):
                self.left_out.add(node)

    def run_node(self, node):
        return None if node in self.left_out and node.op != "placeholder" else super().run_node(node)


def raised_by_operators(gm, arguments):
    """None where they raise nothing, or may do something that is seen outside."""
    if not all(is_of_torch(node) for node in gm.graph.nodes):
        return None
    copies = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in arguments]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            with_switches(nodes_of(gm), Unchecked(gm).run)(*copies)
        except Exception as error:
            return error.with_traceback(None)
    return None


def is_of_torch(node):
    """An operator of torch, or arithmetic: not one of the user's, whatever that does, nor one with a graph inside, nor one that waits for other
    processes."""
    if isinstance(node.target, torch._ops.HigherOrderOperator) or node.op == "call_module":
        return False
    if str(getattr(node.target, "__module__", "")).startswith("torch.distributed"):
        return False
    return not isinstance(node.target, torch._ops.OpOverload) or node.target.namespace in ("aten", "prims")
