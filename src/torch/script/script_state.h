// The attributes of a TorchScript module, of the modules and objects in it, and the constants of one of its methods, as the object that a
// ModuleWatch compares: a list of what they are at the moment (kinds, tensors and objects by identity, numbers and texts by value).
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/nn/module.h>

#include <vector>

#include "torch/api/listing.h"

namespace escapement {

class ScriptState : public torch::nn::Module {
 public:
  ScriptState(c10::intrusive_ptr<c10::ivalue::Object> object, std::vector<at::Tensor> constants);
  void list(Listing& into) const;

 private:
  c10::intrusive_ptr<c10::ivalue::Object> object_;
  std::vector<at::Tensor> constants_;
};

}  // namespace escapement
