// What must hold of a call's arguments before a version may run: one flat list of relations over tensor metadata. The list is the
// only definition. The quick check is compiled from it, explain walks it and names the first relation that fails, the report prints
// it, and a test can leave out any one of its members by number.
//
// Order is part of the meaning: what a relation reads may be read once those before it hold (a size, once the rank is known; a
// guard, once its symbols are bound). Relations that are true by construction are not in the list: a size that binds a symbol is
// not compared with it, and the strides of a contiguous tensor follow from its sizes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace escapement {

struct Relation {
  enum class Kind : uint8_t {
    integer,     // the argument is an integer
    plain,       // the argument is an ordinary tensor in the device's memory: no subclass, view of bits, sparse or nested tensor
    dtype, rank,
    guard,       // a guard of the trace
    value,       // an integer argument equals an expression
    size,        // a size equals an expression
    contiguous,
    stride,      // a stride equals an expression, unless its size is 1 or the tensor is empty: then it addresses nothing
    irregular,   // not contiguous
    ordered,     // strides descend in the recorded order of axes, those of size 1 aside
    apart,       // shares no memory with an argument that it did not share memory with when recorded
  } kind = Kind::plain;
  uint32_t input = 0;
  uint32_t axis = 0;     // size, stride
  Dim expected;          // size, stride, value
  uint32_t guard = 0;    // index into Trace::guards
};

// An entry symbol and the place that its value is read from. `item`: the number in a tensor of one element.
struct Binding {
  Source::Kind kind = Source::Kind::input_size;
  uint32_t input = 0, axis = 0;
  Symbol symbol;
};

struct EntryRelations {
  std::vector<Binding> bindings;
  std::vector<Relation> list;
};

// `entry_guards`: those that need nothing but entry symbols. `input_of_value`: per value the input whose memory it names from its
// first element on, or Id<void>::kNone; for symbols that are items.
EntryRelations entry_relations(const Trace& trace, std::span<const uint32_t> entry_guards, std::span<const uint32_t> input_of_value);

// "arg0.size[1] == s0"
std::string to_string(const Trace& trace, const Relation& relation);

}  // namespace escapement
