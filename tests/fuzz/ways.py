"""The ways to run a program: what makes it from the function, and what is asked of its counters afterwards."""

import ast
import re
import tempfile
import warnings

import torch

import escapement
from arguments import drawn
from program import function_of
from states import MODES

PINNED = re.compile(r"size\[\d+\]: expected (?!0|1\b)\d+\b")   # a size for which nobody asked is another recording
OURS = ("internal_error",)
REFUSED_BY_US = "caught_exception"   # where eager does not raise, and nobody catches


class Way:
    """Compiled by `make`; `trouble` names what the counters say and no result shows."""

    reference = None # what is compared with, if it is not the function itself
    controls = ()    # ways without us: what they do otherwise than eager is not ours
    controls_of_strides = ()   # the same, of strides alone

    def __init__(self, program):
        self.program = program
        self.made = self.make(program.function(), dict(program.options))

    def __call__(self, *args):
        return self.made(*args)

    def trouble(self):
        return None

    def recordings(self):
        """How often it was recorded, where the same calls must not record again."""
        return None

    def story(self):
        return ""

    def ours(self):
        """An interrupt that comes while it is asked where an operator stands ends a recording by the same reason."""
        interrupted = any(call.get("state") == "interrupt" for call in self.program.calls)
        return OURS if interrupted or "attempt(" in self.program.source() else (*OURS, REFUSED_BY_US)


class Call(Way):
    name = "call"

    def make(self, function, options):
        return escapement.jit(function, **options)

    def trouble(self):
        info = self.made.info()
        reasons = {reason: what for region in info["regions"] for reason, what in fallbacks(region).items()}
        for reason in self.ours():
            if reason in reasons:
                return "internal error", str(reasons[reason])
        steady = not self.program.reads_host() and not reasons and not info["eager"]
        if steady and any(PINNED.search(line) for region in info["regions"] for miss in region["misses"] for line in miss):
            return "recorded anew", f"{info['recordings']} recordings, {misses(info)}"
        return None

    def recordings(self):
        info = self.made.info()
        return None if info["eager"] or any(fallbacks(region) for region in info["regions"]) else info["recordings"]

    def story(self):
        return str(misses(self.made.info()))


class Replay(Way):
    name = "replay"

    def make(self, function, options):
        return escapement.jit(function, mode="replay", **options)

    def trouble(self):
        reasons = fallbacks(self.made.info())
        return next((("internal error", str(reasons[reason])) for reason in self.ours() if reason in reasons), None)


class Compile(Way):
    """Through Dynamo. What `backend="eager"` does otherwise than eager is Dynamo's."""

    name = "compile"
    controls = "dynamo", "aot"

    def make(self, function, options):
        torch._dynamo.reset()
        self.before = internal_errors(self.ours())
        return torch.compile(function, backend="escapement", **({"options": options} if options else {}))

    def trouble(self):
        return ("internal error", self.why()) if internal_errors(self.ours()) > self.before else None

    def why(self):
        """What it says where that is raised instead of counted."""
        strict = self.make(self.program.function(), {**dict(self.program.options), "strict": True})
        for call in self.program.calls:
            try:
                with warnings.catch_warnings(), MODES[call.get("mode", "no_grad")]():
                    warnings.simplefilter("ignore")
                    strict(*drawn(self.program.arguments, call).values())
            except Exception as error:
                found = re.search(r"internal error.*", str(error))
                if found:
                    return found[0][:200]
        return "not said"


class Plain(Way):
    """Dynamo without us."""

    name, backend = "dynamo", "eager"

    def make(self, function, options):
        torch._dynamo.reset()
        return torch.compile(function, backend=self.backend)


class Traced(Plain):
    name, backend = "aot", "aot_eager"


class Train(Compile):
    """Through Dynamo and AOTAutograd: what a training step makes of the program, its results and the gradients of the floating-point arguments."""

    name = "train"
    controls = "train-dynamo", "train-aot"
    controls_of_strides = ("train-broken",)

    def make(self, function, options):
        self.reference = graded(function)
        return graded(super().make(function, options))


class PlainTrain(Plain):
    name = "train-dynamo"

    def make(self, function, options):
        self.reference = graded(function)
        return graded(super().make(function, options))


class TracedTrain(PlainTrain):
    """With numbers read from tensors in its graphs, as ours has them: AOTAutograd drops what it takes for unused, and the error that it would raise."""

    name, backend = "train-aot", "aot_eager"

    def make(self, function, options):
        return torch._dynamo.config.patch(capture_scalar_outputs=True)(super().make(function, options))


class BrokenTrain(TracedTrain):
    """In graphs of one statement each: which strides AOTAutograd gives a gradient depends on where a graph ends, as ours do where a size is read
    once too often."""

    name = "train-broken"

    def make(self, function, options):
        return super().make(broken_apart(self.program.source()), options)


def broken_apart(source):
    """The program, with the end of a graph in front of each statement."""
    module = ast.parse(source)
    program = next(node for node in module.body if isinstance(node, ast.FunctionDef))
    program.body = [each for statement in program.body for each in (ast.parse("torch._dynamo.graph_break()").body[0], statement)]
    return function_of(ast.unparse(module))


def graded(function):
    """The function with gradients: results, then what autograd gives for a weighted sum of them. Arguments are no leaves, so that they may be written."""
    def step(*args):
        with torch.enable_grad():
            leaves = [arg.detach().requires_grad_() if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg for arg in args]
            results = torch.utils._pytree.tree_leaves(function(*[leaf * 1 if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]))
            wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            loss = sum((part.double() * torch.arange(1.0, part.numel() + 1).view(part.shape).cos()).sum() for part in results
                       if isinstance(part, torch.Tensor) and part.requires_grad and part.is_floating_point())
            grads = torch.autograd.grad(loss, wanted, allow_unused=True) if isinstance(loss, torch.Tensor) else ()
        return tuple(part.detach() if isinstance(part, torch.Tensor) else part for part in (*results, *grads))
    return step


class Exported(Way):
    """What torch.export wrote, run by us, against torch's own loader: export itself may take a program otherwise than eager does.
    A program that export refuses is left out."""

    name = "exported"

    def make(self, function, options):
        class Module(torch.nn.Module):
            pass

        scope = {}
        exec(f"def forward(self, {', '.join(self.program.arguments)}): return function({', '.join(self.program.arguments)})",
             {"function": function}, scope)
        Module.forward = scope["forward"]
        folder = tempfile.TemporaryDirectory()
        path = f"{folder.name}/model.pt2"
        example = drawn(self.program.arguments, self.program.calls[0])
        try:
            shapes = {name: torch.export.Dim.AUTO if isinstance(value, int) and not isinstance(value, bool) else
                      {axis: torch.export.Dim.AUTO for axis in range(value.dim())} if isinstance(value, torch.Tensor) else None
                      for name, value in example.items()}
            torch.export.save(torch.export.export(Module(), tuple(example.values()), dynamic_shapes=shapes), path)
            theirs = torch.export.load(path).module()
        except Exception as error:
            raise Refused(f"{type(error).__name__}") from None
        self.reference = flattened(with_constants(theirs, tuple(example.values())))
        ours = flattened(escapement._C.load_exported(path, options))
        return lambda *args: ours(*[arg for arg, known in zip(args, example.values()) if not isinstance(known, (bool, float))])


def with_constants(function, example):
    """Numbers that are no integers are constants of the file: whatever is given, it is called with those."""
    return lambda *args: function(*(known if isinstance(known, (bool, float)) else given for given, known in zip(args, example)))


class Refused(Exception):
    """This way does not take this program."""


def flattened(function):
    return lambda *args: tuple(torch.utils._pytree.tree_leaves(function(*args), is_leaf=lambda value: value is None))


def internal_errors(reasons):
    return sum(count for name, count in escapement.stats().items() if any(reason in name for reason in reasons))


def fallbacks(info):
    found = info.get("fallbacks", {})
    return found if isinstance(found, dict) else {entry["reason"]: entry for entry in found}


def misses(info):
    return [region.get("misses") for region in info["regions"]]


WAYS = {way.name: way for way in (Call, Replay, Compile, Plain, Traced, Train, PlainTrain, TracedTrain, BrokenTrain, Exported)}
