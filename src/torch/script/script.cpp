// A TorchScript module behind escapement/script.h: who runs a method, its own interpreter or ScriptRun.
#include "escapement/script.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/jit_exception.h>

#include <algorithm>

#include "escapement/error.h"
#include "support/text.h"
#include "torch/record/wrapper.h"
#include "torch/script/script_run.h"
#include "torch/script/script_state.h"

namespace escapement::inline ESCAPEMENT_ABI {

namespace {

using Graph = std::shared_ptr<torch::jit::Graph>;

torch::jit::Method method_of(const torch::jit::Module& module, const std::string& name) {
  if (const auto method = module.find_method(name)) return *method;
  throw UserError("escapement: the module has no method " + quote(name));
}

void add_constants(const torch::jit::Block& block, std::vector<at::Tensor>& into) {
  for (const torch::jit::Node* const node : block.nodes()) {
    if (node->kind() == c10::prim::Constant) {
      if (const auto value = torch::jit::toIValue(node->output()); value && value->isTensor()) into.push_back(value->toTensor());
    }
    for (const torch::jit::Block* const inner : node->blocks()) add_constants(*inner, into);
  }
}

std::vector<at::Tensor> constants_of(const Graph& graph) {
  std::vector<at::Tensor> all;
  add_constants(*graph->block(), all);
  return all;
}

Graph inlined(const torch::jit::Method& method) {
  Graph graph = method.graph()->copy();
  torch::jit::Inline(*graph);
  return graph;
}

// The first tensor in it that stands for those of other calls, too.
const Wrapper* recorded_in(c10::ArrayRef<c10::IValue> values) {
  for (const c10::IValue& value : values) {
    const Wrapper* found = nullptr;
    if (value.isTensor()) found = Wrapper::of(value.toTensor());
    else if (value.isTuple()) found = recorded_in(value.toTupleRef().elements().asArrayRef());
    else if (value.isList()) found = recorded_in(value.toListRef());
    if (found != nullptr && found->value() && found->tape().live()) return found;
  }
  return nullptr;
}

// Whether the method takes it, as far as numbers, texts and tensors go. Symbols stand for numbers of their kind.
bool may_be(const c10::IValue& value, const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::OptionalType: return value.isNone() || may_be(value, *type.expectRef<c10::OptionalType>().getElementType());
    case c10::TypeKind::IntType: return value.isInt() || value.isSymInt();
    case c10::TypeKind::FloatType: return value.isDouble() || value.isSymFloat();
    case c10::TypeKind::BoolType: return value.isBool() || value.isSymBool();
    case c10::TypeKind::StringType: return value.isString();
    case c10::TypeKind::TensorType: return value.isTensor();
    default: return true;
  }
}

std::vector<c10::IValue> run_here(const torch::jit::Graph& graph, std::vector<c10::IValue> arguments) {
  try {
    return ScriptRun::of(graph, std::move(arguments));
  } catch (torch::jit::JITException& error) {   // of the program's own `raise`
    const auto kind = error.getPythonClassName();
    throw torch::jit::JITException(interpreters_words(kind.value_or("RuntimeError"), error.what()), kind, error.what());
  } catch (const c10::NotImplementedError&) {
    throw;
  } catch (const c10::Error& error) {
    raise_as_interpreter(error.what_without_backtrace());
  }
}

}  // namespace

struct Script::Impl {
  Impl(const torch::jit::Module& of, const std::string& name)
      : module(of), method(method_of(of, name)), graph(inlined(method)), refused(node_without_rule(*graph->block())),
        state(std::make_shared<ScriptState>(of._ivalue(), constants_of(graph))) {}

  // All of them; empty: they do not fit, which the method itself says best.
  std::vector<c10::IValue> completed(std::vector<c10::IValue> arguments) const {
    const auto& formals = method.function().getSchema().arguments();
    arguments.insert(arguments.begin(), module._ivalue());
    for (size_t i = arguments.size(); i < formals.size() && formals[i].default_value(); ++i) arguments.push_back(*formals[i].default_value());
    if (arguments.size() != formals.size()) return {};
    for (size_t i = 1; i < formals.size(); ++i)
      if (!may_be(arguments[i], *formals[i].type())) return {};
    return arguments;
  }

  torch::jit::Module module;
  torch::jit::Method method;
  Graph graph;
  std::string refused;
  std::shared_ptr<ScriptState> state;
};

Script::Script(const torch::jit::Module& module, const std::string& method) : impl_(std::make_shared<const Impl>(module, method)) {}
Script::~Script() = default;
Script::Script(const Script&) = default;
Script::Script(Script&&) noexcept = default;

const std::string& Script::refused() const { return impl_->refused; }
std::shared_ptr<torch::nn::Module> Script::state() const { return impl_->state; }

// Under autocast TorchScript rewrites the graph. What has no rule here may change what no recording would do again: attributes, objects.
c10::IValue Script::operator()(std::vector<c10::IValue> arguments) const {
  const Wrapper* const recorded = recorded_in(arguments);
  if (recorded && !impl_->refused.empty()) recorded->tape().refuse(Reason::state_changed, impl_->refused);
  const bool here = recorded && impl_->refused.empty() && !at::autocast::is_autocast_enabled(at::kCPU);
  std::vector<c10::IValue> all = here ? impl_->completed(arguments) : std::vector<c10::IValue>();
  if (all.empty()) return torch::jit::Method(impl_->method)(std::move(arguments));
  std::vector<c10::IValue> results = run_here(*impl_->graph, std::move(all));
  return results.empty() ? c10::IValue() : std::move(results[0]);
}

}  // namespace escapement
