// Every tensor of a value, with those in lists.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

namespace escapement {

template <class Visit>
void each_tensor_of(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) return visit(value.toTensor());
  if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  } else if (value.isOptionalTensorList()) {
    for (const auto& tensor : value.toOptionalTensorVector())
      if (tensor) visit(*tensor);
  }
}

// Among real results, in order; `visit` may replace it.
template <class Visit>
void replace_each_tensor(c10::IValue& v, const Visit& visit) {
  if (v.isTensor()) {
    v = visit(v.toTensor());
  } else if (v.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : v.toTensorVector()) out.push_back(visit(t));
    v = out;
  }
}

}  // namespace escapement
