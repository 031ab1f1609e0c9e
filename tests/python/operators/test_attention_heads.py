"""Attention whose keys have fewer heads than its queries, as Falcon's: a library call that draws nothing where there is no dropout."""

import pytest
import torch
import torch.nn.functional as F

import escapement


def attend(q, k, v, mask):
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.0)
    return out.transpose(1, 2).reshape(q.shape[0], -1), out.shape[2]


@pytest.mark.parametrize("mode", ["call", "replay"])
def test_one_head_of_keys(mode):
    jitted = escapement.jit(attend, mode=mode)
    for batch, length in ((2, 5), (1, 3), (3, 1), (2, 9)):
        q, k, mask = torch.rand(batch, 4, length, 8), torch.rand(batch, 1, length, 8), torch.rand(batch, 1, length, length)
        (ours, n), (theirs, m) = jitted(q, k, k, mask), attend(q, k, k, mask)
        assert torch.allclose(ours, theirs) and n == m
    if mode == "call":
        assert jitted.info()["eager"] == {} and not any(region["fallbacks"] for region in jitted.info()["regions"])


def test_dropout_draws():
    jitted = escapement.jit(lambda q, k: F.scaled_dot_product_attention(q, k, k, dropout_p=0.5))
    for length in (5, 3, 8):
        q, k = torch.rand(2, 4, length, 8), torch.rand(2, 1, length, 8)
        torch.manual_seed(0)
        ours = jitted(q, k)
        state = torch.get_rng_state()
        torch.manual_seed(0)
        assert torch.allclose(ours, F.scaled_dot_product_attention(q, k, k, dropout_p=0.5)) and torch.equal(state, torch.get_rng_state())
