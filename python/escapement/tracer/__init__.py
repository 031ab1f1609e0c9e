"""escapement.jit: calls taken apart, keyed and checked without Dynamo (jitted.py), and replay mode's wrapper (replayed.py)."""
