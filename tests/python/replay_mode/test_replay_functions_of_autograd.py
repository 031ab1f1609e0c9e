"""In replay mode an autograd.Function keeps its node, whatever its forward hands back: its argument, a view, a new tensor, several of these. Full
backward hooks of modules, which are such functions, run. Views made without gradients of what requires them say so, and so does what is computed
from them. At each call as in eager: values, gradients, nodes, and the calls of the backwards."""

import pytest
import torch

import escapement
from harness import seeded

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")
SIZES = ((2, 3), (2, 3), (1, 1), (4, 4), (1, 3), (3, 1), (2, 3))
SEEN = []


def function(forward, backward=lambda ctx, *grads: tuple(-g * 2 for g in grads), **more):
    """An autograd.Function of these; each backward is noted."""
    def noted(ctx, *grads):
        SEEN.append([None if g is None else tuple(g.shape) for g in grads])
        return backward(ctx, *grads)

    return type("Made", (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(noted), **more})


def saved(ctx, a):
    out = a.view_as(a)
    ctx.save_for_backward(a, out)
    return out


def with_saved(ctx, g):
    a, out = ctx.saved_tensors
    return g * a + out


def marked(ctx, *results):
    ctx.mark_non_differentiable(*results)
    return results[0] if len(results) == 1 else results


def dirty(ctx, a, *more):
    a.mul_(3)
    ctx.mark_dirty(a)
    return (a, *more) if more else a


def non_differentiable_second(ctx, a):
    first, second = a.view_as(a), a * 2
    ctx.mark_non_differentiable(second)
    return first, second


def without_materialised(ctx, a, b):
    ctx.set_materialize_grads(False)
    return a, b


def picked(ctx, a):
    ctx.rows = len(a)
    return a[0]


def keeps_a_view(ctx, a):
    out = a * 2
    ctx.kept = out.t()
    return out


IDENTITY = function(lambda ctx, a: a)
VIEW_AS = function(lambda ctx, a: a.view_as(a))
TURNED = function(lambda ctx, a: a.t(), lambda ctx, g: -g.t())
SAVES = function(saved, with_saved)
BOTH = function(lambda ctx, a, b: (a, b))
BOTH_VIEWS = function(lambda ctx, a, b: (b.view_as(b), a.t()), lambda ctx, g, h: (h.t() * 2, g * 3))
MIXED = function(lambda ctx, a, b: (a, a + b, b.view_as(b)), lambda ctx, f, g, h: (f + g * 2, g + h * 3))
OF_TWO_SECOND = function(lambda ctx, a, b: b, lambda ctx, g: (None, -g))
NEW = function(lambda ctx, a: a * 2)
KEEPS = function(keeps_a_view, lambda ctx, g: g * ctx.kept.t())
NOTHING_OF_SECOND = function(non_differentiable_second, lambda ctx, g, _: -g)
ALL_MARKED = function(lambda ctx, a: marked(ctx, a), lambda ctx, g: g)
VIEW_MARKED = function(lambda ctx, a: marked(ctx, a.view_as(a)), lambda ctx, g: g)
DIRTY = function(dirty, lambda ctx, g: g * 3)
DIRTY_AND_NEW = function(lambda ctx, a, b: dirty(ctx, a, b.view_as(b)), lambda ctx, g, h: (g * 3, h))
NOT_MATERIALISED = function(without_materialised, lambda ctx, g, h: (g, h))
INTEGERS_TOO = function(lambda ctx, a: (a.view_as(a), a.argmax()), lambda ctx, g, _: -g)
TENSOR_AND_NUMBER = function(lambda ctx, a, by: (a.view_as(a), by), lambda ctx, g, _: (g * 5, None))
NESTED = function(lambda ctx, a: IDENTITY.apply(a))
NESTED_WITH_GRADIENTS = function(lambda ctx, a: a.view_as(a), lambda ctx, g: torch.enable_grad()(lambda: IDENTITY.apply(g * 1))())
SEPARATE = function(lambda a: a.view_as(a), lambda ctx, g: -g, setup_context=staticmethod(lambda ctx, inputs, output: None))
PICKED = function(picked, lambda ctx, g: torch.cat([-g[None], g.new_zeros(ctx.rows - 1, *g.shape)]))

PROGRAMS = {
    "itself": lambda x, w: IDENTITY.apply(x * w) * 2,
    "itself, an argument": lambda x, w: IDENTITY.apply(x) * w,
    "view_as": lambda x, w: VIEW_AS.apply(x * w) * 2,
    "view_as of an argument": lambda x, w: VIEW_AS.apply(x) * w,
    "turned": lambda x, w: TURNED.apply(x * w) * 2,
    "turned, an argument": lambda x, w: TURNED.apply(x).t() * w,
    "picked": lambda x, w: PICKED.apply(x * w) * 2,
    "new": lambda x, w: NEW.apply(x * w) * 2,
    "new, a view of it kept": lambda x, w: KEEPS.apply(x * w) * 2,
    "saved": lambda x, w: SAVES.apply(x * w) * 2,
    "saved, an argument": lambda x, w: SAVES.apply(x) * w,
    "setup_context": lambda x, w: SEPARATE.apply(x * w) * 2,
    "of a view": lambda x, w: IDENTITY.apply((x * w).t()[:1]) * 2,
    "behind each other": lambda x, w: VIEW_AS.apply(IDENTITY.apply(TURNED.apply(x * w))) * 2,
    "both": lambda x, w: BOTH.apply(x * 2, w * 3),
    "both, one used": lambda x, w: BOTH.apply(x * 2, w * 3)[1] * w,
    "both, changed over": lambda x, w: BOTH_VIEWS.apply(x * 2, w * 3),
    "the same twice": lambda x, w: BOTH.apply(x, x)[0] * w,
    "mixed": lambda x, w: MIXED.apply(x * 2, w * 3),
    "mixed, arguments": lambda x, w: MIXED.apply(x, w),
    "the second": lambda x, w: OF_TWO_SECOND.apply(x * 2, w * 3) + x,
    "one needs none": lambda x, w: BOTH.apply(x.detach() + 1, w * 3),
    "one needs none, views": lambda x, w: BOTH_VIEWS.apply(x.detach() + 1, w * 3),
    "one needs none, mixed": lambda x, w: MIXED.apply(w, x.detach() + 1),
    "a constant": lambda x, w: BOTH_VIEWS.apply(torch.ones_like(x), w * 3),
    "none is needed": lambda x, w: (IDENTITY.apply(x.detach() * 2), VIEW_AS.apply(x.detach()), x * w),
    "not differentiable": lambda x, w: NOTHING_OF_SECOND.apply(x * w),
    "nothing differentiable": lambda x, w: (ALL_MARKED.apply(x * w), x * w),
    "nothing differentiable, a view": lambda x, w: (VIEW_MARKED.apply(x * w).detach(), x * w),
    "integers too": lambda x, w: INTEGERS_TOO.apply(x * w),
    "a number too": lambda x, w: TENSOR_AND_NUMBER.apply(x * w, 3)[0] * 2,
    "dirty": lambda x, w: DIRTY.apply(x * w) * 2,
    "dirty and a view": lambda x, w: DIRTY_AND_NEW.apply(x * w, w * 2),
    "dirty, a view of a result": lambda x, w: (y := x * w, DIRTY.apply(y.t()), y * 2),
    "not materialised": lambda x, w: NOT_MATERIALISED.apply(x * w, w * 2)[0] * 2,
    "in a function": lambda x, w: NESTED.apply(x * w) * 2,
    "in a backward": lambda x, w: NESTED_WITH_GRADIENTS.apply(x * w) * 2,
    "beside another path": lambda x, w: IDENTITY.apply(x * w) * 2 + x,
    "beside another path of the same": lambda x, w: (y := x * w, IDENTITY.apply(y) * 2 + y),
    "used twice": lambda x, w: (y := IDENTITY.apply(x * w), y * 2 + y.t().t() * 3),
    "applied twice": lambda x, w: IDENTITY.apply(x) * 2 + IDENTITY.apply(x) * w,
    "a view of it": lambda x, w: (y := VIEW_AS.apply(x * w), y[0] * 2),
    "behind a read": lambda x, w: IDENTITY.apply(x * w) * (2 if (x.detach() + 1).sum() > -1e9 else 3),
    "in a loop": lambda x, w: loop(x, w),
    "no gradients, itself": lambda x, w: (without(lambda: IDENTITY.apply(x * w)), x * w),
    "no gradients, a view": lambda x, w: (without(lambda: VIEW_AS.apply(x * w)), x * w),
    "no gradients, an argument": lambda x, w: (without(lambda: IDENTITY.apply(x)).requires_grad, x * w),
    "a leaf of its own": lambda x, w: (leaf := (x.detach() + 1).requires_grad_(), IDENTITY.apply(leaf) * w),
    "a leaf that is a view": lambda x, w: (leaf := (x.detach() + 1).t().requires_grad_(), IDENTITY.apply(leaf) * w.t()),
}


def without(program):
    with torch.no_grad():
        return program()


def loop(x, w):
    y = x
    for _ in range(3):
        y = VIEW_AS.apply(y * w)
    return y


def tensors_of(result):
    return [item for item in (result if isinstance(result, tuple) else (result,)) if isinstance(item, torch.Tensor)]


def described(tensor):
    node = tensor.grad_fn
    return (tensor.requires_grad, tensor.is_leaf, tensor._is_view(), tensor.output_nr, type(node).__name__, tensor.dtype, tuple(tensor.shape), tensor.stride(),
            [] if node is None else [type(edge).__name__ for edge, _ in node.next_functions])


def inputs(shape):
    made = [torch.randn(shape, generator=seeded(sum(shape) + i)) for i in range(2)]
    return [tensor.requires_grad_() for tensor in made]


def outcome(program, shape, after):
    """All that shows of a call."""
    SEEN.clear()
    x, w = inputs(shape)
    result = program(x, w)
    results = tensors_of(result)
    shown = [described(tensor) for tensor in results], [item for item in (result if isinstance(result, tuple) else ()) if not isinstance(item, torch.Tensor)]
    values = [tensor.detach().clone() for tensor in results]
    gradients = after(results, x, w)
    return shown, list(SEEN), values, gradients


def backward(results, x, w, **options):
    sum(tensor.sum() * (i + 2) for i, tensor in enumerate(results) if tensor.requires_grad).backward(**options)
    return [x.grad, w.grad]


def twice(results, x, w):
    backward(results, x, w, retain_graph=True)
    return backward(results, x, w)


def grad(results, x, w):
    wanted = [tensor for tensor in results if tensor.requires_grad]
    return list(torch.autograd.grad(wanted, [x, w], [torch.ones_like(tensor) for tensor in wanted], allow_unused=True))


def twofold(results, x, w):
    wanted = [tensor.sum() for tensor in results if tensor.requires_grad]
    first = torch.autograd.grad(wanted, [x, w], create_graph=True, allow_unused=True)
    further = [g for g in first if g is not None and g.requires_grad]
    return [*first, *(torch.autograd.grad([g.sum() for g in further], [x, w], allow_unused=True) if further else ())]


def written(results, x, w):
    """What may be written in place, and what eager says of it."""
    said = []
    for tensor in results:
        try:
            tensor.mul_(2)
            said.append(described(tensor))
        except RuntimeError as error:
            said.append(str(error).split(".")[0])
    return said


AFTER = {"backward": backward, "retain_graph": twice, "grad": grad, "create_graph": twofold, "written": written}


def assert_same(got, want):
    assert got[:2] == want[:2]
    for mine, theirs in zip((got[2], got[3]), (want[2], want[3])):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)
            else:
                assert one == other


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name, after):
    program = PROGRAMS[name]
    made = escapement.jit(program, mode="replay")
    for shape in SIZES:
        assert_same(outcome(made, shape, AFTER[after]), outcome(program, shape, AFTER[after]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_the_caller_wants_no_gradients(name):
    program = PROGRAMS[name]
    made = escapement.jit(program, mode="replay")
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad, torch.no_grad):
        for shape in ((2, 3), (1, 1), (2, 3)):
            mine, theirs = inputs(shape), inputs(shape)
            with mode():
                got, want = tensors_of(made(*mine)), tensors_of(program(*theirs))
            assert [tensor.requires_grad for tensor in got] == [tensor.requires_grad for tensor in want]
            for one, other in zip(got, want):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_gradient_reversal_in_a_network():
    class Network(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head, self.other = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2), torch.nn.Linear(4, 1)

        def forward(self, x):
            features = torch.relu(self.body(x))
            return self.head(features), self.other(VIEW_AS.apply(features))

    torch.manual_seed(0)
    network = Network()
    made = escapement.jit(network, mode="replay")
    for rows in (3, 3, 1, 5, 3):
        x, found = torch.randn(rows, 3, generator=seeded(rows)), []
        for run in (made, network):
            network.zero_grad()
            sum(out.square().sum() for out in run(x)).backward()
            found.append([parameter.grad.clone() for parameter in network.parameters()])
        torch.testing.assert_close(found[0], found[1])


# --- hooks of modules

class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.first(x), self.second(torch.relu(x)) + x


class Handed(torch.nn.Module):
    def forward(self, x):
        return x


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3))


MODULES = {
    "linear": lambda: torch.nn.Linear(3, 3), "mlp": mlp, "two results": Two, "identity": torch.nn.Identity, "its argument": Handed, "flatten": torch.nn.Flatten,
    "norm": lambda: torch.nn.LayerNorm(3), "deeper": lambda: torch.nn.Sequential(mlp(), torch.nn.Tanh(), Two()),
}
HOOKS = {
    "full": lambda module, notes: module.register_full_backward_hook(lambda m, given, got: notes.append((given, got))),
    "full, changes": lambda module, notes: module.register_full_backward_hook(lambda m, given, got: tuple(None if g is None else g * 2 for g in given)),
    "pre": lambda module, notes: module.register_full_backward_pre_hook(lambda m, got: notes.append(got)),
    "pre, changes": lambda module, notes: module.register_full_backward_pre_hook(lambda m, got: tuple(None if g is None else g * 3 for g in got)),
    "both": lambda module, notes: (module.register_full_backward_hook(lambda m, given, got: notes.append((given, got))),
                                   module.register_full_backward_pre_hook(lambda m, got: tuple(None if g is None else g + 1 for g in got))),
}


def flat(notes):
    if isinstance(notes, (tuple, list)):
        return [leaf for note in notes for leaf in flat(note)]
    return [notes]


@pytest.mark.parametrize("wanted", [True, False], ids=["input wants gradients", "input wants none"])
@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("name", MODULES)
def test_hooks_of_modules(name, hook, wanted):
    torch.manual_seed(0)
    module, notes = MODULES[name](), []
    for part in module.modules():
        HOOKS[hook](part, notes)
    made = escapement.jit(module, mode="replay")
    for rows in (2, 2, 1, 4, 2):
        found = []
        for run in (made, module):
            notes.clear()
            module.zero_grad()
            x = torch.randn(rows, 3, generator=seeded(rows)).requires_grad_(wanted)
            total = sum(out.square().sum() for out in tensors_of(run(x)))
            if total.requires_grad:
                total.backward()
            found.append([*flat(notes), x.grad, *(parameter.grad for parameter in module.parameters())])
            found[-1] = [None if tensor is None else tensor.clone() for tensor in found[-1]]
        assert len(found[0]) == len(found[1])
        for one, other in zip(*found):
            assert one is None if other is None else torch.allclose(one, other, rtol=1e-5, atol=1e-6)


def test_hooks_of_a_module_that_is_frozen_or_called_without_gradients():
    module, notes = torch.nn.Linear(3, 3), []
    HOOKS["full"](module, notes), HOOKS["pre"](module, notes)
    made = escapement.jit(module, mode="replay")
    for rows in (2, 2, 1, 2):
        with torch.no_grad():
            torch.testing.assert_close(made(torch.ones(rows, 3)), module(torch.ones(rows, 3)))
        assert not notes


# --- what of autograd is noted of a view before it has memory

def leaf_with_a_hook(x):
    leaf, seen = x.detach().t().requires_grad_(), []
    leaf.register_hook(lambda g: seen.append(1) or g * 3)
    (leaf * 2).sum().backward()
    return leaf.grad, len(seen)


def leaf_with_a_hook_behind(x):
    leaf, seen = (x.detach() + 1)[0].requires_grad_(), []
    leaf.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
    (leaf * 2).sum().backward()
    return leaf.grad, len(seen), seen[0]


def leaf_with_a_gradient(x):
    leaf = x.detach().view(-1).requires_grad_()
    leaf.grad = torch.ones_like(leaf)
    (leaf * 2).sum().backward()
    return leaf.grad


def views_without_gradients(x):
    with torch.no_grad():
        turned, picked, same = x.t(), x[0], x.view_as(x)
        said = [tensor.requires_grad for tensor in (turned, picked, same, turned[0], x.detach(), x.detach().t())]
    return turned.grad_fn is None, turned.is_leaf, *said


def views_without_gradients_used(x):
    with torch.no_grad():
        turned = x.t()
    return (turned * 2).requires_grad, turned * 2, (turned * 2 + x.t()).requires_grad


def views_of_what_comes_to_want_them(x):
    y = x.detach() + 1
    view, further = y.t(), y.t()[0]
    y.requires_grad_()
    return view.requires_grad, further.requires_grad, (view * 2).requires_grad, (further * 2).requires_grad, y.is_leaf


def views_of_what_is_set_to_want_them(x):
    y = x.detach() + 1
    view = y.t()
    y.requires_grad = True
    return view.requires_grad, (view * 2).requires_grad


def views_of_a_leaf_without_gradients(x):
    y = (x.detach() + 1).requires_grad_()
    with torch.no_grad():
        view = y.t()[0]
        said = view.requires_grad
    return said, (view * 2).requires_grad


def views_in_inference_mode(x):
    with torch.inference_mode():
        view = x.t()
        return view.requires_grad, view.is_inference(), view + 1


NOTED = [leaf_with_a_hook, leaf_with_a_hook_behind, leaf_with_a_gradient, views_without_gradients, views_without_gradients_used, views_of_what_comes_to_want_them,
         views_of_what_is_set_to_want_them, views_of_a_leaf_without_gradients, views_in_inference_mode]


@pytest.mark.parametrize("program", NOTED)
def test_what_autograd_knows_of_a_view(program):
    made = escapement.jit(program, mode="replay")
    for shape in SIZES:
        x = torch.randn(shape, generator=seeded(sum(shape))).requires_grad_()
        got, want = made(x), program(x)
        for one, other in zip(*((item if isinstance(item, tuple) else (item,)) for item in (got, want))):
            if isinstance(other, torch.Tensor):
                torch.testing.assert_close(one, other)
            else:
                assert one == other


@pytest.mark.parametrize("program", [lambda x: x.t(), lambda x: x[0].view(-1), lambda x: x + 1], ids=["view", "view of a view", "new"])
def test_operators_on_views_without_gradients_are_still_deferred(program):
    """What wants gradients is noted of a view at once; that does not make its operator one that runs at once."""
    def run(x):
        with torch.no_grad():
            return program(x) * 2 + 1

    made = escapement.jit(run, mode="replay")
    for rows in (2, 2, 3, 3):
        x = torch.randn(rows, 3, generator=seeded(rows)).requires_grad_()
        torch.testing.assert_close(made(x), run(x))
    info = made.info()
    assert not info["at_once"] and not info["fallbacks"] and sum(program["hits"] for segment in info["segments"] for program in segment["programs"]) >= 2, info
