"""The first use of escapement.jit loads nothing of torch's that `import torch` does not: no Dynamo, no AOTAutograd, no more of
torch.distributed, no sympy. They cost more than a second, and a program that only records has no use for them."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch._dynamo", "torch._functorch", "torch._inductor", "torch.distributed", "torch.fx", "sympy", "networkx", "mpmath")
LINEAR = "torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).eval().requires_grad_(False)"

USES = {
    "a function": "[jit(lambda x: x * 2 + 1)(x) for _ in range(3)]",
    "a module": f"[jit({LINEAR})(x) for _ in range(3)]",
    "an int": "[jit(lambda x, n: x.repeat(n, 1) + n if n > 1 else x * n)(x, n) for n in (1, 2, 3)]",
    "a float": "[jit(lambda x, scale: x * scale)(x, scale) for scale in (1.5, 2.5, 3.5)]",
    "sizes in host code": "jit(lambda x: x.view(x.size(0) * 2, -1) * math.sqrt(x.size(1)) if x.size(0) > 2 else x + max(x.size(0), 2))(x)",
    "sizes of the data": "jit(lambda x: x[x > 0].sum() + x.sum().item() + torch.nonzero(x).size(0))(x)",
    "many operators": "jit(lambda x: torch.einsum('ij,kj->ik', x, torch.cat([x, x])).softmax(-1).sort()[0].var(0))(x)",
    "random numbers": "jit(lambda x: torch.rand(x.size(0)).sum() + torch.nn.functional.dropout(x))(x)",
    "attention": "jit(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True))(torch.randn(1, 2, 5, 8))",
    "autocast": "with torch.autocast('cpu', dtype=torch.bfloat16): jit(lambda x: x @ x.T)(x)",
    "gradients": "jit(lambda x: (x * 2).sum().backward())(x.clone().requires_grad_())",
    "the report": "f = jit(lambda x: x + x.size(0)); f(x); f.info(); escapement.stats()",
}

PROGRAM = """
import math, sys, torch
before = set(sys.modules)
import escapement
x = torch.randn(3, 4)
def jit(fn):
    return escapement.jit(fn, mode={mode!r})
{use}
print(*sorted(set(sys.modules) - before))
"""


def new_modules(program):
    """What running the program added to the modules of `import torch`; its last line prints them."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ESCAPEMENT_")}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1].split()


def heavy(modules):
    return [name for name in modules if name in HEAVY or name.startswith(tuple(part + "." for part in HEAVY))]


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_first_uses_load_nothing_heavy(mode):
    """All of them in one process; the guilty ones are looked for one by one."""
    loaded = heavy(new_modules(PROGRAM.format(mode=mode, use="\n".join(USES.values()))))
    assert not loaded, guilty(mode)


def guilty(mode):
    loaded = {name: heavy(new_modules(PROGRAM.format(mode=mode, use=use)))[:5] for name, use in USES.items()}
    return {name: modules for name, modules in loaded.items() if modules}


def test_a_first_use_loads_few_modules():
    """A bound for what nobody thought of: this package, its core, and a handful of Python's own."""
    modules = new_modules(PROGRAM.format(mode="call", use=USES["a function"]))
    assert "escapement._C" in modules   # it was compiled
    others = [name for name in modules if not name.startswith("escapement")]
    assert len(others) <= 8 and not [name for name in others if name.startswith("torch")], others


def test_declared_dims_load_no_tracer():
    """What relations mean for declared dims is worked out with sympy; torch's tracers have no part in it."""
    use = "escapement.jit(lambda x: x * 2 if x.size(1) > 2 else x, dims={'x': {0: escapement.Dim('n')}})(x)"
    modules = heavy(new_modules(PROGRAM.format(mode="call", use=use)))
    assert "sympy" in modules
    assert not [name for name in modules if name.startswith("torch")], modules
