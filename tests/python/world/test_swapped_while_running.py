"""A call lets other threads run Python while its operators take long: one of them may make another tensor of an argument's object, or drop the last
reference to what a list holds. The call goes on with what it was given."""

import threading

import pytest
import torch

import escapement

ROUNDS = 30


def product(x):
    return ((x @ x) @ x) @ x + x


@torch.no_grad()
def test_swapped_tensors():
    x, other = torch.eye(192), torch.eye(192) * 2
    expected = [product(x), product(other)]
    jitted = escapement.jit(product)
    jitted(x), jitted(other)
    ended, swapped = threading.Event(), []

    def swap():
        while not ended.is_set():
            try:
                torch.utils.swap_tensors(x, other)
                swapped.append(True)
            except RuntimeError:   # somebody holds one: a call, as in eager
                pass

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(ROUNDS):
            found = jitted(x)
            assert any(torch.equal(found, one) for one in expected)
    finally:
        ended.set()
        thread.join()
    assert swapped


@pytest.mark.parametrize("kept", [False, True])
@torch.no_grad()
def test_a_list_is_emptied(kept):
    jitted = escapement.jit(lambda held: product(held[0]) + held[1])
    ended, lists = threading.Event(), []

    def empty():
        while not ended.is_set():
            for held in lists[-1:]:
                held.clear()

    thread = threading.Thread(target=empty)
    expected = product(torch.eye(192)) + 1
    for _ in range(3):
        jitted([torch.eye(192), torch.ones(192, 192)])
    thread.start()
    try:
        for _ in range(ROUNDS):
            held = [torch.eye(192), torch.ones(192, 192)]
            here = list(held) if kept else None
            lists.append(held)
            try:
                assert torch.equal(jitted(held), expected)
            except IndexError:   # emptied before the call began
                pass
            del here
    finally:
        ended.set()
        thread.join()
