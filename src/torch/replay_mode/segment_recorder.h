// SegmentRecorder: a segment run for real, operator by operator, under a tape of its own. It is handed the operators; the
// program works on ordinary tensors meanwhile. What it learns of an operator makes the node of the stream complete: what the
// operator hands back, which relations of sizes that takes, and whether the segment must end there.
#pragma once

#include <memory>
#include <vector>

#include "torch/record/lower.h"
#include "torch/record/recorder.h"
#include "torch/replay_mode/layouts.h"
#include "torch/replay_mode/segment.h"

namespace escapement {

class Wrapper;

class SegmentRecorder {
 public:
  explicit SegmentRecorder(const std::string& name);
  ~SegmentRecorder();

  // Runs an operator whose arguments fit the node; the stack then holds ordinary tensors. Throws what the operator throws.
  void run(const StreamNode& node, torch::jit::Stack& stack, const Segment& segment);
  // After a run of a node that is new: results, checks, produced tensors, end.
  void complete(StreamNode& node, const OpPlan& plan);
  bool live() const;
  const std::string& refused_detail() const;
  Reason refused() const;

  // Tensors that the last run produced, in order. The program may hold another tensor with the same memory for one: see
  // `hold`.
  const std::vector<at::Tensor>& produced() const { return produced_; }
  void hold(uint32_t number, const at::Tensor& held) { held_[number] = held; }

  // Which produced tensors somebody else holds still; lets go of all others.
  Slots release_dead();
  Recording finish(const Slots& results);

 private:
  struct Place {
    SegmentInput::Kind kind;
    uint32_t slot = 0, rank = 0;   // real: its number among those of the segment
    bool contiguous = true;
  };

  c10::IValue substitute(const Pattern& pattern, const c10::IValue& value);
  c10::IValue substitute_list(const Pattern& pattern, const c10::IValue& value);
  c10::IValue fresh(const Pattern& pattern, const at::Tensor& real);
  c10::SymInt integer(const Pattern& pattern, int64_t value);
  c10::SymNode real_node(const Pattern& pattern, double value);
  c10::IValue number(const Pattern& pattern, const at::Tensor& wrapped);
  void take_results(const StreamNode& node, torch::jit::Stack& stack);
  c10::IValue take(const c10::IValue& result, int returned);

  Handed handed(const c10::IValue& result, int returned);
  void describe_produced(StreamNode& node, const OpPlan& plan, const at::Tensor& wrapper);
  void describe_layout(const StreamNode& node, const OpPlan& plan, const Wrapper& wrapper, Produced& out);
  void note_layout_matters(StreamNode& node, const OpPlan& plan) const;
  void note_laid(const StreamNode& node, const Produced& type);
  OperandLayouts operands_of(const StreamNode& node, const TensorType& result, int only);
  void name_base(const at::Tensor& real) const;
  bool is_other_name(const at::Tensor& argument, const at::Tensor& original) const;
  void count_write(const at::Tensor& argument, const at::Tensor& original) const;
  void count_writes(const OpPlan& plan) const;
  void share_counter(const Wrapper& result) const;
  void keep_what_told_nothing(const TensorType& type);
  void note_operands(const StreamNode& node, Produced& out) const;
  std::span<const Instr> made() const;        // by the last run
  void note_end(StreamNode& node, const OpPlan& plan) const;
  void collect_checks(StreamNode& node);
  bool collect(const Guard& guard, StreamNode& node) const;
  void drop_what_is_said(const StreamNode& node);
  bool pins_number(const Guard& guard, const StreamNode& node) const;
  std::optional<uint32_t> real_of(ValueId input) const;
  bool writes_outside(const Instr& instr) const;
  std::optional<uint32_t> slot_of(Symbol symbol) const;
  std::optional<uint32_t> offset_slot(ValueId root) const;

  Recorder recorder_;
  std::vector<Place> places_;                 // per input of the trace
  std::vector<at::Tensor> externals_;         // wrappers
  std::vector<at::Tensor> wrappers_;          // of produced tensors
  std::vector<at::Tensor> produced_, held_;   // held: what the program holds, if that is another tensor
  static constexpr int kNoView = -1, kViewOfOutside = -2;
  struct Laid {
    LayoutHolds holds;
    bool is_view;
    int base;   // the produced tensor that a matched call takes it for a view of (Deferred::note_base), or one of the above
  };
  std::vector<Laid> laid_;                    // produced tensors
  std::vector<std::unique_ptr<SymbolicNumber>> numbers_;
  // Of the last run:
  std::vector<c10::IValue> arguments_, originals_;
  std::vector<Handed> handed_;
  size_t first_produced_ = 0, first_instr_ = 0;
  size_t collected_ = 0;                      // guards of the tape that nodes say
};

}  // namespace escapement
