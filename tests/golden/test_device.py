"""PTX: golden text for each kind of kernel, what no kernel's PTX may hold, and what NVIDIA's assembler says to all of it.

The assembler is `ptxas` of the package nvidia-cuda-nvcc (`pip install --no-deps nvidia-cuda-nvcc`), which needs no GPU; $ESCAPEMENT_PTXAS names
another. Without it those tests are skipped. Golden PTX is LLVM's of one version: with another it is not compared.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sysconfig

import pytest

from golden import ROOT, find_tool, parse, run_opt

HERE = pathlib.Path(__file__).resolve().parent / "device"
FILES = sorted(HERE.glob("*.golden"))
LLVM = "22."
COMPUTE = (80, 90, 100, 120)
KNOWN_SINCE = {100: "8.6", 120: "8.7"}   # PTX
REPORT = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?"
                    r"Used (\d+) registers([^\n]*)", re.DOTALL)


def llvm_version():
    build = pathlib.Path(find_tool()).resolve().parents[1]
    found = json.loads((build / "meson-info/intro-dependencies.json").read_text())
    return next((d["version"] for d in found if d["name"].lower() == "llvm"), None)


def ptxas():
    given = os.environ.get("ESCAPEMENT_PTXAS")
    folders = [*pathlib.Path(sysconfig.get_paths()["purelib"]).glob("nvidia/*/bin")]
    found = [pathlib.Path(given)] if given else [f / "ptxas" for f in folders if (f / "ptxas").exists()]
    if not found:
        pytest.skip("no ptxas: pip install --no-deps nvidia-cuda-nvcc, or set ESCAPEMENT_PTXAS")
    return str(found[0])


def assemble(path, compute):
    done = subprocess.run([ptxas(), "-v", f"-arch=sm_{compute}", str(path), "-o", "/dev/null"], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


def made(path, compute=80):
    status, output, message = run_opt(["--passes=plan,ptx"], parse(path.read_text()).text)
    if "without LLVM" in message:
        pytest.skip(message)
    assert status == 0, message
    return output.replace("sm_80", f"sm_{compute}").replace(".version 8.1", ".version " + KNOWN_SINCE.get(compute, "8.1"))


def wrong_arithmetic(text):
    """Instructions that an assembler may fuse, or that are not exactly rounded, or that flush denormals."""
    return re.findall(r"(?:add|sub|mul)\.f(?:32|64)|\w+\.(?:\w+\.)*(?:approx|full|ftz)[\w.]*", text)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_golden_ptx(path):
    golden, output = parse(path.read_text()), made(path)
    if not llvm_version().startswith(LLVM):
        pytest.skip(f"the golden text is of LLVM {LLVM}x")
    if os.environ.get("ESCAPEMENT_BLESS") == "1":
        path.write_text("# run: escapement-opt --passes=plan,ptx\n" + golden.text + "# expect\n" + output)
        return
    assert output == golden.expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_arithmetic_is_exact(path):
    assert wrong_arithmetic(made(path)) == []


def test_inexact_arithmetic_is_seen():
    assert len(wrong_arithmetic("add.f32 mul.f64 div.full.f32 sqrt.approx.ftz.f32 add.rn.f32 fma.rn.f32 div.rn.f64 cvt.rn.f32.s32")) == 4


def measured(tmp_path):
    """{kernel: [registers + memory of a block, for each of COMPUTE]}; nothing spills."""
    table = {}
    for path in FILES:
        for compute in COMPUTE:
            file = tmp_path / f"{path.stem}_{compute}.ptx"
            file.write_text(made(path, compute))
            status, report = assemble(file, compute)
            assert status == 0, report
            for name, stack, stores, loads, registers, rest in REPORT.findall(report):
                assert (stack, stores, loads) == ("0", "0", "0"), f"{name} spills on sm_{compute}"
                shared = re.search(r"(\d+) bytes smem", rest)
                table.setdefault(name, []).append(f"{registers:>3}" + (f" + {shared[1]} B" if shared else ""))
    return table


def test_registers(tmp_path):
    """Registers of each kernel kind for each machine, as one version of ptxas counts them; and none of them spills."""
    version = subprocess.run([ptxas(), "--version"], capture_output=True, text=True).stdout.splitlines()[-1]
    text = version + "\n" + " ".join(f"sm_{c}" for c in COMPUTE) + "\n"
    text += "".join(f"{name:<44} {'  '.join(columns)}\n" for name, columns in sorted(measured(tmp_path).items()))
    file = HERE / "registers.table"
    if os.environ.get("ESCAPEMENT_BLESS") == "1":
        file.write_text(text)
    if file.read_text().splitlines()[0] != version:
        pytest.skip("the golden table is of another version of ptxas")
    assert text == file.read_text()


@pytest.mark.parametrize("compute", COMPUTE)
def test_every_nest_assembles(tmp_path, compute):
    """All nests of tests/exec, in every variant: PTX that the assembler takes."""
    ptxas()
    tests = pathlib.Path(find_tool()).resolve().parents[1] / "tests/test_simt"
    environment = os.environ | {"ESCAPEMENT_PTX_FOLDER": str(tmp_path), "ESCAPEMENT_PTX_COMPUTE": str(compute), "GTEST_FILTER": NESTS}
    subprocess.run([str(tests)], env=environment, capture_output=True, timeout=600)
    files = sorted(tmp_path.glob("*.ptx"))
    assert len(files) > 20
    assert [line for file in files for line in wrong_arithmetic(file.read_text())] == []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, (status, report) in zip(files, pool.map(lambda f: assemble(f, compute), files)):
            assert status == 0, f"{file.name}: {report}"


# One test of each kind; `GTEST_FILTER=* ESCAPEMENT_PTX_FOLDER=... build/tests/test_simt` writes all (1,300 kernels).
NESTS = "CodegenMap.EveryConversion:CodegenMap.Gather:CodegenRow.LayerNorm:CodegenColumn.LayerNorm:CodegenRow.LargeBody*:CodegenRow.ReducedIndex*"


@pytest.mark.parametrize("name", ["tests/test_simt", "src/torch/libescapement.so.0"])
def test_nothing_of_cuda_is_linked(name):
    file = pathlib.Path(find_tool()).resolve().parents[1] / name
    if not file.exists():
        pytest.skip(f"{name} is not built")
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", str(file)], capture_output=True, text=True, check=True).stdout)
    assert needed and [library for library in needed if re.search("cuda|nvJit|nvrtc|nvptx", library, re.IGNORECASE)] == []
