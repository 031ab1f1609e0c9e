// See program_info.h.
#include "torch/program/program_info.h"

#include <unordered_set>

#include "guards/check.h"
#include "torch/program/cpp_location.h"
#include "trace/effects.h"

namespace escapement {
namespace {

std::string location_of(const Trace& trace, const Location& location) {
  return location.index < trace.locations.size() ? readable_place(trace.locations[location.index]) : "";
}

bool is_escape(const Guard& guard) {
  const auto says = [&](std::string_view words) { return guard.because.find(words) != std::string::npos; };
  return guard.because.starts_with("exact value read") || guard.because.starts_with("branch") || says(" read as ") || says("read by the host");
}

void write_kernels(Json& json, const LaunchPlan& plan) {
  std::vector<int64_t> launches(plan.kernels.size());
  for (const Step& step : plan.steps) {
    if (const auto* kernel = std::get_if<KernelStep>(&step)) ++launches[kernel->kernel];
  }
  json.key("kernels").open_array();
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    json.open_object().field("name", plan.kernels[i].name).field("launches", launches[i]).key("ops").open_array();
    for (const Op op : plan.kernels[i].ops) json.value(name_of(op));
    json.close().close();
  }
  json.close();
}

std::string value_name(const Trace& trace, ValueId value) {
  const InstrId definition = trace[value].definition;
  std::string name = "%" + std::to_string(value.index);
  if (definition) name += " " + std::string(name_of(trace[definition].op));
  return name;
}

void write_apart(Json& json, const LaunchPlan& plan) {
  json.key("apart").open_array();
  for (const Apart& apart : plan.apart) {
    json.open_object().field("producer", value_name(plan.trace, apart.producer));
    json.field("consumer", value_name(plan.trace, apart.consumer));
    json.field("reason", reason_name(apart.why)).field("message", reason_message(apart.why)).close();
  }
  json.close();
}

void write_calls(Json& json, const LaunchPlan& plan) {
  json.key("calls").open_array();
  for (const Step& step : plan.steps) {
    const auto* call = std::get_if<CallStep>(&step);
    if (!call) continue;
    const Instr& instr = plan.trace[call->instr];
    json.open_object().field("target", instr.attrs.target).field("reason", reason_name(instr.why));
    json.field("planned", call->into_planned).field("location", location_of(plan.trace, instr.location)).close();
  }
  json.close();
}

void write_guards(Json& json, const Trace& trace) {
  json.key("guards").open_array();
  for (const Guard& guard : trace.guards) {
    json.open_object().field("guard", to_string(trace, guard)).field("because", guard.because);
    json.field("at_entry", testable_at_entry(trace, guard)).field("location", location_of(trace, guard.location)).close();
  }
  json.close();
}

// What is asked before a version may run, in the order in which it is asked.
void write_entry(Json& json, const Program& program) {
  json.key("entry").open_array();
  for (const std::string& relation : program.relations()) json.value(relation);
  json.close();
}

void write_symbols(Json& json, const Trace& trace) {
  json.key("symbols").open_array();
  for (uint32_t i = 0; i < trace.dims.symbol_count(); ++i) {
    const SymbolInfo& info = trace.dims.info(Symbol(i));
    json.open_object().field("symbol", trace.dims.to_string(Symbol(i))).field("source", to_string(info.source));
    if (info.source.kind <= Source::Kind::input_value && info.source.input < trace.inputs.size())
      json.field("input", trace.inputs[info.source.input].name);
    json.close();
  }
  json.close();
}

void write_timings(Json& json, const Compiled& compiled) {
  json.key("timings").open_object();
  for (const StepTime& step : compiled.times) json.field(step.name, step.milliseconds);
  json.close();
}

// Which steps change what the caller can see: memory of an argument, also under a name that a library call gave it (a view of another dtype),
// which has a buffer of its own.
class OutsideChanges {
 public:
  explicit OutsideChanges(const LaunchPlan& plan) : plan_(plan), outside_(plan.buffers.size(), false) {
    std::unordered_set<uint32_t> storages;
    for (const Input& input : plan.trace.inputs)
      if (input.value) storages.insert(plan.trace.type(input.value).storage.index);
    for (uint32_t value = 0; value < plan.buffer_of.size(); ++value) {
      const uint32_t buffer = plan.buffer_of[value];
      if (buffer != ValueId::kNone && storages.contains(plan.trace.type(ValueId(value)).storage.index)) outside_[buffer] = true;
    }
    for (size_t i = 0; i < plan.buffers.size(); ++i) outside_[i] = outside_[i] || plan.buffers[i].kind == Buffer::Kind::input;
  }

  bool made_by(const Step& step) const {
    if (const auto* const kernel = std::get_if<KernelStep>(&step)) return made_by(*kernel);
    const auto* const call = std::get_if<CallStep>(&step);
    if (!call) return false;
    const Instr& instr = plan_.trace[call->instr];
    return acts_outside(instr) || std::any_of(instr.writes.begin(), instr.writes.end(), [&](uint32_t operand) {
      const uint32_t buffer = plan_.buffer_of[instr.operands[operand].index];
      return buffer != ValueId::kNone && outside_[buffer];
    });
  }

 private:
  bool made_by(const KernelStep& step) const {
    const auto& params = plan_.kernels[step.kernel].nest.params;
    for (size_t i = 0; i < params.size(); ++i)
      if (params[i].written && outside_[step.operands[i].buffer]) return true;
    return false;
  }

  const LaunchPlan& plan_;
  std::vector<bool> outside_;   // by buffer
};

}  // namespace

void write_program(Json& json, const Program& program) {
  const Compiled& compiled = *program.compiled();
  if (!program.device().is_cpu()) json.field("device", program.device().str());
  write_kernels(json, compiled.plan);
  write_apart(json, compiled.plan);
  write_calls(json, compiled.plan);
  write_guards(json, compiled.plan.trace);
  write_entry(json, program);
  write_symbols(json, compiled.plan.trace);
  write_timings(json, compiled);
  json.field("prepared", program.describe_calls());
}

void append_escapes(std::vector<Escape>& found, const Trace& trace) {
  for (const Guard& guard : trace.guards) {
    if (is_escape(guard)) found.push_back({to_string(trace, guard), guard.because, location_of(trace, guard.location)});
  }
}

std::string describe(const Miss& miss) {
  return miss.source + ": expected " + miss.expected + ", seen " + miss.seen;
}

// Which of them it was the compiled code does not tell: all are named, up to three.
std::string describe_inner_miss(const Trace& trace) {
  std::string text;
  int named = 0;
  for (const Guard& guard : trace.guards) {
    if (!guard.after) continue;
    if (++named > 3) break;
    const std::string where = location_of(trace, guard.location);
    text += (named > 1 ? "; " : "") + to_string(trace, guard) + " (" + guard.because + (where.empty() ? "" : ", " + where) + ")";
  }
  return "a value that the program reads: expected " + text;
}

BodyEffects effects_of(const Trace& trace) {
  std::unordered_set<uint32_t> outside;
  for (const Input& input : trace.inputs)
    if (input.value) outside.insert(trace.type(input.value).storage.index);
  BodyEffects found{false, false};
  for (const Instr& instr : trace.instrs) {
    found.other |= acts_outside(instr);
    for (const uint32_t operand : instr.writes) found.writes_arguments |= outside.contains(trace.type(instr.operands[operand]).storage.index);
  }
  return found;
}

namespace {

// Expressions of one program's sizes in the table of another, which knows its arguments.
class Translator {
 public:
  Translator(const Trace& from, DimTable& to, std::span<const std::vector<Dim>> arguments) : from_(from), to_(to), arguments_(arguments) {}

  Dim translate(Dim dim) {
    std::vector<Dim> stack;
    for (const DimTable::Step& step : from_.dims.steps(dim)) {
      if (step.op == SizeOp::constant) stack.push_back(to_.constant(step.constant));
      else if (step.op == SizeOp::symbol) stack.push_back(symbol(step.symbol));
      else apply(step.op, stack);
      if (!stack.back()) return {};
    }
    return stack.back();
  }

 private:
  Dim symbol(Symbol symbol) const {
    const Source& source = from_.dims.info(symbol).source;
    const bool size = source.kind == Source::Kind::input_size;
    if ((!size && source.kind != Source::Kind::input_value) || source.input >= arguments_.size()) return {};
    const std::vector<Dim>& argument = arguments_[source.input];
    const uint32_t position = size ? source.dim : 0;
    return position < argument.size() ? argument[position] : Dim();
  }

  void apply(SizeOp op, std::vector<Dim>& stack) {
    const Dim b = stack.back();
    stack.pop_back();
    stack.back() = to_.apply(op, stack.back(), b);
  }

  const Trace& from_;
  DimTable& to_;
  std::span<const std::vector<Dim>> arguments_;
};

}  // namespace

std::vector<std::vector<Dim>> translated_sizes(const Trace& body, DimTable& dims, std::span<const std::vector<Dim>> arguments) {
  Translator translator(body, dims, arguments);
  std::vector<std::vector<Dim>> sizes;
  for (const Output& output : body.outputs) {
    sizes.emplace_back();
    if (!output.value || body[output.value].kind == ValueKind::none) continue;
    for (const Dim dim : body.type(output.value).sizes) sizes.back().push_back(translator.translate(dim));
  }
  return sizes;
}

bool errors_follow_effects(const LaunchPlan& plan, bool acted) {
  const OutsideChanges changes(plan);
  bool effect = acted;
  for (const Step& step : plan.steps) {
    effect = effect || changes.made_by(step);
    const auto* const kernel = std::get_if<KernelStep>(&step);
    const bool refuses = kernel != nullptr ? !kernel->failure.empty() : std::holds_alternative<CallStep>(step);
    if (effect && refuses) return true;
  }
  return false;
}

bool checks_follow_effects(const LaunchPlan& plan) {
  const OutsideChanges changes(plan);
  bool effect = false;
  for (const Step& step : plan.steps) {
    if (std::holds_alternative<CheckStep>(step) && effect) return true;
    effect = effect || changes.made_by(step);
  }
  return false;
}

}  // namespace escapement
