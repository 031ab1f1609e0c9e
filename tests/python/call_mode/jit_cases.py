"""What the tests of escapement.jit share: inputs, a comparison that looks at types, layouts and identities, a checked
list of calls.
"""

import collections
import copy
import dataclasses

import torch


def matrix(rows, columns=4, seed=0):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed + rows))


def equal(ours, host):
    """Same types, same values, same identity of what stands twice."""
    if isinstance(host, torch.Tensor):
        assert isinstance(ours, torch.Tensor) and type(ours) is type(host)
        assert (ours.dtype, ours.shape, ours.requires_grad) == (host.dtype, host.shape, host.requires_grad)
        assert ours.numel() == 0 or 1 in host.shape or ours.stride() == host.stride()
        torch.testing.assert_close(ours, host, rtol=2e-6, atol=1e-6, equal_nan=True)
        return
    assert type(ours) is type(host), (ours, host)
    if dataclasses.is_dataclass(host):
        ours, host = ({field.name: getattr(box, field.name) for field in dataclasses.fields(host)} for box in (ours, host))
    if isinstance(host, dict):
        assert list(ours) == list(host)
        ours, host = list(ours.values()), list(host.values())
    if isinstance(host, (list, tuple, collections.deque)):
        assert len(ours) == len(host)
        for a, b in zip(ours, host):
            equal(a, b)
        return
    assert ours == host or ours != ours and host != host


def check(jitted, fn, calls, recordings=None, eager=()):
    """Every call of the list, ours and the function's own, on arguments that neither sees of the other's writes."""
    for args in calls:
        named = args.pop() if isinstance(args, list) and isinstance(args[-1], dict) and args[-1].pop("kwargs", False) else {}
        ours, host = copy.deepcopy((list(args), named)), copy.deepcopy((list(args), named))
        equal(jitted(*ours[0], **ours[1]), fn(*host[0], **host[1]))
        equal(ours, host)
    info = jitted.info()
    assert set(info["eager"]) == set(eager), info["eager"]
    assert not any(region["fallbacks"] for region in info["regions"]), [region["fallbacks"] for region in info["regions"]]
    if recordings is not None:
        assert info["recordings"] == recordings, info["recordings"]
    return info


# --- what changes a value elsewhere

def set_attribute(target, name):
    return lambda value: setattr(target, name, value)


def set_item(target, key):
    return lambda value: target.__setitem__(key, value)
