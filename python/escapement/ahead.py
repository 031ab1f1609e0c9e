"""What `torch.compile(f, backend="escapement", fullgraph=True, dynamic=True).aot_compile(example)` keeps, saves and loads.

Torch captures one graph and its guards without compiling a frame, so there is nothing to steer: which sizes the graph holds for is torch's
choice (`dynamic=True`, `mark_dynamic`), and where a guard fails it raises. What the graph does is compiled like any function's, at the
first call in each process: machine code is not in the file, which loads on another machine too.
"""

import functools
import pickle

import torch
from torch._dynamo.aot_compile_types import GraphModuleSerializableCallable as Graph
from torch._dynamo.aot_compile_types import SerializableCallable


class AheadOfTime(SerializableCallable):
    def __init__(self, graph, mode=None, options=None):
        self.graph, self.mode, self.options = graph, mode, options

    @functools.cached_property
    def compiled(self):
        return torch.compile(self.graph, backend="escapement", mode=self.mode, options=self.options)

    @classmethod
    def serialize_compile_artifacts(cls, fn):
        return pickle.dumps((Graph.serialize_compile_artifacts(Graph(fn.graph)), fn.mode, fn.options))

    @classmethod
    def deserialize_compile_artifacts(cls, data):
        graph, mode, options = pickle.loads(data)
        return cls(Graph.deserialize_compile_artifacts(graph).graph_module, mode, options)

    def __call__(self, *arguments):
        return self.compiled(*arguments)
