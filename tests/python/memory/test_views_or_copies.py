"""Operators that hand back their argument, or a view of it, at some sizes and a copy at others. What of that can be seen (strides, shared memory,
which tensors are one, in which mode they were made, what a write reaches) is eager's, whichever sizes come first; and where nothing of it can be
seen one recording serves all sizes.
"""
import itertools

import pytest
import torch
import torch.nn.functional as F

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

OPERATORS = {
    "reshape": lambda x: x.reshape(x.shape[0], x.shape[1] * x.shape[2]), "flat": lambda x: x.reshape(-1), "its own sizes": lambda x: x.reshape(x.shape),
    "flatten": lambda x: x.flatten(0, 1), "ravel": lambda x: x.ravel(), "reshape_as": lambda x: x.reshape_as(x.mT), "contiguous": lambda x: x.contiguous(),
    "flat twice": lambda x: x.flatten(1).mT.reshape(-1), "channels last": lambda x: x[None].contiguous(memory_format=torch.channels_last),
    "to channels last": lambda x: x[:, None].to(memory_format=torch.channels_last), "to contiguous": lambda x: x[None].to(memory_format=torch.contiguous_format),
    "to itself": lambda x: x.to(torch.float32), "expand": lambda x: x.expand_as(x), "narrowed": lambda x: x.narrow(0, 0, x.shape[0]), "squeezed": lambda x: x.squeeze(0),
    "broadcast": lambda x: torch.broadcast_tensors(x, x[:1])[1], "dropout": lambda x: F.dropout(x, 0.5), "no dropout": lambda x: F.dropout(x, 0.5, False),
    "alpha": lambda x: F.alpha_dropout(x, 0.5, True), "no alpha": lambda x: F.alpha_dropout(x, 0.5, False), "features": lambda x: torch.feature_dropout(x, 0.5, True),
    "native": lambda x: torch.native_dropout(x, 0.5, True)[0], "repeated": lambda x: x.repeat(1, 1, 1), "tiled": lambda x: x.tile(()), "rolled": lambda x: x.roll(0, 0),
    "flipped": lambda x: x.flip(()), "padded": lambda x: F.pad(x, (0, 0)), "joined": lambda x: torch.cat([x]), "einsum": lambda x: torch.einsum("abc->acb", x),
    "power": lambda x: torch.matrix_power(x, 1), "diff": lambda x: x.diff(n=0), "sum to size": lambda x: x.sum_to_size(x.shape), "split": lambda x: x.tensor_split(1)[0],
    "windows": lambda x: x.unfold(2, 1, 1).reshape(-1), "shifted": lambda x: torch.fft.fftshift(x, ()), "resolved": lambda x: x.resolve_conj().real,
    "diagonal": lambda x: x.diagonal().flatten(), "turned": lambda x: x.rot90(0), "of one": lambda x: torch.combinations(x.reshape(-1), 1),
}
LAYOUTS = {"plain": lambda x: x, "transposed": lambda x: x.mT, "stepped": lambda x: x[:, ::2]}
SIZES = ((3, 5, 7), (2, 3, 4), *itertools.product((0, 1, 2), repeat=3))
FIRST = (0, 2, 11, 20)


def alone(f, lay):
    return lambda x: f(lay(x))


def of_own(f, lay):
    return lambda x: f(lay(x * 1))


def beside(f, lay):
    def program(x):
        y = lay(x * 1)
        return y, f(y)
    return program


def goes_on(f, lay):
    return lambda x: f(lay(x * 1)) * 2


def written(f, lay):
    def program(x):
        result = f(lay(x))
        result.mul_(2)
        return result
    return program


def source_written(f, lay):
    def program(x):
        result = f(lay(x))
        x.mul_(2)
        return result.clone()
    return program


def outcome(run, sizes, mode):
    x = torch.arange(1.0, torch.Size(sizes).numel() + 1).reshape(sizes)
    torch.manual_seed(0)
    try:
        with mode():
            found = run(x)
    except (RuntimeError, IndexError) as error:
        return type(error), x.tolist()
    tensors = [x, *(found if isinstance(found, tuple) else (found,))]
    seen = [(t.shape, [stride for size, stride in zip(t.shape, t.stride()) if size > 1 and t.numel()], t.is_inference(), t.tolist()) for t in tensors]
    return seen, [(a is b, shares(a, b)) for a in tensors for b in tensors]


def shares(a, b):
    return bool(a.numel() and b.numel()) and a.untyped_storage()._cdata == b.untyped_storage()._cdata and b.storage_offset() - a.storage_offset()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATORS)
def test_what_can_be_seen_is_eagers(name, layout):
    for number, what in enumerate((alone, of_own, beside, goes_on, written, source_written)):
        program = what(OPERATORS[name], LAYOUTS[layout])
        for mode, first in ((torch.no_grad, FIRST[number % 4]), (torch.inference_mode, FIRST[(number + 1) % 4])):
            run = escapement.jit(program)
            for sizes in (*SIZES[first:], *SIZES[:first]):
                assert outcome(run, sizes, mode) == outcome(program, sizes, mode), (what.__name__, SIZES[first], sizes)
            assert "internal_error" not in str(run.info())


@pytest.mark.parametrize("name", ("reshape", "contiguous", "channels last", "flatten", "windows"))
def test_replay_mode(name):
    for what, layout in itertools.product((alone, beside, written), LAYOUTS):
        program = what(OPERATORS[name], LAYOUTS[layout])
        run = escapement.jit(program, mode="replay")
        for sizes in SIZES * 2:
            assert outcome(run, sizes, torch.no_grad) == outcome(program, sizes, torch.no_grad), (what.__name__, layout, sizes)


def heads(x):
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def halves(x):
    return x.view(*x.shape[:3], 2, -1).transpose(3, 4).reshape(x.shape[0], -1)


UNSEEN = {
    "a product": lambda x, w: heads(x).float() @ w(x.shape[1] * x.shape[3]), "own memory": lambda x, w: heads(x * 2), "own memory that goes on": lambda x, w: heads(x * 2).relu() + 1,
    "contiguous": lambda x, w: x.transpose(1, 2).contiguous() * 2, "windows": lambda x, w: halves(x).sum(), "a repeated axis": lambda x, w:
        x[:, :, None].expand(-1, -1, 3, -1, -1).reshape(x.shape[0], 3 * x.shape[1], *x.shape[2:]) @ w(x.shape[3]),
}


@pytest.mark.parametrize("first", (0, 3, 4, 5))
@pytest.mark.parametrize("name", UNSEEN)
def test_one_recording_serves_where_nothing_can_be_seen(name, first):
    def program(x):
        return UNSEEN[name](x, lambda n: torch.ones(n, 3))

    run = escapement.jit(program)
    sizes = [(2, 3, 5, 8), (1, 2, 7, 4), (3, 4, 2, 6), (2, 3, 1, 8), (1, 1, 1, 4), (2, 1, 5, 8)]
    for shape in (*sizes[first:], *sizes[:first]):
        x = torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape)
        with torch.no_grad():
            ours, eager = run(x), program(x)
        assert torch.equal(ours, eager) and (ours.stride() == eager.stride() or 1 in eager.shape), shape
    assert run.info()["recordings"] == 1, run.info()


def test_strides_of_a_result_take_two_recordings():
    """As many as the relation has answers; where the view comes first one more is lost, since nobody knew yet."""
    def program(x):
        return (x * 2).mT.reshape(x.shape[0], -1)

    for first, most in ((0, 2), (1, 3)):
        run = escapement.jit(program)
        sizes = [(4, 3, 5), (2, 2, 1), (3, 7, 11), (5, 1, 3), (6, 2, 1), (0, 3, 3), (2, 2, 2)]
        for shape in (*sizes[first:], *sizes[:first]):
            x = torch.rand(shape)
            if x.numel():
                with torch.no_grad():
                    ours, eager = run(x), program(x)
                assert torch.equal(ours, eager) and ours.stride() == eager.stride(), shape
        assert run.info()["recordings"] <= most and not run.info()["eager"], run.info()


def test_strides_asked_before_the_tensor_becomes_another_view():
    def program(x):
        y = x.sign()
        strides = y.stride()
        y.as_strided_((1,), (1,))
        return strides, y.stride()

    run = escapement.jit(program)
    for rows, columns in ((4, 4), (3, 5), (7, 2), (1, 3)):
        x = torch.rand(rows, columns)
        assert run(x) == program(x)
    assert "internal_error" not in str(run.info())


def test_a_recording_that_the_next_one_mends_is_no_failure(capfd):
    """A view at one size and a copy at others, which is written: seen at size 1 only, where the recording is lost once."""
    def program(a):
        flat = a.t().reshape(-1)
        flat.add_(1)
        return a, flat

    with torch.no_grad():
        compiled = escapement.jit(program, strict=True)
        for n in (3, 1, 4, 7, 1):
            a, b = torch.ones(n, n), torch.ones(n, n)
            assert all(map(torch.equal, program(a), compiled(b))), n
    region = compiled.info()["regions"][0]
    assert region["recordings"] == 3 and region["fallbacks"] == {"recorder_refused": 1}   # counted
    assert "is not compiled" not in capfd.readouterr().err
