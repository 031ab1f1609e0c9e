"""Whole models through escapement.jit, without Dynamo: equal to eager at six shapes, in few recordings; and a generation
loop whose key/value cache grows, in one.
"""

import escapement
import pytest
import torch
from models import MODELS, build, tensors_of
from test_models import SHAPES, close, in_double

hf = pytest.importorskip("transformers")
# Recordings for the six shapes: one for each set of answers that the model's own code gets to its questions. They are: is
# the mask all ones (bert and most of its kin: true at (1, 1) only), is a batch or a length 1 (`query.shape[2] > 1`).
RECORDINGS = {"bert": 2, "distilbert": 2, "roberta": 2, "albert": 2, "electra": 1, "gpt2": 2, "llama": 4, "mistral": 4,
              "t5": 2, "bart": 2, "vit": 1, "clip": 2}


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


def small_gpt2():
    torch.manual_seed(0)
    return hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=131, n_embd=48, n_layer=2, n_head=4, n_positions=128)).eval()


def step_of(model):
    def step(ids, past=None):
        cache = hf.DynamicCache() if past is None else hf.DynamicCache.from_legacy_cache(past)
        out = model(input_ids=ids, past_key_values=cache, use_cache=True)
        return out.logits, out.past_key_values.to_legacy_cache()

    return step


def generate(step, ids, count):
    found, scores, (logits, past) = [ids], [], step(ids)
    for _ in range(count):
        found.append(logits[:, -1].argmax(-1, keepdim=True))
        scores.append(logits[:, -1])
        logits, past = step(found[-1], past)
    return torch.cat(found, 1), torch.stack(scores)


def test_a_cache_that_grows_is_one_recording():
    step = step_of(small_gpt2())
    jitted = escapement.jit(step)
    with torch.no_grad():
        for shape in [(2, 7), (3, 5), (1, 4)]:
            ids = torch.randint(0, 131, shape)
            (ours, our_scores), (eager, eager_scores) = generate(jitted, ids, 20), generate(step, ids, 20)
            assert torch.equal(ours, eager)
            torch.testing.assert_close(our_scores, eager_scores, rtol=1e-5, atol=1e-5)
    info = jitted.info()
    assert not info["eager"] and not any(region["fallbacks"] for region in info["regions"])
    assert (info["keys"], info["recordings"], info["versions"]) == (2, 2, 2)   # the prompt, and every later step
    hits = sum(version["hits"] for region in info["regions"] for version in region["versions"])
    assert hits == 3 * 21 - 2 * 2   # of a library so large only that is searched which has run: each was recorded once more when that was known


def test_the_librarys_own_generate_with_a_cache_changed_in_place():
    from transformers.integrations import executorch

    if hf.DynamicCache not in torch.utils._pytree.SUPPORTED_NODES:
        executorch.register_dynamic_cache_export_support()
    model, ids = small_gpt2(), torch.randint(0, 131, (2, 6))
    settings = dict(max_new_tokens=20, do_sample=False, pad_token_id=0, attention_mask=torch.ones_like(ids))
    want = model.generate(ids, **settings)
    model.forward = escapement.jit(model.forward)
    for _ in range(3):
        assert torch.equal(model.generate(ids, **settings), want)
    info = model.forward.info()
    assert (info["recordings"], info["versions"]) == (2, 2) and not info["eager"]
    assert sum(version["hits"] for region in info["regions"] for version in region["versions"]) == 3 * 20 - 2 * 2   # each recorded twice, see above
