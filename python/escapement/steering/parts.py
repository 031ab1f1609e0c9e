"""What is put around Dynamo's own code, one module for each thing that is put right: its `install(session)` does that once for the process, `session()`
giving the compile in progress or None; its `possible()`, if it has one, says whether this torch has the places where it would be put."""

from . import absences, argument_kinds, assertions, caches, containers, diagonals, float_sizes, generators, guard_latency, hooks, index_numbers, layout_reads
from . import methods, mixed_arrays, oblivious, other_words, raising, random_objects, recurrent, refusals, scalar_writes, size_arguments, texts, traced_numbers, truths
from . import user_classes, view_bases, written_in_itself

# In the order in which they are installed.
PARTS = (absences, argument_kinds, assertions, caches, containers, diagonals, float_sizes, generators, guard_latency, hooks, index_numbers, layout_reads, methods,
         mixed_arrays, other_words, raising, random_objects, recurrent, scalar_writes, size_arguments, texts, traced_numbers, truths, user_classes, view_bases,
         written_in_itself)


def install(session):
    for part in PARTS:
        part.install(session)


def possible():
    return all(part.possible() for part in (*PARTS, oblivious, refusals) if hasattr(part, "possible"))
