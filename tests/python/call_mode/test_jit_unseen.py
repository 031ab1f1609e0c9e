"""Tensors that no operator of a recording made, in call mode: every way in which Python code comes by one, with contents that depend on
nothing, on a size, on a value, on an array that changes, at several sizes against eager. A row says why it is not recorded, if so."""

import copy
import io
import pickle
import threading

import numpy as np
import pytest
import torch

import escapement
from harness import core

pytestmark = pytest.mark.skipif(not hasattr(core(), "Region"), reason="needs the compiled core")

SHARED = np.array([1., 2., 3.], np.float32)
BYTES = bytearray(SHARED.tobytes())
GLOBAL = torch.tensor([1., 2., 3.])
LINEAR = torch.nn.Linear(3, 3).requires_grad_(False)
PICKLED = pickle.dumps(GLOBAL)


def array(*values):
    return np.array(values, np.float32)


def changed(tensor, amount=1):
    tensor += amount
    return tensor


def filled(zeros, x):
    memory = zeros.numpy()
    memory[0] = 1
    y = x * zeros
    memory[1] = 2
    return y + x * zeros


def written_between(x):
    memory = array(1, 1, 1)
    tensor = torch.from_numpy(memory)
    y = x * tensor
    memory[0] = 5
    return y + x * tensor


def on_a_thread(make):
    found = []
    thread = threading.Thread(target=lambda: found.append(make()))
    thread.start()
    thread.join()
    return found[0]


def saved():
    file = io.BytesIO()
    torch.save(torch.tensor([1., 2., 3.]), file)
    return file.getvalue()


SAVED = saved()
UNSEEN, MEMORY, READ, SET = "made_unseen", "storage_access", "result_read", "argument_reshaped"
ROWS = {
    # literals: from Python numbers, copied
    "tensor of numbers": (lambda x: x * torch.tensor([1., 2., 3.]), None),
    "tensor written": (lambda x: changed(torch.tensor([1., 2., 3.])) * x, None),
    "tensor returned": (lambda x: torch.tensor([1., 2., 3.]), None),
    "as_tensor of numbers": (lambda x: x * torch.as_tensor([1., 2., 3.]), None),
    "FloatTensor": (lambda x: x * torch.FloatTensor([1., 2., 3.]), None),
    "large": (lambda x: x.sum() + torch.tensor([1.] * 20000), None),
    "an index of numbers": (lambda x: x[:, [0, 2]], None),
    "zeros filled": (lambda x: filled(torch.zeros(3), x), None),
    "pickle": (lambda x: x * pickle.loads(PICKLED), SET),
    "load": (lambda x: x * torch.load(io.BytesIO(SAVED)), SET),
    "on a thread": (lambda x: x * on_a_thread(lambda: torch.full((3,), 2.)), None),
    # of a size, of a value
    "tensor of a size": (lambda x: x * torch.tensor([1., 2., float(x.shape[0])]), None),
    "tensor of a value": (lambda x: x * torch.tensor([x.sum().item(), 1., 2.]), None),
    "tensor of tolist": (lambda x: x * torch.tensor(x.sum(0).tolist()), READ),
    "array of a value": (lambda x: x * torch.from_numpy(x.sum(0).numpy() * 2), READ),
    # memory that no tensor owns
    "tensor of an array": (lambda x: x * torch.tensor(array(1, 2, 3)), UNSEEN),
    "tensor of an array of a size": (lambda x: x * torch.tensor(np.full(3, x.shape[0], np.float32)), UNSEEN),
    "tensor of a global array": (lambda x: x * torch.tensor(SHARED), UNSEEN),
    "from_numpy": (lambda x: x * torch.from_numpy(array(1, 2, 3)), UNSEEN),
    "from_numpy of a size": (lambda x: x * torch.from_numpy(np.full(3, x.shape[0], np.float32)), UNSEEN),
    "from_numpy written": (lambda x: changed(torch.from_numpy(array(0, 0, 0))).add_(x.sum()), UNSEEN),
    "from_numpy returned": (lambda x: torch.from_numpy(array(0, 0, 0)), UNSEEN),
    "from_numpy, written between": (written_between, UNSEEN),
    "from_numpy of a global array": (lambda x: x * torch.from_numpy(SHARED), UNSEEN),
    "as_tensor of an array": (lambda x: x * torch.as_tensor(array(1, 2, 3)), UNSEEN),
    "asarray": (lambda x: x * torch.asarray(SHARED), UNSEEN),
    "frombuffer": (lambda x: x * torch.frombuffer(BYTES, dtype=torch.float32), UNSEEN),
    "dlpack": (lambda x: x * torch.utils.dlpack.from_dlpack(array(1, 2, 3)), UNSEEN),
    "an index of an array": (lambda x: x[:, np.array([0, 2])], UNSEEN),
    # of somebody's tensor
    "a global": (lambda x: x * GLOBAL, None),
    "data of a global": (lambda x: x * GLOBAL.data, UNSEEN),
    "data of a parameter": (lambda x: x @ LINEAR.weight.data, UNSEEN),
    "detach of a parameter": (lambda x: x @ LINEAR.weight.detach(), None),
    "tolist of a global": (lambda x: x * GLOBAL.tolist()[0], MEMORY),
    "item of a global": (lambda x: x * GLOBAL[0].item(), None),
    "deepcopy of a global": (lambda x: x * copy.deepcopy(GLOBAL), SET),
    "set_ of a storage": (lambda x: x * torch.tensor([]).set_(GLOBAL.untyped_storage(), 0, (3,), (1,)), SET),
}


def change_the_world(step):
    SHARED[0] += 1
    BYTES[0:4] = np.float32(step).tobytes()
    GLOBAL[0] += 1
    LINEAR.weight.add_(1)
    if step % 2:
        LINEAR.weight.data = torch.rand(3, 3)


@pytest.mark.parametrize("row", ROWS)
@torch.no_grad()
def test_equals_eager(row):
    fn, reason = ROWS[row]
    jitted = escapement.jit(fn)
    for step, n in enumerate((4, 5, 1, 0, 7, 4, 11, 0)):
        x = torch.arange(3. * n).reshape(n, 3) / 8
        found, wanted = jitted(x.clone()), fn(x.clone())
        torch.testing.assert_close(found, wanted, equal_nan=True)
        found += 1   # the caller's own
        if step >= 3:
            change_the_world(step)
    info = jitted.info()
    fallbacks = {name: times for region in info["regions"] for name, times in region["fallbacks"].items()}
    assert not info["eager"], info["eager"]
    assert reason is None and not set(fallbacks) & {UNSEEN, MEMORY} or fallbacks.get(reason), fallbacks
