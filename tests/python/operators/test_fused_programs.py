"""Programs of which one kernel computes a value more than once, or writes over what it has read: eager's numbers, in one recording for all sizes.
The numbers are small integers, so that every order of adding them gives the same bits."""
import pytest
import torch

import escapement

SIZES = [7, 1, 5, 64]


def whole(*sizes):
    return torch.randint(-4, 5, sizes).float()


def along_columns(x, q):
    p = (x + 1) * 2
    return (p + q).sum(1) + p


def along_both(x, q):
    p = (x + 1) * 2
    return (p + q + p[:, None]).amax(1) - p


def along_columns_and_looked_up(x, q):
    p = (x + 1) * 2
    return (p * q).sum(1) * p, (p + q).amax(0)


def counted(x, q):
    steps = (torch.arange(x.shape[0]) + 1) * 2
    return (steps + q).sum(1) + steps + x


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("program", [along_columns, along_both, along_columns_and_looked_up, counted])
def test_what_is_computed_again_is_so_on_the_axes_of_its_reader(program, mode):
    jitted = escapement.jit(program, mode=mode)
    for size in SIZES if "amax" in program.__code__.co_names else [*SIZES, 0, 13]:   # nothing has no largest element
        args = whole(size), whole(size, size)
        torch.testing.assert_close(jitted(*args), program(*args), rtol=0, atol=0)
    if mode == "call":
        assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


def test_a_vector_along_rows_and_columns_is_one_kernel():
    jitted = escapement.jit(along_columns)
    jitted(whole(3), whole(3, 3))
    (region,) = jitted.info()["regions"]
    assert len(region["versions"][0]["kernels"]) == 1


# A library call that returns its argument's memory as a value of its own.
def seen_otherwise(x):
    y = x @ x
    z = y + y.view(torch.int32).t()
    return z @ x


def test_nothing_is_written_over_memory_that_is_read_elsewhere():
    jitted = escapement.jit(seen_otherwise)
    for size in SIZES:
        x = whole(size, size)
        torch.testing.assert_close(jitted(x), seen_otherwise(x), rtol=1e-6, atol=0)
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


# A value that the program looks at in front of what its caller sees is computed and looked at in front of it, whatever shares a kernel with it.
def the_callers_memory_otherwise(counter, x):
    seen = counter.view(torch.int32)
    doubled = x * 2
    total = doubled.sum()
    if total > 0:
        seen.copy_(doubled)
        return total + 1
    seen.sub_(1)
    return total - 1


def joined_with_what_comes_later(counter, x):
    doubled = x * 2
    largest = doubled.sum(0).amax()
    if largest > 0:
        counter.add_(1)
        return doubled + 1
    counter.sub_(1)
    return doubled - 1


def joined_with_what_waits(counter, x):
    doubled = x * 2
    largest = doubled.sum(0).amax()
    if largest > 0:
        counter.add_(1)
        return doubled + counter
    counter.sub_(1)
    return doubled - counter


@pytest.mark.parametrize("program", [the_callers_memory_otherwise, joined_with_what_comes_later, joined_with_what_waits])
def test_what_is_looked_at_does_not_wait(program):
    jitted = escapement.jit(program)
    for rows, columns, sign in [(3, 4, 1), (3, 4, -1), (5, 2, -1), (5, 2, 1), (1, 1, -1)]:
        x = sign * torch.ones(rows, columns)
        mine, eagers = torch.zeros(rows, columns), torch.zeros(rows, columns)
        torch.testing.assert_close(jitted(mine, x), program(eagers, x), rtol=0, atol=0)
        assert mine.view(torch.int32).equal(eagers.view(torch.int32))
    info = jitted.info()
    assert info["recordings"] == 2 and not info["eager"]
    assert all(version["kernels"] for region in info["regions"] for version in region["versions"])
