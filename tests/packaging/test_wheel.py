"""What the wheel holds, what its libraries ask of the machine, and that the package works where it is installed."""
import re
import zipfile

import pytest

from package_tools import clean_environment, run

pytestmark = pytest.mark.slow

# What libescapement.so may need: torch's libraries, the C and C++ run time, and what LLVM itself needs. No CUDA, no LLVM.
ALLOWED = {"libtorch_cpu.so", "libc10.so", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "libdl.so.2",
           "libpthread.so.0", "ld-linux-x86-64.so.2", "libz.so.1", "libzstd.so.1"}


def dynamic(library):
    """(NEEDED as a set, RUNPATH as a list) of a library."""
    text = run("readelf", "-dW", library)
    runpath = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", text)
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", text)), runpath[0].split(":") if runpath else []


def module_of(package):
    (module,) = package.glob("_C.*.so")
    return module


def test_contents(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    wanted = ["escapement/__init__.py", "escapement/backend.py", "escapement/lib/libescapement.so",
              "escapement/include/escapement/escapement.h", "escapement/lib/pkgconfig/escapement.pc",
              "escapement/lib/cmake/escapement/escapementConfig.cmake",
              "escapement/lib/cmake/escapement/escapementConfigVersion.cmake"]
    assert [name for name in wanted if name not in names] == []
    cmake = [n for n in names if re.match(r"escapement-[^/]*\.data/data/share/cmake/escapement/", n)]
    assert sorted(n.rpartition("/")[2] for n in cmake) == ["escapementConfig.cmake", "escapementConfigVersion.cmake"]
    assert [n for n in names if n not in cmake and not re.match(r"escapement(/|-[^/]*\.dist-info/)", n)] == []
    assert [n for n in names if n.endswith((".a", ".o", ".cpp"))] == []


def test_every_public_header_and_python_file_is_in_it(wheel, request):
    root = request.config.rootpath
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = [f.relative_to(root / "python").as_posix() for f in (root / "python" / "escapement").rglob("*.py")]
    ours += [f"escapement/include/escapement/{f.name}" for f in (root / "include" / "escapement").glob("*.h")]
    assert [name for name in ours if name not in names] == []


def test_library_dependencies(installed):
    needed, runpath = dynamic(installed[1] / "lib" / "libescapement.so")
    assert needed <= ALLOWED
    assert {"libtorch_cpu.so", "libc10.so"} <= needed
    assert runpath == ["$ORIGIN/../../torch/lib"]


def test_module_dependencies(installed):
    needed, runpath = dynamic(module_of(installed[1]))
    assert needed <= ALLOWED | {"libescapement.so", "libtorch_python.so"}
    assert "libescapement.so" in needed
    assert runpath == ["$ORIGIN/lib", "$ORIGIN/../torch/lib"]


def test_only_our_symbols_are_exported(installed):
    symbols = run("nm", "-DC", "--defined-only", installed[1] / "lib" / "libescapement.so")
    assert "escapement::" in symbols
    foreign = [line for line in symbols.splitlines() if "escapement" not in line]
    assert foreign == []


def test_every_library_is_found(installed):
    for library in (installed[1] / "lib" / "libescapement.so", module_of(installed[1])):
        assert "not found" not in run("ldd", library, env=clean_environment())


def test_torch_finds_the_backend_by_name(installed, tmp_path):
    script = ("import torch, sys\n"
              "assert 'escapement' in torch.compiler.list_backends()\n"
              "assert 'escapement' not in sys.modules\n"
              "f = torch.compile(lambda x: (x + 1).relu(), backend='escapement')\n"
              "x = torch.randn(3, 5)\n"
              "assert torch.equal(f(x), (x + 1).relu())\n"
              "print(sys.modules['escapement'].__file__)\n")
    out = run(installed[0], "-c", script, env=clean_environment(), cwd=tmp_path)
    assert out.strip().splitlines()[-1] == str(installed[1] / "__init__.py")


WITHOUT_A_COMPILER = """
import sys
started = []
sys.addaudithook(lambda event, arguments: started.append(event) if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork") else None)
import torch, escapement

f = torch.compile(lambda x: torch.softmax(x.tanh() @ x.mT, -1).sum(0), backend="escapement")
g = escapement.jit(lambda x, n: torch.nn.functional.layer_norm(x * n, x.shape[-1:]))
for n in (3, 1, 5, 4, 2):
    x = torch.randn(n, 7, requires_grad=n > 2)
    torch.testing.assert_close(f(x), torch.softmax(x.tanh() @ x.mT, -1).sum(0))
    torch.testing.assert_close(g(x.detach(), n), torch.nn.functional.layer_norm(x.detach() * n, (7,)))
stats = escapement.stats()
assert stats["kernels_compiled"] > 0, stats
assert started == [], started
print([line for line in open("/proc/self/maps") if "LLVM" in line or "clang" in line])
"""


def test_it_compiles_without_a_compiler(installed, tmp_path):
    """Nothing stands on the path, no process is started, and LLVM is inside of the library."""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    out = run(installed[0], "-c", WITHOUT_A_COMPILER, env=clean_environment() | {"PATH": str(nothing), "CC": "/none", "CXX": "/none"}, cwd=tmp_path)
    assert out.strip().splitlines()[-1] == "[]"


def test_import_alone_loads_no_library(installed, tmp_path):
    script = ("import torch, time\n"
              "start = time.perf_counter(); import escapement; took = time.perf_counter() - start\n"
              "assert 'libescapement' not in open('/proc/self/maps').read(), 'the library was loaded'\n"
              "print(took)\n")
    seconds = min(float(run(installed[0], "-c", script, env=clean_environment(), cwd=tmp_path)) for _ in range(3))
    assert seconds < 0.05
