// See left_over.h.
#include "torch/record/left_over.h"

#include <algorithm>

#include "torch/record/wrapper.h"

namespace escapement {
namespace {

const Wrapper* left_over(const Tape& tape, const at::Tensor& tensor) {
  const Wrapper* const wrapper = Wrapper::of(tensor);
  return wrapper && &wrapper->tape() != &tape && !wrapper->tape().live() && !tensor.requires_grad() ? wrapper : nullptr;
}

template <class Replace>
void replace_in(c10::IValue& value, const Replace& replacement) {
  if (value.isTensor()) {
    const at::Tensor now = replacement(value.toTensor());
    if (!now.is_same(value.toTensor())) value = now;
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    bool changed = false;
    for (const at::Tensor& item : value.toTensorVector()) {
      list.push_back(replacement(item));
      changed = changed || !list.get(list.size() - 1).is_same(item);
    }
    if (changed) value = list;
  }
}

}  // namespace

LeftOver::LeftOver(const Tape* tape, std::span<c10::IValue> arguments) {
  if (!tape || !tape->live()) return;
  for (c10::IValue& argument : arguments) {
    replace_in(argument, [&](const at::Tensor& tensor) {
      const Wrapper* const wrapper = left_over(*tape, tensor);
      if (wrapper) replaced_.emplace_back(tensor, wrapper->inner());
      return wrapper ? wrapper->inner() : tensor;
    });
  }
}

void LeftOver::put_back(std::span<c10::IValue> results) const {
  if (replaced_.empty()) return;
  for (c10::IValue& result : results) {
    replace_in(result, [&](const at::Tensor& real) {
      const auto known = std::find_if(replaced_.begin(), replaced_.end(), [&](const auto& pair) { return pair.second.is_same(real); });
      return known == replaced_.end() ? real : known->first;
    });
  }
}

}  // namespace escapement
