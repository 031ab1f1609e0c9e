"""python -m escapement doctor | options | ops | config [--cflags --libs --cmakedir --pkgconfigdir]

doctor    proves on this host that compiling and running work
options   lists the options, with what is in force
ops       lists the operators that become kernels
config    the flags for C++ programs"""

import difflib
import os
import platform
import sys

from . import __version__

HERE = os.path.dirname(os.path.realpath(__file__))
PACKAGE = os.path.dirname(os.path.abspath(__file__))   # in a build tree the .py files are links; headers stand beside the links


def main(arguments):
    commands = {"doctor": doctor, "options": list_options, "ops": list_ops, "config": config}
    if arguments and arguments[0] in ("--help", "-h", "help"):
        print(__doc__)
        return 0
    if not arguments or arguments[0] not in commands:
        if arguments:
            close = difflib.get_close_matches(arguments[0], commands, n=1)
            print(f"unknown command: {arguments[0]!r}{f'; did you mean {close[0]!r}?' if close else ''}", file=sys.stderr)
        print(__doc__, file=sys.stderr)
        return 2
    return commands[arguments[0]](arguments[1:])


def doctor(_):
    """Proves on this host that compiling and running work; every line is one finding."""
    checks = [("versions", versions), ("core", core_loads), ("entry point", entry_point), ("dynamic sizes", route),
              ("compile and run", compile_and_run)]
    failed = 0
    for name, check in checks:
        try:
            ok, text = check()
        except Exception as error:
            ok, text = False, f"{type(error).__name__}: {error}"
        failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {name}: {text}")
    return 1 if failed else 0


def versions():
    import torch

    return True, f"escapement {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {platform.machine()}"


def core_loads():
    from .core import core

    return True, os.path.basename(getattr(core(), "__file__", "") or "loaded")


def entry_point():
    from importlib.metadata import entry_points

    found = [point.value for point in entry_points(group="torch_dynamo_backends") if point.name == "escapement"]
    return bool(found), found[0] if found else ('not installed: backend="escapement" is unknown to torch; install the package, or '
                                               "pass escapement.backend.escapement itself")


def route():
    from . import backend
    from .steering import dynamo

    return backend is not None and dynamo.state["route"] == "recipe", \
        f"{dynamo.state['route']}: {dynamo.ROUTES[dynamo.state['route']]}"


def compile_and_run():
    import torch

    from .backend import escapement
    from .ledger import LEDGER
    from .option_values import disabled, resolve

    if disabled() or resolve()["disable"]:
        variable = "ESCAPEMENT_DISABLE" if "ESCAPEMENT_DISABLE" in os.environ else "ESCAPEMENT_OPTIONS"
        return False, f"not tried: {variable}={os.environ[variable]} is set, with which everything runs eagerly"

    def body(x, y):
        return torch.softmax(x * 2 + y, -1).sum(0)

    compiled = torch.compile(body, backend=escapement, options={"strict": True})
    with torch.no_grad():
        worst = max(float((compiled(x, y) - body(x, y)).abs().max())
                    for n in (5, 7, 3) for x, y in [(torch.randn(n, 64), torch.randn(n, 64))])
    counted = LEDGER.counters()
    text = f"{counted['compiles']} compile for 3 sizes, largest difference from eager {worst:.1e}"
    return worst < 1e-5 and counted["compiles"] == 1, text


def list_options(_):
    from .option_values import options

    for row in options().values():
        choices = f" ({', '.join(map(str, row.choices))})" if row.choices else ""
        changed = "" if row.value == row.default else f", now {row.value!r}"
        print(f"{row.name}: {row.type}{choices}, default {row.default!r}{changed}\n    {row.doc}")
    return 0


def list_ops(_):
    from .core import core

    table = getattr(core(), "ops", None)
    if table is None:
        print("this build of the core does not list its operators", file=sys.stderr)
        return 1
    for row in table():
        print(row if isinstance(row, str) else "  ".join(map(str, row)))
    return 0


def config(flags):
    values = build_flags()
    unknown = [flag for flag in flags if flag not in values]
    if unknown:
        print(f"unknown flag {unknown[0]}; known: {' '.join(values)}", file=sys.stderr)
        return 2
    for flag in flags:
        if flag.endswith("dir") and not os.path.isdir(values[flag]):
            print(f"{values[flag]} does not exist: only an installed package holds files for CMake and pkg-config", file=sys.stderr)
            return 1
    for flag in flags or values:
        print(values[flag] if flags else f"{flag} {values[flag]}")
    return 0


def build_flags():
    """What a C++ program needs to build against this installation, torch included."""
    import importlib.util

    torch_root = os.path.dirname(importlib.util.find_spec("torch").origin)
    include = first_existing(os.path.join(PACKAGE, "include"), os.path.join(HERE, "..", "..", "include"))
    torch_include = os.path.join(torch_root, "include")
    torch_lib = os.path.join(torch_root, "lib")
    folder, library = library_place()
    return {
        "--cflags": f"-std=c++20 -I{include} -isystem {torch_include} "
                    f"-isystem {os.path.join(torch_include, 'torch', 'csrc', 'api', 'include')}",
        "--libs": f"-L{folder} -l:{library} -Wl,-rpath,{folder} -L{torch_lib} -ltorch_cpu -lc10 -Wl,-rpath,{torch_lib}",
        "--cmakedir": os.path.join(PACKAGE, "lib", "cmake", "escapement"),
        "--pkgconfigdir": os.path.join(PACKAGE, "lib", "pkgconfig"),
    }


def library_place():
    """The library's folder and file: installed, the package has a lib folder; in a build tree it stands beside the module."""
    installed = os.path.join(PACKAGE, "lib")
    if os.path.isfile(os.path.join(installed, "libescapement.so")):
        return installed, "libescapement.so"
    return PACKAGE, "libescapement.so.0"


def first_existing(*paths):
    return next((os.path.normpath(path) for path in paths if os.path.isdir(path)), os.path.normpath(paths[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
