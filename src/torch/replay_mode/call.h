// ReplayCall: one call of a replayed function on its thread. It is told of every operator: one that continues the stream
// costs a comparison and a tensor without memory; one that does not is run, with all that was pending before it, and
// recorded as a new branch; one that cannot be deferred runs at once. `end_segment` computes what is pending, whoever asks.
//
// Three states of a segment: nothing yet, matching (nothing has run), recording (everything has run). A tensor without
// memory that comes to another thread ends the segment from there; a flag that costs a few nanoseconds keeps the two apart.
// Nothing that may want Python's lock happens while the flag is held: what must be let go is let go afterwards.
#pragma once

#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "support/float_mode.h"
#include "torch/record/recorder_fallback.h"
#include "torch/replay_mode/eager_layouts.h"
#include "torch/replay_mode/pending.h"
#include "torch/replay_mode/segment_recorder.h"
#include "torch/replay_mode/unboxed_match.h"

namespace escapement {

class ReplayCall final : public OpListener {
 public:
  explicit ReplayCall(StreamTree& tree);
  ~ReplayCall();

  void begin();                    // on this thread, from here on
  static ReplayCall* current() { return static_cast<ReplayCall*>(op_listener()); }
  void on_op(const c10::OperatorHandle& op, torch::jit::Stack& stack) override;
  // An operator that returns one tensor, given its arguments as they are; undefined if it does not continue the stream, and
  // nothing has happened then.
  template <class... Args>
  at::Tensor match_unboxed(const c10::OperatorHandle& op, const Args&... args);
  void end_segment() override;
  void end_segment_exactly();      // each operator by itself, so that even what addresses nothing is as in eager
  // Is it the program's own code that runs, and neither an operator nor a segment?
  bool host_runs() const {
    return !busy_.load(std::memory_order_relaxed) && !c10::impl::tls_is_dispatch_key_excluded(kRecorderKey);
  }
  // Sizes and strides of a tensor that is pending; false if they are not known before it has memory. `exact`: also of what addresses
  // nothing.
  bool shape_of(const Produced& type, KnownLayout& layout, bool& exact);

 private:
  using Stack = torch::jit::Stack;
  class Lock;

  // --- the state of torch that operators depend on
  static bool autocast_is_off(c10::DispatchKeySet excluded) { return excluded.has(c10::DispatchKey::AutocastCPU); }
  bool same_state(c10::impl::LocalDispatchKeySet tls) const {
    return (tls.included_.raw_repr() & ~kOwn) == included_ &&
           (tls.excluded_.raw_repr() | c10::autocast_dispatch_keyset.raw_repr()) == excluded_ &&
           c10::get_default_dtype() == dtype_ && float_mode() == float_mode_;
  }
  bool may_match() const {
    const auto tls = c10::impl::tls_local_dispatch_key_set();
    return !recorder_ && autocast_is_off(tls.excluded_) && same_state(tls);
  }
  bool adopt_state();              // false: nothing changed
  bool mode_active() const;        // somebody else listens to operators, too

  void slow_op(const c10::OperatorHandle& op, Stack& stack);
  bool is_deferrable(const c10::OperatorHandle& op, const OpPlan& plan, std::span<const c10::IValue> arguments) const;
  bool is_of_segment(const at::Tensor& tensor) const;
  void run_at_once(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack);
  bool match_or_record(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack);

  void accept(StreamNode& node, Stack& stack, size_t count);
  c10::IValue hand(const Handed& handed, const c10::IValue* arguments, const StreamNode& node);
  at::Tensor hand_one(const StreamNode& node, const c10::TensorImpl* const* operands);
  at::Tensor defer(const Produced& type, const c10::TensorImpl* base) {
    Deferred& tensor = pending_.add(this, type);
    if (base) tensor.share_version(*base);
    if (type.view != ViewKind::none) tensor.note_base(*base);
    segment_.produce(&tensor);
    return at::Tensor(c10::intrusive_ptr<c10::TensorImpl>::reclaim_copy(&tensor));
  }
  static void note_write(const c10::TensorImpl* written) {
    if (Deferred* const deferred = Deferred::of(written)) deferred->note_write();
  }

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
  void run_for_layouts(const Slots& held);
  bool ended_at_a_write(const std::string& said);
  Reason why_not_launched() const;
  void refuse_if_strict(Reason why);
  bool needs_eager_layout(const Slots& held) const;
  bool holds_now(uint32_t produced) const;
  // `by_us`: by compiled code, which lays out what addresses nothing in its own way.
  void settle(const std::vector<at::Tensor>& real, bool by_us = false);
  void settle_one(Deferred& place, const at::Tensor& real, EagerLayouts& layouts, bool by_us) const;
  void lose_pending();
  void reset();

  // Keys that we look at by themselves.
  inline static const uint64_t kOwn = c10::DispatchKeySet(kRecorderKey).raw_repr();

  StreamTree& tree_;
  Segment segment_;
  StreamNode* root_ = nullptr;
  StreamNode* cursor_ = nullptr;
  StreamNode* shadow_ = nullptr;         // recording: the like place of a branch beside this one
  uint64_t included_ = 0, excluded_ = 0;
  caffe2::TypeMeta dtype_;               // the default one
  FloatMode float_mode_ = 0;             // in which what is pending was called
  Pending pending_;
  std::unique_ptr<SegmentRecorder> recorder_;
  std::vector<at::Tensor> letting_go_;   // once the flag is down
  std::unique_ptr<SegmentRecorder> old_recorder_;
  bool exactly_ = false;
  std::atomic<bool> busy_{false};
};

// Holds the flag; lets go of what is no longer needed once it is down.
class ReplayCall::Lock {
 public:
  explicit Lock(ReplayCall& call) : call_(call) {
    while (call_.busy_.exchange(true, std::memory_order_acquire)) [[unlikely]] std::this_thread::yield();
  }
  ~Lock() {
    if (call_.letting_go_.empty() && !call_.old_recorder_) [[likely]] call_.busy_.store(false, std::memory_order_release);
    else let_go();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  void let_go();
  ReplayCall& call_;
};

namespace replay_detail {
inline const c10::TensorImpl* operand(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl(); }
inline const c10::TensorImpl* operand(const std::optional<at::Tensor>& tensor) {
  return tensor ? tensor->unsafeGetTensorImpl() : nullptr;
}
template <class T>
const c10::TensorImpl* operand(const T&) { return nullptr; }
}  // namespace replay_detail

template <class... Args>
at::Tensor ReplayCall::match_unboxed(const c10::OperatorHandle& op, const Args&... args) {
  if (!may_match()) [[unlikely]] return {};
  const Lock lock(*this);
  StreamNode* const node = Segment::first_child(*cursor_, op, [&](const StreamNode& child) {
    return child.hands_one && UnboxedMatch(segment_).arguments(child, args...);
  });
  if (node == nullptr) return {};
  segment_.accept(*node);
  cursor_ = node;
  const std::array<const c10::TensorImpl*, sizeof...(Args)> operands{replay_detail::operand(args)...};
  at::Tensor result = hand_one(*node, operands.data());
  if (node->ends) flush();
  return result;
}

}  // namespace escapement
