"""Which line of the user's program does the op being recorded come from?

The recorder asks once per op, so the answer is an int: the index of the graph node. Text is made when somebody reads it.
"""

import re
import sys
import weakref

USER_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
UNKNOWN = -1


class Locator:
    """Callable without arguments, from inside the graph's forward. Holds the graph weakly: the region owns it already."""

    def __init__(self, gm, line_table):
        self._code = type(gm).forward.__code__
        self._node_of_line, self._first_line = line_table
        self._graph = weakref.ref(gm)

    def __call__(self):
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self._code:
                return self._index(frame.f_lineno)
            frame = frame.f_back
        return UNKNOWN

    def _index(self, line):
        index = self._node_of_line.get(line - self._first_line)
        return UNKNOWN if index is None else index

    def text(self, index):
        """`file:line` of the innermost user frame, or the node itself where the graph has no stack trace."""
        gm = self._graph()
        nodes = list(gm.graph.nodes) if gm is not None else []
        if not 0 <= index < len(nodes):
            return ""
        return node_place(nodes[index])


def node_place(node):
    frames = USER_FRAME.findall(node.meta.get("stack_trace") or "")
    return "{}:{} in {}".format(*frames[-1]) if frames else f"graph node {node.name}"
