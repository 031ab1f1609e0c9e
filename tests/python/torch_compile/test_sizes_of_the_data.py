"""Sizes that only the data tell: what a program does with such a tensor, where the count is 0, 1 and more. Values are eager's, ranks too; so is
the exception that an operator raises, also where the program catches it.
"""

import contextlib
import math

import pytest
import torch
import torch.nn.functional as F

from escapement.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("fresh")

LOG = []
SIGNS = [1, 1, -1], [1, 1, 1, 1], [-1, -1], [-1, 1, -1], [1], [-1], [], [1, 1, 1]


def in_a_loop(y):
    total = torch.zeros(2)
    for number in range(len(y)):
        total = total + y[number][:2]
    return total


def written(y):
    z = y.clone()
    z[0] = 5.0
    return z


def inner(rows):
    return rows[0] * 2


def inner2(rows, x):
    try:
        return rows[0] * 2
    except IndexError:
        return x.sum() + 9


@contextlib.contextmanager
def watch():
    try:
        yield
    except IndexError:
        LOG.append("e")
        raise
    finally:
        LOG.append("w")


# Where the rows come from.
MAKERS = {
    "mask": lambda x: x[x[:, 0]>0],
    "nonzero": lambda x: (x[:, 0]>0).nonzero(),
    "nz0": lambda x: (x[:, 0]>0).nonzero()[:, 0].float()[:, None]*x[0],
    "uniq": lambda x: x[:, 0].clamp(min=0).unique()[:, None]*x[0],
    "msel": lambda x: x.masked_select(x>0)[:, None],
    "item": lambda x: x.new_ones(int((x[:, 0]>0).sum()), 2),
    "rep": lambda x: x[0].repeat_interleave(int((x[:, 0]>0).sum()))[:, None],
    "where": lambda x: torch.where(x[:, 0]>0)[0].float()[:, None]*x[0],
    "ri": lambda x: torch.repeat_interleave(x, (x[:, 0]>0).long(), dim=0),
    "uc": lambda x: torch.unique_consecutive(x[:, 0]>0).float()[:, None]*x[0],
}

# What is done with them.
USES = {
    "squeeze": lambda y: y.squeeze(),
    "squeeze0": lambda y: y.squeeze(0),
    "dim": lambda y: y.sum(1)*y.squeeze(0).dim(),
    "shape": lambda y: y.squeeze().sum()*len(y.squeeze().shape),
    "sh0": lambda y: y.sum()*y.squeeze(0).shape[0],
    "max": lambda y: y.max(),
    "mean": lambda y: y.mean(),
    "maxd": lambda y: y.max(0)[0],
    "amax": lambda y: y.amax(0),
    "argmax": lambda y: y.argmax(0),
    "softmax": lambda y: y.softmax(0),
    "var": lambda y: y.var(0),
    "if0": lambda y: y*2 if y.shape[0]==0 else y*3,
    "numel": lambda y: y*2 if y.numel() else y+1,
    "len": lambda y: y.sum()*len(y),
    "gt": lambda y: y+1 if len(y)>1 else y-1,
    "loop": lambda y: in_a_loop(y),
    "bool": lambda y: y*bool(len(y)),
    "first": lambda y: y[0],
    "last": lambda y: y[-1],
    "two": lambda y: y[:2],
    "half": lambda y: y[:len(y)//2],
    "list": lambda y: torch.stack([r*2 for r in y]),
    "unbind": lambda y: sum(y.unbind(0)),
    "chunk": lambda y: y.chunk(2)[0],
    "split": lambda y: y.split(1)[-1],
    "cat": lambda y: torch.cat([y, y[:1]]),
    "add": lambda y: y+torch.ones(2, 1, 1)[0],
    "bc": lambda y: y+torch.arange(2.)[:, None],
    "bc1": lambda y: y+torch.arange(5.)[:, None],
    "eye": lambda y: torch.eye(len(y)),
    "mm": lambda y: y.t()@y,
    "mm2": lambda y: y@y.t(),
    "norm": lambda y: F.layer_norm(y, y.shape[1:]),
    "bn": lambda y: F.batch_norm(y, None, None, training=True),
    "view": lambda y: y.view(-1),
    "view2": lambda y: y.view(1, -1),
    "resh": lambda y: y.reshape(len(y), -1, 1),
    "flat": lambda y: y.flatten(),
    "contig": lambda y: y.t().contiguous(),
    "isc": lambda y: y*(2 if y.t().is_contiguous() else 3),
    "stride": lambda y: y*y.t().stride(0),
    "same": lambda y: y*(y.shape==torch.Size([1, 2])),
    "eqs": lambda y: y*2 if y.shape[0]==y.shape[1] else y,
    "expand": lambda y: y.expand(3, -1),
    "expandas": lambda y: torch.ones(1, 1).expand_as(y),
    "atl": lambda y: torch.atleast_3d(y.squeeze(0)),
    "item": lambda y: y.sum()*y.flatten()[:1].item(),
    "tolist": lambda y: y.sum()*len(y.tolist()),
    "str": lambda y: (y, str(tuple(y.shape))),
    "idx": lambda y: y[torch.zeros(1, dtype=torch.long)],
    "gather": lambda y: y.gather(0, torch.zeros(1, 2, dtype=torch.long)),
    "sort": lambda y: y.sort(0)[0],
    "topk": lambda y: y.topk(1, 0)[0],
    "cumsum": lambda y: y.cumsum(0),
    "std": lambda y: y.std(),
    "med": lambda y: y.median(),
    "quant": lambda y: y.quantile(0.5),
    "lin": lambda y: torch.linspace(0, 1, len(y)),
    "arange": lambda y: torch.arange(len(y)),
    "conv": lambda y: F.conv1d(y.t()[None], torch.ones(1, 2, 2)),
    "pad": lambda y: F.pad(y, (0, 0, 0, 3-min(3, len(y)))),
    "ce": lambda y: F.cross_entropy(y, torch.zeros(len(y), dtype=torch.long)),
    "mse": lambda y: F.mse_loss(y, y*2),
    "sdpa": lambda y: F.scaled_dot_product_attention(y[None], y[None], y[None]),
    "roll": lambda y: y.roll(1, 0),
    "flip": lambda y: y.flip(0),
    "dist": lambda y: torch.cdist(y, y),
    "write": lambda y: written(y),
    "div": lambda y: y.sum()/len(y),
    "fdiv": lambda y: y.sum()*(7//len(y)),
    "mod": lambda y: y.sum()*(7%len(y)),
}
OF_EVERY_MAKER = "squeeze", "squeeze0", "max", "first", "if0", "bc", "eqs", "write"

# rows: of x, those that begin with a positive number; n: how many these are.
CAUGHT = {
    "first": "try:\n  return rows[0]\n except IndexError: return x[:0].sum()",
    "max": "try:\n  return rows.amax(0)\n except (IndexError, RuntimeError): return x.sum()+9",
    "maxall": "try: return rows.max()\n except RuntimeError: return x.sum()+9",
    "view": "try:\n  return rows.view(2,-1)\n except RuntimeError: return x.sum()+9",
    "number": "try:\n  return x[n]\n except IndexError: return x.sum()+9",
    "narrow": "try:\n  return x.narrow(0,n,1)\n except (IndexError, RuntimeError): return x.sum()+9",
    "zeros": "try:\n  return torch.zeros(n-2)\n except RuntimeError: return x.sum()+9",
    "suppress": "with contextlib.suppress(IndexError):\n  return rows[0]\n return x.sum()+9",
    "suppressn": "with contextlib.suppress(IndexError, RuntimeError):\n  return x.select(0,n)\n return x.sum()+9",
    "inner": "try: return inner(rows)\n except IndexError: return x.sum()+9",
    "innerself": "return inner2(rows, x)",
    "add": "try: return rows + torch.ones(3,1)\n except RuntimeError: return x.sum()+9",
    "list": "try: return x*[1,2][n]\n except IndexError: return x.sum()+9",
    "dict": "try: return x*{1:2}[n]\n except KeyError: return x.sum()+9",
    "div": "try: return x*(1/n)\n except ZeroDivisionError: return x.sum()+9",
    "sqrt": "try: return x*math.sqrt(n-2)\n except ValueError: return x.sum()+9",
    "else": "try: y=rows[0]\n except IndexError: y=x[0]*7\n else: y=y+1\n return y*2",
    "fin": "try: y=rows[0]\n except IndexError: y=x[0]*7\n finally: LOG.append(n)\n return y*2",
    "cm": "with watch(): return rows[0]",
    "bare": "try: return rows[1]\n except: return x.sum()+9",
    "exc": "try: return rows[1]\n except Exception as e: return x.sum()+9, type(e).__name__",
    "nested": "try:\n  try: return rows[1]\n  except ValueError: return x\n except IndexError: return x.sum()+9",
    "with": "try:\n  with torch.no_grad(): return rows[1]\n except IndexError: return x.sum()+9",
    "suppress2": "with contextlib.suppress(ZeroDivisionError):\n  x = x*(1/n)\n return x",
    "suppress3": "with contextlib.suppress(ZeroDivisionError):\n  x = x*(1/(x.shape[0]-3))\n return x",
    "suppress4": "with contextlib.suppress(IndexError):\n  x = x*x[2].sum()\n return x",
    "suppress5": "with contextlib.suppress(RuntimeError):\n  x = x*x.view(4,-1).sum()\n return x",
    "suppress6": "with contextlib.suppress(RuntimeError):\n  x = x*x.max()\n return x",
}


def outcome(function, x):
    torch.manual_seed(0)
    LOG.clear()
    try:
        return function(x.clone()), list(LOG)
    except Exception as error:
        return type(error), str(error), list(LOG)


def same(ours, eager):
    if isinstance(eager, torch.Tensor):
        torch.testing.assert_close(ours, eager, rtol=1e-4, atol=1e-5, equal_nan=True)
    elif isinstance(eager, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(eager), (ours, eager)
        for one, other in zip(ours, eager):
            same(one, other)
    else:
        assert type(ours) is type(eager) and ours == eager, (ours, eager)


def with_gradient(function, x):
    x = x.clone().requires_grad_()
    result, log = outcome(lambda x: function(x * 1.0), x)[:2]
    if isinstance(result, torch.Tensor) and result.requires_grad:
        return result.detach(), torch.autograd.grad(result.sum(), x)[0], log
    return result, log


def compare(body, outcome=outcome):
    compiled = torch.compile(body, backend="escapement")
    for signs in SIGNS:
        x = torch.tensor([[sign * (row + 1.0), sign * 0.5] for row, sign in enumerate(signs)]).view(len(signs), 2)
        same(outcome(compiled, x), outcome(body, x))


CASES = [("mask", use) for use in USES] + [(maker, use) for maker in MAKERS for use in OF_EVERY_MAKER if maker != "mask"]


@pytest.mark.parametrize(("maker", "use"), CASES)
def test_a_use(maker, use):
    compare(lambda x: USES[use](MAKERS[maker](x * 1.0)))


@pytest.mark.parametrize("use", ["first", "max", "mean", "item", "quant", "view", "med", "fdiv", "dist", "write"])
def test_a_use_in_training(use):
    compare(lambda x: USES[use](MAKERS["mask"](x * 1.0)), with_gradient)


@pytest.mark.parametrize("name", CAUGHT)
def test_where_the_program_catches(name):
    names = dict(torch=torch, contextlib=contextlib, LOG=LOG, inner=inner, inner2=inner2, watch=watch, math=math)
    exec(f"def body(x):\n x = x * 1.0\n rows = x[x[:, 0] > 0]\n n = int((x[:, 0] > 0).sum())\n {CAUGHT[name]}\n", names)   # noqa: S102
    compare(names["body"])


def test_what_the_operators_raise_is_found_without_effects():
    """They are asked on copies: a write before the operator that raises is made once, and random numbers go on where they were."""
    def body(x):
        x.add_(1)
        noise = torch.rand(3)
        return x[x > 5][0] + noise

    compiled = torch.compile(body, backend="escapement")
    for numbers in ([5.0, 6.0], [1.0, 2.0, 3.0], [9.0], [0.0]):
        answers = []
        for run in (body, compiled):
            torch.manual_seed(3)
            x = torch.tensor(numbers)
            try:
                result = run(x)
            except IndexError as error:
                result = str(error)
            answers.append((result, x, torch.rand(1)) if not isinstance(result, str) else (result, x))
        same(answers[1], answers[0])
    assert LEDGER.counters()["compiles"] == 1 and LEDGER.counters()["graph_breaks"] == 0
