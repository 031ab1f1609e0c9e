"""The include graph has no arrow that points up and no breach in a wall; and the checker finds each kind when there is one."""
from pathlib import Path

import pytest

from include_graph import errors_of, read_tree

ROOT = Path(__file__).resolve().parents[2]


def test_the_tree_keeps_the_order():
    tree = read_tree(ROOT)
    assert any(path.startswith("src/") for path in tree)
    assert errors_of(tree) == []


BAD = {
    "up": ("src/trace/a.h", '#include "kernels/b.h"', {"src/kernels/b.h": ""}),
    "into the pipeline": ("src/kernels/a.cpp", '#include "jit/pipeline.h"', {"src/jit/pipeline.h": ""}),
    "into the code generator": ("src/jit/run/a.cpp", '#include "jit/llvm/b.h"', {"src/jit/llvm/b.h": ""}),
    "into torch": ("src/jit/a.cpp", '#include "torch/record/b.h"', {"src/torch/record/b.h": ""}),
    "up inside torch": ("src/torch/record/a.cpp", '#include "torch/program/b.h"', {"src/torch/program/b.h": ""}),
    "replay mode into regions": ("src/torch/replay_mode/a.cpp", '#include "torch/region/b.h"', {"src/torch/region/b.h": ""}),
    "a front end into another": ("src/torch/api/a.cpp", '#include "torch/serving/b.h"', {"src/torch/serving/b.h": ""}),
    "flat in torch": ("src/torch/a.cpp", '#include "torch/record/b.h"', {"src/torch/record/b.h": ""}),
    "sibling, one way": ("src/specialize/a.cpp", '#include "kernels/b.h"', {"src/kernels/b.h": ""}),
    "sibling, the other": ("src/kernels/a.cpp", '#include "specialize/b.h"', {"src/specialize/b.h": ""}),
    "up, relative": ("src/support/a.h", '#include "../trace/b.h"', {"src/trace/b.h": ""}),
    "up, through a .def": ("src/support/a.def", '#include "trace/b.h"', {"src/trace/b.h": ""}),
    "public header into src": ("include/escapement/a.h", '#include "trace/b.h"', {"src/trace/b.h": ""}),
    "public header from below torch": ("src/trace/a.cpp", "#include <escapement/b.h>", {"include/escapement/b.h": ""}),
    "unknown folder": ("src/misc/a.cpp", '#include "support/b.h"', {"src/support/b.h": ""}),
    "ATen": ("src/jit/run/a.cpp", "#include <ATen/core/Tensor.h>", {}),
    "c10 in a unit test": ("tests/unit/a.cpp", "#include <c10/util/Half.h>", {}),
    "torch in a tool": ("tools/a.cpp", '#include "torch/library.h"', {}),
    "LLVM": ("src/jit/pipeline.cpp", "#include <llvm/IR/IRBuilder.h>", {}),
    "LLVM in a test": ("tests/exec/a.cpp", "#include <llvm/IR/Module.h>", {}),
    "LLVM through a private header": ("src/jit/a.cpp", '#include "jit/llvm/b.h"',
                                      {"src/jit/llvm/b.h": '#include "jit/llvm/c.h"',
                                       "src/jit/llvm/c.h": "  #  include <llvm/IR/Type.h>"}),
    "CUDA": ("src/jit/llvm/a.cpp", "#include <cuda.h>", {}),
    "CUDA in a header": ("src/jit/cuda/a.h", "#include <cuda_runtime.h>", {}),
    "Hana in a header": ("src/trace/a.h", "#include <boost/hana/tuple.hpp>", {}),
    "Hana in one header": ("src/trace/a.h", "#include <boost/hana.hpp>", {}),
    "Python": ("src/support/a.cpp", "#include <Python.h>", {}),
}

GOOD = {
    "down": ("src/kernels/a.cpp", '#include "trace/b.h"', {"src/trace/b.h": ""}),
    "beside": ("src/trace/a.cpp", '#include "b.h"', {"src/trace/b.h": ""}),
    "specialize on guards": ("src/specialize/a.h", '#include "guards/b.h"', {"src/guards/b.h": ""}),
    "siblings meet": ("src/jit/a.cpp", '#include "kernels/b.h"\n#include "specialize/b.h"',
                      {"src/kernels/b.h": "", "src/specialize/b.h": ""}),
    "LLVM where it belongs": ("src/jit/llvm/a.cpp", "#include <llvm/IR/Module.h>", {}),
    "the wall's clean side": ("src/jit/a.cpp", '#include "jit/llvm/b.h"', {"src/jit/llvm/b.h": "#include <string>"}),
    "Hana in a .cpp": ("src/trace/a.cpp", "#include <boost/hana/tuple.hpp>", {}),
    "down inside torch": ("src/torch/region/a.cpp", '#include "torch/record/b.h"', {"src/torch/record/b.h": ""}),
    "torch's folder": ("src/torch/record/a.cpp", "#include <ATen/core/Tensor.h>\n#include <escapement/b.h>",
                       {"include/escapement/b.h": ""}),
    "the driver's header": ("src/jit/cuda/a.cpp", "#include <cuda.h>", {}),
    "a comment": ("src/trace/a.cpp", '// #include "kernels/b.h"', {"src/kernels/b.h": ""}),
}


def fake_tree(folder, path, text, others):
    for name, content in {path: text, **others}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")
    return read_tree(folder)


@pytest.mark.parametrize("case", BAD)
def test_the_checker_finds(case, tmp_path):
    errors = errors_of(fake_tree(tmp_path, *BAD[case]))
    assert [e for e in errors if e.startswith(BAD[case][0])], errors


@pytest.mark.parametrize("case", GOOD)
def test_the_checker_accepts(case, tmp_path):
    assert errors_of(fake_tree(tmp_path, *GOOD[case])) == []
