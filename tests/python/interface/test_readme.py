"""The examples of README.md and docs/jit.md do what is said beside them: they run, and one recording serves all their sizes."""
import re
from pathlib import Path

import pytest
import torch

import escapement

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/jit.md"])
def test_the_first_example(page, capsys):
    program = re.search(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[1]
    names = {}
    exec(compile(program, page, "exec"), names)
    assert "kernels" in capsys.readouterr().out
    fast, model = names["fast"], names["model"]
    assert fast.info()["recordings"] == 1 and not fast.info()["eager"]
    with torch.no_grad():
        x = torch.randn(5, 11, 256 if page == "README.md" else 64)
        torch.testing.assert_close(fast(x), model(x))
    assert fast.info()["recordings"] == 1


def test_the_model_under_torch_compile(fresh):
    program = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    model = program[:program.index("fast =")]
    names = {}
    exec(compile(model, "README.md", "exec"), names)
    compiled = torch.compile(names["model"], backend="escapement")
    with torch.no_grad():
        for batch, length in [(4, 32), (3, 7), (2, 500), (8, 1)]:
            compiled(torch.randn(batch, length, 256))
    assert escapement.stats()["dynamo"]["compiles"] == 1
