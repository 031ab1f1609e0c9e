// Formula: an integer expression over the table of a running segment (sizes of its tensors, its integers), and relations of
// them. Made from a Dim of the recording, whose symbols become slots of the table; an expression of other symbols has no
// formula.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trace/trace.h"

namespace escapement {

class Formula {
 public:
  using SlotOf = std::function<std::optional<uint32_t>(Symbol)>;
  static std::optional<Formula> of(const DimTable& dims, Dim dim, const SlotOf& slot_of);

  // False where the arithmetic overflows or divides by zero: eager says what it thinks of such sizes.
  bool evaluate(const int64_t* table, int64_t& value) const {
    if (kind_ == Kind::constant) return value = constant_, true;
    if (kind_ == Kind::slot) return value = table[slot_], true;
    return compute(table, value);
  }
  std::string text() const;

 private:
  enum class Kind : uint8_t { constant, slot, steps };
  struct Step {
    SizeOp op;
    int64_t number = 0;   // a constant, or a slot
  };
  bool compute(const int64_t* table, int64_t& value) const;

  Kind kind_ = Kind::constant;
  uint32_t slot_ = 0;
  int64_t constant_ = 0;
  std::vector<Step> steps_;
};

// A relation that a stream's continuation needs.
struct Check {
  Guard::Kind kind;
  Formula left, right;
  bool holds(const int64_t* table) const;
  std::string text() const;
};

}  // namespace escapement
