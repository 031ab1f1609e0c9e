"""A new generator at each call, as servers make them: a handful of recordings, eager's numbers, and the caller's generator where eager leaves it."""
import threading

import pytest
import torch

import escapement


def noise(x, generator):
    return x + torch.randn(x.shape, generator=generator)


def choose(x, generator):
    return (x.softmax(-1) / torch.empty_like(x).exponential_(generator=generator)).argmax(-1)


def keyword(x, *, generator=None):
    return x * torch.rand(x.shape, generator=generator) + torch.rand(x.shape, generator=generator)


def two(x, first, second):
    return x + torch.rand(x.shape, generator=first) - 2 * torch.rand(x.shape, generator=second)


def branches(x, generator):
    y = torch.rand(x.shape, generator=generator)
    if x.shape[0] > 3:
        y = y + torch.rand(x.shape, generator=generator)
    return x * y


def handed_back(x, generator):
    return x + torch.rand(x.shape, generator=generator), generator


def in_a_tuple(x, generator):
    return {"x": x + torch.rand(x.shape, generator=generator), "g": (generator,)}


def compare(jitted, program, call, rows, **settings):
    x = torch.arange(rows * 3.0).reshape(rows, 3)
    ours, eagers = torch.Generator().manual_seed(call), torch.Generator().manual_seed(call)
    if program is two:
        others = torch.Generator().manual_seed(call + 1), torch.Generator().manual_seed(call + 1)
        results = jitted(x, ours, others[0]), program(x, eagers, others[1])
        assert torch.equal(others[0].get_state(), others[1].get_state())
    elif program is keyword:
        results = jitted(x, generator=ours), program(x, generator=eagers)
    else:
        results = jitted(x, ours), program(x, eagers)
    assert torch.equal(ours.get_state(), eagers.get_state()) and ours.initial_seed() == eagers.initial_seed()
    return results, ours


@pytest.mark.parametrize("program", [noise, choose, keyword, two, branches], ids=lambda program: program.__name__)
@torch.no_grad()
def test_few_recordings(program):
    jitted = escapement.jit(program)
    for call in range(60):
        (mine, wanted), _ = compare(jitted, program, call, (2, 5, 1, 4)[call % 4])
        assert torch.equal(mine, wanted), call
    info = jitted.info()
    assert info["recordings"] <= 12 and not info["eager"], info


@torch.no_grad()
def test_what_hands_a_generator_back_gets_its_own():
    for program, found in ((handed_back, lambda result: result[1]), (in_a_tuple, lambda result: result["g"][0])):
        jitted = escapement.jit(program)
        for call in range(8):
            (mine, _), given = compare(jitted, program, call, 3)
            assert found(mine) is given


@torch.no_grad()
def test_what_keeps_a_generator_gets_its_own():
    held = []

    def program(x, generator):
        held.append(generator)
        return x + torch.rand(x.shape, generator=generator)

    jitted = escapement.jit(program)
    for call in range(12):
        held.clear()
        (mine, wanted), given = compare(jitted, program, call, 3)
        assert torch.equal(mine, wanted) and held[0] is given


@torch.no_grad()
def test_one_generator_twice_and_the_functions_own():
    own = torch.Generator()

    def program(x, first, second):
        return x + torch.rand(x.shape, generator=first) + torch.rand(x.shape, generator=second) + torch.rand(x.shape, generator=own)

    jitted = escapement.jit(program)
    for call in range(12):
        x = torch.ones(call % 3 + 1, 3)
        results = []
        for function in (jitted, program):
            own.manual_seed(7)
            generator = torch.Generator().manual_seed(call)
            results.append((function(x, generator, generator), function(x, own, torch.Generator().manual_seed(call)), own.get_state()))
        for mine, wanted in zip(*results):
            assert torch.equal(mine, wanted), call


@torch.no_grad()
def test_threads_and_exceptions():
    def program(x, generator):
        y = torch.rand(x.shape, generator=generator)
        if x.shape[0] == 5:
            raise ValueError("five")
        return x + y

    jitted = escapement.jit(program)
    for call in range(6):
        compare(jitted, program, call, 2)
    ours, eagers = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    for function, generator in ((jitted, ours), (program, eagers)):
        with pytest.raises(ValueError, match="five"):
            function(torch.ones(5, 3), generator)
    assert torch.equal(ours.get_state(), eagers.get_state())
    failures = []

    def serve(number):
        try:
            for call in range(30):
                (mine, wanted), _ = compare(jitted, program, 100 * number + call, call % 4 + 1)
                assert torch.equal(mine, wanted)
        except BaseException as error:   # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@torch.no_grad()
def test_an_exception_after_a_draw():
    """Whoever draws is recorded up to the exception, and then run once more."""
    held = torch.Generator()

    def program(x, generator):
        y = torch.rand(x.shape, generator=generator) + torch.rand(x.shape, generator=held) + torch.rand(x.shape)
        if x.shape[0] == 5:
            raise ValueError("five")
        return x + y

    jitted = escapement.jit(program)
    for rows in (5, 3, 5, 2, 5):
        states = []
        for function in (jitted, program):
            generator = torch.Generator().manual_seed(1)
            held.manual_seed(2)
            torch.manual_seed(3)
            try:
                function(torch.ones(rows, 3), generator)
            except ValueError:
                assert rows == 5
            states.append((generator.get_state(), held.get_state(), torch.get_rng_state()))
        for ours, eagers in zip(*states):
            assert torch.equal(ours, eagers), rows
