"""What torch does beside a compile is left out where it is ours: guards are timed without emptying the processor's caches, and the collector of garbage
looks more rarely until the compile is over. Nothing of it is left behind, and other backends have what they had."""

import gc
import threading

import pytest
import torch
from torch._dynamo import guards

import escapement
from escapement.limits import NEW_OBJECTS
from escapement.steering import garbage

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.fixture
def threshold():
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def compiled_once(f, backend="escapement"):
    with torch.no_grad():
        return torch.compile(f, backend=backend)(torch.ones(3, 4))


def seen_while_tracing(backend="escapement"):
    """The collector's setting, seen by a function that Dynamo runs for its value."""
    seen = []

    @torch._dynamo.assume_constant_result
    def look():
        seen.append(gc.get_threshold())
        return 2

    compiled_once(lambda x: x * look(), backend)
    return seen[0]


def test_the_collector_looks_rarely_while_something_is_compiled(threshold):
    assert seen_while_tracing() == (NEW_OBJECTS, *threshold[1:])
    assert gc.get_threshold() == threshold and not garbage.under_way


@pytest.mark.parametrize("wanted", [(0, 10, 10), (NEW_OBJECTS * 2, 5, 5)])
def test_who_wants_it_to_look_more_rarely_has_that(threshold, wanted):
    gc.set_threshold(*wanted)
    assert seen_while_tracing() == wanted and gc.get_threshold() == wanted


def test_another_backend_has_the_setting_of_the_program(threshold):
    assert seen_while_tracing("eager") == threshold


def test_what_the_program_sets_meanwhile_stays(threshold):
    @torch._dynamo.assume_constant_result
    def set_it():
        gc.set_threshold(555, 6, 7)
        return 2

    compiled_once(lambda x: x * set_it())
    assert gc.get_threshold() == (555, 6, 7)


def test_a_compile_that_fails_leaves_nothing_behind(threshold):
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError):
        torch.compile(lambda x: x @ x, backend="escapement", fullgraph=True)(torch.ones(3, 4))
    assert gc.get_threshold() == threshold and not garbage.under_way


def test_two_threads_compile_and_the_last_puts_it_back(threshold):
    begun, done = threading.Barrier(2, timeout=60), []

    def compile_something():
        begun.wait()
        for scale in range(3):
            compiled_once(lambda x, scale=scale: x * scale + 1)
        done.append(True)

    threads = [threading.Thread(target=compile_something) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 2 and gc.get_threshold() == threshold and not garbage.under_way


def test_one_that_ends_while_another_goes_on_changes_nothing(threshold):
    with garbage.looked_at_rarely():
        with garbage.looked_at_rarely():
            pass
        assert gc.get_threshold()[0] == NEW_OBJECTS
    assert gc.get_threshold() == threshold


def test_guards_are_timed_as_they_are(monkeypatch):
    escapement.reset()
    compiled_once(lambda x: x + 1)   # what is put around torch's function is there
    asked, torchs = [], guards.profile_guard_manager.__wrapped__
    inner = guards.profile_guard_manager.__closure__[0]
    monkeypatch.setattr(inner, "cell_contents", lambda *args: asked.append(args) or torchs(*args))
    compiled_once(lambda x: x + 2)
    assert asked == []
    compiled_once(lambda x: x + 3, "eager")
    assert len(asked) == 1
