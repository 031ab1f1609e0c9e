"""The device for tests (tests/cpp_api/twin_device.cpp) as Python sees it: `torch.device("twin")`, two of them, on the twin driver.

It is registered once a process and cannot be taken back, so only processes that are for it load this file: test_on_twin.py starts them.
"""

import ctypes
import os
import pathlib
import types

BUILD = pathlib.Path(os.environ["ESCAPEMENT_BUILD"]).resolve()
LIBRARY = BUILD / "tests" / "libtwin_device.so"
os.environ.setdefault("ESCAPEMENT_CUDA_DRIVER", str(BUILD / "tests" / "libcuda_twin.so"))

import torch  # noqa: E402  (the variable is read when a tensor of a device is first met)

import escapement  # noqa: E402

torch.ops.load_library(str(LIBRARY))
control = ctypes.CDLL(str(LIBRARY))
control.twin_new_stream.restype = control.twin_live_blocks.restype = ctypes.c_int64
control.twin_use_stream.argtypes = (ctypes.c_int, ctypes.c_int64)
control.twin_queued.argtypes = (ctypes.c_int, ctypes.c_int64)
control.twin_complaints.restype = ctypes.c_char_p
torch._register_device_module("twin", types.SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, current_device=lambda: 0))

DEVICE = "twin:0"
OUT_OF_MEMORY, ILLEGAL_ADDRESS = 2, 700


def here(value, device=DEVICE):
    """Tensors of a structure, moved."""
    if isinstance(value, torch.Tensor):
        return place(value, device)
    if isinstance(value, (tuple, list)):
        return type(value)(here(item, device) for item in value)
    return value


def place(tensor, device):
    """The same strides and offset, which `to` does not keep."""
    if not tensor.numel() or tensor.is_contiguous() and not tensor.storage_offset():
        return tensor.to(device)
    flat = torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    return torch.as_strided(flat.to(device), tensor.shape, tensor.stride(), tensor.storage_offset())


def counted(name):
    return escapement.stats().get(name, 0)


def complaints():
    return control.twin_complaints().decode()
