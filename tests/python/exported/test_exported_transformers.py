"""Programs of transformers that torch.export saved, with random weights: read in C++, one recording serves batches and lengths of every kind, 1
among them, and each result is that of torch's own loader. Decoders need `run_decompositions({})` before they are saved: without it torch itself
refuses to write the file (a mask that is made under vmap)."""

import pytest
import torch
from torch.export import Dim

from harness import core

hf = pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif(not hasattr(core(), "load_exported"), reason="needs the compiled core")

D = Dim.DYNAMIC
SIZES = [(2, 8), (3, 5), (1, 7), (4, 12), (2, 3), (1, 1), (5, 20)]
SMALL = {"vocab_size": 99, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 128}
GROUPED = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0}
SEQ2SEQ = {"vocab_size": 99, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
           "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "use_cache": False, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
           "decoder_start_token_id": 1}


class Called(torch.nn.Module):
    """A model as the function of tensors that is exported."""

    def __init__(self, model, call):
        super().__init__()
        self.model, self.call = model.eval(), call

    def forward(self, *tensors):
        return self.call(self.model, *tensors)


def ids(batch, length):
    return torch.randint(3, 90, (batch, length))


def ones(batch, length):
    return torch.ones(batch, length, dtype=torch.long)


def decoder(config, model, **more):
    made = getattr(hf, model)(getattr(hf, config)(**{**GROUPED, **more}))
    return (Called(made, lambda m, i, a: m(input_ids=i, attention_mask=a, use_cache=False).logits), lambda b, s: (ids(b, s), ones(b, s)),
            ({0: D, 1: D}, {0: D, 1: D}))


def with_cache():
    """A step of decoding: the cache's keys and values in and out."""
    def step(model, tokens, *cached):
        cache = hf.DynamicCache.from_legacy_cache((cached[:2], cached[2:]))
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True)
        return out.logits, *(t for layer in out.past_key_values.to_legacy_cache() for t in layer)

    return (Called(hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED)), step),
            lambda b, s: (ids(b, 1 if s % 2 else s), *(torch.randn(b, 2, s + 3, 8) for _ in range(4))), ({0: D, 1: D}, *[{0: D, 2: D}] * 4))


def t5():
    config = hf.T5Config(vocab_size=99, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, use_cache=False)
    return (Called(hf.T5ForConditionalGeneration(config), lambda m, i, a, d: m(input_ids=i, attention_mask=a, decoder_input_ids=d, use_cache=False).logits),
            lambda b, s: (ids(b, s), ones(b, s), ids(b, s // 2 + 2)), ({0: D, 1: D},) * 3)


def whisper():
    config = hf.WhisperConfig(**SEQ2SEQ, num_mel_bins=8, max_source_positions=50, max_target_positions=64)
    return (Called(hf.WhisperForConditionalGeneration(config), lambda m, f, d: m(input_features=f, decoder_input_ids=d, use_cache=False).logits),
            lambda b, s: (torch.randn(b, 8, 100), ids(b, s)), ({0: D}, {0: D, 1: D}))


def speech():
    config = hf.Wav2Vec2Config(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, conv_dim=(16, 16),
                               conv_stride=(5, 2), conv_kernel=(10, 3), num_feat_extract_layers=2, num_conv_pos_embeddings=16,
                               num_conv_pos_embedding_groups=4)
    return Called(hf.Wav2Vec2ForCTC(config), lambda m, x: m(x).logits), lambda b, s: (torch.randn(b, 400 + 37 * s),), ({0: D, 1: D},)


MODELS = {
    "Llama": lambda: decoder("LlamaConfig", "LlamaForCausalLM"), "Qwen3": lambda: decoder("Qwen3Config", "Qwen3ForCausalLM"),
    "Falcon": lambda: decoder("FalconConfig", "FalconForCausalLM"), "Llama with a cache": with_cache, "T5": t5, "Whisper": whisper, "Wav2Vec2": speech,
}
RECORDINGS = {"Falcon": 2}


@pytest.mark.parametrize("name", MODELS)
def test_an_export_of_transformers(name, tmp_path):
    torch.manual_seed(0)
    model, arguments, dims = MODELS[name]()
    with torch.no_grad():
        program = torch.export.export(model, arguments(2, 8), dynamic_shapes=(dims,), strict=False).run_decompositions({})
    torch.export.save(program, tmp_path / "model.pt2")
    core().reset()
    ours, theirs = core().load_exported(str(tmp_path / "model.pt2")), program.module()
    for sizes in SIZES:
        given = arguments(*sizes)
        with torch.no_grad():
            wanted = torch.utils._pytree.tree_leaves(theirs(*given))
        for mine, other in zip(torch.utils._pytree.tree_leaves(ours(*given)), wanted, strict=True):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    stats = core().stats()
    assert stats["recordings"] == RECORDINGS.get(name, 1) and stats["hits"] + stats["recordings"] == len(SIZES) and "eager_calls" not in stats, stats
