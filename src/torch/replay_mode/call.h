// ReplayCall: one call of a replayed function on its thread. It is told of every operator: one that continues the stream
// costs a comparison and a tensor without memory; one that does not is run, with all that was pending before it, and
// recorded as a new branch; one that cannot be deferred runs at once. `end_segment` computes what is pending, whoever asks.
//
// Three states of a segment: nothing yet, matching (nothing has run), recording (everything has run). A tensor without
// memory that comes to another thread ends the segment from there; a flag that costs a few nanoseconds keeps the two apart.
// Nothing that may want Python's lock happens while the flag is held: what must be let go is let go afterwards.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <vector>

#include "torch/recorder_fallback.h"
#include "torch/replay_mode/deferred.h"
#include "torch/replay_mode/segment_recorder.h"

namespace escapement {

class ReplayCall final : public OpListener {
 public:
  explicit ReplayCall(StreamTree& tree);
  ~ReplayCall();

  void begin();                    // on this thread, from here on
  static ReplayCall* current();
  void on_op(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;
  void end_segment() override;
  // Sizes and strides of a tensor that is pending; false if they are not known before it has memory.
  bool shape_of(const Produced& type, c10::SmallVector<int64_t, 8>& sizes, c10::SmallVector<int64_t, 8>& strides,
                int64_t& offset);

 private:
  using Stack = torch::jit::Stack;
  using DeferredPtr = c10::intrusive_ptr<Deferred>;
  class Lock;

  // --- the state of torch that operators depend on
  bool same_state(c10::impl::LocalDispatchKeySet tls) const;
  bool adopt_state();              // false: nothing changed
  bool mode_active() const;        // somebody else listens to operators, too

  void slow_op(const c10::OperatorHandle& op, Stack& stack);
  bool is_deferrable(const c10::OperatorHandle& op, const OpPlan& plan, std::span<const c10::IValue> arguments) const;
  bool is_of_segment(const at::Tensor& tensor) const;
  void run_at_once(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack);
  bool match_or_record(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack);

  void accept(StreamNode& node, Stack& stack, size_t count);
  c10::IValue hand(const Handed& handed, const c10::IValue* arguments, const StreamNode& node);
  at::Tensor defer(const Produced& type, const c10::IValue* arguments, const StreamNode& node);

  void start_recording();
  void record(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack);
  void finish_recording();
  bool may_record(const StreamNode& node) const;
  bool too_many_numbers(const c10::OperatorHandle& op, const OpPlan& plan, const Stack& stack) const;
  std::vector<StreamNode*> similar_nodes(const StreamNode* shadow) const;

  void flush();
  Slots live() const;
  bool launch(const Slots& live);
  bool try_launch(SegmentLaunch& launch, const Slots& live, std::span<const Argument> inputs);
  void run_one_by_one();
  void settle(const std::vector<at::Tensor>& real);
  void lose_pending();
  void reset();
  void let_go(DeferredPtr&& tensor);

  StreamTree& tree_;
  Segment segment_;
  StreamNode* root_ = nullptr;
  StreamNode* cursor_ = nullptr;
  StreamNode* shadow_ = nullptr;         // recording: the like place of a branch beside this one
  uint64_t included_ = 0, excluded_ = 0;
  caffe2::TypeMeta dtype_;               // the default one
  std::vector<DeferredPtr> pending_;     // by number
  std::vector<DeferredPtr> free_;        // to be used again
  std::unique_ptr<SegmentRecorder> recorder_;
  std::vector<at::Tensor> letting_go_;   // once the flag is down
  std::unique_ptr<SegmentRecorder> old_recorder_;
  std::atomic<bool> busy_{false};
};

}  // namespace escapement
