// The verifier of traces: one line per invariant here, one function per line in verifier.cpp. `verify(trace)` runs them in this
// order and throws InternalError with the invariant's name, the place and what is wrong.
//
//   ids          every id (value, instruction, storage, dim, symbol, operand number) lies in its table
//   definitions  every value is defined once: by its instruction's result or by one input row
//   order        operands are inputs or results of earlier instructions; so are roots and the values that symbols are read from
//   shapes       a type has as many strides as sizes; its root is a root itself
//   arity        the number of operands fits the op's row
//   rules        dtype, device and sizes of a result are what the op's rule says; for views also strides, offset, storage and root
//   demands      every relation of sizes that a rule needs is known or guarded
//   memory       results of ops that compute have a storage of their own and are their own root at offset 0
//   effects      writes name operands; whatever writes has an effect; `write` writes operand 0, has no result, and reads no
//                part of what it writes, but at equal addresses
//   symbols      every symbol in use has a source of its kind; sizes and strides name an axis that is there
//   bound        a symbol is bound by an input or an earlier instruction where an instruction or a guard uses it
//   guards       every guard names the decision that asked for it
//   inputs       every tensor input is its own root; every integer input is an `i` symbol, or a `u` symbol of the trace before a side
//                trace; a stride order is a permutation
//   outputs      every output names a value or a dim, as its kind says
//
// Not checked here: that a text reads back equal (verify_text), that calls write what they say, and that integer-valued
// sources are integers.
#pragma once

#include "trace/trace.h"

namespace escapement {

void verify(const Trace& trace);       // all of the above
void verify_text(const Trace& trace);  // print, parse, and compare; slower

}  // namespace escapement
