// escapement-opt: reads a trace as text and runs any range of stages on it. What golden tests and bug reports are made of.
//
//   escapement-opt [--passes=NAME,NAME,...] [FILE]      FILE absent or "-": standard input
//
// The stages of a compile are those of support/stages.def; what is of use on text besides is a row of kTools. A stage gets the artifact and
// leaves it changed; a trace or plan that is left at the end is printed. Errors go to standard error as `error: ...` with exit status 1.
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <sstream>

#include "jit/stages.h"
#include "kernels/plan.h"
#include "support/error.h"
#include "support/options.h"
#include "support/text.h"
#include "trace/builder.h"
#include "trace/evaluator.h"
#include "trace/scalar.h"
#include "trace/verifier.h"

namespace escapement {
namespace {

struct Artifact {
  std::string text;                    // the input, later the output of a stage that ends in text
  std::optional<Compiling> compiling;  // empty before `parse` and after a stage that ends in text

  Compiling& begin() {
    if (!compiling) compiling = Compiling{parse_trace(text), {}};
    return *compiling;
  }
  Trace& get() {
    if (begin().plan) throw UserError("this stage takes a trace, and the stages before it left a plan");
    return compiling->trace;
  }
  void finish(std::string result) {
    text = std::move(result);
    compiling.reset();
  }
};

struct StageRow {
  std::string_view name, doc;
  std::function<void(Artifact&)> run;
};

// --- stages

// Makes the trace again through the builder, so that result types, layouts and guards are what the rules say; the types in the
// text count for inputs and calls only.
class Rebuilder {
 public:
  explicit Rebuilder(const Trace& from) : from_(from), builder_(to_), values_(from.values.size()) {
    to_.name = from.name;
    to_.dims = from.dims;
  }

  Trace run() {
    for (const Input& input : from_.inputs) add_input(input);
    for (uint32_t i = 0; i < from_.instrs.size(); ++i) add_instr(from_.instrs[i]);
    for (Output output : from_.outputs) {
      if (output.value) output.value = values_[output.value.index];
      builder_.output(output);
    }
    return std::move(to_);
  }

 private:
  void add_input(const Input& input) {
    if (input.kind == Input::Kind::integer) {
      to_.inputs.push_back(input);
      return;
    }
    TensorType type = from_.type(input.value);
    type.storage = {};
    type.root = {};
    values_[input.value.index] = builder_.input(std::move(type), input.name, input.parameter);
  }

  void add_instr(const Instr& instr) {
    const bool located = instr.location.index < from_.locations.size();
    builder_.set_location(located ? builder_.locate(from_.locations[instr.location.index]) : Location{});
    std::vector<ValueId> operands;
    for (ValueId operand : instr.operands) operands.push_back(operand ? values_[operand.index] : operand);
    if (instr.op == Op::call) return add_call(instr, operands);
    if (instr.op == Op::write) return builder_.write(operands.at(0), operands.at(1));
    values_[instr.results.at(0).index] = make(instr, operands);
  }

  void add_call(const Instr& instr, const std::vector<ValueId>& operands) {
    std::vector<TensorType> types;
    for (ValueId result : instr.results) {
      TensorType type = from_.type(result);
      type.root = type.root == result ? ValueId() : values_[type.root.index];
      type.storage = type.root ? to_.type(type.root).storage : Storage();
      types.push_back(std::move(type));
    }
    const InstrId id = builder_.call(instr.attrs.target, operands, instr.attrs.args, types, instr.writes, instr.effect, instr.why);
    for (size_t i = 0; i < instr.results.size(); ++i) values_[instr.results[i].index] = to_[id].results[i];
  }

  ValueId make(const Instr& instr, const std::vector<ValueId>& operands) {
    const Attrs& attrs = instr.attrs;
    switch (info(instr.op).kind) {
      case OpKind::pointwise: return builder_.pointwise(instr.op, operands, attrs);
      case OpKind::reduce: return builder_.reduce(instr.op, operands.at(0), attrs.axes, attrs.keepdim, attrs);
      case OpKind::view: return builder_.view(instr.op, operands.at(0), attrs);
      case OpKind::create: return builder_.create(instr.op, attrs);
      case OpKind::index: return builder_.index(instr.op, operands, attrs);
      case OpKind::combine: return builder_.combine(instr.op, operands, attrs);
      case OpKind::composite: return builder_.composite(instr.op, operands, attrs);
      case OpKind::contract: return builder_.contract(instr.op, operands, attrs);
      default: throw InternalError("rebuild: unexpected op");
    }
  }

  const Trace& from_;
  Trace to_;
  Builder builder_;
  std::vector<ValueId> values_;
};

// --- evaluation on small made-up inputs

// Symbols get their hints; inputs get small numbers that differ from element to element.
class Inputs {
 public:
  explicit Inputs(const Trace& trace) : trace_(trace) {
    for (uint32_t i = 0; i < trace.dims.symbol_count(); ++i) symbols_.push_back(trace.dims.info(Symbol(i)).hint.value_or(2));
  }

  std::vector<HostInput> make() const {
    std::vector<HostInput> result;
    for (const Input& input : trace_.inputs) {
      if (input.kind == Input::Kind::integer) result.emplace_back(trace_.dims.evaluate(input.dim, symbols_));
      else result.emplace_back(tensor(trace_.type(input.value)));
    }
    return result;
  }

 private:
  std::vector<int64_t> values(std::span<const Dim> dims) const {
    std::vector<int64_t> result;
    for (Dim dim : dims) result.push_back(trace_.dims.evaluate(dim, symbols_));
    return result;
  }

  HostTensor tensor(const TensorType& type) const {
    HostTensor made = HostTensor::make(type.dtype, values(type.sizes), values(type.strides));
    int64_t n = 0;
    for (int64_t place : made.places()) {
      const double number = is_float(type.dtype) ? static_cast<double>(n % 7) - 2.5 : static_cast<double>(n % 3);
      made.store(place, to_bits(type.dtype == DType::b8 ? static_cast<double>(n % 2) : number, compute_type(type.dtype)));
      ++n;
    }
    return made;
  }

  const Trace& trace_;
  std::vector<int64_t> symbols_;
};

std::string output_text(const HostOutput& output) {
  if (const auto* number = std::get_if<int64_t>(&output)) return std::to_string(*number);
  if (const auto* truth = std::get_if<bool>(&output)) return *truth ? "true" : "false";
  const auto* tensor = std::get_if<HostTensor>(&output);
  if (!tensor) return "none";
  const auto integers = [](int64_t n) { return std::to_string(n); };
  return std::string(name_of(tensor->dtype)) + "[" + join(tensor->sizes, ", ", integers) + "]{" +
         join(tensor->strides, ", ", integers) + "} " + join(tensor->to_doubles(), " ", real_to_text);
}

std::string evaluation_text(const Trace& trace) {
  const std::vector<HostInput> inputs = Inputs(trace).make();
  const Evaluation evaluation = evaluate(trace, inputs);
  if (evaluation.failed_guard) return "guard failed: " + explain_guard(trace, *evaluation.failed_guard, inputs) + "\n";
  std::string result;
  for (const HostOutput& output : evaluation.outputs) result += output_text(output) + "\n";
  return result;
}

std::string truth_text(const DimTable& dims, Dim left, Dim right) {
  const auto word = [](Truth t) { return t == Truth::yes ? "yes" : t == Truth::no ? "no" : "unknown"; };
  return std::string("equal ") + word(dims.equal(left, right)) + ", less " + word(dims.less(left, right)) + ", less_equal " +
         word(dims.less_equal(left, right)) + ", divisible " + word(dims.divisible(left, right));
}

// For each integer output its canonical form and range; for each guard what is known about its sides.
std::string canonical_text(Trace& trace) {
  std::string result;
  const auto bound = [](int64_t b) { return b == Range::kMin ? "min" : b == Range::kMax ? "max" : std::to_string(b); };
  for (const Output& output : trace.outputs) {
    if (output.kind != Output::Kind::integer) continue;
    const Range range = trace.dims.range(output.dim);
    result += trace.dims.to_string(output.dim) + " -> " + trace.dims.to_string(trace.dims.canonical(output.dim)) + " in [" +
              bound(range.low) + ", " + bound(range.high) + "]\n";
  }
  for (const Guard& guard : trace.guards)
    result += trace.dims.to_string(guard.left) + " ? " + trace.dims.to_string(guard.right) + ": " +
              truth_text(trace.dims, guard.left, guard.right) + "\n";
  return result;
}

const StageRow kTools[] = {
    {"parse", "text to trace", [](Artifact& a) { a.get(); }},
    {"verify", "check every invariant of trace/verifier.h", [](Artifact& a) { verify(a.get()); }},
    {"round-trip", "check that the text reads back equal", [](Artifact& a) { verify_text(a.get()); }},
    {"rebuild", "make the trace again by the rules", [](Artifact& a) { a.get() = Rebuilder(a.get()).run(); }},
    {"canonical", "show integer outputs in canonical form", [](Artifact& a) { a.finish(canonical_text(a.get())); }},
    {"evaluate", "run the reference evaluator; sizes are the hints", [](Artifact& a) { a.finish(evaluation_text(a.get())); }},
    {"print", "trace to text", [](Artifact& a) { a.finish(print(a.get())); }},
};

void run_stage(const CompileStage& stage, Artifact& a) {
  const bool shows_plan = stage.leaves == CompileStage::Leaves::text;
  if (!shows_plan) a.get();   // throws where there is no trace
  else if (!a.begin().plan) throw UserError("'" + std::string(stage.name) + "' shows a plan: write plan," + std::string(stage.name));
  if (shows_plan) a.finish(stage.text(*a.compiling));
  else stage.run(*a.compiling, Options());
}

std::string left_by(const Artifact& a) {
  if (!a.compiling) return a.text;
  return a.compiling->plan ? print(*a.compiling->plan) : print(a.compiling->trace);
}

std::vector<StageRow> all_stages() {
  std::vector<StageRow> rows(std::begin(kTools), std::end(kTools));
  for (const CompileStage& stage : compile_stages()) rows.push_back({stage.name, stage.what, [&stage](Artifact& a) { run_stage(stage, a); }});
  return rows;
}

const std::vector<StageRow> kStages = all_stages();

// --- the command line

const StageRow& find_stage(std::string_view name) {
  std::vector<std::string_view> names;
  for (const StageRow& stage : kStages) {
    if (stage.name == name) return stage;
    names.push_back(stage.name);
  }
  std::string message = "no stage named '" + std::string(name) + "'";
  if (const auto near = nearest_name(name, names); !near.empty()) message += "; did you mean '" + std::string(near) + "'?";
  throw UserError(message);
}

std::vector<const StageRow*> find_stages(std::string_view list) {
  std::vector<const StageRow*> result;
  for (const std::string_view name : names_in(list)) result.push_back(&find_stage(name));
  return result;
}

std::string read(const std::string& path) {
  if (path.empty() || path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path);
  if (!file) throw UserError("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string help() {
  std::string text = "usage: escapement-opt [--passes=NAME,...] [FILE]\nstages:\n";
  for (const StageRow& stage : kStages) {
    std::string name(stage.name);
    name.resize(14, ' ');
    text += "  " + name + std::string(stage.doc) + "\n";
  }
  return text;
}

int run(std::span<char* const> arguments) {
  std::string passes = "verify,print", path;
  for (std::string_view argument : arguments) {
    if (argument == "--help") return std::cout << help(), 0;
    if (argument.starts_with("--passes=")) passes = argument.substr(9);
    else if (argument.starts_with("--")) throw UserError("unknown option " + std::string(argument));
    else path = argument;
  }
  const auto stages = find_stages(passes);
  Artifact artifact{read(path), {}};
  for (const StageRow* stage : stages) stage->run(artifact);
  std::cout << left_by(artifact);
  return 0;
}

}  // namespace
}  // namespace escapement

int main(int argc, char** argv) {
  try {
    return escapement::run({argv + 1, static_cast<size_t>(argc > 0 ? argc - 1 : 0)});
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
