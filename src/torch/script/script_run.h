// ScriptRun: a method's graph, run node by node on what a recording hands in: tensors that are recorded, sizes that are symbols. Operators are
// the same ones that TorchScript's interpreter calls, in the same order; what differs is that `aten::size`, arithmetic and lists keep symbols,
// and operators of the dispatcher get them. Whatever else wants a number reads (pins) it.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace escapement {

// The first node that has no rule here, in words; empty: the graph can be run. Graphs have no calls of methods left (Inline).
std::string node_without_rule(const torch::jit::Block& block);

class ScriptRun {
 public:
  using Values = std::vector<c10::IValue>;
  // The results of the graph. `arguments`: of all its inputs.
  static Values of(const torch::jit::Graph& graph, Values arguments);

 private:
  using Node = torch::jit::Node;
  using Value = torch::jit::Value;

  void run(const torch::jit::Block& block);
  void run(const Node& node);
  void constant(const Node& node);
  void branch(const Node& node);
  void loop(const Node& node);
  void call(const Node& node);
  void compute(const Node& node, const char* op, std::span<const c10::IValue> operands);
  bool symbolic(const Node& node);
  bool number_of_tensors(const Node& node, std::span<const c10::IValue> operands);
  void bind(const Node& node, Values results);
  const c10::IValue& at(const Value* value) const { return values_.at(value).value; }
  void set(const Value* value, c10::IValue to);
  bool said_of_tensor(const Node& node, std::span<const c10::IValue> operands);
  Values inputs(const Node& node) const;
  Values outputs(const torch::jit::Block& block) const;

  void let_go(const Node& node);

  struct Held {
    c10::IValue value;
    size_t reads;   // that are to come
  };
  std::unordered_map<const Value*, Held> values_;
};

// As TorchScript's interpreter says it of an operator that failed.
std::string interpreters_words(const std::string& kind, const std::string& what);
[[noreturn]] void raise_as_interpreter(const std::string& what);

// --- script_nodes.cpp: values

bool is_symbol(const c10::IValue& value);
// What an operator of the dispatcher takes: symbols and lists of them where it takes these.
c10::IValue fitting(const c10::IValue& value, const c10::Argument& formal);
// The number itself, which pins a symbol.
c10::IValue number_read(const c10::IValue& value);
// A list, tuple or table of these, of the type that the node gives.
c10::IValue collected(const torch::jit::Node& node, std::vector<c10::IValue> items);
// The parts that a node takes a value apart into.
std::vector<c10::IValue> taken_apart(const torch::jit::Node& node, const c10::IValue& value);
// Of an operator without a kernel: what it looks at (texts, comparisons, keys, sorting) must be numbers; what it only moves may be symbols.
void read_what_is_looked_at(const std::string& name, std::vector<c10::IValue>& stack);
// Whether lists of sizes are equal, or differ, as relations; none: the node asks something else.
std::optional<bool> lists_compared(const torch::jit::Node& node, std::span<const c10::IValue> operands);
// A number that TorchScript has made a tensor of, as a tensor.
c10::IValue as_tensor(const c10::IValue& value);
// Arithmetic and comparisons of numbers: the operator of exported programs that does the same, or null.
const char* arithmetic_of(const torch::jit::Node& node, std::span<const c10::IValue> operands);
// The sum, or an extreme, of a list of sizes; None: the node is something else.
c10::IValue folded(const torch::jit::Node& node, std::span<const c10::IValue> operands);
bool is_instance(const torch::jit::Node& node, const c10::IValue& value);
// One item of a tuple, or a tuple of some.
std::vector<c10::IValue> part_of_tuple(const torch::jit::Node& node, std::span<const c10::IValue> operands);

}  // namespace escapement
