// SizeGuards: the conditions under which torch.export traced a program ("guards_code"), and the check of a call against them.
//
// A program that asks for a size where no dim was declared static (`if x.shape[0] % 2`) is exported as the side that was taken, and
// the condition stands beside the graph: a Python expression over sizes, strides and integers of the inputs. torch's loader asserts
// each at every call, and so does this check. The text is parsed and never run; what is not arithmetic as torch prints it is a
// UserError at reading. What Python cannot compute (a division by zero) or 64 bits cannot hold is a condition that does not hold.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

// What a condition reads of an input: of itself, or of the tensor that it is a view of.
struct InputFact {
  enum class Kind : uint8_t { value, size, stride, offset } kind = Kind::value;
  bool of_base = false;
  uint32_t input = 0, axis = 0;
  bool operator==(const InputFact&) const = default;
};

class InputPaths;

class SizeGuards {
 public:
  void add(std::string_view text, const InputPaths& paths);

  // What `check` takes a value for, in this order.
  const std::vector<InputFact>& facts() const { return facts_; }
  bool empty() const { return conditions_.empty(); }

  // UserError names the first condition that does not hold, and the values that it is about.
  void check(std::span<const int64_t> values) const;

  // Steps of a stack machine: operands first.
  enum class Op : uint8_t { fact, integer, real, either, both, negation, eq, ne, lt, le, gt, ge, bit_or, bit_xor, bit_and, add, sub, mul,
                            floordiv, mod, truediv, neg, pow, min, max, abs, floor, ceil, trunc, to_float, sqrt };
  struct Step {
    Op op;
    int64_t integer = 0;   // also a fact's number
    double real = 0;
  };

 private:
  friend class GuardParser;
  struct Condition {
    std::string text;
    std::vector<Step> steps;
    size_t deepest = 0;                     // the stack's
    std::map<std::string, int64_t> names;   // of its facts, as it writes them
  };
  int64_t number_of(const InputFact& fact);
  [[noreturn]] void fail(const Condition& condition, std::span<const int64_t> values) const;

  std::vector<InputFact> facts_;
  std::vector<Condition> conditions_;
};

}  // namespace escapement
