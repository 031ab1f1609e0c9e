"""Declared dims of escapement.jit: the same spec, errors and facts as those of escapement.compile; one version for the whole range."""
import pytest
import torch

import escapement
from escapement import Dim

N = Dim("n", 3, 6)


def one_version(fn):
    info = fn.info()
    return info["recordings"] == info["versions"] == 1 and not info["eager"]


def check(jitted, fn, calls):
    for args in calls:
        assert torch.equal(jitted(*args), fn(*args))


@torch.no_grad()
def test_a_range_is_checked_and_one_version_serves_it():
    fn = lambda x, y: x + y  # noqa: E731
    jitted = escapement.jit(fn, dims={"x": {0: Dim.AUTO}, "y": {0: N}})
    check(jitted, fn, [(torch.randn(n), torch.randn(n)) for n in (4, 3, 6, 5)])
    with pytest.raises(escapement.DimError, match=r"y.size\(0\) is 7, but it is declared as n in \[3, 6\]"):
        jitted(torch.ones(7), torch.ones(7))
    assert one_version(jitted)
    lines = jitted.info()["regions"][0]["dims"]
    assert any(line.startswith("x.size(0) is n in [3, 6], joined by: ") for line in lines) and "y.size(0) is n in [3, 6]" in lines


@torch.no_grad()
def test_open_dims_are_one_program_at_0_1_and_primes():
    fn = lambda x, b: torch.relu(x * 2 + b)  # noqa: E731
    jitted = escapement.jit(fn, dims={"x": [Dim("n"), Dim("m")], "b": [Dim("m")]})
    jitted(torch.randn(5, 7), torch.randn(7))
    escapement.reset()
    sizes = [(0, 3), (1, 1), (1, 7), (2, 13), (31, 0), (61, 127)]
    check(jitted, fn, [(torch.randn(n, m), torch.randn(m)) for n, m in sizes])
    seen = escapement.stats()
    assert seen["hits"] == len(sizes) and seen["launches"] >= len(sizes), seen
    assert not seen.get("recordings") and not seen.get("specialisations") and one_version(jitted), seen


@torch.no_grad()
def test_served_calls_need_no_python_check(monkeypatch):
    jitted = escapement.jit(lambda x, k: x[:k] * 2, dims={"x": [N, 4], "k": Dim("k", 1, 3)})
    jitted(torch.ones(5, 4), 2)
    monkeypatch.setattr(type(jitted), "_call", lambda *_: pytest.fail("the call reached Python"), raising=False)
    assert [tuple(jitted(torch.ones(n, 4), k).shape) for n, k in ((3, 3), (6, 1))] == [(3, 4), (1, 4)]
    for bad in ((torch.ones(7, 4), 2), (torch.ones(5, 5), 2), (torch.ones(5, 4), 4), (torch.ones(5, 4, 1), 2)):
        with pytest.raises(pytest.fail.Exception):
            jitted(*bad)   # else the core would have served what was not declared


@torch.no_grad()
def test_a_branch_that_the_range_decides_is_none():
    def head(x):
        return x[:4] if x.size(0) > 4 else x

    jitted = escapement.jit(head, dims={"x": [Dim("n", 5, 8)]})
    check(jitted, head, [(torch.randn(n),) for n in (6, 5, 8)])
    assert one_version(jitted)
    assert not any(guard["because"] == "branch" for guard in jitted.info()["regions"][0]["versions"][0]["guards"])
    for _ in range(2):   # again at each call, and nothing is kept
        broken = escapement.jit(head, dims={"x": [Dim("n", 2, 8)]})
        with pytest.raises(escapement.DimError, match=r"x.size\(0\) \(n\) must stay dynamic for all of n in \[2, 8\].* 4 < .*test_jit_dims.py:"):
            broken(torch.ones(6))


BREACHES = {
    "pinned by a read": (lambda x: x * len(range(x.size(0))), {"x": [N]}, (torch.ones(4),), "the program pins it: "),
    "pinned by an operator": (lambda x: x + torch.ones(4), {"x": [N]}, (torch.ones(4),), "the program pins it: "),
    "two names tied": (lambda x, y: x + y, {"x": [N], "y": [Dim("m", 3, 6)]}, (torch.ones(4), torch.ones(4)), "m and n are tied"),
    "a branch": (lambda x: x if x.size(0) % 2 else x + 1, {"x": [N]}, (torch.ones(4),), "depends on"),
    "an integer pinned": (lambda x, k: x.sum(dim=int(k)), {"k": Dim("k", 0, 1)}, (torch.ones(4, 4), 1), "the program pins it"),
}


@pytest.mark.parametrize("name", BREACHES)
@torch.no_grad()
def test_what_the_program_does_not_keep_is_an_error(name):
    fn, dims, args, message = BREACHES[name]
    jitted = escapement.jit(fn, dims=dims)
    for _ in range(2):
        with pytest.raises(escapement.DimError, match=message):
            jitted(*args)


@torch.no_grad()
def test_equal_names_are_equal_sizes():
    fn = lambda x, y: (x.unsqueeze(1) * y).sum(0)  # noqa: E731
    jitted = escapement.jit(fn, dims={"x": [N], "y": [N, Dim("m", 0, 100)]})
    for n, m in ((4, 5), (3, 0), (6, 100), (5, 1)):
        x, y = torch.randn(n), torch.randn(n, m)
        torch.testing.assert_close(jitted(x, y), fn(x, y))
    with pytest.raises(escapement.DimError, match=r"y.size\(0\) is 5, but it is declared as n, which is 4 by x.size\(0\)"):
        jitted(torch.ones(4), torch.ones(5, 2))
    assert one_version(jitted)


@torch.no_grad()
def test_derived_dims_are_computed_wherever_they_stand():
    fn = lambda y, x: y[1::2] + y[:-1:2] * x  # noqa: E731
    jitted = escapement.jit(fn, dims={"y": [2 * N + 1], "x": [N]})
    for n in (4, 3, 6):
        y, x = torch.randn(2 * n + 1), torch.randn(n)
        assert torch.equal(jitted(y, x), fn(y, x))
    with pytest.raises(escapement.DimError, match=r"y.size\(0\) is 10, but it is declared as 2\*n \+ 1"):
        jitted(torch.ones(10), torch.ones(4))
    assert one_version(jitted)


@torch.no_grad()
def test_an_expression_that_nothing_binds_is_checked_in_python():
    jitted = escapement.jit(lambda y: y * 2, dims={"y": [2 * N + 1]})
    check(jitted, lambda y: y * 2, [(torch.randn(n),) for n in (9, 7, 13, 11)])
    for size in (8, 15):
        with pytest.raises(escapement.DimError):
            jitted(torch.ones(size))
    assert one_version(jitted)


@torch.no_grad()
def test_static_and_static_first():
    static = escapement.jit(lambda x: x * 2, dims={"x": [Dim.STATIC, None]})
    for n, m in ((3, 4), (3, 7), (5, 4), (5, 9)):
        static(torch.ones(n, m))
    assert static.info()["versions"] == 2
    first = escapement.jit(lambda x: x * 2, dims={"x": [Dim.STATIC_FIRST]})
    for n in (3, 3, 5, 8, 3):
        assert first(torch.ones(n)).shape == (n,)
    assert first.info()["versions"] == 2


@torch.no_grad()
def test_containers_keywords_and_rest_arguments():
    def step(batch, k, *rest, scale=None):
        return batch["x"][:k] * 2 + rest[0]

    n = Dim("n", 1, 8)
    dims = {"batch": {"x": [n, 4], "y": [n]}, "k": Dim("k", 1, 8), "rest": [{0: 4}], "scale": {0: n}}
    jitted = escapement.jit(step, dims=dims)
    for size in (5, 3, 8):
        batch = {"x": torch.randn(size, 4), "y": torch.randn(size)}
        assert torch.equal(jitted(batch, 2, torch.ones(4), scale=torch.ones(size)), step(batch, 2, torch.ones(4)))
    assert jitted.info()["recordings"] == 1
    with pytest.raises(escapement.DimError, match=r"batch\['y'\].size\(0\) is 4"):
        jitted({"x": torch.ones(3, 4), "y": torch.ones(4)}, 2, torch.ones(4))
    with pytest.raises(escapement.DimError, match=r"rest\[0\].size\(0\) is 5"):
        jitted({"x": torch.ones(3, 4), "y": torch.ones(3)}, 2, torch.ones(5))


@torch.no_grad()
def test_learned_dims_are_for_export():
    class Model(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    jitted = escapement.jit(Model(), dims={"y": {0: N}})
    jitted(torch.ones(4), torch.ones(4))
    learned = escapement.learned_dims(jitted)
    program = torch.export.export(Model(), (torch.ones(4), torch.ones(4)), dynamic_shapes=learned)
    assert program.module()(torch.ones(6), torch.ones(6)).shape == (6,)


def test_bad_specs_are_errors_at_once():
    with pytest.raises(escapement.DimError, match="dims names 'z', which is no argument"):
        escapement.jit(lambda x: x, dims={"z": [N]})
    with pytest.raises(escapement.EscapementError, match="compile='block'"):
        escapement.jit(lambda x: x, dims={"x": [N]}, compile="background")
