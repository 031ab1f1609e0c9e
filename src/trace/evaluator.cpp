// The run of a trace; see evaluator.h. The ops are in evaluator_ops.cpp and evaluator_contract.cpp.
#include "trace/evaluator.h"

#include <limits>

#include "support/error.h"
#include "trace/evaluator_ops.h"
#include "trace/expand.h"
#include "trace/guard_relation.h"
#include "trace/scalar.h"

namespace escapement {

namespace {

class Evaluator {
 public:
  Evaluator(const Trace& trace, const EvaluatorHooks& hooks)
      : trace_(trace), hooks_(hooks), values_(trace.values.size()), symbols_(trace.dims.symbol_count()), bound_(symbols_.size()) {}

  void bind_inputs(std::span<const HostInput> inputs);
  Evaluation run();
  int64_t dim(Dim d) const;
  std::string explain(const Guard& guard) const;

 private:
  void bind(Symbol s, int64_t value) {
    symbols_[s.index] = value;
    bound_[s.index] = true;
  }
  void bind_input(const Source& source, Symbol s, std::span<const HostInput> inputs);
  void check_layout(const Input& input, const HostTensor& tensor) const;
  void check_inputs() const;
  void bind_results(const Instr& instr);
  bool holds(const Guard& guard) const;
  std::optional<uint32_t> failing_guard(InstrId after) const;

  std::vector<int64_t> dims(std::span<const Dim> list) const {
    std::vector<int64_t> values;
    for (Dim d : list) values.push_back(dim(d));
    return values;
  }
  HostTensor allocate(const TensorType& type) const { return HostTensor::make(type.dtype, dims(type.sizes), dims(type.strides)); }
  HostTensor view(const TensorType& type) const;
  void step(const Instr& instr);
  void library(const Instr& instr, std::span<const HostTensor> operands);
  HostOutput output(const Output& output) const;

  const Trace& trace_;
  const EvaluatorHooks& hooks_;
  std::vector<HostTensor> values_;
  std::vector<int64_t> symbols_;
  std::vector<bool> bound_;
};

int64_t Evaluator::dim(Dim d) const {
  for (Symbol s : trace_.dims.symbols(d)) ESCAPEMENT_CHECK(bound_[s.index], "symbol without value: " + trace_.dims.to_string(s));
  return trace_.dims.evaluate(d, symbols_);
}

// --- inputs and symbols

void Evaluator::bind_inputs(std::span<const HostInput> inputs) {
  if (inputs.size() != trace_.inputs.size())
    throw UserError("expected " + std::to_string(trace_.inputs.size()) + " inputs, got " + std::to_string(inputs.size()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool tensor = trace_.inputs[i].kind == Input::Kind::tensor;
    if (tensor != std::holds_alternative<HostTensor>(inputs[i])) throw UserError("input " + trace_.inputs[i].name + " is of the wrong kind");
    if (!tensor) continue;
    const auto& given = std::get<HostTensor>(inputs[i]);
    const TensorType& type = trace_.type(trace_.inputs[i].value);
    if (given.dtype != type.dtype || given.sizes.size() != type.sizes.size())
      throw UserError("input " + trace_.inputs[i].name + " has the wrong dtype or rank");
    values_[trace_.inputs[i].value.index] = given;
  }
  for (uint32_t s = 0; s < symbols_.size(); ++s) bind_input(trace_.dims.info(Symbol(s)).source, Symbol(s), inputs);
}

void Evaluator::bind_input(const Source& source, Symbol s, std::span<const HostInput> inputs) {
  const HostTensor* tensor = source.input < inputs.size() ? std::get_if<HostTensor>(&inputs[source.input]) : nullptr;
  switch (source.kind) {
    case Source::Kind::input_size: return bind(s, tensor->sizes.at(source.dim));
    case Source::Kind::input_stride: return bind(s, tensor->strides.at(source.dim));
    case Source::Kind::input_offset: return bind(s, tensor->offset);
    case Source::Kind::input_value: return bind(s, std::get<int64_t>(inputs[source.input]));
    default: return;
  }
}

// Sizes written as constants or expressions, and strides where they address anything.
void Evaluator::check_layout(const Input& input, const HostTensor& tensor) const {
  const TensorType& type = trace_.type(input.value);
  if (dims(type.sizes) != tensor.sizes) throw UserError("input " + input.name + " has the wrong sizes");
  const std::vector<int64_t> strides = dims(type.strides);
  if (tensor.count() == 0) return;
  for (size_t axis = 0; axis < strides.size(); ++axis)
    if (tensor.sizes[axis] > 1 && tensor.strides[axis] != strides[axis]) throw UserError("input " + input.name + " has the wrong strides");
}

void Evaluator::check_inputs() const {
  for (const Input& input : trace_.inputs)
    if (input.kind == Input::Kind::tensor) check_layout(input, values_[input.value.index]);
}

// Symbols that are read from the results of this instruction.
void Evaluator::bind_results(const Instr& instr) {
  for (uint32_t s = 0; s < symbols_.size(); ++s) {
    const Source& source = trace_.dims.info(Symbol(s)).source;
    for (ValueId result : instr.results) {
      if (!source.value || source.value != result) continue;
      const HostTensor& t = values_[result.index];
      if (source.kind == Source::Kind::value_size) bind(Symbol(s), t.sizes.at(source.dim));
      if (source.kind == Source::Kind::value_stride) bind(Symbol(s), t.strides.at(source.dim));
      if (source.kind == Source::Kind::item) bind(Symbol(s), int_from_bits(t.load(t.places().at(0)), t.dtype));
    }
  }
}

// --- guards

bool Evaluator::holds(const Guard& guard) const {
  return escapement::holds(guard.kind, dim(guard.left), dim(guard.right));
}

std::optional<uint32_t> Evaluator::failing_guard(InstrId after) const {
  for (uint32_t g = 0; g < trace_.guards.size(); ++g)
    if (trace_.guards[g].after == after && !holds(trace_.guards[g])) return g;
  return std::nullopt;
}

std::string Evaluator::explain(const Guard& guard) const {
  std::string text = guard.because + ": needs " + trace_.dims.to_string(guard.left) + " " +
                     std::string(relation_text(guard.kind)) + " " + trace_.dims.to_string(guard.right);
  for (Dim side : {guard.left, guard.right})
    for (Symbol s : trace_.dims.symbols(side))
      if (bound_[s.index]) text += ", " + trace_.dims.to_string(s) + " = " + std::to_string(symbols_[s.index]);
  return text;
}

// --- instructions

HostTensor Evaluator::view(const TensorType& type) const {
  HostTensor root = values_[type.root.index];
  root.offset += dim(type.offset);
  root.sizes = dims(type.sizes);
  root.strides = dims(type.strides);
  return root;
}

void Evaluator::library(const Instr& instr, std::span<const HostTensor> operands) {
  if (!hooks_.call) throw UserError("the evaluator was given nothing to run " + std::string(name_of(instr.op)) + " " + instr.attrs.target);
  std::vector<HostTensor> results = hooks_.call(trace_, instr, operands);
  ESCAPEMENT_CHECK(results.size() == instr.results.size(), "a call gave the wrong number of results");
  for (size_t i = 0; i < results.size(); ++i) values_[instr.results[i].index] = std::move(results[i]);
}

void Evaluator::step(const Instr& instr) {
  std::vector<HostTensor> operands;
  std::vector<const TensorType*> types;
  for (ValueId v : instr.operands) {
    operands.push_back(values_[v.index]);
    types.push_back(&trace_.type(v));
  }
  const OpKind kind = info(instr.op).kind;
  if (kind == OpKind::effect) return reference::write(operands[0], operands[1]);
  if (kind == OpKind::call || (kind == OpKind::contract && !reference::can_contract(instr.op))) return library(instr, operands);
  const TensorType& type = trace_.type(instr.results[0]);
  HostTensor& result = values_[instr.results[0].index];
  if (kind == OpKind::view) {
    result = view(type);
    return;
  }
  result = allocate(type);
  const reference::Job job{instr, types, operands, result, [this](Dim d) { return dim(d); }};
  switch (kind) {
    case OpKind::pointwise: return reference::pointwise(job);
    case OpKind::reduce: return reference::reduce(job);
    case OpKind::create: return reference::create(job);
    case OpKind::index: return reference::index(job);
    case OpKind::combine: return reference::combine(job);
    case OpKind::contract: return reference::contract(job);
    default: throw InternalError("the evaluator cannot run " + std::string(name_of(instr.op)));
  }
}

HostOutput Evaluator::output(const Output& output) const {
  switch (output.kind) {
    case Output::Kind::value:
    case Output::Kind::input: return values_[output.value.index];
    case Output::Kind::integer: return dim(output.dim);
    case Output::Kind::boolean: return dim(output.dim) != 0;
    case Output::Kind::none: break;
  }
  return std::monostate();
}

Evaluation Evaluator::run() {
  Evaluation result;
  if ((result.failed_guard = failing_guard(InstrId()))) return result;
  check_inputs();
  for (uint32_t i = 0; i < trace_.instrs.size(); ++i) {
    step(trace_.instrs[i]);
    bind_results(trace_.instrs[i]);
    if ((result.failed_guard = failing_guard(InstrId(i)))) return result;
  }
  for (const Output& o : trace_.outputs) result.outputs.push_back(output(o));
  return result;
}

bool has_composites(const Trace& trace) {
  for (const Instr& instr : trace.instrs)
    if (info(instr.op).kind == OpKind::composite) return true;
  return false;
}

}  // namespace

Evaluation evaluate(const Trace& trace, std::span<const HostInput> inputs, const EvaluatorHooks& hooks) {
  if (has_composites(trace)) return evaluate(expand_composites(trace), inputs, hooks);
  Evaluator evaluator(trace, hooks);
  evaluator.bind_inputs(inputs);
  return evaluator.run();
}

std::string explain_guard(const Trace& trace, uint32_t guard, std::span<const HostInput> inputs) {
  const EvaluatorHooks none;
  Evaluator evaluator(trace, none);
  evaluator.bind_inputs(inputs);
  return evaluator.explain(trace.guards[guard]);
}

}  // namespace escapement
