"""Which folder may include what, as a table, and a checker that returns every include which breaks it.

Arrows point down only (ARCHITECTURE.md, "Folders"). Heavy headers stay behind walls: torch in src/torch and the public
headers, LLVM in jit/llvm, CUDA in jit/cuda, Hana in no header but the one that takes a user's callable apart.
"""
import posixpath
import re
from pathlib import Path, PurePosixPath

# folder -> the folders below it. specialize and kernels are siblings; jit/run must build without LLVM, so it never sees jit/llvm.
BELOW = {
    "support": [],
    "exported": ["support"],
    "dims": ["support"],
    "trace": ["support", "dims"],
    "guards": ["support", "dims", "trace"],
    "specialize": ["support", "dims", "trace", "guards"],
    "kernels": ["support", "dims", "trace", "guards"],
    "jit/run": ["support", "dims", "trace", "guards", "specialize", "kernels"],
    "jit/llvm": ["support", "dims", "trace", "guards", "specialize", "kernels", "jit/run"],
    "jit/cuda": ["support", "dims", "trace", "guards", "specialize", "kernels", "jit/run"],
}
BELOW["jit"] = list(BELOW)
COMPILER = [*BELOW, "include"]
# Inside torch: what is recorded, what runs it, the host's own run, versions of one function; then its front ends.
BELOW["torch/pch"] = []   # what the compiler reads once for all files
BELOW["torch/record"] = COMPILER
BELOW["torch/program"] = [*COMPILER, "torch/record"]
BELOW["torch/replay_mode"] = [*BELOW["torch/program"], "torch/program"]
BELOW["torch/region"] = [*BELOW["torch/replay_mode"], "torch/replay_mode"]
BELOW["torch/exported"] = [*COMPILER, "torch/record", "torch/program"]
BELOW["torch/api"] = [*BELOW["torch/region"], "torch/region"]
BELOW["torch/script"] = [*BELOW["torch/api"], "torch/exported", "torch/api"]
BELOW["torch/serving"] = [*BELOW["torch/api"], "torch/exported", "torch/api"]
BELOW["torch/python"] = [*BELOW["torch/region"], "torch/region", "torch/exported"]
BELOW["include"] = []

ROOTS = ("src", "include", "tools", "tests")
SUFFIXES = (".h", ".cpp", ".def")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

TORCH = re.compile(r"^(torch|ATen|c10)/")
LLVM = re.compile(r"^llvm(-c)?/")
CUDA = re.compile(r"^(cuda\w*|nvrtc|nvJitLink|nvPTXCompiler)\.h$")
HANA = re.compile(r"^boost/hana(/|\.hpp)")
PYTHON = re.compile(r"^(Python\.h|nanobind/|pybind11/|nb_combined\.cpp)")

# Programs that use the library as a user does, and so include torch.
TORCH_USERS = ("src/torch/", "include/escapement/", "tests/cpp_api/", "tests/fuzz/cpp/", "tests/packaging/", "tests/recorder/")

HANA_HEADER = "include/escapement/jit_types.h"

# Says which symbols leave the library, and nothing else.
EVERYWHERE = "include/escapement/export.h"


def folder_of(path):
    """The row of BELOW that a path relative to src/ or include/ belongs to; None for a path outside the table."""
    parts = PurePosixPath(path).parts
    if parts[0] == "escapement":
        return "include"
    nested = "/".join(parts[:2])
    if parts[0] in ("jit", "torch") and len(parts) > 2:
        return nested if nested in BELOW else None
    return parts[0] if len(parts) > 1 and parts[0] in BELOW else None


def read_tree(root):
    """{path: [included names]} of every source file under the roots; paths relative to `root`, with forward slashes."""
    tree = {}
    for top in ROOTS:
        for file in sorted(Path(root, top).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                text = file.read_text(errors="replace")
                tree[file.relative_to(root).as_posix()] = [name for _, name in INCLUDE.findall(text)]
    return tree


def resolve(path, name, tree):
    """The file of the tree that `name`, included by `path`, means; None if it is none of ours."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return next((c for c in (beside, f"src/{name}", f"include/{name}") if c in tree), None)


def headers_that_see_llvm(tree):
    """Headers that include LLVM's, themselves or through others: private to src/jit/llvm."""
    tainted = {path for path, names in tree.items() if path.endswith(".h") and any(map(LLVM.match, names))}
    while True:
        more = {path for path, names in tree.items() if path.endswith(".h") and path not in tainted
                and any(resolve(path, name, tree) in tainted for name in names)}
        if not more:
            return tainted
        tainted |= more


def arrow_error(path, target):
    """Why `path` may not include our file `target`, or None."""
    if not path.startswith(("src/", "include/")):
        return None  # tests and tools may look at everything
    source = folder_of(path.split("/", 1)[1])
    dest = folder_of(target.split("/", 1)[1]) if target.startswith(("src/", "include/")) else None
    if target == EVERYWHERE:
        return None
    if source is None:
        return "stands in no folder of the table"
    if dest is None:
        return f"includes {target}, which stands in no folder of the table"
    if dest != source and dest not in BELOW[source]:
        return f"includes {target}: {dest} is not below {source}"
    return None


def wall_error(path, name):
    """Why `path` may not include the third-party header `name`, or None."""
    if TORCH.match(name) and not path.startswith(TORCH_USERS):
        return f"includes {name}: torch belongs in src/torch and include/escapement"
    if LLVM.match(name) and not path.startswith("src/jit/llvm/"):
        return f"includes {name}: LLVM belongs in src/jit/llvm"
    if CUDA.match(name) and not (path.startswith("src/jit/cuda/") and path.endswith(".cpp")):
        return f"includes {name}: CUDA belongs in src/jit/cuda/*.cpp"
    if HANA.match(name) and not path.endswith(".cpp") and path != HANA_HEADER:
        return f"includes {name}: Hana never stands in a header but {HANA_HEADER}"
    if PYTHON.match(name) and not path.startswith(("src/torch/", "tests/recorder/")):
        return f"includes {name}: Python belongs in src/torch"
    return None


def errors_of(tree):
    private = headers_that_see_llvm(tree)
    errors = []
    for path, names in tree.items():
        for name in names:
            target = resolve(path, name, tree)
            reason = arrow_error(path, target) if target else wall_error(path, name)
            if not reason and target in private and not path.startswith("src/jit/llvm/"):
                reason = f"includes {target}, which sees LLVM's headers: private to src/jit/llvm"
            if reason:
                errors.append(f"{path} {reason}")
    return errors
