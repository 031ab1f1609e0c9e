"""A package's own tests, run on compiled code:

    pytest -p escapement.pytest_plugin --escapement=PACKAGE [--escapement-way=call|replay|compile] tests

Each public function of the package is compiled, and stands in for itself wherever a module of the package holds it. The tests judge. What of
them asks for the function itself (its source, what `torch.jit.script` wants) fails, and says nothing about us. At the end: how many calls there
were, how many were recorded, and what ran eagerly, by reason.
"""

import importlib
import inspect
import pkgutil
import sys

import pytest
import torch

import escapement

WAYS = {
    "call": escapement.jit,
    "replay": lambda function: escapement.jit(function, mode="replay"),
    "compile": lambda function: torch.compile(function, backend="escapement"),
}


def pytest_addoption(parser):
    group = parser.getgroup("escapement", "Escapement: tests on compiled code")
    group.addoption("--escapement", metavar="PACKAGE", help="compile the public functions of this package")
    group.addoption("--escapement-way", choices=WAYS, default="call", help="escapement.jit in call or replay mode, or torch.compile")


def pytest_configure(config):
    name = config.getoption("--escapement")
    if name:
        config.escapement_functions = compile_package(name, config.getoption("--escapement-way"))


def pytest_terminal_summary(terminalreporter, config):
    functions = getattr(config, "escapement_functions", None)
    if functions is None:
        return
    stats = escapement.stats()
    terminalreporter.section("escapement")
    terminalreporter.line(f"{len(functions)} functions compiled: {stats.get('calls', 0)} calls, {stats.get('recordings', 0)} recordings")
    for reason, calls in sorted(stats.get("jit", {}).get("eager", {}).items()):
        terminalreporter.line(f"  eagerly, {reason}: {calls}")


def compile_package(name, way="call"):
    """{function: what stands in for it}, of all modules of the package that can be imported."""
    try:
        modules = [*modules_of(importlib.import_module(name))]
    except ImportError as error:
        raise pytest.UsageError(f"--escapement={name}: {error}") from error
    compiled = {}
    for module in modules:
        for key, value in [*vars(module).items()]:
            if is_public(key, value, name):
                if value not in compiled:
                    compiled[value] = WAYS[way](value)
                setattr(module, key, compiled[value])
    return compiled


def modules_of(package):
    """The package and what lies in it; a part that wants what is not installed is left out."""
    yield package
    for found in pkgutil.walk_packages(getattr(package, "__path__", ()), package.__name__ + ".", onerror=lambda _: None):
        try:
            importlib.import_module(found.name)
        except Exception:
            continue
        yield sys.modules[found.name]


def is_public(key, value, package):
    """Written in the package, and no private helper of it, which is compiled with what calls it."""
    home = getattr(value, "__module__", None) or ""
    return inspect.isfunction(value) and not key.startswith("_") and (home + ".").startswith(package + ".")
