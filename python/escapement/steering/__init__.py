"""Dynamo, steered: everything that knows how torch.compile traces, and what it is told and asked on our behalf (dynamo.py comes first)."""
