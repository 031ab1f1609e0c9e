"""Bad input: eager's result or eager's exception class, no crash, inputs untouched; failures of ours are one warning with a named
reason, or an error with strict."""

import pytest
import torch
from harness import assert_exact, region, seeded, values

G = seeded("bad")


def double_plus(x, y):
    return [x * 2 + y]


def warmed(function=double_plus):
    made = region(lambda *a: function(*a), 2)
    for n in (3, 5):
        made(values((n, 4), torch.float32, G), values((n, 4), torch.float32, G))
    return made


CASES = {
    "wrong_dtype": lambda: (torch.ones(3, 4, dtype=torch.int64), torch.ones(3, 4)),
    "wrong_rank": lambda: (torch.ones(4), torch.ones(3, 4)),
    "shape_mismatch": lambda: (torch.ones(3, 4), torch.ones(2, 4)),
    "inner_mismatch": lambda: (torch.ones(3, 4), torch.ones(3, 5)),
    "empty": lambda: (torch.ones(0, 4), torch.ones(0, 4)),
    "inner_empty": lambda: (torch.ones(3, 0), torch.ones(3, 0)),
    "broadcast_now": lambda: (torch.ones(3, 4), torch.ones(1, 4)),
    "meta": lambda: (torch.ones(3, 4, device="meta"), torch.ones(3, 4, device="meta")),
    "mixed_device": lambda: (torch.ones(3, 4, device="meta"), torch.ones(3, 4)),
    "sparse": lambda: (torch.eye(4).to_sparse(), torch.ones(4, 4)),
    "complex": lambda: (torch.ones(3, 4, dtype=torch.complex64), torch.ones(3, 4)),
    "conjugate": lambda: (torch.ones(3, 4, dtype=torch.complex64).conj(), torch.ones(3, 4)),
    "expanded": lambda: (torch.ones(1, 4).expand(3, 4), torch.ones(3, 1).expand(3, 4)),
    "overlapping": lambda: (torch.arange(6.0).as_strided((3, 4), (1, 1)), torch.ones(3, 4)),
    "same_tensor": lambda: (lambda t: (t, t))(torch.ones(3, 4)),
    "negative_bit": lambda: (torch.ones(3, 4, dtype=torch.complex64).conj().imag, torch.ones(3, 4)),
    "zero_dim": lambda: (torch.tensor(2.0), torch.tensor(3.0)),
}


def outcome(function, args):
    try:
        return function(*args)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", CASES)
def test_eagers_result_or_exception(name):
    made = warmed()
    args = CASES[name]()
    before = [a.clone() for a in args]
    eager, ours = outcome(double_plus, args), outcome(made, args)
    if isinstance(eager, type):
        assert ours == eager
        return
    assert not isinstance(ours, type), ours
    if args[0].device.type == "cpu" and not ours[0].is_sparse and not ours[0].is_complex():
        assert_exact(ours[0], eager[0])
    for a, b in zip(args, before):
        if a.device.type == "cpu":
            assert torch.equal(a.to_dense() if a.is_sparse else a, b.to_dense() if b.is_sparse else b)


def test_sizes_near_two_to_the_31():
    made = region(lambda x: [x[:, :3] + 1], 1)
    made(torch.ones(2, 5)), made(torch.ones(3, 6))
    huge = torch.ones(2, 1).expand(2, 2**31 + 7)
    assert_exact(made(huge)[0], huge[:, :3] + 1)


def test_too_large_an_allocation_raises_as_eager_does():
    made = region(lambda x: [x * 2], 1)
    made(torch.ones(2, 5)), made(torch.ones(3, 6))
    huge = torch.ones(1, 1).expand(2**31, 2**20)
    assert outcome(lambda x: [x * 2], (huge,)) is RuntimeError
    assert outcome(made, (huge,)) is RuntimeError
    assert_exact(made(torch.ones(2, 2))[0], torch.full((2, 2), 2.0))


def test_error_inside_the_program_leaves_the_thread_usable():
    def function(x, y):
        return [torch.matmul(x, y) + 1]

    made = region(function, 2)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            made(torch.ones(2, 3), torch.ones(2, 3))
        torch.testing.assert_close(made(torch.ones(2, 3), torch.ones(3, 2))[0], torch.full((2, 2), 4.0))


def test_fallback_is_counted_and_strict_raises(capfd):
    def poisoned(x):
        return [x + float(x.numpy().sum())]

    made = region(poisoned, 1)
    for _ in range(3):
        made(torch.ones(3))
    info = made.info()
    assert info["fallbacks"].get("storage_access", 0) >= 1
    assert capfd.readouterr().err.count("storage_access") == 1
    with pytest.raises(RuntimeError, match="storage_access"):
        region(poisoned, 1, strict=True)(torch.ones(3))


def test_gradients_are_never_lost():
    made = warmed()
    x = torch.ones(3, 4, requires_grad=True)
    made(x, torch.ones(3, 4))[0].sum().backward()
    assert_exact(x.grad, torch.full((3, 4), 2.0))
