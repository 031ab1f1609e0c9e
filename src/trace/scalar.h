// Scalar programs: what one element of a pointwise op computes, as straight-line code over a few basic operations.
//
// This is the single definition of every pointwise op and mathematical function: the reference evaluator runs it, the loop
// interpreter runs it, LLVM code generation emits it (for vectors and for tails), so all of them agree bit for bit. Basic
// operations are those that IEEE hardware does exactly rounded; exp, tanh, erf, ... are written in terms of them (scalar_math.cpp).
// Half types never appear inside arithmetic: values are computed in f32 and `round_to` rounds to the storage type where eager does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trace/dtype.h"

namespace escapement {

enum class ScalarOp : uint8_t {
#define SCALAR_OP(name, arity) name,
#include "trace/scalar.def"
#undef SCALAR_OP
};
int arity_of(ScalarOp);
std::string_view name_of(ScalarOp);

using Reg = uint16_t;  // index of a node in its program

struct ScalarNode {
  ScalarOp op;
  DType type;              // type of the result
  Reg a = 0, b = 0, c = 0;
  uint64_t bits = 0;       // constant: the value's bit pattern in `type`; input, param: its number; round_to: the DType
                           // rounded to; comparisons, is_nan, convert, bitcast: the operands' DType (emit fills it in)
  friend bool operator==(const ScalarNode&, const ScalarNode&) = default;
};

// Values travel as bit patterns in the low bits of a uint64_t (bool: 0 or 1; signed integers: sign-extended to 64 bits;
// f16/bf16: the f32 pattern of the value, since half types are storage only).
uint64_t evaluate(const ScalarNode& node, uint64_t a, uint64_t b, uint64_t c);  // one basic operation (not input/param)
void evaluate_block(const ScalarNode& node, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, size_t count);
uint64_t to_bits(double value, DType type);    // nearest representable
uint64_t to_bits(int64_t value, DType type);
double double_from_bits(uint64_t bits, DType type);
int64_t int_from_bits(uint64_t bits, DType type);
uint64_t load_bits(const void* element, DType type);           // memory -> register form (f16/bf16 widen to f32)
void store_bits(void* element, DType type, uint64_t bits);     // register form -> memory (f32 -> f16/bf16 rounds to nearest even)

// Straight-line code under construction. `emit` folds nothing and shares equal nodes.
class ScalarProgram {
 public:
  // `type` must be a compute type: never f16/bf16. `storage`: that of the memory it is loaded from, if it is.
  Reg input(int number, DType type, DType storage = DType::other);
  Reg param(int number, DType type);   // a run-time scalar, the same for all elements
  Reg constant(double value, DType type);
  Reg constant_int(int64_t value, DType type);
  Reg constant_bits(uint64_t bits, DType type);
  Reg emit(ScalarOp op, DType type, Reg a, Reg b = 0, Reg c = 0, uint64_t bits = 0);
  Reg cast(Reg a, DType to);           // compute type to compute type, ATen's conversion rules; identity if equal
  Reg round_to(Reg a, DType storage);  // f32 -> nearest f16/bf16 value, still f32; identity for other types, and for what is such a value
  bool is_exact_in(Reg a, DType storage) const { return (exact_[a] & half_bit(storage)) != 0; }   // provably a value of that half type, or NaN
  DType type(Reg r) const { return nodes_[r].type; }
  std::span<const ScalarNode> nodes() const { return nodes_; }
  std::string to_string() const;
  // Runs the program; results[i] is node i's value.
  void run(std::span<const uint64_t> inputs, std::span<const uint64_t> params, std::vector<uint64_t>& results) const;
  // The same for `count` elements at a time, which is several times as fast: inputs[k] points to input k's `count` elements, and
  // results[i * count + j] is node i's value for element j.
  void run_block(std::span<const uint64_t* const> inputs, std::span<const uint64_t> params, size_t count,
                 std::vector<uint64_t>& results) const;

 private:
  static uint8_t half_bit(DType storage) { return storage == DType::f16 ? 1 : storage == DType::bf16 ? 2 : 0; }
  uint8_t exact_in(const ScalarNode& node) const;
  Reg find_or_append(const ScalarNode& node);
  void rehash(size_t slots);

  std::vector<ScalarNode> nodes_;
  std::vector<uint8_t> exact_;  // of each node, half_bit of the half types that hold its values
  std::vector<Reg> slots_;  // open hash table over nodes_, a power of two long; kFree marks an empty slot
};

}  // namespace escapement
