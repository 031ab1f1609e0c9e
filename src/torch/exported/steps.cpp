// See steps.h.
#include "torch/exported/steps.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <optional>

#include "support/error.h"
#include "support/text.h"
#include "torch/exported/arguments.h"
#include "torch/exported/autocast_state.h"
#include "torch/exported/symbolic.h"

namespace escapement {

namespace {

using Values = GraphRunner::Values;
using Step = GraphRunner::Step;
using Kind = ExportedValue::Kind;

const ExportedValue* input_named(const ExportedNode& node, std::string_view name) {
  const auto found = std::find_if(node.inputs.begin(), node.inputs.end(),
      [&](const auto& input) { return input.first == name; });
  return found == node.inputs.end() ? nullptr : &found->second;
}

const ExportedValue& needed(const ExportedNode& node, std::string_view name) {
  if (const ExportedValue* value = input_named(node, name)) return *value;
  throw UserError("the argument " + quote(name) + " is missing");
}

c10::IValue number_of(const ExportedValue& value, const Values& values) {
  switch (value.kind) {
    case Kind::slot: return values[value.slot];
    case Kind::integer: return value.integer;
    case Kind::real: return value.real;
    case Kind::boolean: return value.integer != 0;
    default: return {};
  }
}

uint32_t only_output(const ExportedNode& node) {
  if (node.outputs.size() != 1 || node.outputs[0].kind != Kind::slot) throw UserError("one result is expected");
  return node.outputs[0].slot;
}

const at::Tensor& tensor_of(const ExportedValue& value, const Values& values) {
  if (value.kind != Kind::slot || !values[value.slot].isTensor()) throw UserError("expected a tensor");
  return values[value.slot].toTensor();
}

// --- operators of ATen and of libraries

class Call final : public Step {
 public:
  Call(const ExportedNode& node, c10::OperatorHandle op) : Step(node), op_(op) {
    const c10::FunctionSchema& schema = op_.schema();
    for (const auto& [input, value] : node.inputs) {
      if (!schema.argumentIndexWithName(input)) throw UserError("the operator has no argument " + quote(input));
    }
    for (const c10::Argument& formal : schema.arguments()) arguments_.push_back(plan(node, formal));
    check_outputs(schema);
    effect = schema.is_mutable() || op_.hasTag(at::Tag::nondeterministic_seeded);
  }

  void run(Values& values) const override {
    torch::jit::Stack stack;
    stack.reserve(arguments_.size());
    for (const ArgumentPlan& argument : arguments_) stack.push_back(argument.make(values));
    op_.callBoxed(stack);
    for (size_t i = 0; i < outputs.size(); ++i) store(outputs[i], std::move(stack[i]), values);
  }

 private:
  static ArgumentPlan plan(const ExportedNode& node, const c10::Argument& formal) {
    const ExportedValue* value = input_named(node, formal.name());
    try {
      if (value) return ArgumentPlan(*value, formal);
    } catch (const UserError& error) {
      throw UserError("the argument " + quote(formal.name()) + ": " + error.what());
    }
    if (!formal.default_value()) throw UserError("the argument " + quote(formal.name()) + " is missing");
    return ArgumentPlan::of_default(formal);
  }

  void check_outputs(const c10::FunctionSchema& schema) const {
    const auto& returns = schema.returns();
    if (outputs.size() > returns.size()) throw UserError("the operator has fewer results than the node");
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool list = returns[i].type()->kind() == c10::TypeKind::ListType;
      if (outputs[i].kind != Kind::none && (outputs[i].kind == Kind::list) != list)
        throw UserError("the operator has other results than the node");
    }
  }

  static void store(const ExportedValue& output, c10::IValue result, Values& values) {
    if (output.kind == Kind::slot) values[output.slot] = std::move(result);
    if (output.kind != Kind::list) return;
    const c10::ArrayRef<c10::IValue> items = result.toListRef();
    if (items.size() != output.items.size())
      throw UserError("it gives " + std::to_string(items.size()) + " results where the program was exported with " +
          std::to_string(output.items.size()));
    for (size_t i = 0; i < items.size(); ++i) store(output.items[i], items[i], values);
  }

  c10::OperatorHandle op_;
  std::vector<ArgumentPlan> arguments_;
};

// Opens files by a name: nothing that an archive may ask for.
constexpr std::string_view kForbidden[] = {"aten::from_file"};

// `tensor * size` is exported as mul.Tensor with an integer, which a tensor argument could hold only as a plain number: the
// Scalar overload, which means the same, keeps it a symbol.
std::optional<c10::OperatorHandle> scalar_overload(const ExportedNode& node, const c10::FunctionSchema& schema) {
  const bool given = std::any_of(schema.arguments().begin(), schema.arguments().end(), [&](const c10::Argument& formal) {
    const ExportedValue* value = input_named(node, formal.name());
    return value && value->is_number && is_tensor_argument(formal);
  });
  if (!given || schema.overload_name() != "Tensor") return {};
  const auto found = c10::Dispatcher::singleton().findSchema({schema.name(), "Scalar"});
  if (!found || found->schema().arguments().size() != schema.arguments().size()) return {};
  for (const c10::Argument& formal : found->schema().arguments()) {
    const ExportedValue* value = input_named(node, formal.name());
    if (value && value->is_number == is_tensor_argument(formal)) return {};
  }
  return found;
}

// "torch.ops.aten.add.Tensor" -> aten::add.Tensor
c10::OperatorHandle find_operator(const std::string& target) {
  static constexpr std::string_view kPrefix = "torch.ops.";
  const size_t overload = target.rfind('.'), name = target.find('.', kPrefix.size());
  if (!target.starts_with(kPrefix) || name == std::string::npos || overload <= name)
    throw UserError("the target is no operator of torch; operators of torch.ops and arithmetic on sizes are supported. `ep = ep.run_decompositions({})` "
                    "before torch.export.save replaces what torch.func and torch.vmap leave in a program by operators");
  const std::string space = target.substr(kPrefix.size(), name - kPrefix.size());
  const std::string full = space + "::" + target.substr(name + 1, overload - name - 1), which = target.substr(overload + 1);
  if (std::find(std::begin(kForbidden), std::end(kForbidden), full) != std::end(kForbidden))
    throw UserError("the operator opens files, which a loaded program may not");
  if (const auto found = c10::Dispatcher::singleton().findSchema({full, which == "default" ? "" : which})) return *found;
  throw UserError("the operator " + full + "." + which +
      " is not registered in this process: link the library that defines it" +
                  (space == "aten" ? ", or export the program with the version of PyTorch that is linked here" : ""));
}

std::unique_ptr<Step> make_call(const ExportedNode& node) {
  const c10::OperatorHandle op = find_operator(node.target);
  return std::make_unique<Call>(node, scalar_overload(node, op.schema()).value_or(op));
}

// --- arithmetic on sizes

class Arithmetic final : public Step {
 public:
  Arithmetic(const ExportedNode& node, const SymbolicOp& op) : Step(node), op_(op), output_(only_output(node)) {
    if (node.inputs.size() != op.arity) throw UserError(std::to_string(op.arity) + " arguments are expected");
    for (const auto& [name, value] : node.inputs) operands_.push_back(value);
  }

  void run(Values& values) const override {
    std::vector<c10::IValue> operands;
    for (const ExportedValue& operand : operands_) operands.push_back(number_of(operand, values));
    values[output_] = run_symbolic_op(op_, operands);
  }

 private:
  const SymbolicOp& op_;
  uint32_t output_;
  std::vector<ExportedValue> operands_;
};

// sym_size.int and its like: read from the tensor itself, without an ATen call to record.
class Metadata final : public Step {
 public:
  enum class What : uint8_t { size, stride, numel, offset };
  Metadata(const ExportedNode& node, What what) : Step(node), what_(what), output_(only_output(node)),
      tensor_(needed(node, "self")) {
    if (what_ > What::stride) return;
    const ExportedValue& dim = needed(node, "dim");
    if (dim.kind != Kind::integer) throw UserError("the argument \"dim\": expected an integer");
    dim_ = dim.integer;
  }

  void run(Values& values) const override {
    const at::Tensor& tensor = tensor_of(tensor_, values);
    values[output_] = read(tensor);
  }

 private:
  c10::IValue read(const at::Tensor& tensor) const {
    switch (what_) {
      case What::size: return tensor.sym_size(dim_);
      case What::stride: return tensor.sym_stride(dim_);
      case What::numel: return tensor.sym_numel();
      case What::offset: return tensor.sym_storage_offset();
    }
    return {};
  }

  What what_;
  uint32_t output_;
  ExportedValue tensor_;
  int64_t dim_ = 0;
};

// --- assertions

class Assertion final : public Step {
 public:
  explicit Assertion(const ExportedNode& node) : Step(node), truth_(needed(node, "self")) {
    if (const ExportedValue* message = input_named(node, "assert_msg"); message && message->kind == Kind::text)
      message_ = message->text;
  }

  void run(Values& values) const override {
    const c10::IValue truth = number_of(truth_, values);
    if (truth.isTensor() || truth.isNone()) throw UserError("expected a truth value");
    TORCH_CHECK(holds(truth), message_);
  }

 private:
  ExportedValue truth_;
  std::string message_ = "an assertion of the exported program failed";
};

// sym_constrain_range(size, *, min=None, max=None)
class RangeAssertion final : public Step {
 public:
  explicit RangeAssertion(const ExportedNode& node) : Step(node),
      size_(needed(node, input_named(node, "size") ? "size" : "self")) {
    least_ = bound(node, "min");
    most_ = bound(node, "max");
  }

  void run(Values& values) const override {
    const c10::IValue size = number_of(size_, values);
    const bool good = (!least_ || holds(at_least(size, *least_))) && (!most_ || holds(at_most(size, *most_)));
    TORCH_CHECK(good, "a value of the exported program (", name, ") is outside of the range ", least_
        ? std::to_string(*least_) : "-inf", "..",
                most_ ? std::to_string(*most_) : "inf", " that it was exported with");
  }

 private:
  static std::optional<int64_t> bound(const ExportedNode& node, const char* name) {
    const ExportedValue* value = input_named(node, name);
    if (!value || value->kind == Kind::none) return {};
    if (value->kind != Kind::integer) throw UserError("the argument " + quote(name) + ": expected an integer");
    return value->integer;
  }

  ExportedValue size_;
  std::optional<int64_t> least_, most_;
};

// _assert_tensor_metadata: dtype, device and layout follow from the inputs', so nothing is recorded; sizes and strides are
// compared.
class MetadataAssertion final : public Step {
 public:
  explicit MetadataAssertion(const ExportedNode& node) : Step(node), tensor_(needed(node, "a")) {
    if (const ExportedValue* dtype = input_named(node, "dtype"); dtype && dtype->kind == Kind::dtype)
      dtype_ = dtype_from_schema(dtype->integer);
    for (const char* name : {"size", "stride"}) {
      const ExportedValue* list = input_named(node, name);
      if (list && list->kind != Kind::none) throw UserError("the argument " + quote(name) + " is not supported");
    }
  }

  void run(Values& values) const override {
    const at::Tensor& tensor = tensor_of(tensor_, values);
    TORCH_CHECK(!dtype_ || tensor.scalar_type() == *dtype_, "Tensor dtype mismatch! Expected: ", *dtype_, ", got: ",
        tensor.scalar_type());
    TORCH_CHECK(tensor.device().is_cpu() && tensor.layout() == c10::kStrided, "expected a strided tensor on the CPU");
  }

 private:
  ExportedValue tensor_;
  std::optional<c10::ScalarType> dtype_;
};

// --- autocast

// Of a block for another device nothing changes here.
class EnterAutocast final : public Step {
 public:
  explicit EnterAutocast(const ExportedNode& node) : Step(node), output_(only_output(node)), here_(needed(node, "device").text == "cpu") {
    const ExportedValue &dtype = needed(node, "dtype"), &enabled = needed(node, "enabled"), &cache = needed(node, "cache");
    if (enabled.kind != Kind::boolean) throw UserError("the argument \"enabled\": expected a truth value");
    enabled_ = enabled.integer != 0;
    if (dtype.kind == Kind::dtype) dtype_ = dtype_from_schema(dtype.integer);
    if (cache.kind == Kind::boolean) cache_ = cache.integer != 0;
    if (here_ && dtype_ && *dtype_ != at::kBFloat16 && *dtype_ != at::kHalf) throw UserError("autocast on the CPU is to bfloat16 or float16");
  }

  void run(Values& values) const override {
    const AutocastState before = AutocastState::now();
    values[output_] = before.packed();
    if (here_) AutocastState{enabled_, cache_.value_or(before.cache), dtype_.value_or(before.dtype)}.set();
  }

 private:
  uint32_t output_;
  bool here_, enabled_ = false;
  std::optional<bool> cache_;
  std::optional<c10::ScalarType> dtype_;
};

class LeaveAutocast final : public Step {
 public:
  explicit LeaveAutocast(const ExportedNode& node) : Step(node), before_(needed(node, "before").slot) {}
  void run(Values& values) const override { AutocastState::unpacked(values[before_].toInt()).set(); }

 private:
  uint32_t before_;
};

std::unique_ptr<Step> special_step(const ExportedNode& node) {
  static constexpr std::string_view kAten = "torch.ops.aten.";
  if (node.target == kEnterAutocast) return std::make_unique<EnterAutocast>(node);
  if (node.target == kLeaveAutocast) return std::make_unique<LeaveAutocast>(node);
  if (const SymbolicOp* op = find_symbolic_op(node.target)) return std::make_unique<Arithmetic>(node, *op);
  if (!node.target.starts_with(kAten)) return nullptr;
  const std::string_view name = std::string_view(node.target).substr(kAten.size());
  using What = Metadata::What;
  if (name == "sym_size.int") return std::make_unique<Metadata>(node, What::size);
  if (name == "sym_stride.int") return std::make_unique<Metadata>(node, What::stride);
  if (name == "sym_numel.default") return std::make_unique<Metadata>(node, What::numel);
  if (name == "sym_storage_offset.default") return std::make_unique<Metadata>(node, What::offset);
  if (name == "_assert_scalar.default") return std::make_unique<Assertion>(node);
  if (name == "sym_constrain_range.default" || name == "sym_constrain_range_for_size.default")
    return std::make_unique<RangeAssertion>(node);
  if (name == "_assert_tensor_metadata.default") return std::make_unique<MetadataAssertion>(node);
  return nullptr;
}

}  // namespace

std::unique_ptr<Step> make_step(const ExportedNode& node) {
  auto special = special_step(node);
  return special ? std::move(special) : make_call(node);
}

}  // namespace escapement
