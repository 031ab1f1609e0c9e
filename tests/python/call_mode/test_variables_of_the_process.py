"""Variables of the process are compared, by whatever name and in whatever way they are asked for; where the names stand in the code, these alone."""

import os
from os import environ
from os import getenv as ask

import pytest
import torch

import escapement
from escapement.tracer.names import variables_in

pytestmark = [pytest.mark.usefixtures("fresh"), pytest.mark.filterwarnings("ignore")]
PREFIX, NAME, kept, get = "ZZ_TEST", "zz_test_scale", os.environ, os.environ.get

# (the code, the names; None for any)
CODE = [
    (lambda: os.environ.get("A"), {"A"}), (lambda d: os.environ.get("a", d + 1), {"a"}), (lambda: os.environ["A-b"], {"A-b"}), (lambda: os.getenv("A", "1"), {"A"}), (lambda: "a-b" in os.environ, {"a-b"}),
    (lambda: "a" not in environ, {"a"}), (lambda: environ.get("a") or os.getenv("b"), {"a", "b"}), (lambda x: float(os.environ.get("A", x.y(3))), {"A"}), (lambda d: os.getenv("A", default=d), {"A"}),
    (lambda k: os.environ.get(k), {None}), (lambda k: os.environ.get("A" + k, 1), {None}), (lambda k: os.getenv(f"A{k}"), {None}), (lambda: [*os.environ], {None}), (lambda: os.environ.items(), {None}),
    (lambda k: k in os.environ, {None}), (lambda k: os.environ[k], {None}), (lambda: dict(environ), {None}), (lambda g: g(os.environ), {None}), (lambda: [os.getenv(k) for k in "ab"], {None}),
    (lambda k: os.getenv("A" if k else "B"), {None}), (lambda o: o.get("A"), set()),
]


@pytest.mark.parametrize("row", range(len(CODE)))
def test_which_variables_are_asked_for(row):
    function, names = CODE[row]
    assert {*variables_in(function.__code__)} == names


def imported():
    from os import environ as local
    return local.get("zz_test_scale", "7")


def first(pairs):
    return next((value for key, value in pairs if key.lower() == NAME), "7")


READING = {
    "lower case": lambda: os.environ.get("zz_test_scale", "7"), "in": lambda: "5" if "zz_test_scale" in os.environ else "7", "put together": lambda: os.environ.get(NAME[:3] + "test_scale", "7"),
    "formatted": lambda: os.getenv(f"{NAME.lower()}", "7"), "items": lambda: first(os.environ.items()), "iterated": lambda: first((key, os.environ[key]) for key in os.environ),
    "alias": lambda: ask("zz_test_scale", "7"), "method": lambda: get("zz_test_scale", "7"), "kept": lambda: kept.get(NAME, "7"), "imported": imported,
    "bytes": lambda: os.environb.get(b"zz_test_scale", b"7"), "handed on": lambda: first(dict(os.environ).items()), "expanded": lambda: os.path.expandvars("${zz_test_scale}").replace("${zz_test_scale}", "7"),
}


@pytest.mark.parametrize("reading", READING)
@torch.no_grad()
def test_each_change_is_noticed(reading, monkeypatch):
    read = READING[reading]
    function = escapement.jit(lambda x: x * float(read()))
    for value in (None, "2", "3.5", None, "2"):
        monkeypatch.delenv(NAME, raising=False)
        if value is not None:
            monkeypatch.setenv(NAME, value)
        for size in (3, 4, 0, 7):
            assert torch.equal(function(torch.ones(size)), torch.ones(size) * float(read())), value
    assert function.info()["recordings"] <= 3 and not function.info()["eager"], function.info()


@torch.no_grad()
def test_variables_that_nobody_asks_for_cost_nothing(monkeypatch):
    function = escapement.jit(lambda x: x * float(os.environ.get("zz_test_scale", "7")))
    for i in range(8):
        monkeypatch.setenv("ZZ_TEST_OTHER", str(i))
        assert function(torch.ones(3)).tolist() == [7.0] * 3
    assert function.info()["recordings"] == 1 and not function.info()["eager"], function.info()
