// See shape_program.h.
#include "jit/run/shape_program.h"

#include <algorithm>

#include "dims/step_arithmetic.h"
#include "support/error.h"

namespace escapement {
namespace {

[[noreturn]] void refuse(SizeOp op, int64_t divisor) {
  if (divides(op) && divisor == 0) throw UserError("a size of this call is divided by zero");
  if (is_real_op(op)) throw UserError("the arithmetic on the sizes of this call leaves the finite floating-point numbers or 64 bits");
  throw UserError("the arithmetic on the sizes of this call overflows 64 bits");
}

int64_t apply(SizeOp op, int64_t a, int64_t b) {
  const ExactSize result = exact(op, a, b);
  if (!result) refuse(op, b);
  return *result;
}

}  // namespace

ShapeProgram::ShapeProgram(const DimTable& dims, std::vector<uint32_t> level_of_symbol)
    : dims_(&dims), symbols_(level_of_symbol.size()), levels_(std::move(level_of_symbol)) {}

Slot ShapeProgram::new_slot(uint32_t level) {
  levels_.push_back(level);
  return static_cast<Slot>(levels_.size() - 1);
}

Slot ShapeProgram::add_constant(int64_t value) {
  const auto [entry, added] = slot_of_constant_.try_emplace(value, 0);
  if (added) {
    entry->second = new_slot(0);
    constants_.emplace_back(entry->second, value);
  }
  return entry->second;
}

Slot ShapeProgram::emit(SizeOp op, Slot a, Slot b) {
  if (commutes(op) && b < a) std::swap(a, b);
  const auto [entry, added] = slot_of_code_.try_emplace(Key{op, a, b}, 0);
  if (added) {
    entry->second = new_slot(std::max(levels_[a], levels_[b]));
    code_.push_back({op, a, b, entry->second});
  }
  return entry->second;
}

Slot ShapeProgram::add(Dim dim) {
  if (const auto known = slot_of_dim_.find(dim); known != slot_of_dim_.end()) return known->second;
  std::vector<Slot> stack;
  for (const DimTable::Step& step : dims_->outer_steps(dim)) {
    if (step.op == SizeOp::constant) {
      stack.push_back(add_constant(step.constant));
    } else if (step.op == SizeOp::dim) {
      stack.push_back(add(step.dim));
    } else if (step.op == SizeOp::symbol) {
      stack.push_back(step.symbol.index);
    } else {
      ESCAPEMENT_CHECK(stack.size() >= 2, "a postfix size expression lacks an operand");
      const Slot b = stack.back();
      stack.pop_back();
      stack.back() = emit(step.op, stack.back(), b);
    }
  }
  ESCAPEMENT_CHECK(stack.size() == 1, "a postfix size expression leaves one value");
  return slot_of_dim_[dim] = stack.back();
}

void ShapeProgram::finish() {
  // Stable: operands precede their users within a level, and a user's level is never below its operands'.
  std::stable_sort(code_.begin(), code_.end(),
                   [&](const Code& x, const Code& y) { return levels_[x.result] < levels_[y.result]; });
  const uint32_t last = levels_.empty() ? 0 : *std::max_element(levels_.begin(), levels_.end());
  begin_of_level_.assign(last + 2, static_cast<uint32_t>(code_.size()));
  for (size_t i = code_.size(); i-- > 0;) begin_of_level_[levels_[code_[i].result]] = static_cast<uint32_t>(i);
  for (size_t level = last + 1; level-- > 0;) begin_of_level_[level] = std::min(begin_of_level_[level], begin_of_level_[level + 1]);
}

void ShapeProgram::initialise(std::span<int64_t> table) const {
  for (const auto& [slot, value] : constants_) table[slot] = value;
}

void ShapeProgram::evaluate(uint32_t level, std::span<int64_t> table) const {
  if (level + 1 >= begin_of_level_.size()) return;  // a level of symbols that only need their values
  for (uint32_t i = begin_of_level_[level]; i < begin_of_level_[level + 1]; ++i) {
    const Code& code = code_[i];
    table[code.result] = apply(code.op, table[code.a], table[code.b]);
  }
}

}  // namespace escapement
