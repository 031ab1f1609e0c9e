// Segment: the operators of one call that have been matched, or are being recorded, since the last one ended; and the
// matcher, which is the hot path of replay mode: compare an operator's arguments with a node of the tree, and note what the
// segment takes from outside.
#pragma once

#include <c10/core/GradMode.h>

#include <vector>

#include "support/limits.h"
#include "torch/replay_mode/launch.h"
#include "torch/replay_mode/stream.h"

namespace escapement {

class Segment {
 public:
  Segment() : table_(limits::table_of_a_segment) {}

  // The child of `parent` that this call of an operator continues with, or null. What it takes from outside is noted, and
  // stays noted only if `accept` follows. `recording`: produced tensors are ordinary ones, to be told from others by
  // `is_produced` alone.
  StreamNode* match(StreamNode& parent, const c10::OperatorHandle& op, const c10::IValue* arguments, bool recording) {
    return first_child(parent, op, [&](const StreamNode& node) { return matches(node, arguments, recording); });
  }
  bool matches(const StreamNode& node, const c10::IValue* arguments, bool recording);
  template <class Predicate>
  static StreamNode* first_child(StreamNode& parent, const c10::OperatorHandle& op, const Predicate& matches) {
    for (StreamNode* node = parent.child.load(std::memory_order_acquire); node != nullptr;
         node = node->sibling.load(std::memory_order_acquire)) {
      if (node->op == op && matches(*node)) return node;
    }
    return nullptr;
  }

  // Of one operator, in parts (unboxed_match.h): all of its arguments, then the relations.
  void begin_match() { outside_.resize(externals_.size()); }
  bool matches(const Pattern& pattern, const c10::IValue& value, bool recording);
  bool matches(const Pattern& pattern, const c10::TensorImpl& impl, bool recording) {
    switch (pattern.kind) {
      case Pattern::Kind::produced: return &impl == produced_[pattern.index] && !may_want_gradient(impl);
      case Pattern::Kind::known: return &impl == outside_[pattern.index] && !may_want_gradient(impl);
      default: return matches_other(pattern, impl, recording);
    }
  }
  bool takes(const Pattern& pattern, int64_t number) {
    if (pattern.kind == Pattern::Kind::integer) return number >= 0 && number != INT64_MAX && (table_[pattern.index] = number, true);
    return pattern.kind == Pattern::Kind::negative && number < -1 && number != INT64_MIN && (table_[pattern.index] = -number, true);
  }
  bool takes(const Pattern& pattern, double number);
  // The relations that the node needs.
  bool holds(const StreamNode& node) const {
    for (const Check& check : node.checks)
      if (!check.holds(table_.data())) return false;
    for (const NumberCheck& check : node.number_checks)
      if (!check.holds(reals_.data())) return false;
    return true;
  }

  // Its inputs are the segment's; produced tensors are added by `produce`.
  void accept(StreamNode& node) {
    if (externals_.size() < node.extent.externals) [[unlikely]] keep_outside(node.extent.externals);
    nodes_.push_back(&node);
    kept_gradients_.push_back(c10::GradMode::is_enabled());
  }
  // Whether gradients were kept when the program called it: whoever runs it late does so in that mode, in which eager would have.
  bool kept_gradients(size_t operator_number) const { return kept_gradients_[operator_number]; }
  void produce(const c10::TensorImpl* impl) { produced_.push_back(impl); }
  void replace(uint32_t number, const c10::TensorImpl* impl) { produced_[number] = impl; }
  void clear();

  bool empty() const { return nodes_.empty(); }
  const std::vector<StreamNode*>& nodes() const { return nodes_; }
  const int64_t* table() const { return table_.data(); }
  int64_t* table() { return table_.data(); }
  const std::vector<at::Tensor>& externals() const { return externals_; }
  double real(uint32_t index) const { return reals_[index]; }
  const c10::TensorImpl* produced(uint32_t number) const { return produced_[number]; }
  size_t produced_count() const { return produced_.size(); }
  bool is_produced(const c10::TensorImpl* impl) const;
  std::optional<uint32_t> produced_number(const c10::TensorImpl* impl) const;
  std::optional<uint32_t> external_number(const c10::TensorImpl* impl) const;

  // One operator's arguments again; `reals`: the produced tensors with memory.
  std::vector<c10::IValue> arguments_of(const StreamNode& node, const std::vector<at::Tensor>& produced) const;
  // The segment's inputs for its program. Tensors of numbers are kept in `held`.
  std::vector<Argument> inputs(std::vector<at::Tensor>& held) const;

 private:
  static bool may_want_gradient(const c10::TensorImpl& impl) {
    return const_cast<c10::TensorImpl&>(impl).autograd_meta() != nullptr && wants_gradient(impl);
  }
  bool matches_other(const Pattern& pattern, const c10::TensorImpl& impl, bool recording);
  bool matches_fresh(const Pattern& pattern, const c10::TensorImpl& impl, bool recording);
  bool matches_list(const Pattern& pattern, const c10::IValue& value, bool recording);
  bool matches_number(const Pattern& pattern, const c10::TensorImpl& impl);
  void keep_outside(size_t count);
  c10::IValue argument(const Pattern& pattern, const std::vector<at::Tensor>& produced) const;
  c10::IValue list_argument(const Pattern& pattern, const std::vector<at::Tensor>& produced) const;

  std::vector<StreamNode*> nodes_;
  std::vector<bool> kept_gradients_;              // of each
  std::vector<const c10::TensorImpl*> produced_;
  std::vector<const c10::TensorImpl*> outside_;   // beyond externals_: noted by a match
  std::vector<at::Tensor> externals_;
  std::vector<double> reals_;
  std::vector<int64_t> table_;
};

bool same_constant(const c10::IValue& a, const c10::IValue& b);
bool can_be_constant(const c10::IValue& value);
// The number that a tensor holds which the argument parser made of one.
c10::IValue number_in(const c10::TensorImpl& wrapped);
bool is_dressed_number(const c10::TensorImpl& impl);

}  // namespace escapement
