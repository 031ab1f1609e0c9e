// Attributes of an instruction: one plain struct for all ops; a field that an op does not use keeps its default.
// Printing, parsing, hashing and equality come from one Boost.Hana reflection in attrs.cpp, so that no field can be missed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dims/dims.h"
#include "trace/dtype.h"

namespace escapement {

// A number written in the program. Integers and booleans stay exact; `dim` is a symbolic integer.
struct Number {
  enum class Kind : uint8_t { none, boolean, integer, real, dim } kind = Kind::none;
  int64_t integer = 0;
  double real = 0;
  Dim dim;
  friend bool operator==(const Number&, const Number&);  // bitwise for `real`: -0.0 is not 0.0, a NaN is itself
};

// One argument of a library call, in schema order. Tensors are operand numbers of the instruction.
struct CallArg {
  enum class Kind : uint8_t { none, tensor, tensors, number, numbers, boolean, booleans, text, dtype, device, host } kind = Kind::none;
  std::vector<int32_t> operands;   // tensor: one; tensors: any (-1 = None in an optional list)
  std::vector<Number> numbers;     // number: one; numbers: any; booleans too
  std::string text;                // text, device
  int32_t code = 0;                // dtype: torch's ScalarType number; host: index into the recorder's table of host objects
  friend bool operator==(const CallArg&, const CallArg&);
};

struct Attrs {
  std::vector<int32_t> axes;       // non-negative, in the op's own order (reductions: as they are walked, outermost first)
  int32_t axis = -1;               // the one axis of softmax, cat, select, slice, gather, cumsum ...
  bool keepdim = false;
  std::vector<Dim> sizes;          // reshape, expand, full, arange(length); pad: before/after pairs, last axis first
  Dim start, step;                 // slice, select(index), diagonal offset (tril/triu), arange
  Number value;                    // full, pad, masked_fill; second operand written as a number
  Number value2;                   // clamp's upper bound, alpha/beta of addcmul, threshold's replacement
  std::optional<DType> dtype;      // cast, full, reductions with dtype=
  double eps = 0;                  // layer_norm, ...
  int32_t correction = 0;          // var, std
  std::string mode;                // gelu "tanh", division rounding, ...
  std::string target;              // call: "aten::sort.stable"
  std::vector<CallArg> args;       // call, contract
  friend bool operator==(const Attrs&, const Attrs&);
};

uint64_t hash(const Attrs&);

// --- text. `axes=[0, 1], keepdim=true`: the fields that differ from their default, in the order of the struct. `target` and
// `args` are left to the printer of instructions, which writes them as a call.
class Tokenizer;
std::string to_string(const Attrs& attrs, const DimTable& dims);
std::string to_string(const Number& number, const DimTable& dims);  // 3, 0.5, true, dim(s0 + 1), none
// At the value, after `key=`; false, with nothing read, if there is no such attribute.
bool parse_attr(Tokenizer& tokens, std::string_view key, Attrs& attrs, DimTable& dims);
Number parse_number(Tokenizer& tokens, DimTable& dims);

}  // namespace escapement
