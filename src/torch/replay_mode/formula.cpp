// See formula.h.
#include "torch/replay_mode/formula.h"

#include <c10/util/SmallVector.h>

#include <algorithm>

#include "support/floor_division.h"
#include "trace/guard_relation.h"

namespace escapement {
namespace {

using Operation = DimTable::Step::Op;

bool apply(Operation op, int64_t a, int64_t b, int64_t& out) {
  switch (op) {
    case Operation::add: return !__builtin_add_overflow(a, b, &out);
    case Operation::mul: return !__builtin_mul_overflow(a, b, &out);
    case Operation::floordiv:
      if (!has_quotient(a, b)) return false;
      out = floor_quotient(a, b);
      return true;
    case Operation::mod:
      if (b == 0) return false;
      out = floor_remainder(a, b);
      return true;
    case Operation::min: out = std::min(a, b); return true;
    case Operation::max: out = std::max(a, b); return true;
    default: return false;
  }
}

const char* sign_of(Guard::Kind kind) {
  switch (kind) {
    case Guard::Kind::equal: return " == ";
    case Guard::Kind::not_equal: return " != ";
    case Guard::Kind::less: return " < ";
    case Guard::Kind::less_equal: return " <= ";
    case Guard::Kind::broadcast: return " == 1 or == ";
  }
  return "";
}

const char* sign_of(Operation op) {
  switch (op) {
    case Operation::add: return " + ";
    case Operation::mul: return "*";
    case Operation::floordiv: return " // ";
    case Operation::mod: return " % ";
    case Operation::min: return " min ";
    default: return " max ";
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
    if (!apply(step.op, stack.back(), right, stack.back())) return false;
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
    const bool product = step.op == Operation::mul;
    stack.back() = product ? stack.back() + sign_of(step.op) + right : "(" + stack.back() + sign_of(step.op) + right + ")";
  }
  return stack.back();
}

bool Check::holds(const int64_t* table) const {
  int64_t a = 0, b = 0;
  return left.evaluate(table, a) && right.evaluate(table, b) && escapement::holds(kind, a, b);
}

std::string Check::text() const { return left.text() + sign_of(kind) + right.text(); }

}  // namespace escapement
