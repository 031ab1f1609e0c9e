"""Plants each bug of bugs.py in a scratch copy of the tree, builds what it must, and asks tests and fuzzers whether they notice.

    python tests/planted/run.py [--scratch DIR] [--seconds N] [--areas trace,plan,...] [NAME ...]

Builds stay in the scratch folder, so that the next bug costs only the files that it touches. Prints a line for each bug: found, and by
what, or NOT FOUND; the status is 1 if some were not found.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from bugs import BUGS   # noqa: E402

TREE = pathlib.Path(__file__).resolve().parents[2]
NATIVE = ("trace", "plan", "run", "code")
# What notices a bug of C++ without torch, the quick ones first. A bug of an area is asked of its own tests before the others.
UNIT = {"trace": "FuzzIrFound*:CommonValues*:DeadCode*:Epilogues*:SideTraces*:Dims*:DimRules*:Reduce*:Scalar*:Evaluator*:Expand*:Specialize*:Trace*:Text*", "plan": "FuzzIrFound*:Plan*:Fusion*:Loops*", "run": "Run*:GuardProgram*"}


def copy_tree(scratch):
    files = subprocess.run(["git", "ls-files"], cwd=TREE, check=True, capture_output=True, text=True).stdout.split("\n")
    for name in filter(None, files):
        source, target = TREE / name, scratch / name
        if not source.exists() or target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)   # with a new date: what was built of the old text is built anew


def environment(scratch, build):
    made = dict(os.environ, CCACHE_BASEDIR=str(scratch), CCACHE_NOHASHDIR="1", ESCAPEMENT_BUILD=str(scratch / build),
                PYTHONPATH=str(scratch / build / "python"))
    return made


def run(command, scratch, build, limit):
    """Whether it ended well, and the last of what it said."""
    try:
        done = subprocess.run(command, cwd=scratch, env=environment(scratch, build), timeout=limit, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return False, f"no end after {limit} s"
    except OSError as error:
        sys.exit(f"{command[0]}: {error}")
    return done.returncode == 0, done.stdout[-3000:]


def configure(scratch, build):
    if (scratch / build / "build.ninja").exists():
        return
    options = ["-Dbenchmarks=disabled", "-Dllvm_link=shared"] + (["-Dtorch=disabled", "-Dpython=disabled"] if build == "build-native" else [])
    fine, said = run(["meson", "setup", build, *options], scratch, build, 600)
    if not fine:
        sys.exit(said)


def make(scratch, build, targets):
    fine, said = run([*NINJA, "-C", build, *targets], scratch, build, 3600)
    if fine and build == "build":
        python_tree(scratch)
    return fine, said


def python_tree(scratch):
    """As ./dev makes it."""
    tree = scratch / "build/python/escapement"
    shutil.rmtree(tree.parent, ignore_errors=True)
    tree.mkdir(parents=True)
    package, made = scratch / "python/escapement", scratch / "build/src/torch"
    links = {tree / file.relative_to(package): file for file in package.rglob("*.py")}
    links.update({tree / file.name: file for pattern in ("_C.*.so", "libescapement.so*") for file in made.glob(pattern) if file.is_file()})
    for link, file in links.items():
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(file)
    info = tree.parent / "escapement-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: escapement\nVersion: 0\n")
    blocks = (scratch / "pyproject.toml").read_text().split("[project.entry-points.")[1:]
    (info / "entry_points.txt").write_text("\n".join("[" + block.split("\n\n")[0].replace('"', "") for block in blocks))


def python_tests(bug):
    return [f"tests/python/{name}" for name in bug.python]


def native_checks(bug, seconds):
    first = [(f"unit tests of {bug.area}", ["build-native/tests/test_core", f"--gtest_filter={UNIT[bug.area]}"])] if bug.area in UNIT else []
    llvm = [("code generation tests", ["build-native/tests/test_llvm"]), ("device code tests", ["build-native/tests/test_simt"])]
    fuzz = [("fuzz_ir", ["build-native/tests/fuzz_ir", "--seconds", str(seconds)])]
    last = [("golden tests", [sys.executable, "-m", "pytest", "-q", "-x", "tests/golden"]), ("all unit tests", ["build-native/tests/test_core"])]
    return (llvm if bug.area == "code" else first) + fuzz + last, "build-native"


def torch_checks(bug, seconds):
    tests = python_tests(bug)
    checks = [("Python tests", [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "-p", "no:cacheprovider", *tests])] if tests else []
    if (TREE / "tests/fuzz/__main__.py").exists():
        checks.append(("program fuzzer", [sys.executable, "tests/fuzz", "--seconds", str(seconds)]))
    if bug.cpp:
        checks.insert(0, ("C++ API tests", ["build/tests/test_torch", f"--gtest_filter={bug.cpp}"]))
    return checks, "build"


TARGETS = {"build-native": ["tests/test_core", "tests/test_llvm", "tests/test_simt", "tests/libcuda_twin.so", "tests/libnvjitlink_twin.so", "tests/fuzz_ir",
                            "tools/escapement-opt"],
           "build": ["src/torch/libescapement.so.0", "src/torch/_C" + sysconfig.get_config_var("EXT_SUFFIX")]}
NINJA = ["ninja"]


def judge(bug, scratch, seconds):
    """(verdict, by what, seconds)"""
    file = scratch / bug.file
    right = file.read_text()   # of the copy: the tree may change meanwhile
    if right.count(bug.old) != 1:
        return "STALE", "its text does not occur once", 0
    checks, build = (native_checks if bug.area in NATIVE else torch_checks)(bug, seconds)
    start = time.time()
    file.write_text(right.replace(bug.old, bug.new))
    try:
        targets = TARGETS[build] + (["tests/test_torch"] if any("test_torch" in check[1][0] for check in checks) else [])
        if bug.area != "python":
            fine, said = make(scratch, build, targets)
            if not fine:
                return "DOES NOT BUILD", said, time.time() - start
        else:
            python_tree(scratch)
        for name, command in checks:
            fine, said = run(command, scratch, build, seconds * 3 + 900)
            if not fine:
                return "found", f"{name}: {last_words(said)}", time.time() - start
        return "NOT FOUND", "by " + ", ".join(name for name, _ in checks), time.time() - start
    finally:
        file.write_text(right)


def expect_quiet(chosen, scratch):
    """What fails without a bug finds none."""
    areas = {bug.area: bug for bug in chosen if bug.area in NATIVE}
    commands = {name: command for bug in areas.values() for name, command in native_checks(bug, 1)[0]}
    for name, command in commands.items():
        fine, said = run(command, scratch, "build-native", 1800)
        if not fine:
            sys.exit(f"without any bug: {name}: {last_words(said)}")


def last_words(said):
    told = [line for line in said.splitlines() if "FAILED" in line or "FOUND" in line or "FAULT" in line or line.startswith("E  ")]
    return (told or said.splitlines() or [""])[0][:150]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=pathlib.Path, default=pathlib.Path("/tmp/escapement-planted"))
    parser.add_argument("--seconds", type=int, default=60, help="of fuzzing")
    parser.add_argument("--areas", default="")
    parser.add_argument("--ninja", default="nice ninja", help="the command that builds, with what stands before it and its flags")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    NINJA[:] = given.ninja.split()
    chosen = [bug for bug in BUGS if (not given.names or bug.name in given.names) and (not given.areas or bug.area in given.areas.split(","))]
    given.scratch.mkdir(parents=True, exist_ok=True)
    copy_tree(given.scratch)
    for build in {"build-native" if bug.area in NATIVE else "build" for bug in chosen}:
        configure(given.scratch, build)
        fine, said = make(given.scratch, build, TARGETS[build])
        if not fine:
            sys.exit(said)
    expect_quiet(chosen, given.scratch)
    missed = 0
    for bug in chosen:
        verdict, by, took = judge(bug, given.scratch, given.seconds)
        missed += verdict != "found"
        print(f"{verdict:10} {bug.name:30} {took:5.0f} s  {by}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return missed > 0


if __name__ == "__main__":
    sys.exit(main())
