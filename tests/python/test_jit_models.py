"""Whole models through escapement.jit, without Dynamo: equal to eager at six shapes, in few recordings; and a generation loop whose
key/value cache grows, in one.
"""

import escapement
import pytest
import torch
from models import MODELS, SMALL, build, tensors_of
from test_models import SHAPES, close, in_double

hf = pytest.importorskip("transformers")
# Recordings for the six shapes: one, and one more for each answer that the model's own code has to a question about a size or a value.
RECORDINGS = dict.fromkeys(MODELS, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_inference(name):
    escapement.reset()
    model, inputs = build(name)
    reference = build(name)[0].double()
    jitted = escapement.jit(model)
    with torch.no_grad():
        for shape in SHAPES:
            args = inputs(*shape)
            wide = {k: v.double() if v.is_floating_point() else v for k, v in args.items()}
            ours, eager = jitted(**args), model(**args)
            assert type(ours) is type(eager) and list(ours) == list(eager)
            exact = in_double(lambda: tensors_of(reference(**wide)))
            ours, eager = tensors_of(ours), tensors_of(eager)
            assert len(ours) == len(eager)
            for a, b, c in zip(ours, eager, exact):
                assert a.shape == b.shape and a.stride() == b.stride() and a.dtype == b.dtype
                close(a, b, c)
    info = jitted.info()
    assert not info["eager"], info["eager"]
    assert all(not region["fallbacks"] for region in info["regions"]), [region["fallbacks"] for region in info["regions"]]
    assert info["recordings"] == RECORDINGS[name], (info["recordings"], [region["misses"] for region in info["regions"]])
