// The arguments of a call as a region looks at them: as Program wants them, which of them a recording holds as constants, and what calls have in
// common that go one way until they look at a size or a value.
#pragma once

#include <ATen/core/grad_mode.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <bit>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "escapement/argument.h"

namespace escapement {

// Arguments as Program wants them. Small programs need no allocation.
class ArgumentList {
 public:
  explicit ArgumentList(std::span<const c10::IValue> values) : arguments_(values.size()) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].isTensor()) arguments_[i].tensor = &values[i].toTensor();
      else if (values[i].isInt()) arguments_[i].integer = values[i].toInt();
      else arguments_[i] = number(values[i]);
    }
  }
  std::span<const Argument> span() const { return arguments_; }

  static Argument number(const c10::IValue& value) {
    using Kind = Argument::Kind;
    if (value.isBool()) return {nullptr, value.toBool(), true, Kind::boolean};
    if (value.isDouble()) return {nullptr, std::bit_cast<int64_t>(value.toDouble()), true, Kind::real};
    return {nullptr, 0, true, Kind::plain};
  }

 private:
  c10::SmallVector<Argument, 16> arguments_;
};

// Arguments by position that are numbers or truth values without a symbol: the trace holds what was seen.
class Pinned {
 public:
  static Pinned of(std::span<const c10::IValue> arguments);
  bool empty() const { return seen_.empty(); }
  bool hold(std::span<const Argument> arguments) const {
    return std::all_of(seen_.begin(), seen_.end(), [&](const auto& seen) { return same(seen.second, arguments[seen.first]); });
  }

 private:
  static bool same(const Argument& a, const Argument& b) { return b.other && a.kind == b.kind && a.integer == b.integer; }

  std::vector<std::pair<size_t, Argument>> seen_;
};

// Compiled code does not build a tape: a tensor that wants one runs eagerly.
template <class Tensors, class Tensor>
bool any_wants_tape(const Tensors& all, const Tensor& tensor) {
  const auto wants = [&](const auto& one) {
    const at::Tensor* const found = tensor(one);
    return found != nullptr && found->defined() && found->requires_grad();
  };
  return std::any_of(all.begin(), all.end(), wants) && at::GradMode::is_enabled();
}

inline bool wants_tape(std::span<const Argument> arguments) {
  return any_wants_tape(arguments, [](const Argument& argument) { return argument.tensor; });
}

inline bool wants_tape(std::span<const at::Tensor> tensors) {
  return any_wants_tape(tensors, [](const at::Tensor& tensor) { return &tensor; });
}

// What a program may look at without a guard: calls of one form go one way, until a size or a value is looked at.
std::string form_of(std::span<const c10::IValue> arguments);

}  // namespace escapement
