"""Sizes that a recorded function uses where no operator is recorded, in another thread or in a kernel: operators there get the number itself, which is guarded."""

import concurrent.futures
import threading

import pytest
import torch

import escapement

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]


def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def times(x):
    n = x.size(0)
    return x.sum() + in_a_thread(lambda: torch.ones(3) * n)


def from_the_left(x):
    n = x.size(0)
    return x.sum() + in_a_thread(lambda: n - torch.ones(3))


def real(x):
    n = x.size(0)
    return x.sum() + in_a_thread(lambda: torch.ones(3) * (n / 4) + torch.arange(3) ** (n * 0.5))


def truth(x):
    longer = x.size(0) > 3
    return x.sum() + in_a_thread(lambda: torch.zeros(3) + longer)


def summed(x):
    n, m = x.size(0), x.size(1)
    return x.sum() + in_a_thread(lambda: torch.arange(3) * (n + m * 2))


def recorded_there(x):
    n = x.size(0)
    inner = escapement.jit(lambda y: y.new_ones(y.size(0) + n) * (n * y.size(0)))
    return x.sum() + in_a_thread(lambda: inner(torch.ones(4)))


def compared_there(x):
    n = x.size(0)
    inner = escapement.jit(lambda y: y * 2 if y.size(0) < n else y * max(n, y.size(0)) + y.size(0) % n)
    return x.sum() + in_a_thread(lambda: inner(torch.ones(4)))


@pytest.mark.parametrize("function", [times, from_the_left, real, truth, summed, recorded_there, compared_there])
@torch.no_grad()
def test_in_another_thread(function):
    jitted = escapement.jit(function)
    for sizes in [(2, 3), (2, 3), (3, 4), (5, 2), (1, 2), (5, 2), (2, 5), (2, 3)]:
        x = torch.randn(*sizes)
        torch.testing.assert_close(jitted(x), function(x))
    assert jitted.info()["recordings"] > 1


@torch.no_grad()
def test_in_a_thread_that_waits():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()

        def used(x):
            n = x.size(0)
            return x.sum() + pool.submit(lambda: torch.arange(3) * n).result()

        jitted = escapement.jit(used)
        for n in (2, 2, 5, 3):
            torch.testing.assert_close(jitted(torch.ones(n, 2)), used(torch.ones(n, 2)))


lib = torch.library.Library("numbers_in_threads", "DEF")
lib.define("scaled(Tensor x) -> Tensor")
current = threading.local()
lib.impl("scaled", lambda x: x * current.size + current.size / 2, "CPU")


@torch.no_grad()
def test_in_a_kernel():
    """It reads what the function has put somewhere, which is no program to compile."""
    def scaled(x):
        current.size = x.size(0)
        return torch.ops.numbers_in_threads.scaled(x) + 1

    jitted = escapement.jit(scaled)
    for n in (2, 3, 5, 3):
        torch.testing.assert_close(jitted(torch.ones(n, 2)), torch.ones(n, 2) * n + n / 2 + 1)


def test_the_attribute_is_one():
    """Otherwise as any other."""
    tensor = torch.zeros(())
    assert not hasattr(tensor, "_wrapped_number")
    with pytest.raises(AttributeError):
        del tensor._wrapped_number
    tensor._wrapped_number = 3
    assert tensor._wrapped_number == 3 and vars(tensor) == {"_wrapped_number": 3}
    del tensor._wrapped_number
    assert not hasattr(tensor, "_wrapped_number") and not vars(tensor)
