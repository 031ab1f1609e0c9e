"""Declared dims: what can be said (spec.py), how a call (contract.py) and a program (frames.py, findings.py) are held to it."""
