// See calls.h. Linear layers and convolutions have files of their own: calls_linear.cpp, calls_convolution.cpp.
#include "torch/program/calls.h"

#include <algorithm>
#include <string_view>

#include "support/error.h"
#include "torch/program/calls_convolution.h"
#include "torch/program/calls_linear.h"
#include "torch/program/input_behind.h"
#include "torch/record/host_args.h"
#include "torch/record/library_target.h"
#include "torch/record/lower.h"
#include "trace/layout.h"

namespace escapement {
namespace {

constexpr uint32_t kNone = Id<void>::kNone;
constexpr std::string_view kConvolutions[] = {"aten::conv1d", "aten::conv2d", "aten::conv3d"};
constexpr std::string_view kOutForms[] = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::matmul"};

c10::TypeKind scalar_kind(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) return scalar_kind(type->expectRef<c10::OptionalType>().getElementType());
  if (type->kind() == c10::TypeKind::ListType) return scalar_kind(type->expectRef<c10::ListType>().getElementType());
  return type->kind();
}

bool has_dim(const CallArg& arg) {
  return std::any_of(arg.numbers.begin(), arg.numbers.end(), [](const Number& n) { return n.kind == Number::Kind::dim; });
}

bool holds_optionals(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::OptionalType) return holds_optionals(type->expectRef<c10::OptionalType>().getElementType());
  return type->kind() == c10::TypeKind::ListType &&
         type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::OptionalType;
}

class Preparer {
 public:
  Preparer(const LaunchPlan& plan, const CallStep& step, TensorRecipes& tensors, Executable& executable,
           const std::vector<c10::IValue>& host_objects)
      : plan_(plan), step_(step), instr_(plan.trace[step.instr]), tensors_(tensors), executable_(executable), host_objects_(host_objects) {}

  CallRecipe prepare(CallForms forms) {
    const auto [name, overload, autocast] = LibraryTarget::parse(instr_.attrs.target);
    recipe_.autocast = autocast;
    recipe_.op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
    const auto& formals = recipe_.op->schema().arguments();
    ESCAPEMENT_CHECK(instr_.attrs.args.size() == formals.size(), "arguments of " + instr_.attrs.target);
    for (size_t i = 0; i < formals.size(); ++i) recipe_.arguments.push_back(argument(instr_.attrs.args[i], formals[i]));
    for (const ValueId operand : instr_.operands) recipe_.operands.push_back(tensors_.add(operand));
    for (const ValueId result : instr_.results) recipe_.results.push_back(this->result(result));
    for (const ValueId value : step_.dead_before)
      if (plan_.buffer_of[value.index] != kNone) recipe_.dead_before.push_back(plan_.buffer_of[value.index]);
    for (const ValueId value : step_.dead_after) {
      if (plan_.buffer_of[value.index] == kNone) continue;
      // A size may be read from a result after the call: even from one that nothing else needs.
      const bool own = std::find(instr_.results.begin(), instr_.results.end(), value) != instr_.results.end();
      if (!own || !is_born_from(value)) recipe_.dead_after.push_back(plan_.buffer_of[value.index]);
    }
    note_writes(name);
    recipe_.effect = instr_.effect;
    recipe_.may_copy_onto_itself = name == "aten::copy_" && overload.empty() && operands_are_laid_out_alike();
    if (forms == CallForms::own) return std::move(recipe_);
    const bool pack_weights = forms == CallForms::packed;
    if (instr_.op == Op::linear) prepare_linear(pack_weights);
    else if (pack_weights && std::ranges::find(kConvolutions, name) != std::end(kConvolutions)) prepare_convolution();
    else if (can_use_out(name, overload)) use_out(name);
    return std::move(recipe_);
  }

 private:
  CallRecipe::Argument argument(const CallArg& arg, const c10::Argument& formal) {
    CallRecipe::Argument prepared;
    using Kind = CallRecipe::Argument::Kind;
    if (arg.kind == CallArg::Kind::tensor || arg.kind == CallArg::Kind::tensors) {
      prepared.kind = arg.kind == CallArg::Kind::tensor       ? Kind::tensor
                      : holds_optionals(formal.real_type()) ? Kind::optional_tensors
                                                              : Kind::tensors;
      for (const int32_t operand : arg.operands) {
        prepared.tensors.push_back(operand < 0 ? -1 : static_cast<int32_t>(tensors_.add(instr_.operands[operand])));
      }
    } else if (has_dim(arg)) {
      const c10::TypeKind kind = scalar_kind(formal.real_type());
      const bool list = arg.kind == CallArg::Kind::numbers;
      prepared.kind = list                                  ? Kind::integers
                      : kind == c10::TypeKind::FloatType  ? Kind::real
                      : kind == c10::TypeKind::TensorType ? Kind::scalar_tensor
                                                            : Kind::integer;
      for (const Number& number : arg.numbers) {
        prepared.slots.push_back(number.kind == Number::Kind::dim ? executable_.slot(number.dim) : executable_.constant(number.integer));
      }
    } else {
      prepared.constant = to_ivalue(arg, formal, {{}, [](Dim) -> int64_t { return 0; }, host_objects_});
    }
    return prepared;
  }

  CallRecipe::Result result(ValueId value) {
    CallRecipe::Result result;
    const Value& info = plan_.trace[value];
    const uint32_t buffer = plan_.buffer_of[value.index];
    if (info.kind == ValueKind::none || buffer == kNone || plan_.buffers[buffer].root != value) return result;
    if (plan_.buffers[buffer].kind == Buffer::Kind::input) return result;
    result.wanted = true;
    result.planned = plan_.buffers[buffer].kind != Buffer::Kind::call;
    result.recipe = tensors_.add(value);
    for (const ValueId operand : instr_.operands) result.may_alias |= plan_.trace.type(operand).storage == info.type.storage;
    return result;
  }

  bool is_born_from(ValueId value) const {
    for (uint32_t symbol = 0; symbol < plan_.trace.dims.symbol_count(); ++symbol) {
      const Source& source = plan_.trace.dims.info(Symbol(symbol)).source;
      const bool of_value = source.kind == Source::Kind::value_size || source.kind == Source::Kind::value_stride;
      if (of_value && source.value == value) return true;
    }
    return false;
  }

  bool operands_are_laid_out_alike() const {
    const auto like_the_first = [&](ValueId v) { return plan_.trace.type(v).strides == plan_.trace.type(instr_.operands[0]).strides; };
    return std::all_of(instr_.operands.begin(), instr_.operands.end(), like_the_first);
  }

  void note_writes(const std::string& name) {
    for (const uint32_t operand : instr_.writes) {
      const auto input = input_behind(plan_, instr_.operands[operand]);
      if (input && is_counted(operand, name)) recipe_.written_inputs.push_back(*input);
    }
  }

  // Written as the schema says, or by an operator of ATen's that is known to, if not where eager counts no write: to a normalisation's statistics, or by
  // an operator of somebody else's that hands back an argument, of which nobody knows.
  bool is_counted(uint32_t operand, const std::string& name) const {
    const bool is_known = name.starts_with("aten::") || name.starts_with("escapement::");
    std::vector<std::string_view> hidden;
    if (is_known) writes_silently(std::string_view(name).substr(name.find("::") + 2), hidden);
    const auto& formals = recipe_.op->schema().arguments();
    for (size_t i = 0; i < formals.size(); ++i) {
      const auto& operands = instr_.attrs.args[i].operands;
      if (std::find(operands.begin(), operands.end(), static_cast<int32_t>(operand)) == operands.end()) continue;
      const bool counts = is_known ? std::ranges::find(hidden, formals[i].name()) == hidden.end() : formals[i].alias_info() && formals[i].alias_info()->isWrite();
      if (counts) return true;
    }
    return false;
  }

  bool can_use_out(const std::string& name, const std::string& overload) const {
    return step_.into_planned && !recipe_.autocast && overload.empty() && recipe_.results.size() == 1 && recipe_.results[0].planned &&
           std::find(std::begin(kOutForms), std::end(kOutForms), name) != std::end(kOutForms) && !resizes_out();
  }

  // A vector by a matrix: at::matmul writes a matrix of one row into its out, and warns that it has another size.
  bool resizes_out() const {
    return instr_.operands.size() >= 2 && plan_.trace.type(instr_.operands[0]).rank() == 1 && plan_.trace.type(instr_.operands[1]).rank() >= 2;
  }

  void use_out(const std::string& name) {
    recipe_.op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "out");
    recipe_.form = CallRecipe::Form::out;
  }

  void prepare_linear(bool pack_weights) {
    const auto tensor_at = [&](size_t i) {
      return recipe_.arguments[i].kind == CallRecipe::Argument::Kind::tensor ? recipe_.arguments[i].tensors[0] : -1;
    };
    if (recipe_.arguments.size() != 3 || tensor_at(0) < 0 || tensor_at(1) < 0) return;
    recipe_.form = CallRecipe::Form::linear;
    recipe_.x = tensor_at(0);
    recipe_.weight = tensor_at(1);
    recipe_.bias = tensor_at(2);
    recipe_.epilogue = instr_.attrs.mode;
    recipe_.may_pack = pack_weights && is_parameter(recipe_.arguments[1]);
  }

  void prepare_convolution() {
    const bool fits = !recipe_.autocast && instr_.operands.size() >= 2 && plan_.trace.type(instr_.operands[1]).rank() >= 3;
    const std::optional<ConvolutionWindow> window = fits ? window_of(recipe_.arguments, kernel_sizes()) : std::nullopt;
    if (!window || !is_faster_packed(*window)) return;
    if (!is_parameter(recipe_.arguments[1]) || recipe_.arguments[0].kind != CallRecipe::Argument::Kind::tensor) return;
    recipe_.form = CallRecipe::Form::convolution;
    recipe_.x = recipe_.arguments[0].tensors[0];
    recipe_.weight = recipe_.arguments[1].tensors[0];
    recipe_.bias = recipe_.arguments[2].kind == CallRecipe::Argument::Kind::tensor ? recipe_.arguments[2].tensors[0] : -1;
    recipe_.window = *window;
    recipe_.only_single = plan_.trace.type(instr_.operands[1]).rank() == 5 && !is_channels_innermost();
    recipe_.may_pack = true;
  }

  // Images only where the layout that the library computes in is asked for already (specialize/channels_last.h, or the program itself).
  bool is_faster_packed(const ConvolutionWindow& window) const {
    if (!knows_layout(instr_.results[0])) return false;
    const int rank = plan_.trace.type(instr_.operands[1]).rank();
    if (rank != 4) return rank == 5 || window.groups > 1;
    return is_channels_innermost();
  }

  bool is_channels_innermost() const { return has_channels_last(instr_.operands[0]) || has_channels_last(instr_.results[0]); }

  // Of the weight, along each axis of an image; 0 where they vary.
  std::vector<int64_t> kernel_sizes() const {
    const std::vector<Dim>& sizes = plan_.trace.type(instr_.operands[1]).sizes;
    std::vector<int64_t> kernel;
    for (size_t axis = 2; axis < sizes.size(); ++axis) kernel.push_back(plan_.trace.dims.as_constant(sizes[axis]).value_or(0));
    return kernel;
  }

  // Else it is as the library leaves it, and that must be the one that eager calls.
  bool knows_layout(ValueId value) const {
    const TensorType& type = plan_.trace.type(value);
    DimTable dims = plan_.trace.dims;   // a copy to compute in
    return is_contiguous(dims, type.sizes, type.strides) || is_channels_last(dims, type.sizes, type.strides);
  }

  bool has_channels_last(ValueId value) const {
    const TensorType& type = plan_.trace.type(value);
    DimTable dims = plan_.trace.dims;   // a copy to compute in
    return is_channels_last(dims, type.sizes, type.strides);
  }

  bool is_parameter(const CallRecipe::Argument& argument) const {
    if (argument.kind != CallRecipe::Argument::Kind::tensor || argument.tensors[0] < 0) return false;
    const TensorRecipe& recipe = tensors_[static_cast<uint32_t>(argument.tensors[0])];
    return recipe.kind == Buffer::Kind::input && recipe.whole && plan_.trace.inputs[recipe.input].parameter;
  }

  const LaunchPlan& plan_;
  const CallStep& step_;
  const Instr& instr_;
  TensorRecipes& tensors_;
  Executable& executable_;
  const std::vector<c10::IValue>& host_objects_;
  CallRecipe recipe_;
};

c10::IValue patched(const CallRecipe::Argument& argument, TensorTable& tensors, const Context& context) {
  using Kind = CallRecipe::Argument::Kind;
  const auto tensor = [&](int32_t recipe) { return recipe < 0 ? at::Tensor() : tensors.get(static_cast<uint32_t>(recipe)); };
  switch (argument.kind) {
    case Kind::constant: return argument.constant;
    case Kind::tensor: return tensor(argument.tensors[0]);
    case Kind::tensors: {
      c10::List<at::Tensor> list;
      for (const int32_t recipe : argument.tensors) list.push_back(tensor(recipe));
      return list;
    }
    case Kind::optional_tensors: {
      c10::List<std::optional<at::Tensor>> list;
      for (const int32_t recipe : argument.tensors) {
        list.push_back(recipe < 0 ? std::nullopt : std::optional<at::Tensor>(tensor(recipe)));
      }
      return list;
    }
    case Kind::integer: return context.table[argument.slots[0]];
    case Kind::real: return static_cast<double>(context.table[argument.slots[0]]);
    case Kind::scalar_tensor: return wrap_scalar(context.table[argument.slots[0]]);
    case Kind::integers: {
      c10::List<int64_t> list;
      for (const Slot slot : argument.slots) list.push_back(context.table[slot]);
      return list;
    }
  }
  return {};
}

bool agree(c10::IntArrayRef seen, c10::IntArrayRef wanted, const std::vector<bool>& checked, c10::IntArrayRef sizes_that_matter) {
  for (size_t d = 0; d < seen.size(); ++d) {
    const bool matters = sizes_that_matter.empty() || sizes_that_matter[d] != 1;
    if (checked[d] && matters && seen[d] != wanted[d]) return false;
  }
  return true;
}

// `x[0] += 1` ends with a copy of `x[0]` onto itself. ATen takes two views of one memory for an overlap where the strides of axes of size 1
// differ, and strides of ours do where those of the program do not.
bool copies_onto_itself(const torch::jit::Stack& stack) {
  const at::Tensor to = stack[0].toTensor(), from = stack[1].toTensor();
  if (to.dtype() != from.dtype() || to.sizes() != from.sizes() || !to.has_storage() || !from.has_storage()) return false;
  if (to.const_data_ptr() != from.const_data_ptr() || to.is_neg() != from.is_neg() || to.is_conj() != from.is_conj()) return false;
  for (int64_t axis = 0; axis < to.dim(); ++axis)
    if (to.size(axis) > 1 && (to.stride(axis) != from.stride(axis) || to.stride(axis) == 0)) return false;
  return to.numel() != 0;
}

std::vector<at::Tensor> flatten(const torch::jit::Stack& stack) {
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& value : stack) {
    if (value.isTensor()) tensors.push_back(value.toTensor());
    else if (value.isTensorList()) for (const at::Tensor& t : value.toTensorVector()) tensors.push_back(t);
  }
  return tensors;
}

bool take_results(const CallRecipe& recipe, const torch::jit::Stack& stack, TensorTable& tensors, const std::vector<TensorRecipe>& recipes) {
  const std::vector<at::Tensor> results = flatten(stack);
  if (results.size() != recipe.results.size()) return false;   // a list may have grown
  for (size_t i = 0; i < recipe.results.size(); ++i) {
    if (recipe.results[i].wanted && !take_result(recipe.results[i], results[i], tensors, recipes)) return false;
  }
  return true;
}

}  // namespace

// In the layout that the plan counts on; memory of the arena must not leave the call unless the plan knows that it is shared.
bool take_result(const CallRecipe::Result& result, at::Tensor seen, TensorTable& tensors, const std::vector<TensorRecipe>& recipes) {
  const TensorRecipe& recipe = recipes[result.recipe];
  if (!seen.defined() || seen.dim() != static_cast<int64_t>(recipe.sizes.size())) return false;
  if (recipe.dtype != caffe2::TypeMeta() && seen.dtype() != recipe.dtype) return false;
  if (!agree(seen.sizes(), tensors.sizes(recipe), result.checked_sizes, {})) return false;
  const bool strides_differ = seen.numel() != 0 && !agree(seen.strides(), tensors.strides(recipe), result.checked_strides, seen.sizes());
  if (strides_differ || (is_borrowed(seen) && !result.may_alias)) {
    at::Tensor copy = new_tensor(seen.sizes(), strides_differ ? tensors.strides(recipe) : seen.strides(), seen.dtype(), seen.device());
    copy.copy_(seen);
    seen = std::move(copy);
  }
  tensors.adopt(recipe.buffer, std::move(seen));
  return true;
}

CallRecipe make_call(const LaunchPlan& plan, const CallStep& step, TensorRecipes& tensors, Executable& executable,
                     const std::vector<c10::IValue>& host_objects, CallForms forms, size_t pack_limit) {
  CallRecipe recipe = Preparer(plan, step, tensors, executable, host_objects).prepare(forms);
  recipe.pack_limit = pack_limit;
  return recipe;
}

void settle_call(CallRecipe& recipe, uint32_t step, const TensorRecipes& tensors, const Executable& executable) {
  const uint32_t known = executable.level_before(step);
  const auto are_known = [&](const std::vector<Slot>& slots) {
    std::vector<bool> result;
    for (const Slot slot : slots) result.push_back(executable.shapes().level(slot) <= known);
    return result;
  };
  for (CallRecipe::Result& result : recipe.results) {
    if (!result.wanted) continue;
    result.checked_sizes = are_known(tensors[result.recipe].sizes);
    result.checked_strides = are_known(tensors[result.recipe].strides);
  }
}

namespace {

void call_library(const CallRecipe& recipe, torch::jit::Stack& stack) {
  const AutocastAgain autocast(recipe.autocast);
  recipe.op->callBoxed(stack);
}

}  // namespace

bool run_call(const CallRecipe& recipe, CallState& state, TensorTable& tensors, const Context& context,
              const std::vector<TensorRecipe>& recipes) {
  struct Clear {
    torch::jit::Stack& stack;
    ~Clear() { stack.clear(); }  // whatever happens, no tensor of this call stays alive here
  } clear{state.stack};
  for (const uint32_t buffer : recipe.dead_before) tensors.drop(buffer);
  bool fits = true;
  if (recipe.form == CallRecipe::Form::linear) {
    fits = run_linear(recipe, state, tensors, context, recipes);
  } else {
    for (const CallRecipe::Argument& argument : recipe.arguments) state.stack.push_back(patched(argument, tensors, context));
    const bool out = recipe.form == CallRecipe::Form::out;
    if (out) state.stack.emplace_back(tensors.get(recipe.results[0].recipe));
    if (recipe.may_copy_onto_itself && copies_onto_itself(state.stack)) state.stack.resize(1);
    else if (recipe.form != CallRecipe::Form::convolution || !run_convolution(recipe, state)) call_library(recipe, state.stack);
    fits = out || take_results(recipe, state.stack, tensors, recipes);
  }
  for (const uint32_t input : recipe.written_inputs) {
    const at::Tensor& written = tensors.input(input);
    if (!written.is_inference()) written.unsafeGetTensorImpl()->bump_version();
  }
  for (const uint32_t buffer : recipe.dead_after) tensors.drop(buffer);
  return fits;
}

std::string describe(const CallRecipe& recipe) {
  std::string text = recipe.op->schema().name();
  if (!recipe.op->schema().overload_name().empty()) text += "." + recipe.op->schema().overload_name();
  if (recipe.form == CallRecipe::Form::linear) {
    text += recipe.may_pack ? ", packed where that is faster" : ", plain";
    if (!recipe.epilogue.empty()) text += ", followed by " + recipe.epilogue;
  } else if (recipe.form == CallRecipe::Form::convolution) {
    text += ", packed";
  } else if (recipe.form == CallRecipe::Form::out) {
    text += ", into planned memory";
  }
  return text;
}

}  // namespace escapement
