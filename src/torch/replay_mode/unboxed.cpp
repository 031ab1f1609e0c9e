// See unboxed.h.
#include "torch/replay_mode/unboxed.h"

#include <ATen/Operators.h>
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <type_traits>
#include <vector>

#include "torch/record/recorder_fallback.h"
#include "torch/record/recorder_tape.h"
#include "torch/replay_mode/call.h"

namespace escapement {
namespace {

template <class Signature>
class UnboxedKernel;

// The result is a new tensor, or an argument.
template <class... Args>
class UnboxedKernel<at::Tensor(Args...)> final : public c10::OperatorKernel {
 public:
  explicit UnboxedKernel(c10::OperatorHandle op) : op_(std::move(op)) {}

  at::Tensor operator()(Args... args) {
    if (ReplayCall* const call = ReplayCall::current()) [[likely]] {
      if (at::Tensor result = call->match_unboxed(op_, args...); result.defined()) [[likely]] return result;
    }
    static const c10::BoxedKernel boxed = fallback_kernel();
    return c10::impl::BoxedKernelWrapper<at::Tensor(Args...)>::call(boxed, op_, c10::DispatchKeySet(), std::forward<Args>(args)...);
  }

 private:
  const c10::OperatorHandle op_;
};

// An operator that writes to its first argument and returns it.
template <class... Args>
class UnboxedKernel<at::Tensor&(at::Tensor&, Args...)> final : public c10::OperatorKernel {
 public:
  explicit UnboxedKernel(c10::OperatorHandle op) : op_(std::move(op)) {}

  at::Tensor& operator()(at::Tensor& self, Args... args) {
    if (ReplayCall* const call = ReplayCall::current()) [[likely]] {
      if (call->match_unboxed(op_, static_cast<const at::Tensor&>(self), args...).defined()) [[likely]] return self;
    }
    static const c10::BoxedKernel boxed = fallback_kernel();
    return c10::impl::BoxedKernelWrapper<at::Tensor&(at::Tensor&, Args...)>::call(boxed, op_, c10::DispatchKeySet(), self,
                                                                                 std::forward<Args>(args)...);
  }

 private:
  const c10::OperatorHandle op_;
};

using Registration = c10::RegistrationHandleRAII;

template <class Operator>
Registration installed() {
  using Kernel = UnboxedKernel<typename Operator::schema>;
  auto& dispatcher = c10::Dispatcher::singleton();
  auto kernel = std::make_unique<Kernel>(dispatcher.findSchemaOrThrow(Operator::name, Operator::overload_name));
  return dispatcher.registerImpl({Operator::name, Operator::overload_name}, kRecorderKey,
                                 c10::KernelFunction::makeFromUnboxedFunctor<true, Kernel>(std::move(kernel)),
                                 c10::impl::CppSignature::make<typename Operator::schema>(), nullptr, "escapement");
}

}  // namespace

void install_unboxed() {
  // Never taken back: operators may come until the very end of the process.
  static const auto* const registrations = [] {
    auto* all = new std::vector<Registration>();
#define OPERATOR(name) all->push_back(installed<at::_ops::name>());
#include "torch/replay_mode/unboxed.def"
#undef OPERATOR
    return all;
  }();
  static_cast<void>(registrations);
}

}  // namespace escapement
