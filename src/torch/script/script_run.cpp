// See script_run.h.
#include "torch/script/script_run.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <stdexcept>

#include "escapement/error.h"
#include "jit/run/call_control.h"
#include "support/error.h"
#include "torch/exported/symbolic.h"
#include "torch/program/cpp_location.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {

using torch::jit::Block;
using torch::jit::Node;
using torch::jit::Value;
using Values = ScriptRun::Values;
namespace prim = c10::prim;

bool has_own_rule(const Node& node) {
  static const c10::Symbol kKinds[] = {prim::Constant, prim::GetAttr, prim::ListConstruct, prim::TupleConstruct, prim::DictConstruct, prim::ListUnpack,
                                       prim::TupleUnpack, prim::TupleIndex, prim::TupleSlice, prim::isinstance, prim::If, prim::Loop, prim::NumToTensor, prim::unchecked_cast,
                                       prim::Uninitialized, prim::RaiseException, c10::aten::warn};
  return std::ranges::find(kKinds, node.kind()) != std::end(kKinds);
}

// Operators that the interpreter has instructions for, or that change what a recording would have to notice, are not run here.
bool is_operator(const Node& node) {
  const torch::jit::Operator* const op = node.maybeOperator();
  if (op == nullptr || !node.blocks().empty() || node.kind() == prim::SetAttr || node.kind() == c10::aten::wait) return false;
  return op->isC10Op() || op->hasOperation();
}

// The number in a tensor that stands in the graph as a constant.
c10::IValue constant_number(const c10::IValue& value) {
  if (!value.isTensor() || value.toTensor().dim() != 0 || value.toTensor().scalar_type() != at::kLong || Wrapper::of(value.toTensor())) return value;
  return *value.toTensor().const_data_ptr<int64_t>();
}

std::string place_of(const Node& node) {
  const auto place = node.sourceRange().file_line_col();
  return place ? std::get<0>(*place) + ":" + std::to_string(std::get<1>(*place)) : std::string();
}

// `Int` of a tensor that the graph holds: nobody else can write it.
bool reads_constant(const Node& node, const Values& operands) {
  static const c10::Symbol kReads[] = {c10::aten::Int, c10::aten::IntImplicit, c10::aten::ScalarImplicit};
  return std::ranges::find(kReads, node.kind()) != std::end(kReads) && node.input()->node()->kind() == prim::Constant && constant_number(operands[0]).isInt();
}

// torch.tensor(number, dtype, device, requires_grad)
at::Tensor tensor_of_number(const Values& operands) {
  const bool real = operands[0].isSymFloat();
  const at::ScalarType dtype = operands[1].isNone() ? real ? at::typeMetaToScalarType(at::get_default_dtype()) : at::kLong : operands[1].toScalarType();
  const auto device = operands[2].toOptional<c10::Device>();
  return at::scalar_tensor(operands[0].toScalar(), at::TensorOptions().dtype(dtype).device(device)).set_requires_grad(operands[3].toBool());
}

// message, class
[[noreturn]] void raise(const Values& operands) {
  std::optional<std::string> kind;
  if (operands.size() > 1 && operands[1].isString()) kind = operands[1].toStringRef();
  throw torch::jit::JITException(operands[0].toStringRef(), std::move(kind));
}

// format, print, str: a symbol would be written by its name.
c10::IValue symbol_or_tensor(const c10::IValue& value) { return is_symbol(value) ? value : as_tensor(value); }

}  // namespace

std::string interpreters_words(const std::string& kind, const std::string& what) {
  return "The following operation failed in the TorchScript interpreter.\n" + kind + ": " + what;
}

void raise_as_interpreter(const std::string& what) { throw std::runtime_error(interpreters_words("RuntimeError", what)); }

std::string node_without_rule(const Block& block) {
  for (const Node* const node : block.nodes()) {
    if (!has_own_rule(*node) && !is_operator(*node)) return std::string(node->kind().toQualString()) + " at " + place_of(*node);
    for (const Block* const inner : node->blocks())
      if (std::string found = node_without_rule(*inner); !found.empty()) return found;
  }
  return {};
}

Values ScriptRun::of(const torch::jit::Graph& graph, Values arguments) {
  ScriptRun one;
  for (size_t i = 0; i < arguments.size(); ++i) one.set(graph.inputs()[i], std::move(arguments[i]));
  one.run(*graph.block());
  Values results = one.outputs(*graph.block());
  for (size_t i = 0; i < results.size(); ++i)
    if (graph.outputs()[i]->type()->kind() == c10::TypeKind::TensorType) results[i] = as_tensor(results[i]);
  return results;
}

Values ScriptRun::inputs(const Node& node) const {
  Values all;
  for (const Value* const input : node.inputs()) all.push_back(at(input));
  return all;
}

Values ScriptRun::outputs(const Block& block) const {
  Values all;
  for (const Value* const output : block.outputs()) all.push_back(at(output));
  return all;
}

void ScriptRun::bind(const Node& node, Values results) {
  for (size_t i = 0; i < node.outputs().size(); ++i) set(node.outputs()[i], std::move(results[i]));
}

// A value dies after the last node that reads it, where all of these stand in its own block.
void ScriptRun::set(const Value* value, c10::IValue to) {
  const auto here = [&](const torch::jit::Use& use) { return use.user->owningBlock() == value->node()->owningBlock(); };
  const bool counted = std::ranges::all_of(value->uses(), here);
  values_[value] = {std::move(to), counted ? value->uses().size() : SIZE_MAX};
}

void ScriptRun::let_go(const Node& node) {
  for (const Value* const input : node.inputs()) {
    const auto found = values_.find(input);
    if (found != values_.end() && found->second.reads != SIZE_MAX && --found->second.reads == 0) values_.erase(found);
  }
}

void ScriptRun::run(const Block& block) {
  for (const Node* const node : block.nodes()) {
    const NamedPlace place([node] { return place_of(*node); });
    run(*node);
    let_go(*node);
  }
}

void ScriptRun::run(const Node& node) {
  switch (node.kind()) {
    case prim::Constant: return constant(node);
    case prim::GetAttr: return bind(node, {at(node.input()).toObjectRef().getAttr(node.s(c10::attr::name))});
    case prim::ListConstruct: case prim::TupleConstruct: case prim::DictConstruct: return bind(node, {collected(node, inputs(node))});
    case prim::ListUnpack: case prim::TupleUnpack: return bind(node, taken_apart(node, at(node.input())));
    case prim::NumToTensor: return bind(node, {symbol_or_tensor(at(node.input()))});
    case prim::unchecked_cast: return bind(node, {at(node.input())});
    case prim::Uninitialized: return bind(node, {c10::IValue::uninitialized()});
    case prim::TupleIndex: case prim::TupleSlice: return bind(node, part_of_tuple(node, inputs(node)));
    case prim::isinstance: return bind(node, {is_instance(node, at(node.input()))});
    case prim::RaiseException: return raise(inputs(node));
    case c10::aten::warn: return TORCH_WARN(at(node.input(0)).toStringRef());
    case prim::If: return branch(node);
    case prim::Loop: return loop(node);
    default: break;
  }
  if (!symbolic(node)) call(node);
}

// A function that was inlined is a constant still, without a value.
void ScriptRun::constant(const Node& node) {
  if (auto value = torch::jit::toIValue(node.output())) bind(node, {std::move(*value)});
}

void ScriptRun::branch(const Node& node) {
  const Block& taken = *node.blocks()[holds(at(node.input())) ? 0 : 1];
  run(taken);
  bind(node, outputs(taken));
}

// As often as the number says, so long as the condition holds; both are read.
void ScriptRun::loop(const Node& node) {
  const Block& body = *node.blocks()[0];
  const int64_t most = at(node.inputs()[0]).toInt();
  bool goes_on = holds(at(node.inputs()[1]));
  Values carried = inputs(node);
  carried.erase(carried.begin(), carried.begin() + 2);
  for (int64_t round = 0; goes_on && round < most; ++round) {
    set(body.inputs()[0], round);
    for (size_t i = 0; i < carried.size(); ++i) set(body.inputs()[i + 1], std::move(carried[i]));
    run(body);
    carried = outputs(body);
    goes_on = holds(carried[0]);
    carried.erase(carried.begin());
  }
  bind(node, std::move(carried));
}

// What is said of sizes, or computed from them, without an operator.
bool ScriptRun::symbolic(const Node& node) {
  const Values operands = inputs(node);
  if (operands.empty()) return false;
  if (const char* const name = arithmetic_of(node, operands)) return compute(node, name, operands), true;
  if (const c10::IValue value = folded(node, operands); !value.isNone()) return bind(node, {value}), true;
  if (const auto same = lists_compared(node, operands)) return bind(node, {*same}), true;
  if (number_of_tensors(node, operands)) return true;
  if (reads_constant(node, operands)) return bind(node, {constant_number(operands[0])}), true;
  if (node.kind() == c10::aten::tensor && is_symbol(operands[0]) && !operands[0].isSymBool()) return bind(node, {tensor_of_number(operands)}), true;
  if (node.kind() == c10::aten::Bool && is_symbol(operands[0])) return bind(node, {holds(operands[0])}), true;
  return operands[0].isTensor() && Wrapper::of(operands[0].toTensor()) && said_of_tensor(node, operands);
}

bool ScriptRun::said_of_tensor(const Node& node, std::span<const c10::IValue> operands) {
  const at::Tensor& tensor = operands[0].toTensor();
  if (node.kind() == c10::aten::numel) return bind(node, {tensor.sym_numel()}), true;
  if (node.kind() == c10::aten::len && tensor.dim() > 0) return bind(node, {tensor.sym_size(0)}), true;
  if (node.kind() != c10::aten::size) return false;
  if (operands.size() == 2 && operands[1].isInt()) return bind(node, {tensor.sym_size(operands[1].toInt())}), true;
  if (operands.size() != 1) return false;
  c10::impl::GenericList sizes(c10::IntType::get());
  for (const c10::SymInt& size : tensor.sym_sizes()) sizes.push_back(size);
  return bind(node, {sizes}), true;
}

// A traced program computes with tensors that hold sizes: `size`, NumToTensor, floor_divide by a constant, Int. Here they are symbols, until somebody
// wants a tensor.
bool ScriptRun::number_of_tensors(const Node& node, std::span<const c10::IValue> operands) {
  if (operands.size() < 2 || operands.size() > 3 || (!is_symbol(operands[0]) && !is_symbol(operands[1]))) return false;
  if (operands.size() == 3 && (!operands[2].isInt() || operands[2].toInt() != 1)) return false;
  const Values both{constant_number(operands[0]), constant_number(operands[1])};
  static constexpr std::string_view kExact[] = {"aten::add", "aten::sub", "aten::mul", "aten::floor_divide", "aten::remainder"};
  if (std::ranges::find(kExact, std::string_view(node.kind().toQualString())) == std::end(kExact)) return false;
  const char* const name = arithmetic_of(node, both);
  return name != nullptr && (bind(node, {symbol_or_tensor(run_symbolic_op(*find_symbolic_op(name), both))}), true);
}

// What operators throw becomes what the interpreter makes of it; what a recording throws through them stays what it is.
template <class Call>
void as_interpreted(const Call& call) {
  try {
    call();
  } catch (const c10::Error&) {
    throw;   // run_here
  } catch (const torch::jit::JITException&) {
    throw;
  } catch (const UserError&) {
    throw;
  } catch (const InternalError&) {
    throw;
  } catch (const CallStopped&) {
    throw;
  } catch (const ServingError&) {
    throw;
  } catch (const std::exception& error) {
    raise_as_interpreter(error.what());
  }
}

// By a size that is zero: in the interpreter's words.
void ScriptRun::compute(const Node& node, const char* op, std::span<const c10::IValue> operands) {
  const SymbolicOp& symbolic = *find_symbolic_op(op);
  try {
    bind(node, {run_symbolic_op(symbolic, operands)});
  } catch (const c10::Error& error) {
    const bool by_zero = std::string_view(error.what_without_backtrace()).find("division or modulo by zero") != std::string_view::npos;
    if (!by_zero || node.kind() != c10::aten::floordiv) throw;
    raise_as_interpreter("division by 0");
  }
}

void ScriptRun::call(const Node& node) {
  const torch::jit::Operator& op = node.getOperator();
  Values stack = inputs(node);
  if (op.isC10Op()) {
    const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(op.schema().name().c_str(), op.schema().overload_name().c_str());
    const auto& formals = handle.schema().arguments();
    for (size_t i = 0; i < stack.size() && i < formals.size(); ++i) stack[i] = fitting(stack[i], formals[i]);
    as_interpreted([&] { handle.callBoxed(stack); });
  } else {
    const auto& formals = op.schema().arguments();
    for (size_t i = 0; i < stack.size() && i < formals.size(); ++i)
      if (formals[i].type()->kind() == c10::TypeKind::TensorType) stack[i] = as_tensor(stack[i]);
    read_what_is_looked_at(op.schema().name(), stack);
    if (op.schema().is_vararg()) stack.emplace_back(static_cast<int64_t>(node.inputs().size()));
    as_interpreted([&] { op.getOperation(&node)(stack); });
  }
  bind(node, std::move(stack));
}

}  // namespace escapement
