"""A driver that is too old: tensors of a device run eagerly and are counted, and those of the CPU as ever. A process of its own: the driver is opened once."""

import pytest
import torch
from harness import assert_exact
from twin import control, counted, here

import escapement


def test_an_old_driver_means_eager_calls():
    here(torch.ones(1))   # the device's own use of the driver
    control.twin_set_version(11040)
    fast = escapement.jit(lambda x: (x * 2 + 1).relu())
    x = torch.randn(3, 4)
    for _ in range(3):
        assert_exact(fast(here(x)).cpu(), (x * 2 + 1).relu())
        assert_exact(fast(x), (x * 2 + 1).relu())
    region = fast.info()["regions"][0]
    assert region["fallbacks"] == {"device_driver": 3} and len(region["versions"]) == 1
    assert counted("device_launches") == 0


def test_it_can_be_an_error():
    fast = escapement.jit(lambda x: x * 2, strict=True)
    with pytest.raises(Exception, match="device_driver.*NVIDIA"):
        fast(here(torch.ones(2)))
