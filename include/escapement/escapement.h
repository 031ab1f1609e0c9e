// Escapement for C++ programs that embed LibTorch: compile a function of tensors once, call it at any sizes. For programs exported by
// Python see load.h.
//
//   escapement::Function f([](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
//     return {at::softmax(at::matmul(in[0], in[1]), -1)};
//   });
//   at::Tensor y = f({a, b})[0];     // the first call runs the function and records it
//   y = f({c, d})[0];                // other sizes, same code
//
// What the function does besides calling ATen (host branches on sizes apart, which are guarded) must depend on its tensor
// arguments only: on later calls it does not run. Gradients: where grad mode is on and an argument requires grad, the function
// runs eagerly. All members may be called from any number of threads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "escapement/export.h"
#include "escapement/options.h"
#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

ESCAPEMENT_API const char* version();  // of the library: "0.1.0"; of the headers: version.h

// What the process has counted under a name: "recordings", "hits", "launches", "eager_calls", or a reason for eager calls
// ("gradient", "budget_used", ...). 0 for what never happened.
ESCAPEMENT_API int64_t counter(const std::string& name);

class ESCAPEMENT_API Function {
 public:
  using Body = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

  explicit Function(Body body, const OptionList& options = {}, std::string name = "function");
  ~Function();
  Function(Function&&) noexcept;
  Function& operator=(Function&&) noexcept;

  // Tensors of any strided CPU dtype and shape; results are eager's. Throws what the function throws, c10::Error included.
  std::vector<at::Tensor> operator()(const std::vector<at::Tensor>& arguments) const;

  // What was compiled, as JSON: versions, kernels with their operators, library calls, guards, symbols, timings, fallbacks.
  std::string explain() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace escapement
