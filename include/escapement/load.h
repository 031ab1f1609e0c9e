// Programs that Python exported (torch.export.save), for C++ programs that embed LibTorch: no Python, and nothing in the
// file is executed.
//
//   escapement::Module model = escapement::load("model.pt2");
//   at::Tensor y = model({x})[0];        // the first call records the program; other sizes run the same code
//
// Inputs are flat: the leaves of what the program was exported with, in order; arguments that were no tensors and no symbols
// are constants of the program and are not passed. Each call is checked against the exported dtypes, sizes and ranges; a
// declared lower bound of 2 admits 0 and 1, as in PyTorch. Buffers that the program changes are changed in the module.
// Gradients are not computed.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <string>
#include <vector>

#include "escapement/escapement.h"

namespace escapement {

class ESCAPEMENT_API Module {
 public:
  ~Module();
  Module(Module&&) noexcept;
  Module& operator=(Module&&) noexcept;

  // Tensors in, tensors out (undefined ones for None). CPU tensors of the exported dtypes and ranks. Throws
  // std::runtime_error that names the input, dim, expectation and the value seen where a call does not fit; what ATen throws
  // (c10::Error) otherwise. Any number of threads may call.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& inputs) const;

  // The same for programs that take or return integers, too: an input is a tensor or an integer, a result those or a real
  // number, a truth value or None.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs) const;

  const std::vector<std::string>& input_names() const;   // in order of the inputs

  // What was compiled, as JSON: versions, kernels with their operators, library calls, guards, symbols, timings, fallbacks.
  std::string explain() const;

 private:
  friend ESCAPEMENT_API Module load(const std::string& path, const OptionList& options);
  struct Impl;
  explicit Module(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Reads an archive of PyTorch 2.13's torch.export.save. Throws std::runtime_error that names the file, the cause and the
// remedy for a file that cannot be read, is damaged or holds what is not supported; std::invalid_argument for an unknown
// option.
ESCAPEMENT_API Module load(const std::string& path, const OptionList& options = {});

}  // namespace escapement
