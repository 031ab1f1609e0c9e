"""What planted bugs (tests/planted) asked for: small programs whose only fault would be the one that was planted."""
import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")
SIZES = (5, 0, 1, 7, 13)


DRAWS = {
    "rand_like": torch.rand_like, "bernoulli": torch.bernoulli, "poisson": torch.poisson, "dropout": torch.dropout, "rrelu": torch.rrelu,
    "normal": lambda x: torch.normal(x, 1.0), "multinomial": lambda x: torch.multinomial(torch.cat([x, x.new_ones(1)]), 1),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_random_numbers_that_nobody_reads_are_drawn(draw):
    def program(x):
        DRAWS[draw](x, *((0.5, True) if draw == "dropout" else (0.1, 0.3, True) if draw == "rrelu" else ()))
        return x + 1

    jitted = escapement.jit(program)
    for n in SIZES:
        x = torch.rand(n)
        torch.manual_seed(n)
        expected = program(x), torch.rand(2)
        torch.manual_seed(n)
        got = jitted(x), torch.rand(2)
        assert all(torch.equal(a, b) for a, b in zip(got, expected)), n
    assert jitted.info()["recordings"] == 1


def test_a_library_call_reads_an_argument_where_that_lies_in_its_storage():
    jitted = escapement.jit(lambda x: torch.cumsum(x[1:], 0))
    for n in (5, 1, 2, 7, 13):
        x = torch.randn(n + 3)[3:]
        assert torch.equal(jitted(x), torch.cumsum(x[1:], 0)), n
    assert jitted.info()["recordings"] == 1


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_a_write_to_an_argument_is_counted(mode):
    def program(x):
        x.mul_(2)
        return x.sum()

    jitted = escapement.jit(program, mode=mode)
    for n in SIZES:
        x = torch.ones(n)
        for _ in range(2):
            before = x._version
            jitted(x)
            assert x._version > before, n


def test_attention_draws_in_its_place():
    def program(q):
        first = torch.nn.functional.scaled_dot_product_attention(q * 2, q, q, dropout_p=0.5)
        return first, torch.rand(3), first + 1

    jitted = escapement.jit(program, mode="replay")
    for n in (5, 1, 7, 13, 7):
        q = torch.randn(1, 2, n, 4)
        torch.manual_seed(n)
        expected = program(q)
        torch.manual_seed(n)
        got = jitted(q)
        assert all(torch.equal(a, b) for a, b in zip(got, expected)), n
