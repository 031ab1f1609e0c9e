// See einsum_labels.h.
#include "torch/record/einsum_labels.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cmath>

#include "torch/record/seen_layout.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

constexpr const char* kBecause = "which labels of einsum are of one element decides how its result lies";
constexpr size_t kMost = 5;       // sizes that may be 1, of which all choices are tried
constexpr int64_t kFirst = 3;     // sizes that are no constants are small numbers, each its own
constexpr double kWork = 1e7;     // multiplications of a try

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
    try {
      return shows(tape_.trace().type(wrapper->value()));
    } catch (const UserError&) {   // small numbers are no such sizes: a division of a size that is put together
      return true;
    }
  }

  // Where axes are sorted, strides of axes of one element are looked at, too.
  void hold_strides_of_inputs() {
    for (const at::Tensor& operand : operands_)
      if (const Wrapper* const wrapper = Wrapper::of(operand); wrapper && wrapper->value() && !open_.empty())
        hold_strides_of_input(tape_, tape_.trace().type(wrapper->value()).root, kBecause);
  }

  void hold() {
    for (const Dim size : open_) {
      const int64_t now = *dims_.hint(size);
      if (now < 2) tape_.guard_relation(Guard::Kind::equal, size, dims_.constant(now), true, kBecause);
      else tape_.guard_relation(Guard::Kind::less, dims_.constant(1), size, true, kBecause);
    }
  }

 private:
  bool shows(const TensorType& claimed) {
    if (work(claimed) > kWork) return true;
    for (uint32_t ones = 0; ones < (1U << open_.size()); ++ones)
      if (!holds(claimed, values(ones))) return true;
    return false;
  }

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
    if (!dims_.as_symbol(named) || !dims_.hint(named) || std::ranges::find(named_, named) != named_.end()) return;
    named_.push_back(named);
    if (dims_.less(dims_.constant(1), named) != Truth::yes) open_.push_back(named);
  }

  std::vector<int64_t> values(uint32_t ones) const {
    std::vector<int64_t> found;
    for (uint32_t i = 0; i < dims_.symbol_count(); ++i) {
      const Dim dim = dims_.of(Symbol{i}), size = dims_.canonical(dim);
      const auto named = std::ranges::find(named_, size), open = std::ranges::find(open_, size);
      if (named == named_.end()) found.push_back(dims_.hint(dim).value_or(kFirst));
      else if (open != open_.end() && (ones >> (open - open_.begin()) & 1) != 0) found.push_back(1);
      else found.push_back(kFirst + (named - named_.begin()));
    }
    return found;
  }

  // Of a matrix product the root of the product of all numbers of elements.
  double work(const TensorType& result) {
    const std::vector<int64_t> symbols = values(0);
    double product = 1;
    const auto take = [&](const TensorType& type) {
      for (const Dim size : type.sizes) product *= static_cast<double>(dims_.evaluate(size, symbols));
    };
    for (const at::Tensor& operand : operands_) take(type_of(operand));
    take(result);
    return std::sqrt(product);
  }

  // On the CPU, whatever the program's are on: tensors without memory would load a part of torch that is written in Python.
  at::Tensor stand_in(const at::Tensor& operand, const std::vector<int64_t>& symbols) {
    const TensorType type = type_of(operand);
    const auto at = [&](const std::vector<Dim>& list) {
      std::vector<int64_t> numbers;
      for (const Dim dim : list) numbers.push_back(dims_.evaluate(dim, symbols));
      return numbers;
    };
    return at::empty_strided(at(type.sizes), at(type.strides), at::TensorOptions(at::kCPU).dtype(operand.scalar_type())).zero_();
  }

  // What cannot be tried does not hold.
  bool holds(const TensorType& claimed, const std::vector<int64_t>& symbols) {
    const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
    const at::NoGradGuard without_gradients;
    std::vector<at::Tensor> tried;
    at::Tensor eager;
    try {
      for (const at::Tensor& operand : operands_) tried.push_back(stand_in(operand, symbols));
      eager = at::einsum(equation_, tried);
    } catch (const std::exception&) {
      return false;
    }
    if (eager.dim() != claimed.rank() || dtype_of(eager.scalar_type()) != claimed.dtype) return false;   // autocast knows matrix products, not sums
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
  std::vector<Dim> named_, open_;   // sizes of arguments that are no constants, and of these, that may be 1
};

}  // namespace

void hold_labels_that_decide(Tape& tape, std::span<const c10::IValue> arguments, const c10::IValue& result) {
  Ones ones(tape, arguments);
  if (ones.matter(result.toTensor())) ones.hold();
  ones.hold_strides_of_inputs();
}

}  // namespace escapement
