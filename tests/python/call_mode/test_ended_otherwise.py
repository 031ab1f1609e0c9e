"""Calls that end in what is no Exception, or in a coroutine: what the function has done until then is done, once."""

import asyncio
import functools
import gc
import warnings

import pytest
import torch

import escapement

ENDS = {"exit": SystemExit, "interrupt": KeyboardInterrupt, "generator's": GeneratorExit, "cancelled": asyncio.CancelledError}
KEPT = []


class Given:
    def __init__(self):
        self.x, self.log, self.table = torch.ones(2), [], {}


def ends(kind):
    def run(given, x, log):
        given.y = given.x * 2
        given.table["n"] = x.shape[0]
        log.append(x.shape[0])
        log.append(x + 1)
        KEPT.append(x * 3)
        KEPT.append(given)
        x.add_(1)
        raise kind(0)

    return run


@pytest.mark.parametrize("name", ENDS)
def test_what_it_did_is_done(name):
    jitted = escapement.jit(ends(ENDS[name]))
    for n in (2, 3, 3):
        KEPT.clear()
        given, x, log = Given(), torch.ones(n), []
        with pytest.raises(ENDS[name]):
            jitted(given, x, log)
        assert given.y.tolist() == [2.0, 2.0] and given.table == {"n": n} and type(given.table["n"]) is int
        assert log[0] == n and type(log[0]) is int and (log[1] * 2).tolist() == [4.0] * n and len(log) == 2
        assert x.tolist() == [2.0] * n and (KEPT[0] + 1).tolist() == [4.0] * n and KEPT[1] is given


def test_compiled_before_and_after():
    """At some sizes it ends otherwise; versions serve the others."""
    def run(x, log):
        log.append(x + 1)
        if x.shape[0] > 8:
            raise SystemExit(0)
        return x * 2

    jitted = escapement.jit(run)
    for n in (2, 3, 9, 4, 5, 10, 6, 7):
        log = []
        if n > 8:
            with pytest.raises(SystemExit):
                jitted(torch.ones(n), log)
        else:
            assert jitted(torch.ones(n), log).tolist() == [2.0] * n
        assert [part.tolist() for part in log] == [[2.0] * n]
    info = jitted.info()
    assert info["eager"] == {} and sum(version["hits"] for region in info["regions"] for version in region["versions"]) == 5


async def later(x, n):
    await asyncio.sleep(0)
    return x * n


@functools.wraps(later)
def wrapped(x, n):
    return later(x, n)


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("function", [later, wrapped, lambda x, n: [later(x, n)], lambda x, n: (later(x, n), later(x, n))])
def test_no_coroutine_is_forgotten(function, mode):
    jitted = escapement.jit(function, mode=mode)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for n in (2, 3, 4):
            found = jitted(torch.ones(n), n)
            for each in found if isinstance(found, (list, tuple)) else [found]:
                assert asyncio.run(each).tolist() == [float(n)] * n
        gc.collect()
    assert not [str(warning.message) for warning in said if "never awaited" in str(warning.message)]
