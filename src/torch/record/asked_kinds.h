// What a program asks of the kind of tensor that it was given: whether it is a view and of what, whether it requires gradients and where it
// stands in their graph, how often it was written, whether it was made in inference mode. torch answers all that without the dispatcher.
//
// All but the last go by way of torch's VariableHooks, or of a method of AutogradMeta. Ours stand before torch's and answer a wrapper as eager
// would its tensor. An answer about an argument that another call can be held to becomes an ArgumentKind of the recording, which then serves
// such arguments only; any other (the base of a view that was given, a count of its writes, a node of the graph) ends the recording. What the
// program made itself is of the same kind at every call.
//
// is_inference() reads the tensor's own bits and nobody can notice. So where a host may ask, a version is for arguments of the kind that it
// was recorded with (`inference_of`).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace escapement {

class Wrapper;

struct ArgumentKind {
  enum class Question : uint8_t { view, inference, requires_grad, has_node, has_grad };
  uint32_t input = 0;
  Question question = Question::view;
  bool answer = false;

  bool holds(const at::Tensor& real) const { return is(question, real) == answer; }
  static bool is(Question question, const at::Tensor& real);
  std::string text() const;   // "is a view", "is no view"
};

void install_kind_questions();                       // once per process; idempotent
bool ask_view(const Wrapper& tensor);                // whether it is one, as `_is_view()` and `detach_()` want to know
void watch_kind(Wrapper& tensor);                    // an argument, or a view: its gradient's questions are asked of us
// Whether the program has set the wrapper's flag to something else than its tensor's, which is no question; and to what.
std::optional<bool> requested_gradient(const Wrapper& wrapper);

}  // namespace escapement
