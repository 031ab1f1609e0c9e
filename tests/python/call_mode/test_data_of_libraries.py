"""Data that objects of libraries hold and that a function reads through their methods, which name it where the program does not: graphs, tables, settings, polynomials,
pictures. What can be looked at is compared; of what lies in C the function is asked at every call."""

import argparse
import configparser
import importlib.machinery
import logging
import string
import sys
import textwrap
import types
import unittest.mock

import numpy as np
import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
GRAPH = """
class Graph:
    def __init__(self):
        self.graph, self._adj = {}, {}
        self._marks = {}

    def add_edge(self, a, b):
        self._adj.setdefault(a, {})[b] = {}

    def number_of_edges(self):
        return sum(map(len, self._adj.values()))
"""
TABLE = """
class Frame:
    __slots__ = ("values",)

    def __init__(self, values):
        self.values = values

    def mean(self):
        return sum(self.values) / len(self.values)
"""


@pytest.fixture
def made(monkeypatch):
    """A module of an installed package."""
    def make(name, text, file=None):
        module = types.ModuleType(name)
        module.__file__ = file or f"/nowhere/site-packages/{name.replace('.', '/')}.py"
        exec(compile(text, module.__file__, "exec"), vars(module))
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make


def info_of_calls(fn, change):
    """Of twenty calls, each as eagerly: four states, at sizes 0 and 1 among others."""
    jitted = escapement.jit(fn)
    with torch.no_grad():
        for k in (2.0, 5.0, 7.0, 3.0):
            change(k)
            for rows in (3, 1, 0, 2, 7):
                x = torch.arange(2.0 * rows).reshape(rows, 2)
                torch.testing.assert_close(jitted(x), fn(x), msg=lambda text, k=k, rows=rows: f"{k}, {rows} rows: {text}")
    return jitted.info()


# --- compared: (function, change by a number)


def logger(made):
    held = logging.getLogger(f"{__name__}.held")
    held.gain = 2.0
    return lambda x: x * held.gain, lambda k: setattr(held, "gain", k)


def handler(made):
    held = logging.NullHandler()
    held.gain = 2.0
    return lambda x: x * held.gain, lambda k: setattr(held, "gain", k)


def error(made):
    held = ValueError(2.0)
    return lambda x: x * held.args[0], lambda k: setattr(held, "args", (k,))


def text_of_an_error(made):
    held = KeyError(2.0)
    return lambda x: x * float(str(held)), lambda k: setattr(held, "args", (k,))


def settings(made):
    held = configparser.ConfigParser()
    held["a"] = {"gain": "2"}
    return lambda x: x * held.getfloat("a", "gain"), lambda k: held.set("a", "gain", str(k))


def template(made):
    held = string.Template("2.0")
    return lambda x: x * float(held.substitute()), lambda k: setattr(held, "template", str(k))


def arguments(made):
    held = argparse.ArgumentParser()
    held.add_argument("--gain", type=float, default=2.0)
    return lambda x: x * held.parse_args([]).gain, lambda k: held.set_defaults(gain=k)


def width(made):
    held = textwrap.TextWrapper(width=2)
    return lambda x: x * len(held.wrap("a " * 20)), lambda k: setattr(held, "width", int(k))


def polynomial(made):
    held = np.poly1d([2.0, 1.0])
    return lambda x: x * float(held(1.0)), lambda k: held.coeffs.__setitem__(0, k)


def series(made):
    held = np.polynomial.Polynomial([2.0, 1.0])
    return lambda x: x * float(held(1.0)), lambda k: held.coef.__setitem__(0, k)


def graph(made):
    held = made("networkx.classes.held", GRAPH).Graph()
    return lambda x: x * held.number_of_edges(), lambda k: held.add_edge(0, k)


def deeper_in_a_graph(made):
    held = made("networkx.classes.held", GRAPH).Graph()
    held.add_edge(0, 1)
    return lambda x: x * (held.number_of_edges() + len(held._adj[0][1])), lambda k: held._adj[0][1].__setitem__(k, k)


COMPARED = [logger, handler, error, text_of_an_error, settings, template, arguments, width, polynomial, series, graph, deeper_in_a_graph]


@pytest.mark.parametrize("row", COMPARED, ids=lambda row: row.__name__)
def test_each_change_is_noticed(row, made):
    info = info_of_calls(*row(made))
    versions = [version for region in info["regions"] for version in region["versions"]]
    assert not info["eager"] and info["recordings"] <= 4 and sum(version["hits"] for version in versions) >= 13
    assert sum(kernel["launches"] for version in versions for kernel in version["kernels"]) > 0


def test_what_the_library_notes_for_itself_costs_nothing_where_nobody_reads(made):
    held = made("networkx.classes.held", GRAPH).Graph()
    held.gain = 2.0

    class Model:
        def __init__(self):
            self.gain, self.graph = 2.0, held

        def __call__(self, x):
            return x * self.gain

    jitted = escapement.jit(Model().__call__)
    with torch.no_grad():
        for k in range(5):
            held.add_edge(k, k)
            jitted(torch.ones(3))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


def test_attributes_of_settings_that_nobody_reads_cost_nothing():
    given, parser = argparse.Namespace(gain=2.0, step=0), argparse.ArgumentParser()
    parser.step = 0
    jitted = escapement.jit(lambda x: x * given.gain * len(parser.prog))
    with torch.no_grad():
        for step in range(5):
            given.step = parser.step = step
            torch.testing.assert_close(jitted(torch.ones(3)), torch.full((3,), 2.0 * len(parser.prog)))
    assert jitted.info()["recordings"] == 1 and not jitted.info()["eager"]


# --- asked at every call


def table(made):
    held = made("pandas.core.held", TABLE).Frame([2.0, 3.0])
    return lambda x: x * held.mean(), lambda k: held.values.__setitem__(0, k)


def in_c(made):
    held = made("held_in_c", TABLE, "/nowhere/site-packages/held_in_c" + importlib.machinery.EXTENSION_SUFFIXES[0]).Frame([2.0, 3.0])
    return lambda x: x * held.mean(), lambda k: held.values.__setitem__(0, k)


def derived(made):
    class Own(made("pandas.core.held", TABLE).Frame):
        pass

    held = Own([2.0, 3.0])
    return lambda x: x * held.mean(), lambda k: held.values.__setitem__(0, k)


def mock_of_mocks(made):
    held = unittest.mock.MagicMock()
    held.inner.gain = 2.0
    return lambda x: x * held.inner.gain, lambda k: setattr(held.inner, "gain", k)


@pytest.mark.parametrize("row", [table, in_c, derived, mock_of_mocks], ids=lambda row: row.__name__)
def test_what_nobody_can_look_at_is_asked_at_every_call(row, made):
    assert info_of_calls(*row(made))["eager"] == {"state_not_compared": 20}
