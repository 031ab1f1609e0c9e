"""A weight that is written through another name, of which its version counter says nothing: the next call computes with what is there.

Packed weights (linear layers, convolutions) are made from a weight's contents and used while they are unchanged. Whole writes and parts of one row,
column or element; by `.data` and by NumPy, once, again, and by a name that somebody keeps."""

import pytest
import torch

import escapement

nn = torch.nn


def layers(kind):
    """(a network, the weight in it that is written, an input of n)."""
    if kind == "convolutions":
        net = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3))
        return net, net[2].weight, lambda n: torch.randn(2, 3, 8 + n, 9)
    if kind == "convolutions of lines":
        net = nn.Sequential(nn.Conv1d(32, 32, 3, groups=32), nn.ReLU(), nn.Conv1d(32, 32, 3))
        return net, net[0].weight, lambda n: torch.randn(2, 32, 9 + n)
    if kind == "recurrent":
        net = nn.LSTM(32, 64, batch_first=True)
        return net, net.weight_hh_l0, lambda n: torch.randn(3, 5 + n, 32)
    inner, outer = (512, 64) if kind == "narrow linear layers" else (256, 1024)
    net = nn.Sequential(nn.Linear(512, inner), nn.ReLU(), nn.Linear(inner, outer))
    return net, net[0].weight, lambda n: torch.randn(30 + n, 512)


KINDS = ("convolutions", "convolutions of lines", "recurrent", "narrow linear layers", "wide linear layers")
kept = []


def a_kept_name(weight):
    kept.append(weight.data)
    kept[-1][3] = 1


def a_kept_array(weight):
    kept.append(weight.detach().numpy())
    kept[-1][3] = 2


def the_kept(weight):
    kept[-1][4] -= 2


def pruned(weight):
    weight.data.mul_((torch.rand_like(weight) > 0.3).float())


def others_data(weight):
    weight.data = weight.data.clone()
    weight.data[8] = 0


def put(index, value, of=lambda weight: weight.data):
    def write(weight):
        of(weight)[index] = value
    return write


def array(weight):
    return weight.detach().numpy()


# In this order: what an earlier one has told must not be taken for what a later one has not.
WRITES = (put(5, 0), put(-1, 1), put((slice(None), 0), 0.25), put(7, 5, lambda weight: weight.data.view(-1)), a_kept_name, the_kept, put(6, 0, array),
          put(7, 0, array), put(2, 1, array), put(1, 4, torch.Tensor.detach), pruned, others_data, put(5, 2), a_kept_array, the_kept, put(9, 0.5))


@pytest.mark.parametrize("way", ("call", "replay", "torch.compile"))
@pytest.mark.parametrize("kind", KINDS)
def test_the_next_call_sees_what_was_written(kind, way):
    torch.manual_seed(0)
    torch._dynamo.reset()
    net, weight, made = layers(kind)
    net.eval()
    ours = torch.compile(net, backend="escapement") if way == "torch.compile" else escapement.jit(net, mode=way)
    compiles = escapement.stats()["dynamo"]["compiles"]
    with torch.no_grad():
        for n in (1, 2, 3, 4):
            ours(made(n))
        for number, write in enumerate(WRITES):
            before = weight.clone()
            write(weight)
            assert not torch.equal(weight, before), number
            for n in (2, 5):
                argument = made(n)
                torch.testing.assert_close(ours(argument), net(argument), rtol=1e-4, atol=1e-4, msg=lambda text, number=number: f"write {number}: {text}")
    if way == "call":
        assert ours.info()["recordings"] == 1
    if way == "torch.compile":
        assert escapement.stats()["dynamo"]["compiles"] - compiles <= 1


def made_before(weight, calls):
    array = weight.detach().numpy()
    calls()
    return array


def made_beside_a_counted_write(weight, calls):
    calls()
    weight.mul_(1.5)   # which is enough to tell
    return weight.detach().numpy()


def made_where_elements_are_compared(weight, calls):
    calls()
    array = weight.detach().numpy()
    array[:] *= 1.5
    return array


@pytest.mark.parametrize("made_when", (made_before, made_beside_a_counted_write, made_where_elements_are_compared))
@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_an_array_of_which_something_else_told(kind, made_when):
    """One element at a time, of which few are compared at each call."""
    torch.manual_seed(0)
    net, weight, made = layers(kind)
    net.eval()
    ours, argument = escapement.jit(net), made(3)
    elements = made_when(weight, lambda: ours(argument)).reshape(-1)
    for i in range(12):
        torch.testing.assert_close(ours(argument), net(argument), rtol=1e-4, atol=1e-3, msg=lambda text, i=i: f"write {i}: {text}")
        elements[(i * 1013 + 5) % elements.size] += 50
    assert ours.info()["recordings"] == 1


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_other_memory_at_the_same_address(kind):
    """What was there is free when the next one is made."""
    torch.manual_seed(0)
    net, weight, made = layers(kind)
    net.eval()
    ours, argument = escapement.jit(net), made(3)
    came_back = 0
    for i in range(16):
        torch.testing.assert_close(ours(argument), net(argument), rtol=1e-4, atol=1e-3, msg=lambda text, i=i: f"change {i}: {text}")
        address = weight.data_ptr()
        for k in range(2):
            changed = weight.data.clone()
            changed.view(-1)[(i * 1013 + k * 77 + 5) % changed.numel()] += 50
            weight.data = changed
            del changed
        came_back += weight.data_ptr() == address
    if not came_back:
        pytest.skip("the allocator has given other addresses")
