"""Prints what the build needs to know about this interpreter's torch, one item a line. Does not import torch: that takes seconds."""
import importlib.util
import pathlib
import sys

spec = importlib.util.find_spec("torch")
if spec is None:
    sys.exit(f"torch is not installed for {sys.executable} (pip install torch==2.13.0, then --no-build-isolation)")
root = pathlib.Path(spec.origin).parent
include = root / "include"
if not (include / "ATen" / "core" / "TensorBody.h").exists():
    sys.exit(f"this torch carries no C++ headers: {include}")
version = {}
exec((root / "version.py").read_text(), version)
print(include, include / "torch/csrc/api/include", root / "lib", version["__version__"], version.get("cuda") or "none", sep="\n")
