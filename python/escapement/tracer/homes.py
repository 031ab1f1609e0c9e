"""Where a function or class comes from. The program's: what stands in no folder for installed packages, and has all of its state watched. A package's: somebody
installed it, the program's own company perhaps, or somebody patches it, so what it holds is watched likewise; of its code no guesses are made from texts. A
library's: of Python, torch or this package, or one of those below; its state is not the program's.
"""

import functools
import os
import re
import sys
import sysconfig
import types

from ..recording.locator import FRAMEWORK

PACKAGED = re.compile(r".*[/\\](?:site|dist)-packages[/\\]([^/\\.]+)")
PYTHON = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
# Their functions compute with what they are given, show it, or run others.
LIBRARIES = frozenset("""
    numpy scipy pandas sklearn matplotlib PIL cv2 tqdm rich tensorboard tensorboardX wandb IPython ipykernel pytest _pytest pluggy hypothesis coverage pip setuptools
    pkg_resources torchgen functorch triton nvidia sympy mpmath networkx jinja2 markupsafe fsspec filelock typing_extensions packaging requests urllib3 idna certifi
    charset_normalizer yaml regex six psutil safetensors tokenizers huggingface_hub attr attrs pydantic pydantic_core click absl google grpc aiohttp starlette fastapi uvicorn
    flask django sqlalchemy
""".split())
PROGRAM, PACKAGE, LIBRARY = "program", "package", "library"


@functools.lru_cache(maxsize=16384)
def home_of(file):
    if file is None or file.startswith(FRAMEWORK):
        return LIBRARY
    package = PACKAGED.match(file)
    if package:
        return LIBRARY if package[1] in LIBRARIES else PACKAGE
    return LIBRARY if file.startswith(PYTHON) else PROGRAM


def of_library(file):
    return home_of(file) == LIBRARY


def of_program(file):
    return home_of(file) == PROGRAM


def of_package(file):
    return home_of(file) == PACKAGE


def source_of(function):
    """The file of its code; of code that a program makes (dataclasses do), of the module whose names it uses."""
    file = function.__code__.co_filename
    home = function.__globals__.get("__file__") if file.startswith("<") and not file.startswith(FRAMEWORK) else None
    return home if type(home) is str else file


def file_of(kind):
    """Of the module that a class stands in."""
    module = sys.modules.get(kind.__module__)
    return file_without_module(kind) if module is None else file_in(module)


def file_without_module(kind):
    """Of a class that was made where nobody imports from (`runpy`, `exec`, a plug-in that is loaded by hand); None for one of C's."""
    method = next((member for member in vars(kind).values() if issubclass(type(member), types.FunctionType)), None)
    if method is not None:
        return source_of(method)
    return f"<{kind.__module__}>" if kind.__dictoffset__ or "__slots__" in vars(kind) else None


def file_in(module):
    """Without asking a module that answers everything."""
    file = vars(module).get("__file__") if issubclass(type(module), types.ModuleType) else None
    return file if type(file) is str else None


def is_own_function(value):
    return issubclass(type(value), types.FunctionType) and not of_library(source_of(value))


def is_own_home(module):
    """A Python module of the program's or of a package, one that the program made itself among them."""
    file = file_in(module)
    made = type(module) is types.ModuleType or of_program(file_of(type(module)))
    return not of_library(file) or file is None and made and vars(module).get("__spec__") is None and module.__name__ != "builtins"


def own_home(name):
    """None as long as it is not imported."""
    module = sys.modules.get(name)
    return module if issubclass(type(module), types.ModuleType) and is_own_home(module) else None


def is_own(kind):
    """A class of the program's or of a package."""
    return kind.__module__ == "__main__" or kind.__module__ != "builtins" and not of_library(file_of(kind))
