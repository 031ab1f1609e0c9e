// See flow.h.
#include "torch/record/flow.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <algorithm>

#include "support/error.h"
#include "torch/record/lower.h"
#include "torch/record/symnode.h"

namespace escapement {
namespace {

using Values = Flow::Values;

bool truth_of(const c10::IValue& value) {
  if (!value.isTensor()) return value.isBool() ? value.toBool() : value.toInt() != 0;
  const at::Tensor& tensor = value.toTensor();
  TORCH_CHECK(tensor.numel() == 1, "a condition must be a boolean scalar tensor or a boolean, got ", tensor.numel(), " elements");
  return tensor.item().toBool();
}

bool shares_memory(const at::Tensor& a, const c10::IValue& b) {
  return a.defined() && a.has_storage() && b.isTensor() && b.toTensor().defined() && b.toTensor().has_storage() &&
         a.storage().is_alias_of(b.toTensor().storage());
}

// As a result of the operator: a tensor whose memory is nobody else's.
at::Tensor own(const c10::IValue& value, const Values& arguments, std::span<const at::Tensor> earlier) {
  if (value.isInt()) return at::scalar_tensor(value.toInt(), at::kLong);
  if (!value.isTensor() || !value.toTensor().defined()) return {};
  const at::Tensor& tensor = value.toTensor();
  bool shared = std::any_of(arguments.begin(), arguments.end(), [&](const c10::IValue& other) { return shares_memory(tensor, other); });
  for (const at::Tensor& other : earlier) shared = shared || shares_memory(tensor, other);
  return shared ? tensor.clone() : tensor;
}

// What one output of all steps is gathered in: made by the first step.
void store(at::Tensor& all, const c10::IValue& value, int64_t step, int64_t count) {
  TORCH_CHECK(value.isTensor() && value.toTensor().defined(), "the body of a map or scan must return tensors");
  const at::Tensor& one = value.toTensor();
  if (!all.defined()) {
    std::vector<int64_t> sizes = one.sizes().vec();
    sizes.insert(sizes.begin(), count);
    all = at::empty(sizes, one.options().memory_format(at::MemoryFormat::Contiguous));
  }
  TORCH_CHECK(all.sizes().slice(1) == one.sizes() && all.scalar_type() == one.scalar_type(),
              "stack expects each tensor to be equal size, but got ", all.sizes().slice(1), " at entry 0 and ", one.sizes(),
              " at entry ", step);
  all.select(0, step).copy_(one);
}

std::vector<at::Tensor> kernel(const c10::IValue& flow, std::span<const at::Tensor> tensors, std::span<const int64_t> numbers) {
  return static_cast<const Flow&>(*flow.toCapsule()).run(tensors, numbers);
}

void boxed_kernel(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::IValue numbers = torch::jit::pop(*stack);
  const std::vector<at::Tensor> tensors = torch::jit::pop(*stack).toTensorVector();
  const c10::IValue flow = torch::jit::pop(*stack);
  std::vector<int64_t> plain;
  for (const c10::SymInt& number : numbers.toSymIntVector()) plain.push_back(number.guard_int(__FILE__, __LINE__));
  torch::jit::push(*stack, c10::List<at::Tensor>(kernel(flow, tensors, plain)));
}

}  // namespace

template <class T>
std::vector<T> Flow::in_order(std::span<const T> tensors, std::span<const T> numbers) const {
  std::vector<T> all;
  size_t tensor = 0, number = 0;
  for (const bool is_tensor : is_tensor_) all.push_back(is_tensor ? tensors[tensor++] : numbers[number++]);
  return all;
}

std::vector<at::Tensor> Flow::run(std::span<const at::Tensor> tensors, std::span<const int64_t> numbers) const {
  const Values boxed_tensors(tensors.begin(), tensors.end()), boxed_numbers(numbers.begin(), numbers.end());
  const Values arguments = in_order<c10::IValue>(boxed_tensors, boxed_numbers);
  const Values outputs = kind_ == Kind::branch ? branch(arguments) : kind_ == Kind::loop ? loop(arguments) : steps(arguments);
  if (pure_ && (effects().writes_arguments || effects().other))
    throw InternalError("the body of a higher-order operator has effects that its graph does not show");
  std::vector<at::Tensor> results;
  for (const c10::IValue& output : outputs) results.push_back(own(output, arguments, results));
  return results;
}

Values Flow::branch(const Values& arguments) const {
  Values outputs;
  bodies_[truth_of(arguments[0]) ? 0 : 1]->call(Values(arguments.begin() + 1, arguments.end()), outputs);
  return outputs;
}

Values Flow::loop(const Values& arguments) const {
  Values values = arguments;
  for (;;) {
    Values condition, outputs;
    bodies_[0]->call(values, condition);
    if (truth_of(condition.at(0))) bodies_[1]->call(values, outputs);
    else return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(leading_)};
    TORCH_CHECK(outputs.size() == leading_, "body_fn should return the same number of elements as carried_inputs, got ", outputs.size(),
                " vs ", leading_);
    std::move(outputs.begin(), outputs.end(), values.begin());
  }
}

Values Flow::steps(const Values& arguments) const {
  const size_t first = first_sliced();
  const int64_t count = arguments[first].toTensor().size(0);
  TORCH_CHECK(count > 0, "the dimension that is mapped or scanned over must not be 0");
  Values values = arguments;
  std::vector<at::Tensor> gathered;
  for (int64_t step = 0; step < count; ++step) {
    for (size_t i = first; i < first + sliced(); ++i) values[i] = arguments[i].toTensor().select(0, step);
    Values outputs;
    bodies_[0]->call(values, outputs);
    gathered.resize(outputs.size() - carried());
    for (size_t i = 0; i < gathered.size(); ++i) store(gathered[i], outputs[carried() + i], step, count);
    std::move(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(carried()), values.begin());
  }
  Values results(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(carried()));
  results.insert(results.end(), gathered.begin(), gathered.end());
  return results;
}

BodyEffects Flow::effects() const {
  BodyEffects all{false, false};
  for (const auto& body : bodies_) {
    const BodyEffects own = body->effects().value_or(BodyEffects{!pure_, !pure_});
    all.writes_arguments |= own.writes_arguments;
    all.other |= own.other;
  }
  return all;
}

// --- sizes

std::vector<std::vector<Dim>> Flow::result_sizes(DimTable& dims, std::span<const std::vector<Dim>> tensors, std::span<const Dim> numbers) const {
  std::vector<std::vector<Dim>> boxed;
  for (const Dim number : numbers) boxed.push_back({number});
  std::vector<std::vector<Dim>> arguments = in_order<std::vector<Dim>>(tensors, boxed);
  if (kind_ == Kind::loop) return {arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(leading_)};
  if (kind_ == Kind::branch) return bodies_[0]->output_sizes(dims, std::span(arguments).subspan(1));
  const Dim count = arguments[first_sliced()].at(0);
  for (size_t i = first_sliced(); i < first_sliced() + sliced(); ++i) arguments[i].erase(arguments[i].begin());
  std::vector<std::vector<Dim>> results = bodies_[0]->output_sizes(dims, arguments);
  for (size_t i = 0; i < results.size(); ++i) {
    if (i < carried()) results[i] = arguments[i];
    else results[i].insert(results[i].begin(), count);
  }
  return results;
}

const Flow* flow_of(const OpCall& call) {
  return call.plan.name == "escapement::flow" ? static_cast<const Flow*>(call.args[0].toCapsule().get()) : nullptr;
}

std::vector<std::vector<Dim>> flow_sizes(OpCall& call, const Flow& flow) {
  std::vector<std::vector<Dim>> tensors;
  for (const ValueId value : call.values) tensors.push_back(call.type(value).sizes);
  std::vector<Dim> numbers;
  for (const c10::SymInt& number : call.args[2].toSymIntVector()) numbers.push_back(call.tape.dim_of(number));
  return flow.result_sizes(call.table(), tensors, numbers);
}

// --- the operator

void install_flow() {
  static const auto library = [] {
    auto lib = std::make_unique<torch::Library>(torch::Library::FRAGMENT, "escapement", std::nullopt, __FILE__, static_cast<uint32_t>(__LINE__));
    lib->def("flow(Capsule flow, Tensor[] tensors, SymInt[] numbers) -> Tensor[]");
    lib->impl("flow", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, torch::CppFunction::makeFromBoxedFunction<&boxed_kernel>()));
    // A mode written in Python sees what the bodies call; a flow is nothing that it could be handed.
    for (const auto key : {c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot})
      lib->impl("flow", torch::dispatch(key, torch::CppFunction::makeFallthrough()));
    return lib;
  }();
}

namespace {

c10::SymInt number_of(const c10::IValue& value) {
  if (value.isBool()) return static_cast<int64_t>(value.toBool());
  return value.isSymBool() ? truth_number(value.toSymBool()) : value.toSymInt();
}

}  // namespace

std::vector<at::Tensor> call_flow(c10::intrusive_ptr<Flow> flow, std::span<const c10::IValue> arguments) {
  c10::List<at::Tensor> tensors;
  std::vector<c10::SymInt> numbers;
  for (const c10::IValue& argument : arguments) {
    if (argument.isTensor()) tensors.push_back(argument.toTensor());
    else numbers.push_back(number_of(argument));
  }
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("escapement::flow", "");
  torch::jit::Stack stack{c10::IValue::make_capsule(std::move(flow)), std::move(tensors), c10::IValue(numbers)};
  op.callBoxed(stack);
  return stack[0].toTensorVector();
}

}  // namespace escapement
