"""Whether a composite's result is a view depends on sizes where torch takes another way for some: `detach_()` refuses a view, as eager does at those sizes."""

import pytest
import torch

from answered import Counted

MADE = {"cdist": lambda b: torch.cdist(b, b), "einsum": lambda b: torch.einsum("ij,kj->ik", b, b), "tile": lambda b: b.tile(1, 1), "repeat": lambda b: b.repeat(1, 1),
        "hstack": lambda b: torch.hstack([b]), "kron": lambda b: torch.kron(b, b[:1]), "tensordot": lambda b: torch.tensordot(b, b, ([1], [1])),
        "inner": lambda b: torch.inner(b, b), "cov": lambda b: torch.cov(b), "sum": lambda b: b.sum(0), "matmul": lambda b: b @ b.t()}


@pytest.mark.parametrize("made", MADE)
def test_detach_in_place_refuses_what_eager_does(made):
    def program(b):
        return MADE[made](b).detach_() + 1

    def tried(function, b):
        try:
            return function(b)
        except RuntimeError as error:
            return str(error)[:40]

    compiled = Counted(program, mode="call")
    for n, m in compiled.twice(((1, 1), (129, 1), (2, 3), (30, 2), (0, 0), (26, 26), (1, 5))):
        b = torch.randn(n, m, generator=torch.Generator().manual_seed(n))
        with torch.no_grad():
            found, wanted = tried(compiled, b), tried(program, b)
        assert type(found) is type(wanted), (n, m, found, wanted)
        torch.testing.assert_close(found, wanted) if isinstance(found, torch.Tensor) else None
