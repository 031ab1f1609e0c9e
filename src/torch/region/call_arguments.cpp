// See call_arguments.h.
#include "torch/region/call_arguments.h"

#include "torch/record/recorder_tape.h"

namespace escapement {

Pinned Pinned::of(std::span<const c10::IValue> arguments) {
  Pinned found;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].isDouble() || arguments[i].isBool()) found.seen_.emplace_back(i, ArgumentList::number(arguments[i]));
  }
  return found;
}

std::string form_of(std::span<const c10::IValue> arguments) {
  std::string text(1, at::GradMode::is_enabled() ? 'g' : 'n');
  for (const c10::IValue& value : arguments) {
    if (!value.isTensor()) {
      text += value.tagKind();
      continue;
    }
    const at::Tensor& tensor = value.toTensor();
    if (!is_plain(tensor)) {  // it may not be asked for its sizes
      text += " other";
      continue;
    }
    text += ' ' + std::to_string(static_cast<int>(tensor.scalar_type())) + ':' + std::to_string(tensor.dim());
    text += tensor.is_contiguous() ? 'c' : 's';
    if (!tensor.is_cpu()) text += '@' + tensor.device().str();
  }
  return text;
}

}  // namespace escapement
