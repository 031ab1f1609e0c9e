"""Programs whose operators refuse what some calls give them, and that write to their arguments: where a call ends with an error, exactly that has
been changed which eager changes, once. What stands behind the refusal has not happened, what stands before it has."""
import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
ONES = torch.ones(1, 1, 2)


def convolved(x):
    return torch.nn.functional.conv1d(x[None], ONES)   # refuses what is shorter than 2


def library_before_a_write(x, y, w, i):
    doubled = y * 2            # waits for nothing, and is fused with what stands behind the write
    z = convolved(doubled)
    x.add_(1)
    return z, doubled + 1


def library_behind_a_write(x, y, w, i):
    x.add_(1)
    return convolved(y * 2)


def library_between_writes(x, y, w, i):
    x.add_(1)
    z = convolved(y)
    x.mul_(2)
    return z


def library_before_a_draw(x, y, w, i):
    doubled = y * 2
    return convolved(doubled), torch.rand(3), doubled + 1


def library_between_draws(x, y, w, i):
    a = torch.rand(3)
    return a, convolved(y), torch.rand(2)


def index_into_a_write(x, y, w, i):
    return x.add_(w[i]) * 1


def index_before_a_write(x, y, w, i):
    found = w[i] * 2
    x.add_(1)
    return found


def embedding_copied(x, y, w, i):
    x.copy_(torch.nn.functional.embedding(i, w))
    return x * 2


def index_copied_transposed(x, y, w, i):
    x.t().copy_(w.index_select(0, i).t())
    return x * 2


def index_behind_a_write(x, y, w, i):
    x.add_(1)
    return w[i] + 1


def two_arguments_written_between(x, y, w, i):
    x.add_(1)
    w.mul_(2)
    z = convolved(y)
    return z, w[i]


PROGRAMS = [library_before_a_write, library_behind_a_write, library_between_writes, library_before_a_draw, library_between_draws, index_into_a_write,
            index_before_a_write, embedding_copied, index_copied_transposed, index_behind_a_write, two_arguments_written_between]


def outcome(run, length, count, wrong):
    i = torch.arange(count) % 9
    if wrong and count > 0:
        i[count // 2] = 99
    arguments = torch.ones(count, 2), torch.ones(1, length), torch.arange(18.0).reshape(9, 2), i
    torch.manual_seed(count)
    try:
        result = run(*arguments)
        result = [t.tolist() for t in result] if isinstance(result, tuple) else result.tolist()
    except (RuntimeError, IndexError) as error:
        result = type(error).__name__
    return result, [t.tolist() for t in arguments], [t._version > 0 for t in arguments], torch.get_rng_state().tolist()


@pytest.mark.parametrize("mode", ["call", "replay", "compile"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_has_happened_at_an_error_is_eagers(program, mode):
    run = torch.compile(program, backend="escapement") if mode == "compile" else escapement.jit(program, mode=mode)
    for length, count, wrong in ((4, 5, False), (1, 5, False), (7, 4, True), (0, 7, False), (5, 0, False), (2, 1, True), (1, 13, True), (3, 11, False)):
        wanted, found = outcome(program, length, count, wrong), outcome(run, length, count, wrong)
        assert found == wanted, (length, count, wrong)
    if mode == "call":
        assert run.info()["recordings"] == 1
