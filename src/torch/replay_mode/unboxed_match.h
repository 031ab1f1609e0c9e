// Matching of arguments as operators' C++ signatures have them, without a box around each: see segment.h, whose rules these
// are. What has no overload here is put into a box and matched there.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Scalar.h>
#include <c10/core/SymInt.h>

#include <bit>
#include <concepts>
#include <optional>
#include <string_view>

#include "torch/replay_mode/segment.h"

namespace escapement {

class UnboxedMatch {
 public:
  explicit UnboxedMatch(Segment& segment) : segment_(segment) {}

  template <class... Args>
  bool arguments(const StreamNode& node, const Args&... args) {
    segment_.begin_match();
    const Pattern* pattern = node.arguments.data();
    return (value(*pattern++, args) && ...) && segment_.holds(node);
  }

 private:
  using Kind = Pattern::Kind;
  using Number = Pattern::Number;

  bool value(const Pattern& pattern, const at::Tensor& tensor) {
    return segment_.matches(pattern, *tensor.unsafeGetTensorImpl(), /*recording=*/false);
  }

  bool value(const Pattern& pattern, int64_t number) {
    if (pattern.kind == Kind::constant) return is(pattern, Number::integer, number);
    return segment_.takes(pattern, number);
  }
  bool value(const Pattern& pattern, const c10::SymInt& number) {
    return !number.is_heap_allocated() && value(pattern, number.as_int_unchecked());
  }
  bool value(const Pattern& pattern, double number) {
    if (pattern.kind == Kind::constant) return is(pattern, Number::real, std::bit_cast<int64_t>(number));
    return segment_.takes(pattern, number);
  }
  bool value(const Pattern& pattern, bool truth) {
    return pattern.kind == Kind::constant && is(pattern, Number::truth, truth ? 1 : 0);
  }
  bool value(const Pattern& pattern, const c10::Scalar& scalar) {
    if (scalar.isSymbolic()) return false;
    switch (scalar.type()) {
      case c10::ScalarType::Long: return value(pattern, *static_cast<const int64_t*>(scalar.data_ptr()));
      case c10::ScalarType::Double: return value(pattern, *static_cast<const double*>(scalar.data_ptr()));
      case c10::ScalarType::Bool: return value(pattern, scalar.toBool());
      default: return boxed(pattern, scalar);
    }
  }
  // They travel as integers.
  template <class Enum>
    requires std::is_enum_v<Enum>
  bool value(const Pattern& pattern, Enum choice) {
    static_assert(std::same_as<Enum, c10::ScalarType> || std::same_as<Enum, c10::Layout> || std::same_as<Enum, c10::MemoryFormat>);
    return value(pattern, static_cast<int64_t>(choice));
  }
  bool value(const Pattern& pattern, std::string_view text) {
    return pattern.kind == Kind::constant && pattern.value.isString() && pattern.value.toStringRef() == text;
  }

  template <class T>
  bool value(const Pattern& pattern, const std::optional<T>& maybe) {
    return maybe.has_value() ? value(pattern, *maybe) : pattern.kind == Kind::absent;
  }
  bool value(const Pattern& pattern, const at::OptionalIntArrayRef& maybe) {
    return maybe.has_value() ? value(pattern, *maybe) : pattern.kind == Kind::absent;
  }

  bool value(const Pattern& pattern, c10::IntArrayRef list) {
    if (pattern.kind == Kind::constant) return pattern.value.isIntList() && list == c10::IntArrayRef(pattern.integers);
    return pattern.kind == Kind::list && pattern.integer && each(pattern, list);
  }
  bool value(const Pattern& pattern, c10::SymIntArrayRef list) {
    if (pattern.kind != Kind::constant) return pattern.kind == Kind::list && pattern.integer && each(pattern, list);
    const auto plain = c10::asIntArrayRefSlowOpt(list);
    return plain && value(pattern, *plain);
  }
  bool value(const Pattern& pattern, at::TensorList list) {
    return pattern.kind == Kind::list && pattern.value.isTensorList() && each(pattern, list);
  }
  bool value(const Pattern& pattern, const at::ITensorListRef& list) {
    return pattern.kind == Kind::list && pattern.value.isTensorList() && each(pattern, list);
  }

  template <class T>
    requires(!std::is_enum_v<T>)
  bool value(const Pattern& pattern, const T& other) {
    return boxed(pattern, other);
  }

  template <class List>
  bool each(const Pattern& pattern, const List& list) {
    if (list.size() != pattern.items.size()) return false;
    const Pattern* item = pattern.items.data();
    for (const auto& element : list)
      if (!value(*item++, element)) return false;
    return true;
  }

  static bool is(const Pattern& pattern, Number number, int64_t bits) { return pattern.number == number && pattern.bits == bits; }
  template <class T>
  bool boxed(const Pattern& pattern, const T& other) {
    return segment_.matches(pattern, c10::IValue(other), /*recording=*/false);
  }

  Segment& segment_;
};

}  // namespace escapement
