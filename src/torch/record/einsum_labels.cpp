// See einsum_labels.h.
#include "torch/record/einsum_labels.h"

#include <ATen/ops/einsum.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>

#include "torch/record/seen_layout.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

constexpr const char* kBecause = "which labels of einsum are of one element decides how its result lies";
constexpr size_t kMost = 5;   // sizes that may be 1, of which all choices are tried
constexpr int64_t kFirst = 3;

class Ones {
 public:
  Ones(Tape& tape, std::span<const c10::IValue> arguments) : tape_(tape), dims_(tape.dims()), equation_(arguments[0].toStringRef()) {
    for (const at::Tensor& operand : arguments[1].toTensorVector()) {
      operands_.push_back(operand);
      for (const Dim size : type_of(operand).sizes) add(size);
    }
  }

  bool matter(const at::Tensor& result) {
    const Wrapper* const wrapper = Wrapper::of(result);
    if (open_.empty() || wrapper == nullptr || !wrapper->value()) return false;
    if (open_.size() > kMost) return true;
    const TensorType claimed = tape_.trace().type(wrapper->value());
    for (uint32_t ones = 0; ones < (1U << open_.size()); ++ones)
      if (!holds(claimed, values(ones))) return true;
    return false;
  }

  // Where axes are sorted, strides of axes of one element are looked at, too.
  void hold_strides_of_inputs() {
    for (const at::Tensor& operand : operands_)
      if (const Wrapper* const wrapper = Wrapper::of(operand); wrapper && wrapper->value() && !open_.empty())
        hold_strides_of_input(tape_, tape_.trace().type(wrapper->value()).root, kBecause);
  }

  void hold() {
    for (const Dim size : open_) {
      if (dims_.hint(size) == std::optional<int64_t>(1)) tape_.guard_relation(Guard::Kind::equal, size, dims_.constant(1), true, kBecause);
      else tape_.guard_relation(Guard::Kind::less, dims_.constant(1), size, true, kBecause);
    }
  }

 private:
  // Of a tensor that is no wrapper all sizes are constants.
  TensorType type_of(const at::Tensor& operand) {
    if (const Wrapper* const wrapper = Wrapper::of(operand); wrapper && wrapper->value()) return tape_.trace().type(wrapper->value());
    TensorType type;
    for (const int64_t size : operand.sizes()) type.sizes.push_back(dims_.constant(size));
    for (const int64_t stride : operand.strides()) type.strides.push_back(dims_.constant(stride));
    return type;
  }

  void add(Dim size) {
    const Dim named = dims_.canonical(size);
    const bool open = dims_.as_symbol(named) && dims_.hint(named).value_or(0) > 0 && dims_.less(dims_.constant(1), named) != Truth::yes;
    if (open && std::ranges::find(open_, named) == open_.end()) open_.push_back(named);
  }

  std::vector<int64_t> values(uint32_t ones) const {
    std::vector<int64_t> found;
    for (uint32_t i = 0; i < dims_.symbol_count(); ++i) {
      const Dim dim = dims_.of(Symbol{i}), named = dims_.canonical(dim);
      const auto at = static_cast<size_t>(std::ranges::find(open_, named) - open_.begin());
      if (at == open_.size()) found.push_back(dims_.hint(dim).value_or(kFirst));
      else found.push_back((ones >> at & 1) != 0 ? 1 : kFirst + static_cast<int64_t>(at));
    }
    return found;
  }

  at::Tensor without_memory(const at::Tensor& operand, const std::vector<int64_t>& symbols) {
    const TensorType type = type_of(operand);
    const auto at = [&](const std::vector<Dim>& list) {
      std::vector<int64_t> numbers;
      for (const Dim dim : list) numbers.push_back(dims_.evaluate(dim, symbols));
      return numbers;
    };
    return at::empty_strided(at(type.sizes), at(type.strides), operand.options().device(at::kMeta).requires_grad(false));
  }

  // What cannot be tried does not hold.
  bool holds(const TensorType& claimed, const std::vector<int64_t>& symbols) {
    const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
    std::vector<at::Tensor> tried;
    at::Tensor eager;
    try {
      for (const at::Tensor& operand : operands_) tried.push_back(without_memory(operand, symbols));
      eager = at::einsum(equation_, tried);
    } catch (const std::exception&) {
      return false;
    }
    if (eager.dim() != claimed.rank()) return false;
    for (int axis = 0; axis < claimed.rank(); ++axis) {
      if (eager.size(axis) != dims_.evaluate(claimed.sizes[axis], symbols)) return false;
      if (eager.size(axis) > 1 && eager.stride(axis) != dims_.evaluate(claimed.strides[axis], symbols)) return false;
    }
    return true;
  }

  Tape& tape_;
  DimTable& dims_;
  const std::string equation_;
  std::vector<at::Tensor> operands_;
  std::vector<Dim> open_;   // sizes of arguments that may be 1
};

}  // namespace

void hold_labels_that_decide(Tape& tape, std::span<const c10::IValue> arguments, const c10::IValue& result) {
  Ones ones(tape, arguments);
  if (ones.matter(result.toTensor())) ones.hold();
  ones.hold_strides_of_inputs();
}

}  // namespace escapement
