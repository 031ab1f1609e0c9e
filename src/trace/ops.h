// The op table: enum, names and properties of every trace op, derived from the rows of ops.def.
//
// A row is the one place that knows an op: its kind, arity, effect, tier, type and size rule, ATen name, and (pointwise) what it
// computes per element. Printer, parser, verifier, evaluator, fusion, recorder and `python -m escapement ops` all read the row. What it
// computes a reduction from stands in reduce.def, its numbers in numbers.def, what is particular about one of its operands in operands.def.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "trace/dtype.h"

namespace escapement {

enum class Op : uint8_t {
#define OP(name, kind, arity, rule, domain, tier, aten, scalar) name,
#include "trace/ops.def"
#undef OP
};

enum class OpKind : uint8_t {
  pointwise,  // element i of the result depends on elements i of the operands, after broadcasting
  reduce,     // attrs.axes, attrs.keepdim
  view,       // aliases its operand's memory; costs nothing at run time
  create,     // no tensor operand: full, arange
  index,      // gather-like: an operand holds positions
  combine,    // cat, stack, pad: several regions of one result
  composite,  // kept whole in the generic trace; expand.cpp gives its meaning in simpler ops
  contract,   // matrix products, convolution, attention: library calls with our own size rule
  effect,     // write
  call,       // any ATen op, by schema name; see Attrs::target
};

// How the result dtype follows from the operands'.
enum class TypeRule : uint8_t { same, promote, promote_float, boolean, attribute, special };
// In what type a pointwise op may compute, as far as we give it a kernel.
enum class Domain : uint8_t { _, floats, singles, whole, bits, numbers, anything };
enum class Tier : uint8_t { exact, stable, contraction, none };

struct OpInfo {
  std::string_view name;
  OpKind kind;
  int8_t arity;            // -1: any number
  TypeRule rule;
  Domain domain;           // of a pointwise op
  Tier tier;
  std::string_view aten;   // schema name, "aten::add.Tensor"; empty if there is none
};

// A number among the arguments of a pointwise row (numbers.def).
struct RowNumber {
  enum class Place : uint8_t { value, value2 };
  enum class Varies : uint8_t { no, yes };
  Op op;
  Place place;             // which of attrs
  std::string_view name;   // of ATen's argument
  double otherwise;
  Varies varies;
};

enum class OperandTrait : uint8_t { number, one_as_it_is };   // operands.def

const OpInfo& info(Op op);
std::span<const RowNumber> numbers_of(Op op);   // in the order of attrs
bool has_trait(Op op, size_t operand, OperandTrait trait);
bool computes_on(Op op, DType type);   // a pointwise op, in the type that its operands promote to, by the row's domain
std::string_view name_of(Op op);
std::optional<Op> op_from_name(std::string_view name);
int op_count();

}  // namespace escapement
