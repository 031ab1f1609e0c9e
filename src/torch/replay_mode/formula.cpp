// See formula.h.
#include "torch/replay_mode/formula.h"

#include <c10/util/SmallVector.h>

#include "dims/step_arithmetic.h"
#include "trace/guard_relation.h"

namespace escapement {
namespace {

using Operation = SizeOp;

std::string_view sign_of(Operation op) {
  switch (op) {
    case Operation::add: return " + ";
    case Operation::mul: return "*";
    case Operation::floordiv: return " // ";
    case Operation::mod: return " % ";
    case Operation::min: return " min ";
    case Operation::max: return " max ";
    default: return {};
  }
}

}  // namespace

std::optional<Formula> Formula::of(const DimTable& dims, Dim dim, const SlotOf& slot_of) {
  Formula formula;
  for (const DimTable::Step& step : dims.steps(dim)) {
    if (step.op == Operation::symbol) {
      const auto slot = slot_of(step.symbol);
      if (!slot) return {};
      formula.steps_.push_back({step.op, *slot});
    } else {
      formula.steps_.push_back({step.op, step.constant});
    }
  }
  if (formula.steps_.size() != 1) {
    formula.kind_ = Kind::steps;
  } else if (formula.steps_[0].op == Operation::symbol) {
    formula.kind_ = Kind::slot;
    formula.slot_ = static_cast<uint32_t>(formula.steps_[0].number);
  } else {
    formula.constant_ = formula.steps_[0].number;
  }
  return formula;
}

bool Formula::compute(const int64_t* table, int64_t& value) const {
  c10::SmallVector<int64_t, 16> stack;
  for (const Step& step : steps_) {
    if (step.op == Operation::constant || step.op == Operation::symbol) {
      stack.push_back(step.op == Operation::symbol ? table[step.number] : step.number);
      continue;
    }
    const int64_t right = stack.pop_back_val();
    const ExactSize result = exact(step.op, stack.back(), right);
    if (!result) return false;
    stack.back() = *result;
  }
  value = stack.back();
  return true;
}

std::string Formula::text() const {
  std::vector<std::string> stack;
  for (const Step& step : steps_) {
    if (step.op == Operation::constant || step.op == Operation::symbol) {
      stack.push_back((step.op == Operation::symbol ? "n" : "") + std::to_string(step.number));
      continue;
    }
    const std::string right = std::move(stack.back());
    stack.pop_back();
    const std::string sign(sign_of(step.op));
    const bool product = step.op == Operation::mul;
    if (sign.empty()) stack.back() = std::string(name_of(step.op)) + "(" + stack.back() + (is_unary(step.op) ? ")" : ", " + right + ")");
    else stack.back() = product ? stack.back() + sign + right : "(" + stack.back() + sign + right + ")";
  }
  return stack.back();
}

bool Check::holds(const int64_t* table) const {
  int64_t a = 0, b = 0;
  return left.evaluate(table, a) && right.evaluate(table, b) && escapement::holds(kind, a, b);
}

std::string Check::text() const { return left.text() + " " + std::string(relation_text(kind)) + " " + right.text(); }

}  // namespace escapement
