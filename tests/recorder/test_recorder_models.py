"""Whole models: one recording each, replayed bit for bit at other batch sizes and lengths."""

import pytest
import torch

import models
from recorder_tool import Recorded, flat, same

SHAPES = [(5, 11), (2, 33), (1, 9), (4, 1), (1, 1), (3, 7), (6, 2), (2, 8)]


@pytest.mark.parametrize("name", models.MODELS)
def test_model(name):
    build, inputs = models.MODELS[name]
    torch.manual_seed(0)
    model = build().eval()
    keys = list(inputs(3, 7))

    def program(*arguments):
        return flat(model(**dict(zip(keys, arguments)), return_dict=False))

    with torch.no_grad():
        recorded = Recorded(program, list(inputs(3, 7).values()))
        assert not recorded.facts["refused"], recorded.facts["refused"]
        recorded.verify()
        served = 0
        for shape in SHAPES:
            arguments = list(inputs(*shape).values())
            got = recorded.run(*arguments)
            if isinstance(got, str):
                continue  # a branch of the model's own; the next test counts them
            served += 1
            assert all(map(same, got, program(*arguments))), (shape, recorded.text())
        assert served >= 5, f"one recording serves only {served} of {len(SHAPES)} shapes: {recorded.text()}"
