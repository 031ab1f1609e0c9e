"""`pack_limit`: packed weights take no more memory than it says, the results are eager's, and what found no room is counted."""

import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")


def without_room():
    return escapement.stats().get("weights_without_room", 0)


def call_all(compiled, program, shapes):
    with torch.no_grad():
        for shape in shapes:
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), program(x), rtol=1e-4, atol=1e-4)


def test_linear_layers_that_find_no_room():
    model = torch.nn.Sequential(torch.nn.Linear(733, 741), torch.nn.ReLU(), torch.nn.Linear(741, 733)).eval()   # 2 MiB each, of a class nobody has timed
    before = without_room()
    call_all(escapement.jit(model, pack_limit=1), model, [(5, 733), (1, 733), (0, 733), (13, 733)])
    assert without_room() == before + 2   # asked once for each, whatever the number of calls and sizes
    other = escapement.jit(model)
    call_all(other, model, [(5, 733), (3, 733)])
    assert without_room() == before + 2


def test_the_first_ones_find_room():
    layers = [torch.nn.Linear(517, 519 + i) for i in range(3)]   # 1.02 MiB each

    def program(x):
        return sum(layer(x).sum(-1) for layer in layers)

    before = without_room()
    taken = escapement.stats()["packed_bytes"]
    call_all(escapement.jit(program, pack_limit=taken // 2**20 + 3), program, [(5, 517), (2, 517)])
    assert without_room() == before + 1
    assert escapement.stats()["packed_bytes"] <= taken // 2**20 * 2**20 + 3 * 2**20


def test_convolutions_that_find_no_room():
    model = torch.nn.Conv3d(64, 96, 5).eval()   # 3 MiB
    before = without_room()
    call_all(escapement.jit(model, pack_limit=1), model, [(1, 64, 8, 8, 8), (1, 64, 8, 8, 8), (1, 64, 9, 8, 7)])
    assert without_room() > before


def test_it_is_no_negative_number():
    with pytest.raises(Exception, match="pack_limit"):
        escapement.jit(torch.relu, pack_limit=-1)
