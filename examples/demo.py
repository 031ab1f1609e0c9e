"""An encoder and a decoder at twenty shapes each, batch 1 and length 1 among them: how often is anything compiled?

    ./dev demo                        or, with the package installed: python examples/demo.py [--quick]

Random weights, nothing is downloaded. "specialised dims" counts the input dims that are constants in a compiled graph.
"""

import argparse
import logging
import statistics
import sys
import time
import warnings

import torch

SHAPES = [(4, 32), (1, 32), (4, 1), (1, 1), (2, 17), (8, 64), (3, 5), (1, 128), (16, 16), (5, 50),
          (2, 100), (7, 7), (1, 9), (12, 3), (6, 33), (9, 21), (2, 2), (10, 40), (1, 77), (3, 128)]


def models(quick):
    import transformers

    layers, hidden = (2, 64) if quick else (4, 256)
    bert = transformers.BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=4,
                                   intermediate_size=4 * hidden, vocab_size=1000)
    gpt2 = transformers.GPT2Config(n_embd=hidden, n_layer=layers, n_head=4, vocab_size=1000, use_cache=False)
    yield "BERT encoder", transformers.BertModel(bert, add_pooling_layer=False).eval()
    yield "GPT-2 decoder", transformers.GPT2Model(gpt2).eval()


def backend():
    """The name, as users write it. In a tree without installed metadata torch cannot know it; then the object itself."""
    if "escapement" in torch.compiler.list_backends():
        return "escapement"
    from escapement.backend import escapement

    print('(backend="escapement" needs the installed package; passing the backend object instead)')
    return escapement


def demo(name, model, rounds):
    import escapement
    from escapement.ledger import LEDGER

    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(model, backend=backend())
    inputs = [torch.randint(0, 1000, shape) for shape in SHAPES]
    worst, first_calls, slow = 0.0, [], 0.0
    for ids in inputs:
        start, before = time.perf_counter(), escapement.stats()["dynamo"]["compiles"]
        found = compiled(ids).last_hidden_state
        spent = time.perf_counter() - start
        if escapement.stats()["dynamo"]["compiles"] != before:
            first_calls.append(spent)
            slow += spent
        worst = max(worst, (found - model(ids).last_hidden_state).abs().max().item())
    regions = [region.info() for function in LEDGER.functions() for region in function.regions()]
    print_facts(name, escapement.stats()["dynamo"], regions, worst, slow)
    print_times(model, compiled, inputs, rounds)


def print_facts(name, counted, regions, worst, slow):
    versions = [version for info in regions for version in info.get("versions", ())]
    print(f"\n{name}: {len(SHAPES)} shapes")
    print(f"  compiles (Dynamo)   {counted['compiles']}")
    print(f"  recordings          {sum(info.get('recordings', 0) for info in regions)}")
    print(f"  kernels             {sum(len(version.get('kernels', ())) for version in versions)}")
    print(f"  library calls       {sum(len(version.get('calls', ())) for version in versions)}")
    print(f"  specialised dims    {counted['specialised_dims']} of {counted['input_dims']}")
    print(f"  graph breaks        {counted['graph_breaks']}")
    print(f"  fallbacks           {fallbacks(counted, regions) or 'none'}")
    print(f"  largest error       {worst:.1e} against eager")
    print(f"  capture and compile {slow:.2f} s (the calls in which something was compiled)")
    for key, values in sorted(timings(versions).items()):
        print(f"    {key}: {sum(values):.1f} ms")


def fallbacks(counted, regions):
    return {**counted["fallbacks"], **{why: n for info in regions for why, n in info.get("fallbacks", {}).items()}}


def timings(versions):
    """Milliseconds of each step, one number a version; the recording itself is one of the steps."""
    steps = {}
    for version in versions:
        for key, value in {"recording": version.get("record_ms", 0.0), **version.get("timings", {})}.items():
            steps.setdefault(key, []).append(value)
    return steps


def print_times(model, compiled, inputs, rounds):
    """Medians of interleaved calls, so that a busy machine slows both alike."""
    print("  batch x length      eager ms  compiled ms   speed-up")
    for ids in inputs:
        times = {model: [], compiled: []}
        for _ in range(rounds):
            for fn, spent in times.items():
                start = time.perf_counter()
                fn(ids)
                spent.append(time.perf_counter() - start)
        eager, ours = (statistics.median(spent) * 1e3 for spent in times.values())
        print(f"  {ids.shape[0]:5} x {ids.shape[1]:<6} {eager:14.2f} {ours:12.2f} {eager / ours:9.2f}x")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller models, fewer rounds")
    quick = parser.parse_args().quick
    try:
        import transformers  # noqa: F401
    except ImportError:
        print(f"this demo runs models of the transformers package; install it with\n    {sys.executable} -m pip install "
              "'transformers>=4.57,<5'", file=sys.stderr)
        return 1
    warnings.filterwarnings("ignore", category=FutureWarning)
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(0)
    with torch.no_grad():
        for name, model in models(quick):
            demo(name, model, 3 if quick else 15)
    return 0


if __name__ == "__main__":
    sys.exit(main())
