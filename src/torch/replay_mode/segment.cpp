// See segment.h.
#include "torch/replay_mode/segment.h"

#include <c10/core/UndefinedTensorImpl.h>

#include <bit>

#include "support/error.h"
#include "torch/program/host.h"
#include "torch/record/host_args.h"

namespace escapement {

bool is_dressed_number(const c10::TensorImpl& impl) {
  if (!impl.is_wrapped_number()) return false;
  const c10::ScalarType type = c10::typeMetaToScalarType(impl.dtype());
  return type == c10::ScalarType::Double || type == c10::ScalarType::Long || type == c10::ScalarType::Bool;
}

c10::IValue number_in(const c10::TensorImpl& wrapped) {
  const void* data = wrapped.unsafe_storage().data();
  switch (c10::typeMetaToScalarType(wrapped.dtype())) {
    case c10::ScalarType::Double: return *static_cast<const double*>(data);
    case c10::ScalarType::Long: return *static_cast<const int64_t*>(data);
    default: return *static_cast<const bool*>(data);
  }
}

bool can_be_constant(const c10::IValue& v) {
  return v.isInt() || v.isDouble() || v.isBool() || v.isString() || v.isDevice() || v.isIntList() || v.isBoolList() ||
         v.isDoubleList();
}

namespace {

bool same_bits(double a, double b) { return std::bit_cast<int64_t>(a) == std::bit_cast<int64_t>(b); }

bool same_reals(const c10::IValue& a, const c10::IValue& b) {
  const auto x = a.toDoubleVector(), y = b.toDoubleVector();
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), same_bits);
}

}  // namespace

bool same_constant(const c10::IValue& a, const c10::IValue& b) {
  if (a.isInt()) return b.isInt() && a.toInt() == b.toInt();
  if (a.isBool()) return b.isBool() && a.toBool() == b.toBool();
  if (a.isDouble()) return b.isDouble() && same_bits(a.toDouble(), b.toDouble());
  if (a.isString()) return b.isString() && a.toStringRef() == b.toStringRef();
  if (a.isDevice()) return b.isDevice() && a.toDevice() == b.toDevice();
  if (a.isIntList()) return b.isIntList() && a.toIntVector() == b.toIntVector();
  if (a.isBoolList()) return b.isBoolList() && a.toBoolList() == b.toBoolList();
  if (a.isDoubleList()) return b.isDoubleList() && same_reals(a, b);
  return false;
}

// --- matching

bool Segment::is_produced(const c10::TensorImpl* impl) const { return produced_number(impl).has_value(); }

std::optional<uint32_t> Segment::produced_number(const c10::TensorImpl* impl) const {
  for (size_t i = produced_.size(); i-- > 0;)
    if (produced_[i] == impl) return static_cast<uint32_t>(i);
  return {};
}

std::optional<uint32_t> Segment::external_number(const c10::TensorImpl* impl) const {
  for (size_t i = 0; i < externals_.size(); ++i)
    if (externals_[i].unsafeGetTensorImpl() == impl) return static_cast<uint32_t>(i);
  return {};
}

bool Segment::matches_fresh(const Pattern& pattern, const c10::TensorImpl& impl, bool recording) {
  if (!pattern.form.holds(impl) || (recording && is_produced(&impl))) return false;
  pattern.form.read(impl, table_.data() + pattern.slot);
  if (outside_.size() <= pattern.index) outside_.resize(pattern.index + 1);
  outside_[pattern.index] = &impl;
  return true;
}

bool Segment::takes(const Pattern& pattern, double number) {
  if (pattern.kind != Pattern::Kind::any_real) return false;
  if (reals_.size() <= pattern.index) reals_.resize(pattern.index + 1);
  return reals_[pattern.index] = number, true;
}

bool Segment::matches_number(const Pattern& pattern, const c10::TensorImpl& impl) {
  if (!is_dressed_number(impl)) return false;
  const c10::IValue number = number_in(impl);
  if (pattern.kind == Pattern::Kind::number) return same_constant(pattern.value, number);
  if (pattern.integer ? !number.isInt() : !number.isDouble()) return false;
  if (pattern.integer) return table_[pattern.index] = number.toInt(), true;
  if (reals_.size() <= pattern.index) reals_.resize(pattern.index + 1);
  return reals_[pattern.index] = number.toDouble(), true;
}

// Neither of this segment nor known.
bool Segment::matches_other(const Pattern& pattern, const c10::TensorImpl& impl, bool recording) {
  switch (pattern.kind) {
    case Pattern::Kind::fresh: return matches_fresh(pattern, impl, recording);
    case Pattern::Kind::absent: return &impl == c10::UndefinedTensorImpl::singleton();
    case Pattern::Kind::number:
    case Pattern::Kind::any_number: return matches_number(pattern, impl);
    default: return false;
  }
}

bool Segment::matches_list(const Pattern& pattern, const c10::IValue& value, bool recording) {
  const auto each = [&](size_t size, const auto& at) {
    if (size != pattern.items.size()) return false;
    for (size_t i = 0; i < size; ++i)
      if (!matches(pattern.items[i], at(i), recording)) return false;
    return true;
  };
  if (value.isTensorList()) {
    const auto list = value.toTensorList();
    return each(list.size(), [&](size_t i) { return c10::IValue(static_cast<at::Tensor>(list[i])); });
  }
  if (value.isIntList()) {
    const auto list = value.toIntList();
    return each(list.size(), [&](size_t i) { return c10::IValue(static_cast<int64_t>(list[i])); });
  }
  if (!value.isOptionalTensorList()) return false;
  const auto list = value.toOptionalTensorVector();
  return each(list.size(), [&](size_t i) { return list[i] ? c10::IValue(*list[i]) : c10::IValue(); });
}

bool Segment::matches(const Pattern& pattern, const c10::IValue& value, bool recording) {
  if (value.isTensor()) return matches(pattern, *value.toTensor().unsafeGetTensorImpl(), recording);
  switch (pattern.kind) {
    case Pattern::Kind::absent: return value.isNone();
    case Pattern::Kind::constant: return same_constant(pattern.value, value);
    case Pattern::Kind::integer:
    case Pattern::Kind::negative: return value.isInt() && takes(pattern, value.toInt());
    case Pattern::Kind::any_real: return value.isDouble() && takes(pattern, value.toDouble());
    case Pattern::Kind::list: return matches_list(pattern, value, recording);
    default: return false;
  }
}

bool Segment::matches(const StreamNode& node, const c10::IValue* arguments, bool recording) {
  begin_match();
  for (const Pattern& pattern : node.arguments)
    if (!matches(pattern, *arguments++, recording)) return false;
  return holds(node);
}

void Segment::keep_outside(size_t count) {
  for (size_t i = externals_.size(); i < count; ++i)
    externals_.emplace_back(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(const_cast<c10::TensorImpl*>(outside_[i])));
}

void Segment::clear() {
  nodes_.clear();
  kept_gradients_.clear();
  produced_.clear();
  outside_.clear();
  externals_.clear();
  reals_.clear();
}

// --- the arguments again

c10::IValue Segment::argument(const Pattern& pattern, const std::vector<at::Tensor>& produced) const {
  switch (pattern.kind) {
    case Pattern::Kind::produced: return produced[pattern.index];
    case Pattern::Kind::known:
    case Pattern::Kind::fresh: return externals_[pattern.index];
    case Pattern::Kind::absent:
    case Pattern::Kind::constant: return pattern.value;
    case Pattern::Kind::number: return wrap_scalar(pattern.value.toScalar());
    case Pattern::Kind::any_number:
      return wrap_scalar(pattern.integer ? c10::Scalar(table_[pattern.index]) : c10::Scalar(reals_[pattern.index]));
    case Pattern::Kind::any_real: return reals_[pattern.index];
    case Pattern::Kind::integer: return table_[pattern.index];
    case Pattern::Kind::negative: return -table_[pattern.index];
    case Pattern::Kind::list: return list_argument(pattern, produced);
  }
  return {};
}

// `value` holds a list of the same kind, which says what the items are.
c10::IValue Segment::list_argument(const Pattern& pattern, const std::vector<at::Tensor>& produced) const {
  if (pattern.value.isIntList()) {
    c10::List<int64_t> out;
    for (const Pattern& item : pattern.items) out.push_back(argument(item, produced).toInt());
    return out;
  }
  if (pattern.value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const Pattern& item : pattern.items) out.push_back(argument(item, produced).toTensor());
    return out;
  }
  c10::List<std::optional<at::Tensor>> out;
  for (const Pattern& item : pattern.items) {
    const c10::IValue value = argument(item, produced);
    out.push_back(value.isTensor() ? std::optional<at::Tensor>(value.toTensor()) : std::nullopt);
  }
  return out;
}

std::vector<c10::IValue> Segment::arguments_of(const StreamNode& node, const std::vector<at::Tensor>& produced) const {
  std::vector<c10::IValue> out;
  for (const Pattern& pattern : node.arguments) out.push_back(argument(pattern, produced));
  return out;
}

std::vector<Argument> Segment::inputs(std::vector<at::Tensor>& held) const {
  std::vector<Argument> out;
  size_t count = 0;
  for (const StreamNode* node : nodes_) count += node->inputs.size();
  out.reserve(count);
  if (!reals_.empty()) held.reserve(count);   // pointers into it are handed out
  for (const StreamNode* node : nodes_) {
    for (const SegmentInput& input : node->inputs) {
      Argument& argument = out.emplace_back();
      if (input.kind == SegmentInput::Kind::integer) argument.integer = table_[input.index];
      if (input.kind == SegmentInput::Kind::tensor) argument.tensor = &externals_[input.index];
      if (input.kind == SegmentInput::Kind::real) {
        held.push_back(new_tensor({}, {}, caffe2::TypeMeta::Make<double>()));
        *static_cast<double*>(held.back().unsafeGetTensorImpl()->unsafe_storage().mutable_data()) = reals_[input.index];
        argument.tensor = &held.back();
      }
    }
  }
  return out;
}

}  // namespace escapement
