"""as_strided_scatter and the functional copy: where all of a dense tensor is written over they are copies of ours, else they are ATen's, or not recorded; never another
result than eager's. Values, strides and dtypes, at several sizes, in call mode."""

import pytest
import torch
from answered import outcome

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

scatter, copy = torch.as_strided_scatter, torch.ops.aten.copy
PROGRAMS = {
    "whole": lambda x, n: scatter(x * 1, x * 3, (n, 4), (4, 1)), "whole, in a line": lambda x, n: scatter((x * 1).view(-1), x * 3, (n, 4), (4, 1), 0),
    "whole, of zeros": lambda x, n: scatter(x.new_zeros(n * 4), x * 3, (n, 4), (4, 1), 0).view(n, 4) + 1, "turned": lambda x, n: scatter(x * 1, x * 3, (n, 4), (1, n)),
    "turned source": lambda x, n: scatter(x * 1, (x * 3).t().contiguous().t(), (n, 4), (4, 1)), "part": lambda x, n: scatter(x * 1, x[:, :2] * 3, (n, 2), (4, 1)),
    "behind an offset": lambda x, n: scatter(torch.cat([x, x]), x * 3, (n, 4), (4, 1), 4 * n), "first half": lambda x, n: scatter(torch.cat([x, x]), x * 3, (n, 4), (4, 1), 0),
    "another dtype": lambda x, n: scatter(x * 1, (x * 3).double(), (n, 4), (4, 1)), "of an argument": lambda x, n: scatter(x, x * 3, (n, 4), (4, 1)),
    "of another shape": lambda x, n: scatter(x * 1, (x * 3).view(-1), (4 * n,), (1,)), "too small a source": lambda x, n: scatter(x * 1, x[:1] * 3, (n, 4), (4, 1)),
    "repeated": lambda x, n: scatter(x * 1, x[:1].expand(n, 4) * 3, (n, 4), (0, 1)), "of an expanded one": lambda x, n: scatter((x[:1] * 1).expand(n, 4), x * 3, (n, 4), (4, 1)),
    "written after": lambda x, n: scatter(x * 1, x * 3, (n, 4), (4, 1)).add_(1), "source written after": lambda x, n: (lambda s: (scatter(x * 1, s, (n, 4), (4, 1)), s.add_(1)))(x * 3),
    "copy": lambda x, n: copy(x * 1, x * 3), "copy of a row": lambda x, n: copy(x * 1, x[:1] * 3), "copy of a number": lambda x, n: copy(x * 1, x.sum()),
    "copy, another dtype": lambda x, n: copy((x * 1).to(torch.int32), x * 3), "copy of halves": lambda x, n: copy((x * 1).bfloat16(), x / 3), "copy into turned": lambda x, n: copy((x * 1).t(), (x * 3).t()),
    "copy into a part": lambda x, n: copy((x * 1)[:, 1:], x[:, 1:] * 3) + 0,   # which itself begins in its memory where the part does
    "copy into the argument": lambda x, n: copy(x, x * 3), "copy of too much": lambda x, n: copy(x[:1] * 1, x * 3),
    "copied written": lambda x, n: copy(x * 1, x * 3).mul_(2), "copy, source written": lambda x, n: (lambda s: (copy(x * 1, s), s.add_(1)))(x * 3),
}


COPIES = ("whole", "whole, in a line", "whole, of zeros", "of another shape", "another dtype", "copy", "copy of a row")   # one recording, kernels of ours


def described(found):
    if isinstance(found, tuple):
        return [*map(described, found)]
    return (found.tolist(), found.stride(), found.dtype, found.storage_offset()) if isinstance(found, torch.Tensor) else found


@pytest.mark.parametrize("mode", ["call", "replay"])
@pytest.mark.parametrize("name", PROGRAMS)
@torch.no_grad()
def test_parts_are_written_over_as_in_eager(name, mode):
    function = escapement.jit(lambda x: PROGRAMS[name](x, x.shape[0]), mode=mode)
    for n in (3, 2, 5, 1, 4, 7, 0):
        given, wanted = torch.arange(n * 4.0).view(n, 4) / 7, torch.arange(n * 4.0).view(n, 4) / 7
        assert described(outcome(function, given)) == described(outcome(lambda x: PROGRAMS[name](x, x.shape[0]), wanted)), n
        assert torch.equal(given, wanted)
    if name in COPIES and mode == "call":
        stats, (region,) = escapement.stats(), function.info()["regions"]
        rowless = name == "copy of a row"   # a row of none is none: a recording of its own
        assert region["recordings"] == 1 + rowless and region["fallbacks"] == {} and function.info()["eager"] == {}
        assert stats["hits"] >= 5 and stats["launches"] >= stats["hits"] and stats.get("library_calls", 0) == 0
