"""Checks inside a program, of what is born while it runs, and the kernels that run before them. What a check establishes for sizes of the inputs
(an item that equals two of them) is a relation of the inputs, asked at entry: a kernel in front of the check would otherwise rely on it, and leave
its memory where it does not hold."""

import pytest
import torch
from harness import region


def zeros(n):
    return torch.zeros(n, dtype=torch.int64)


def both_sizes(x, y):
    a = x + 1
    n = a.sum().item()
    if n == x.shape[0] and n == y.shape[0]:
        b = y + 3
        return [a * b, b]
    return [a]


def through_a_multiple(x, y):
    a = x + 1
    n = a.sum().item()
    if 2 * n == 2 * x.shape[0] and 3 * n == 3 * y.shape[0]:
        return [a * y]
    return [a]


def lower_bound_first(x, y):
    a = x + 1
    n = a.sum().item()
    if n >= 5 and n == x.shape[0]:
        return [a[:5] * 2 + x[:5], a]
    return [a]


def size_of_a_selection(x, y):
    a = x + 1
    n = a[a > 0].shape[0]
    if n == x.shape[0] and n == y.shape[0]:
        return [a * y + x]
    return [a]


def half_of_both(x, y):
    a = x + 1
    n = a.sum().item() // 2
    if n * 2 == x.shape[0] and n * 2 == y.shape[0]:
        return [a * y]
    return [a]


@pytest.mark.parametrize("function", [both_sizes, through_a_multiple, lower_bound_first, size_of_a_selection, half_of_both])
def test_kernels_before_a_check_keep_to_their_memory(function):
    made = region(function, 2)
    assert all(map(torch.equal, made(zeros(6), zeros(6)), function(zeros(6), zeros(6))))
    sizes = [(7, 7), (8, 8), (2_000_000, 2), (2, 2_000_000), (20_000_000, 1), (6, 4), (8, 8), (3, 3), (0, 0), (1, 1)]
    for n, m in sizes:
        ours, eager = made(zeros(n), zeros(m)), function(zeros(n), zeros(m))
        assert len(ours) == len(eager) and all(map(torch.equal, ours, eager)), (function, n, m)
    info = made.info()
    assert sum(v["hits"] for v in info["versions"]) >= 3 and not info["fallbacks"], info


def test_a_relation_of_inputs_is_asked_at_entry():
    made = region(both_sizes, 2)
    made(zeros(5), zeros(5))
    guards = made.info()["versions"][0]["guards"]
    assert [(g["guard"], g["at_entry"]) for g in guards] == [("u0 == s0", False), ("s0 == s1", True)]
