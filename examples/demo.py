"""An encoder and a decoder at twenty shapes each, batch 1 and length 1 among them: how often is anything compiled?

    ./dev demo                        or, with the package installed: python examples/demo.py [--quick]

Random weights, nothing is downloaded. "specialised dims" counts the input dims that are constants in a compiled graph.
"""

import argparse
import logging
import re
import statistics
import sys
import time
import warnings

import torch

SHAPES = [(4, 32), (1, 32), (4, 1), (1, 1), (2, 17), (8, 64), (3, 5), (1, 128), (16, 16), (5, 50),
          (2, 100), (7, 7), (1, 9), (12, 3), (6, 33), (9, 21), (2, 2), (10, 40), (1, 77), (3, 128)]
ROUNDS = 15   # fewer where the time is up before; a shape that is not reached at all is left out


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


def demo(name, model, timing_seconds):
    import escapement
    from escapement.ledger import LEDGER

    torch._dynamo.reset()
    escapement.reset()
    compiled = torch.compile(model, backend=backend())
    inputs = [torch.randint(0, 1000, shape) for shape in SHAPES]
    worst = max(largest_error(compiled(ids), model(ids)) for ids in inputs)
    regions = [region.info() for function in LEDGER.functions() for region in function.regions()]
    compiles = [compiled for function in LEDGER.functions() for compiled in function.compiles]
    print_facts(name, escapement.stats()["dynamo"], regions, compiles, worst)
    print_times(model, compiled, inputs, timing_seconds)


def largest_error(found, wanted):
    return (found.last_hidden_state - wanted.last_hidden_state).abs().max().item()


def print_facts(name, counted, regions, compiles, worst):
    versions = [version for info in regions for version in info.get("versions", ())]
    print(f"\n{name}: {len(SHAPES)} shapes")
    print(f"  compiles (Dynamo)   {counted['compiles']}")
    for where, relation in {escape.where: escape.relation for c in compiles for escape in c.escapes}.items():
        print(f"    the model's code asks whether {relation}: {package_path(where)}")
    print(f"  recordings          {sum(info.get('recordings', 0) for info in regions)}")
    print(f"  kernels             {sum(len(version.get('kernels', ())) for version in versions)}")
    print(f"  library calls       {sum(len(version.get('calls', ())) for version in versions)}")
    print(f"  specialised dims    {counted['specialised_dims']} of {counted['input_dims']}")
    print(f"  graph breaks        {counted['graph_breaks']}")
    print(f"  fallbacks           {fallbacks(counted, regions) or 'none'}")
    print(f"  largest error       {worst:.1e} against eager")
    steps = timings(versions)
    recording = sum(steps.pop("recording", ()))
    print(f"  capture by Dynamo   {counted['capture_ms']:.0f} ms")
    print(f"  recording           {recording:.0f} ms")
    print(f"  compiling           {sum(map(sum, steps.values())):.0f} ms "
          f"({', '.join(f'{key} {sum(values):.1f}' for key, values in steps.items())})")


def package_path(place):
    return re.sub(r"\S*/site-packages/", "", place)


def fallbacks(counted, regions):
    return {**counted["fallbacks"], **{why: n for info in regions for why, n in info.get("fallbacks", {}).items()}}


def timings(versions):
    """Milliseconds of each step, one number a version; the recording itself is one of the steps."""
    steps = {}
    for version in versions:
        for key, value in {"recording": version.get("record_ms", 0.0), **version.get("timings", {})}.items():
            steps.setdefault(key, []).append(value)
    return steps


def print_times(model, compiled, inputs, timing_seconds):
    """Medians over rounds; a round calls eager and compiled code in turn at every shape, so that a busy machine slows both alike."""
    pairs = {}
    deadline = time.perf_counter() + timing_seconds
    for ids in inputs * ROUNDS:
        if time.perf_counter() > deadline:
            break
        pairs.setdefault(tuple(ids.shape), []).append((seconds(model, ids), seconds(compiled, ids)))
    print(f"  batch x length      eager ms  compiled ms   eager / compiled   (medians of {len(pairs[SHAPES[0]])})")
    for (batch, length), times in pairs.items():
        eager, ours = (statistics.median(spent) * 1e3 for spent in zip(*times))
        print(f"  {batch:5} x {length:<6} {eager:14.2f} {ours:12.2f} {ratio(times):18.2f}")
    print(f"  median of {len(pairs)} shapes {statistics.median(map(ratio, pairs.values())):36.2f}")


def seconds(fn, ids):
    start = time.perf_counter()
    fn(ids)
    return time.perf_counter() - start


def ratio(times):
    """The two calls of one round stand next to each other in time: their ratio is what a busy machine changes least."""
    return statistics.median(eager / ours for eager, ours in times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller models, less timing")
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
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {torch.backends.cpu.get_cpu_capability()}")
    with torch.no_grad():
        for name, model in models(quick):
            demo(name, model, 4 if quick else 7)
    return 0


if __name__ == "__main__":
    sys.exit(main())
