"""Views of arguments that a graph with gradients hands back: values, gradients and what is shared are eager's. Through one that was made while gradients are off nothing flows;
where torch would make another view than the program's the call runs eagerly, counted."""

import pytest
import torch

import escapement

pytestmark = pytest.mark.usefixtures("fresh")

VIEWS = {"select": lambda x: x[0], "view": lambda x: x.view(-1), "transpose": lambda x: x.t(), "slice": lambda x: x[:, 1:], "of a view": lambda x: x.t()[1:], "detached": lambda x: x.detach(),
         "of another dtype": lambda x: x.view(torch.int32)}


@pytest.mark.parametrize("argument", ["leaf", "view"])
@pytest.mark.parametrize("name", VIEWS)
def test_nothing_flows_through(name, argument):
    def program(x):
        with torch.no_grad():
            view = VIEWS[name](x)
        return view, x * 3, x[:1]

    compiled = torch.compile(program, backend="escapement")
    for rows in (3, 5, 2):
        found = []
        for run in (program, compiled):
            leaf = torch.linspace(-1, 1, rows * 4).reshape(rows, 4).requires_grad_()
            x = leaf if argument == "leaf" else leaf.view(rows, 4)
            view, product, taped = run(x)
            assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            (product.sum() + taped.sum() + (view.float() ** 2).sum() if view.requires_grad else product.sum() + taped.sum()).backward()
            found.append((view.detach(), product.detach(), leaf.grad, torch.tensor([view.requires_grad, view.is_leaf, view._is_view(), taped.is_leaf])))
        torch.testing.assert_close(*found)
    stats = escapement.stats()
    assert stats["dynamo"]["compiles"] == 1 and stats["launches"] > 0 and not stats["dynamo"]["fallbacks"], stats


def written(x):
    y = x.detach().reshape(-1)
    y.add_(1)
    return y, x * 2


def viewed(x):
    return x.reshape(x.shape[0], -1), x.flatten(1), x * 2


PROGRAMS = {"written": (written, lambda rows: torch.linspace(-1, 1, rows * 16).reshape(rows, 4, 4)[..., :1]), "expanded": (viewed, lambda rows: torch.linspace(-1, 1, 8).reshape(1, 4, 2).expand(rows, 4, 2)),
            "windows": (viewed, lambda rows: torch.linspace(-1, 1, 2 * rows + 6).as_strided((rows, 4, 2), (2, 2, 1)))}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_views_that_torch_makes_otherwise(name):
    program, make = PROGRAMS[name]
    compiled = torch.compile(program, backend="escapement")
    for rows in (3, 5, 2):
        for contiguous in (False, True):
            found = []
            for run in (program, compiled):
                x = make(rows).detach()
                x = (x.contiguous() if contiguous else x).requires_grad_()
                results = run(x)
                assert results[0].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
                sum((y * torch.linspace(0.5, 1.5, y.numel()).reshape(y.shape)).sum() for y in results if y.requires_grad).backward()
                found.append((*(y.detach() for y in results), x.detach(), x.grad, torch.tensor(results[0].stride())))
            torch.testing.assert_close(*found)
    stats = escapement.stats()
    assert stats["dynamo"]["fallbacks"] == {"view_made_anew": 3} and stats["launches"] > 0 and stats["dynamo"]["compiles"] <= 3, stats
