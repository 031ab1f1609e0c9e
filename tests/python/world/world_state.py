"""All of torch's state, beside tensors, that a program can change: read, compared, put back. For tests."""

import contextlib
import random

import torch

OWN = torch.Generator()   # a generator that programs reach as a global


def flushes():
    return (torch.tensor([1e-39], dtype=torch.float32) * torch.ones(1, dtype=torch.float32)).item() == 0


def seen():
    """Everything, by name."""
    backends, cuda = torch.backends, torch.backends.cuda
    return {
        "generator": torch.get_rng_state().tolist(), "own generator": OWN.get_state().tolist(), "Python's generator": random.getstate(),
        "default dtype": torch.get_default_dtype(), "function modes": torch._C._len_torch_function_stack(),
        "threads": torch.get_num_threads(), "deterministic": torch.get_deterministic_debug_mode(),
        "fill": torch.utils.deterministic.fill_uninitialized_memory, "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(), "forward gradients": torch._C._is_fwd_grad_enabled(),
        "threads of backward": torch._C._is_multithreading_enabled(), "view replay": torch._C._is_view_replay_enabled(),
        "precision": [torch._C._get_fp32_precision_getter("mkldnn", op) for op in ("all", "matmul", "conv", "rnn")],
        "mkldnn": (backends.mkldnn.enabled, backends.mkldnn.deterministic), "cudnn": (backends.cudnn.enabled, backends.cudnn.benchmark),
        "attention": (cuda.flash_sdp_enabled(), cuda.math_sdp_enabled()), "warnings": torch.is_warn_always_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled()),
        "anomaly": torch.is_anomaly_enabled(), "denormals": flushes(),
        "hooks": torch._C._autograd._top_saved_tensors_default_hooks(True) is not None,
        "sparse checks": torch.sparse.check_sparse_tensor_invariants.is_enabled(), "printing": dict(vars(torch._tensor_str.PRINT_OPTS)),
    }


THREADS = torch.get_num_threads()


def put_back():
    """The state of a fresh process, but without gradients."""
    torch.set_default_device(None)
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    while torch._C._autograd._top_saved_tensors_default_hooks(True) is not None:
        torch._C._autograd._pop_saved_tensors_default_hooks()
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.set_flush_denormal(False)
    torch.set_autocast_enabled("cpu", False)
    torch.set_autocast_dtype("cpu", torch.bfloat16)
    torch.set_autocast_cache_enabled(True)
    torch._C._set_grad_enabled(False)
    torch._C._set_fwd_grad_enabled(True)
    torch._C._set_multithreading_enabled(True)
    torch._C._set_view_replay_enabled(False)
    torch.set_float32_matmul_precision("highest")
    for op in ("all", "matmul", "conv", "rnn"):
        torch._C._set_fp32_precision_setter("mkldnn", op, "none")
    torch.backends.mkldnn.set_flags(True, _deterministic=False)
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.enable_flash_sdp(True)
    torch.autograd.set_detect_anomaly(False)
    torch.set_warn_always(False)
    torch.set_printoptions(profile="default")
    torch.sparse.check_sparse_tensor_invariants.disable()
    torch.manual_seed(1)
    OWN.manual_seed(11)
    random.seed(1)


@contextlib.contextmanager
def untouched():
    """Whatever happens inside, torch's state is afterwards that of before."""
    grad, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
    try:
        put_back()
        yield
    finally:
        put_back()
        torch.set_grad_enabled(grad)
        torch.set_default_dtype(dtype)
