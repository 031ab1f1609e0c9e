// By numbering: equal expressions over equal inputs get equal numbers, whatever the stage. See computed_again.h.
#include "kernels/computed_again.h"

#include <algorithm>
#include <array>
#include <map>

namespace escapement {
namespace {

constexpr int kWorthKeeping = 10;  // operations

class Numbering {
 public:
  explicit Numbering(const LoopNest& nest) {
    for (const Stage& stage : nest.stages) stages_.push_back(number(stage));
  }

  // The stage's value with this number; none: no such value.
  std::optional<Reg> find(size_t stage, uint64_t number) const {
    const auto& all = stages_[stage];
    const auto found = std::find(all.begin(), all.end(), number);
    return found == all.end() ? std::nullopt : std::optional(static_cast<Reg>(found - all.begin()));
  }
  uint64_t of(size_t stage, size_t reg) const { return stages_[stage][reg]; }

 private:
  using Key = std::array<uint64_t, 6>;

  std::vector<uint64_t> number(const Stage& stage) {
    std::vector<uint64_t> numbers;
    for (const ScalarNode& node : stage.body.nodes()) {
      const bool gathers = node.op == ScalarOp::input && stage.inputs[node.bits].kind == LoopInput::Kind::gather;
      numbers.push_back(gathers ? next_++ : number(stage, node, numbers));   // a gather may fail: equal to nothing
    }
    return numbers;
  }

  uint64_t number(const Stage& stage, const ScalarNode& node, const std::vector<uint64_t>& numbers) {
    Key key{static_cast<uint64_t>(node.op), static_cast<uint64_t>(node.type), node.bits};
    const Reg operands[] = {node.a, node.b, node.c};
    for (int k = 0; k < arity_of(node.op); ++k) key[3 + static_cast<size_t>(k)] = numbers[operands[k]];
    if (node.op == ScalarOp::input) {
      key[2] = static_cast<uint64_t>(stage.inputs[node.bits].kind);
      key[3] = stage.inputs[node.bits].number;
    }
    const auto [at, fresh] = known_.emplace(key, next_);
    next_ += fresh ? 1 : 0;
    return at->second;
  }

  std::vector<std::vector<uint64_t>> stages_;
  std::map<Key, uint64_t> known_;
  uint64_t next_ = 0;
};

// Adds what the values marked so far are computed from; how many operations that takes in all.
int close(const Stage& stage, std::vector<bool>& needed) {
  const auto nodes = stage.body.nodes();
  int cost = 0;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    const Reg operands[] = {nodes[i].a, nodes[i].b, nodes[i].c};
    for (int k = 0; k < arity_of(nodes[i].op); ++k) needed[operands[k]] = true;
    if (nodes[i].op == ScalarOp::input && stage.inputs[nodes[i].bits].kind == LoopInput::Kind::gather) needed[stage.inputs[nodes[i].bits].position] = true;
    cost += arity_of(nodes[i].op) > 0 ? 1 : 0;
  }
  return cost;
}

int cost_of(const Stage& stage, size_t value) {
  std::vector<bool> needed(stage.body.nodes().size(), false);
  needed[value] = true;
  return close(stage, needed);
}

// What a stage computes to any purpose.
std::vector<bool> computed_by(const Stage& stage) {
  std::vector<bool> needed(stage.body.nodes().size(), false);
  for (const LoopStore& store : stage.stores) needed[store.value] = true;
  for (const LoopReduction& reduction : stage.reductions) needed[reduction.value] = true;
  close(stage, needed);
  return needed;
}

bool is_pure(const Stage& stage) { return stage.stores.empty(); }
bool has_place(DType type) { return type == DType::f32 || type == DType::f64; }

}  // namespace

std::optional<ComputedAgain> computed_again(const LoopNest& nest) {
  const Numbering numbering(nest);
  std::optional<ComputedAgain> best;
  int most = kWorthKeeping - 1;
  for (size_t first = 0; first < nest.stages.size(); ++first) {
    for (size_t later = first + 1; later < nest.stages.size() && is_pure(nest.stages[later - 1]); ++later) {
      const Stage &a = nest.stages[first], &b = nest.stages[later];
      if (a.kind != Stage::Kind::each_element || b.kind != Stage::Kind::each_element || !b.reductions.empty()) continue;
      const std::vector<bool> by_first = computed_by(a), by_later = computed_by(b);
      for (size_t i = 0; i < by_later.size(); ++i) {
        if (!by_later[i] || !has_place(b.body.nodes()[i].type)) continue;
        const auto same = numbering.find(first, numbering.of(later, i));
        const int cost = same && by_first[*same] ? cost_of(b, i) : 0;
        if (cost > most) most = cost, best = ComputedAgain{first, later, *same, static_cast<Reg>(i)};
      }
    }
  }
  return best;
}

}  // namespace escapement
