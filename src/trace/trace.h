// Trace: the straight-line SSA recording of a program, with symbolic sizes. Append-only; a pass reads one trace and appends to
// another through the Builder (builder.h). Nothing is edited in place.
//
// Memory model. A tensor value names a region of memory: its `storage` (equal id = may alias), the `root` value whose buffer it
// lies in, and symbolic offset, sizes and strides in elements relative to the root's first element. An instruction reads its
// operands' memory at its own position. `write dst, src` is the only op of ours that changes memory that already exists; a library
// call may also write operands (effect bits). A value computed by a pointwise or reduce op has a fresh storage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "dims/dims.h"
#include "support/checked.h"
#include "support/reason.h"
#include "trace/attrs.h"
#include "trace/dtype.h"
#include "trace/ops.h"

namespace escapement {

using Storage = Id<struct StorageTag>;
using InstrId = Id<struct InstrTag>;

// In a recording every tensor is of one device, whichever it is, and is called cpu (torch/record/device.h).
enum class DeviceKind : uint8_t { cpu, cuda, other };

struct TensorType {
  DType dtype = DType::f32;
  DeviceKind device = DeviceKind::cpu;
  std::vector<Dim> sizes;
  std::vector<Dim> strides;  // in elements, same length as sizes
  Storage storage;
  ValueId root;              // the value whose buffer this lies in (itself for inputs, fresh results, call results)
  Dim offset;                // elements from the root's first element
  int rank() const { return static_cast<int>(sizes.size()); }
};

enum class ValueKind : uint8_t { tensor, none };  // none: an absent optional result of a call

struct Value {
  ValueKind kind = ValueKind::tensor;
  TensorType type;
  InstrId definition;        // none for inputs
  uint32_t result = 0;       // which result of its definition
};

struct Location {
  uint32_t index = Id<void>::kNone;  // into Trace::locations
};

struct Instr {
  Op op;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;    // one for all ops of ours; any number for calls
  Attrs attrs;
  std::vector<uint32_t> writes;    // operand numbers that the instruction writes (write: 0; calls: by schema)
  bool effect = false;             // must run, in order with other effects (writes, random numbers, assertions)
  Reason why = Reason::call_no_row;  // calls: why the op is left to ATen
  Location location;
};

// An instruction of that op with nothing in it but what the row implies: effect, writes, why.
Instr blank_instr(Op op);

// An output of the program: a value, an integer, or nothing.
struct Output {
  enum class Kind : uint8_t { value, input, integer, boolean, none } kind = Kind::value;
  ValueId value;         // value (may be an input's value or a view of it)
  Dim dim;               // integer, boolean (non-zero)
  friend bool operator==(const Output&, const Output&) = default;
};

// One assumption that the generic trace needs, with the decision that asked for it. Checked at entry when all symbols are
// bound by inputs; else (born symbols) at the point where the last symbol is bound. The sides are as written: evaluate or
// compile them with DimTable::evaluate and steps, never through as_constant or canonical, which know the guard to hold.
struct Guard {
  enum class Kind : uint8_t {
    equal, not_equal, less, less_equal,  // left ? right
  } kind = Kind::equal;
  Dim left, right;
  InstrId after;         // none: at entry; else after this instruction
  std::string because;   // "branch in the program"
  Location location;
};

// How an input's memory must look for the trace to apply (a key, not a recompile).
struct Input {
  enum class Kind : uint8_t { tensor, integer } kind = Kind::tensor;
  ValueId value;         // tensor
  Dim dim;               // integer: the symbol
  bool contiguous = true;                // tensor: contiguous in the usual order at recording
  std::vector<int32_t> stride_order;     // else: axes from outermost to innermost, by stride; empty if irregular
  bool parameter = false;                // a parameter or buffer: same tensor at every call, if unchanged
  int32_t foreign = -1;                  // tensor of dtype `other`: which dtype it is, by the framework's number; -1: it fits no tensor
  std::string name;                      // "arg0", or the program's own name
};

class Trace {
 public:
  std::string name;
  DimTable dims;
  CheckedVector<Value> values;
  CheckedVector<Instr> instrs;
  CheckedVector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Guard> guards;
  std::vector<std::string> locations;  // "model.py:41"
  uint32_t storage_count = 0;

  const Value& operator[](ValueId v) const { return values[v.index]; }
  const Instr& operator[](InstrId i) const { return instrs[i.index]; }
  const TensorType& type(ValueId v) const { return values[v.index].type; }
};

// --- text (docs/ir.md). print(parse(print(t))) == print(t), and parse(print(t)) is equal to t.
std::string print(const Trace& trace);
Trace parse_trace(std::string_view text);          // throws UserError "line:column: message"
std::string to_string(const Trace& trace, const TensorType& type);  // "f32[s0, s1]{s1, 1}"
std::string to_string(const Trace& trace, InstrId instr);           // its line, without the results' storage and location

// Equal in every field, up to the numbering of locations and storages; symbols compare by name.
bool equal(const Trace& a, const Trace& b);

// Throws InternalError naming the broken invariant; verifier.h lists them.
void verify(const Trace& trace);

}  // namespace escapement
