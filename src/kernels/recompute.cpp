// Which values are cheap enough to be computed by each consumer: a small number of exact operations on inputs of the program whose
// memory nothing writes, or on no memory at all (constants, iota). Restricting the leaves to inputs keeps memory order out of it.
#include "kernels/fuse.h"

#include <algorithm>

#include "trace/scalar_ops.h"

namespace escapement {
namespace {

constexpr int kMaxOps = 4;         // with loads
constexpr int kMaxOpsWithoutLoads = 8;
constexpr int kMaxLoads = 2;
constexpr int kMaxConsumers = 4;   // with loads

struct Cost {
  bool possible = false;
  int ops = 0, loads = 0;
};

class Recompute {
 public:
  explicit Recompute(const FuseGraph& graph) : graph_(graph), costs_(graph.nodes.size()), users_(graph.nodes.size(), 0) {}

  std::vector<bool> run() {
    for (const GraphNode& node : graph_.nodes) {
      for (const Edge& e : node.inputs) ++users_[e.producer];
    }
    std::vector<bool> again(graph_.nodes.size(), false);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      costs_[n] = cost_of(graph_.nodes[n]);
      again[n] = costs_[n].possible && (costs_[n].loads == 0 || users_[n] <= kMaxConsumers);
    }
    return again;
  }

 private:
  Cost cost_of(const GraphNode& node) const {
    if (node.role == Role::create) return {!is_written(graph_.instr(node).results[0]), 0, 0};
    if (node.role == Role::index && !node.inputs.empty() && node.inputs[0].operand == 0) return {};  // data is no input
    if ((node.role != Role::pointwise && node.role != Role::index) || is_expensive(graph_.instr(node).op)) return {};
    const Instr& instr = graph_.instr(node);
    Cost cost{true, 1, 0};
    for (uint32_t k = 0; k < instr.operands.size() && cost.possible; ++k) add(cost, operand_cost(node, k));
    const int most = cost.loads == 0 ? kMaxOpsWithoutLoads : kMaxOps;
    cost.possible = cost.possible && cost.ops <= most && cost.loads <= kMaxLoads && !is_written(instr.results[0]);
    return cost;
  }

  static void add(Cost& sum, const Cost& part) {
    sum.possible = sum.possible && part.possible;
    sum.ops += part.ops;
    sum.loads += part.loads;
  }

  Cost operand_cost(const GraphNode& node, uint32_t k) const {
    const ValueId v = graph_.instr(node).operands[k];
    for (const Edge& e : node.inputs) {
      if (e.operand == k) return can_follow(node, e) ? costs_[e.producer] : Cost{};
    }
    return {!is_written(v), 0, 1};
  }

  bool can_follow(const GraphNode& node, const Edge& e) const {
    if (e.memory || !is_simple_view(graph_.trace, e.value)) return false;
    AxisMap map, iter(node.shape.size());
    return operand_map(graph_, node, e.operand, iter, map);
  }

  bool is_written(ValueId v) const {
    const Storage s = graph_.trace.type(v).storage;
    return s && graph_.written[s];
  }

  const FuseGraph& graph_;
  CheckedVector<Cost> costs_;
  CheckedVector<int> users_;
};

}  // namespace

std::vector<bool> recomputable(const FuseGraph& graph) { return Recompute(graph).run(); }

namespace {

// Whether the row's expression divides or takes a root, of an element of a type that the row computes on.
bool divides(Op op) {
  const OpInfo& row = info(op);
  TensorType element;
  element.dtype = row.domain == Domain::whole || row.domain == Domain::bits ? DType::i32 : DType::f32;
  const std::vector<const TensorType*> operands(static_cast<size_t>(row.arity), &element);
  Attrs attrs;
  attrs.dtype = element.dtype;
  for (const RowNumber& number : numbers_of(op)) {
    Number& value = number.place == RowNumber::Place::value ? attrs.value : attrs.value2;
    value.kind = Number::Kind::real;
    value.real = number.otherwise;
  }
  const PointwiseProgram made = pointwise_program(op, operands, element.dtype, attrs);
  return std::ranges::any_of(made.program.nodes(), [](const ScalarNode& node) { return node.op == ScalarOp::div || node.op == ScalarOp::sqrt; });
}

std::vector<bool> expensive_rows() {
  std::vector<bool> rows;
  for (int i = 0; i < op_count(); ++i) {
    const Op op = static_cast<Op>(i);
    rows.push_back(info(op).kind == OpKind::pointwise && (info(op).tier != Tier::exact || divides(op)));
  }
  return rows;
}

}  // namespace

bool is_expensive(Op op) {
  static const std::vector<bool> rows = expensive_rows();
  return rows[static_cast<size_t>(op)];
}

}  // namespace escapement
