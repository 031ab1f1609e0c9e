"""Dynamo's sentences about missed guards, as facts. The sentences are those of torch 2.13."""

import pytest
import torch

from escapement.misses import is_about, look_up, mentioned, miss

VALUES = {"x": torch.zeros(3, 5), "xs": [torch.zeros(2)], "named": {"a": torch.zeros(7)}, "n": 4}

CASES = [
    ("0/1: tensor 'x' size mismatch at index 0. expected 5, actual 6", (1, "x.size()[0] == 5", "size", "5", "x.size()[0] = 6")),
    ("2/0: tensor 'x' stride mismatch at index 1. expected 1, actual 5", (0, "x.stride()[1] == 1", "layout", "1", "x.stride()[1] = 5")),
    ("0/0: tensor 'x' dtype mismatch. expected Float, actual Double", (0, "x.dtype == Float", "key", "Float", "x.dtype = Double")),
    ("0/0: x.size()[1] > 6  # if x.size(1) > 6:  # f.py:3 in f", (0, "x.size()[1] > 6", "relation", "x.size()[1] > 6", "x.size()[1] = 5")),
    ("0/0: x.stride()[0] == x.size()[1]  # (unknown source x.stride()[0], please file a bug)",
     (0, "x.stride()[0] == x.size()[1]", "layout", "x.stride()[0] == x.size()[1]", "x.size()[1] = 5")),
    ("0/3: 2 <= x.size()[0]  # f.py:1 in f (user code shown is first use of this value--the guard itself is not due user code but due to "
     "0/1 specialization in the framework)", (3, "2 <= x.size()[0]", "size 0 or 1", "2 <= x.size()[0]", "x.size()[0] = 3")),
    ("0/0: GLOBAL_STATE changed: grad_mode ", (0, "GLOBAL_STATE changed: grad_mode", "global state", "GLOBAL_STATE changed: grad_mode", "")),
    ("0/0: self.n == 3        # f.py:1 (HINT: torch.compile considers integer attributes of the nn.Module to be static.)",
     (0, "self.n == 3", "attribute", "self.n == 3", "")),
    ("something new", (-1, "something new", "other", "something new", "")),
]


@pytest.mark.parametrize("sentence, expected", CASES, ids=[case[1][2] + str(i) for i, case in enumerate(CASES)])
def test_a_sentence(sentence, expected):
    assert tuple(miss(sentence, VALUES)) == expected


def test_values_are_looked_up_without_evaluating():
    assert look_up("xs[0]", VALUES) is VALUES["xs"][0] and look_up("named['a']", VALUES) is VALUES["named"]["a"]
    assert look_up("missing.field[3]", VALUES) is None and look_up("xs[9]", VALUES) is None


def test_a_source_is_found_in_a_guard_by_its_own_name_only():
    assert mentioned("L['x']:0", "x.size()[0] > 4") and not mentioned("L['x']:1", "x.size()[0] > 4")
    assert not mentioned("L['x']:0", "xx.size()[0] > 4") and not mentioned("L['x']:0", "a.x.size()[0] > 4")
    assert mentioned("L['xs'][0]:0", "xs[0].size()[0] == 2") and mentioned("L['n']", "n <= x.size()[0]")
    assert not mentioned("L['n']", "x.n == 3") and not mentioned("L['n']", "n.size()[0] == 3")


def test_a_relation_is_its_guard():
    assert is_about("L['x'].size(1) > 6", "x.size()[1] > 6") and not is_about("L['x'].size(0) > 6", "x.size()[1] > 6")
    assert is_about("L['n'] <= L['xs'][0].size(0)", "n <= xs[0].size()[0]")
