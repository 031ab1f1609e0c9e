"""Who records when: one recording at a time, nobody waits for code that is made in the background, an error of the program's own
does not use up the recordings."""

import threading

import pytest
import torch
from harness import assert_exact, region


def body(x):
    return [torch.relu(x * 2 + 1)]


def test_background_serves_while_the_code_is_made():
    made = region(body, 1, compile="background")
    for n in [3, 5, 1, 0, 7] * 40:
        x = torch.randn(n, 4)
        assert_exact(made(x)[0], body(x)[0])
    info = made.info()
    assert info["recordings"] == 1 and len(info["versions"]) <= 1, info
    assert set(info["fallbacks"]) <= {"not_ready"}


def test_background_ends_in_compiled_code():
    made = region(body, 1, compile="background")
    x = torch.randn(3, 4)
    made(x)
    for _ in range(10**6):   # the code is there sooner or later; the bound only ends a hang
        made(x)
        if made.info()["versions"]:
            break
    before = dict(made.info()["fallbacks"])
    made(torch.randn(6, 2))
    assert made.info()["fallbacks"] == before and made.info()["recordings"] == 1


def test_strict_allows_a_call_that_does_not_wait():
    made = region(body, 1, compile="background", strict=True)
    for n in (3, 4, 5):
        assert_exact(made(torch.ones(n, 2))[0], body(torch.ones(n, 2))[0])


def test_first_calls_from_many_threads_record_once():
    recording, leave = threading.Event(), threading.Event()

    def slow(x):
        if not recording.is_set():
            recording.set()
            leave.wait()
        return body(x)

    made, results = region(slow, 1), {}

    def call(n):
        results[n] = made(torch.ones(n, 3))[0]

    first = threading.Thread(target=call, args=(2,))
    first.start()
    recording.wait()
    call(5)                  # the first thread records and is held: this call runs the program itself
    leave.set()
    first.join()
    assert made.info()["recordings"] == 1 and made.info()["fallbacks"] == {"not_ready": 1}
    for n, result in results.items():
        assert_exact(result, body(torch.ones(n, 3))[0])


def test_errors_of_the_program_do_not_use_up_recordings():
    made = region(lambda x, y: [x + y], 2)
    for _ in range(50):
        with pytest.raises(RuntimeError):
            made(torch.ones(3), torch.ones(4))
    assert_exact(made(torch.ones(3), torch.ones(3))[0], torch.full((3,), 2.0))
    made(torch.ones(5), torch.ones(5))
    info = made.info()
    assert info["recordings"] == 1 and not info["fallbacks"] and info["versions"][0]["hits"] == 1


def test_a_program_may_call_itself():
    def countdown(x, n):
        return [x if int(n) == 0 else made(x * 2, n - 1)[0]]

    made = region(countdown, 2)
    assert_exact(made(torch.ones(2), torch.tensor(3))[0], torch.full((2,), 8.0))
    assert_exact(made(torch.ones(4), torch.tensor(2))[0], torch.full((4,), 4.0))
