"""A time limit (an error that a signal's handler raises) while a graph is compiled is raised; the graph is not left to eager for that, and compiles the next time."""

import signal

import pytest
import torch

import escapement
from escapement import backend


def time_limit(*_):
    raise TimeoutError("after five seconds")


@pytest.mark.parametrize("training", [False, True])
def test_a_time_limit_is_no_failure_of_ours(monkeypatch, training):
    escapement.reset()
    torch.compiler.reset()
    before, own = signal.signal(signal.SIGUSR1, time_limit), backend.region

    def late(*args):
        monkeypatch.setattr(backend, "region", own)
        time_limit()

    try:
        monkeypatch.setattr(backend, "region", late)
        function = torch.compile(lambda x: (x * 2 + 1).relu(), backend="escapement")
        with pytest.raises(Exception, match="after five seconds"):
            function(torch.ones(3, 2, requires_grad=training))
        for rows in (3, 1, 4):
            assert torch.equal(function(torch.ones(rows, 2, requires_grad=training)), torch.full((rows, 2), 3.0))
        stats = escapement.stats()
        assert stats["dynamo"]["fallbacks"] == {} and stats["launches"] > 0 and stats.get("internal_error", 0) == 0
    finally:
        signal.signal(signal.SIGUSR1, before)
