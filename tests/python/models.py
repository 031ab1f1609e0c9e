"""Small transformers models with random weights: nothing is downloaded. Each row: name -> (model, inputs for (batch, length))."""

import torch
import transformers as hf

SMALL = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, vocab_size=131)


def tokens(batch, length):
    return torch.randint(5, 130, (batch, length))


def text(batch, length):
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[-1, length // 2 + 1:] = 0
    return dict(input_ids=tokens(batch, length), attention_mask=mask)


def plain(batch, length):
    return dict(input_ids=tokens(batch, length))


def seq2seq(batch, length):
    return dict(input_ids=tokens(batch, length), decoder_input_ids=tokens(batch, max(1, length // 2)))


def images(batch, _):
    return dict(pixel_values=torch.randn(batch, 3, 32, 32))


def clip_inputs(batch, length):
    return dict(input_ids=tokens(batch, length), pixel_values=torch.randn(batch, 3, 32, 32))


def clip():
    vision = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=32, patch_size=8)
    return hf.CLIPModel(hf.CLIPConfig(text_config=dict(SMALL, max_position_embeddings=64), vision_config=vision, projection_dim=32))


def bart():
    return hf.BartModel(hf.BartConfig(vocab_size=131, d_model=48, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                                      decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
                                      max_position_embeddings=128, use_cache=False))


def t5():
    return hf.T5Model(hf.T5Config(vocab_size=131, d_model=48, d_kv=12, d_ff=96, num_layers=2, num_heads=4, use_cache=False))


def llama_like(config, model):
    return model(config(**SMALL, num_key_value_heads=2, max_position_embeddings=128, use_cache=False))


MODELS = {
    "bert": (lambda: hf.BertModel(hf.BertConfig(**SMALL)), text),
    "distilbert": (lambda: hf.DistilBertModel(hf.DistilBertConfig(vocab_size=131, dim=48, n_layers=2, n_heads=4, hidden_dim=96)), text),
    "roberta": (lambda: hf.RobertaModel(hf.RobertaConfig(**SMALL)), text),
    "albert": (lambda: hf.AlbertModel(hf.AlbertConfig(embedding_size=24, **SMALL)), text),
    "electra": (lambda: hf.ElectraModel(hf.ElectraConfig(embedding_size=24, **SMALL)), text),
    "gpt2": (lambda: hf.GPT2Model(hf.GPT2Config(vocab_size=131, n_embd=48, n_layer=2, n_head=4, n_positions=128, use_cache=False)), plain),
    "llama": (lambda: llama_like(hf.LlamaConfig, hf.LlamaModel), plain),
    "mistral": (lambda: llama_like(hf.MistralConfig, hf.MistralModel), plain),
    "t5": (t5, seq2seq),
    "bart": (bart, seq2seq),
    "vit": (lambda: hf.ViTModel(hf.ViTConfig(image_size=32, patch_size=8, **{k: v for k, v in SMALL.items() if k != "vocab_size"})), images),
    "clip": (clip, clip_inputs),
}


def build(name):
    torch.manual_seed(7)
    make, inputs = MODELS[name]
    return make().eval(), inputs


def tensors_of(output):
    """All floating-point tensors of a model's output, in order."""
    found = []

    def walk(item):
        if isinstance(item, torch.Tensor):
            found.append(item)
        elif isinstance(item, dict):
            [walk(v) for v in item.values()]
        elif isinstance(item, (list, tuple)):
            [walk(v) for v in item]

    walk(dict(output) if hasattr(output, "keys") else output)
    return [t for t in found if t.is_floating_point()]
