// See call.h. New branches, and what happens when a segment ends.
#include <ATen/ops/empty_strided.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "support/error.h"
#include "support/events.h"
#include "support/limits.h"
#include "torch/record/each_tensor.h"
#include "torch/record/recorder_tape.h"
#include "torch/replay_mode/call.h"
#include "torch/replay_mode/held.h"
#include "torch/replay_mode/patterns.h"

namespace escapement {
namespace {

// Appends what an operator produced, in the order of numbers.
void collect(const Handed& handed, const c10::IValue& result, std::vector<at::Tensor>& into) {
  if (handed.kind == Handed::Kind::produced) into.push_back(result.toTensor());
  if (handed.kind != Handed::Kind::list) return;
  const std::vector<at::Tensor> list = result.toTensorVector();
  for (size_t i = 0; i < handed.items.size(); ++i) collect(handed.items[i], list[i], into);
}

bool shares(const c10::IValue& value, const at::Tensor& other) {
  bool found = false;
  each_tensor_of(value, [&](const at::Tensor& tensor) { found = found || (tensor.defined() && tensor.is_alias_of(other)); });
  return found;
}

// Whether a value that was read shares memory with what the operator writes: then it was perhaps changed in part.
bool reads_written(const std::vector<c10::IValue>& read, const StreamNode& write, const torch::jit::Stack& arguments) {
  const auto reads = [&](const at::Tensor& written) {
    return written.numel() > 0 && std::any_of(read.begin(), read.end(), [&](const c10::IValue& value) { return shares(value, written); });
  };
  return std::any_of(write.bumped.begin(), write.bumped.end(),
                     [&](uint32_t argument) { return arguments[argument].isTensor() && reads(arguments[argument].toTensor()); });
}

std::string text_of(const std::exception& error) {
  const auto* const torchs = dynamic_cast<const c10::Error*>(&error);
  return torchs ? torchs->what_without_backtrace() : error.what();
}

// Without memory: what an operator does with it says what it thinks of sizes and dtypes alone.
at::Tensor without_memory(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

c10::IValue without_memory(const c10::IValue& value) {
  if (value.isTensor()) return without_memory(value.toTensor());
  if (!value.isTensorList()) return value;
  c10::List<at::Tensor> list;
  for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(without_memory(tensor));
  return list;
}

// An operator that cannot do without memory says so.
bool misses_memory(const std::exception& error) {
  constexpr std::array<std::string_view, 3> kWords{"Meta", "meta tensor", "meta device"};
  const std::string said = text_of(error);
  const auto has = [&](std::string_view words) { return said.find(words) != std::string::npos; };
  return dynamic_cast<const c10::NotImplementedError*>(&error) != nullptr || std::any_of(kWords.begin(), kWords.end(), has);
}

// Whether it was the sizes or dtypes: it raises for tensors without memory, too, if in other words (their rules are written in Python). Then it has
// written nothing. Other errors (an index, a value) may come in the middle of the work.
bool refuses_sizes(const StreamNode& write, const torch::jit::Stack& arguments, const std::string& said) {
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments) stack.push_back(without_memory(argument));
  try {
    run_unseen(write.op, stack);
  } catch (const std::exception& error) {
    return text_of(error) == said || !misses_memory(error);
  }
  return false;
}

// Whether it was the memory of what it writes: of which several elements lie in one place, or that it reads elsewhere. ATen looks at that before it writes.
bool refuses_memory(const StreamNode& write, const std::string& said) {
  const std::vector<c10::Argument>& arguments = write.op.schema().arguments();
  const auto is_written_list = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite() && argument.type()->kind() == c10::TypeKind::ListType;
  };
  if (std::any_of(arguments.begin(), arguments.end(), is_written_list)) return false;   // another one of the list may have been written
  return said.starts_with("unsupported operation: ") && said.find("written-to tensor") != std::string::npos;
}

// What is pending before the write that a segment ends with: computed, since one of them has raised `said` and the program may catch that.
std::vector<at::Tensor> before_the_write(const Segment& segment, const std::string& said) {
  std::vector<at::Tensor> real;
  std::vector<c10::IValue> read;
  const StreamNode& write = *segment.nodes().back();
  try {
    for (size_t number = 0; number < segment.nodes().size(); ++number) {
      const StreamNode* const node = segment.nodes()[number];
      const c10::AutoGradMode as_called(segment.kept_gradients(number));
      torch::jit::Stack stack = segment.arguments_of(*node, real);
      if (node == &write) {
        const bool has_written = !refuses_sizes(write, stack, said) && !refuses_memory(write, said);
        return has_written && reads_written(read, write, stack) ? std::vector<at::Tensor>() : real;
      }
      const bool is_view = !node->produced.empty() && node->produced[0].view_of >= 0;   // which reads nothing
      if (!is_view) read.insert(read.end(), stack.begin(), stack.end());
      run_unseen(node->op, stack);
      for (size_t i = 0; i < node->results.size(); ++i) collect(node->results[i], stack[i], real);
    }
  } catch (const std::exception&) {   // it was this one, and nothing was written
  }
  return real;
}

// torch's default dtype as it was when the operators were called: it is part of what `ones` or a product with 2.5 is.
class DefaultDtypeGuard {
 public:
  explicit DefaultDtypeGuard(caffe2::TypeMeta then) : now_(c10::get_default_dtype()), other_(then != now_) {
    if (other_) c10::set_default_dtype(then);
  }
  ~DefaultDtypeGuard() {
    if (other_) c10::set_default_dtype(now_);
  }
  DefaultDtypeGuard(const DefaultDtypeGuard&) = delete;
  DefaultDtypeGuard& operator=(const DefaultDtypeGuard&) = delete;

 private:
  const caffe2::TypeMeta now_;
  const bool other_;
};

}  // namespace

// --- recording

// What is pending is computed now, under the recorder.
void ReplayCall::start_recording() {
  auto recorder = std::make_unique<SegmentRecorder>(tree_.name());
  try {
    for (size_t number = 0; number < segment_.nodes().size(); ++number) {
      const StreamNode& node = *segment_.nodes()[number];
      const c10::AutoGradMode as_called(segment_.kept_gradients(number));
      Stack stack = segment_.arguments_of(node, recorder->produced());
      recorder->run(node, stack, segment_);
    }
  } catch (...) {
    settle(recorder->produced());
    reset();
    throw;
  }
  const std::vector<at::Tensor>& real = recorder->produced();
  for (uint32_t i = 0; i < pending_.size(); ++i) {
    if (pending_.is_held(i)) recorder->hold(i, pending_.tensor(i));
    else segment_.replace(i, real[i].unsafeGetTensorImpl());
  }
  settle(real);
  recorder_ = std::move(recorder);
}

std::vector<StreamNode*> ReplayCall::similar_nodes(const StreamNode* shadow) const {
  std::vector<StreamNode*> nodes;
  for (const StreamNode* parent : {static_cast<const StreamNode*>(cursor_), shadow}) {
    if (parent == nullptr) continue;
    for (StreamNode* node = parent->child.load(); node != nullptr; node = node->sibling.load()) nodes.push_back(node);
  }
  return nodes;
}

// An operator whose number cannot be an input, and which has come with too many different ones.
bool ReplayCall::too_many_numbers(const c10::OperatorHandle& op, const OpPlan& plan, const Stack& stack) const {
  const size_t count = plan.schema->arguments().size();
  const std::span<const c10::IValue> arguments(stack.data() + (stack.size() - count), count);
  const auto described = describe_arguments(segment_, plan, op, arguments, cursor_->extent, {});
  const auto nodes = similar_nodes(nullptr);
  return std::count_if(nodes.begin(), nodes.end(), [&](const StreamNode* node) { return is_similar(*described, *node); }) >= limits::numbers_of_an_operator;
}

void ReplayCall::record(const c10::OperatorHandle& op, const OpPlan& plan, Stack& stack) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  if (!recorder_) start_recording();
  if (!recorder_->live()) {   // what was pending has run, but cannot be recorded
    tree_.note(recorder_->refused());
    reset();
    start_recording();
  }
  const size_t count = plan.schema->arguments().size();
  const std::span<const c10::IValue> arguments(stack.data() + (stack.size() - count), count);
  const NumberUse use = number_use(plan, arguments);
  StreamNode* node = segment_.match(*cursor_, op, arguments.data(), true);
  std::unique_ptr<StreamNode> fresh;
  if (node == nullptr) {
    const auto similar = tree_.has_fixed_numbers(use) ? std::vector<StreamNode*>() : similar_nodes(shadow_);
    fresh = describe_arguments(segment_, plan, op, arguments, cursor_->extent, similar);
    const auto twin = std::find_if(similar.begin(), similar.end(),
                                   [&](const StreamNode* other) { return is_similar(*fresh, *other); });
    shadow_ = twin == similar.end() ? nullptr : *twin;
    // Notes what it takes from outside.
    ESCAPEMENT_CHECK(segment_.matches(*fresh, arguments.data(), true), "an operator does not match its own description");
    node = fresh.get();
  }
  try {
    recorder_->run(*node, stack, segment_);
  } catch (...) {
    reset();   // nothing is pending, all of it has run
    throw;
  }
  if (!recorder_->live()) {
    tree_.refuse(op, recorder_->refused(), recorder_->refused_detail());
    return reset();
  }
  if (fresh) {
    recorder_->complete(*fresh, plan);
    if (fresh->pins_number || (fresh->extent.reals > cursor_->extent.reals && fresh->asks_values)) {
      tree_.fix_numbers(use);   // its kernel needs the number as a constant: nothing of this is kept
      return reset();
    }
    node = tree_.add(cursor_, std::move(fresh));
  }
  segment_.accept(*node);
  for (size_t i = segment_.produced_count(); i < recorder_->produced().size(); ++i)
    segment_.produce(recorder_->produced()[i].unsafeGetTensorImpl());
  cursor_ = node;
  if (node->ends) flush();
}

// Another recording for segments that end here.
bool ReplayCall::may_record(const StreamNode& node) const {
  int64_t launches = 0;
  for (const SegmentLaunch* launch = node.launch.load(); launch != nullptr; launch = launch->next.load()) ++launches;
  return launches < tree_.options().max_recordings;
}

void ReplayCall::finish_recording() {
  const size_t operators = segment_.nodes().size();
  const Slots results = recorder_->release_dead();
  Recording recording = recorder_->finish(results);
  recording.ops = operators;
  tree_.note_recording();
  count(Stat::recordings);
  if (recording.refused) tree_.note(*recording.refused);
  if (operators > 0 && may_record(*cursor_)) tree_.add(cursor_, std::make_unique<SegmentLaunch>(std::move(recording), results));
  reset();
}

// --- the end of a segment

void ReplayCall::flush() {
  if (segment_.empty() && !recorder_) return;
  // As when its operators were called, whoever asks for them now (a transform of torch.func may stand between), and unseen by us.
  const c10::DispatchKeySet included(c10::DispatchKeySet::RAW, included_), excluded(c10::DispatchKeySet::RAW, excluded_ | kOwn);
  const c10::impl::ForceDispatchKeyGuard keys(included, excluded);
  if (recorder_) return finish_recording();
  const FloatModeGuard as_called(float_mode_);   // an operator is deferred, what it means is not
  const DefaultDtypeGuard default_dtype(dtype_);
  const Slots held = live();
  count(Stat::matched_operators, static_cast<int64_t>(segment_.nodes().size()));
  if (exactly_ || needs_eager_layout(held)) return run_for_layouts(held);
  if (launch(held)) return reset();
  if (may_record(*cursor_)) {
    start_recording();
    return finish_recording();
  }
  refuse_if_strict(why_not_launched());
  tree_.note(Reason::too_many_recordings);
  run_one_by_one();
}

// Where there are no elements, nothing was to be compiled.
void ReplayCall::run_for_layouts(const Slots& held) {
  const auto has_elements = [this](uint32_t produced) {
    c10::SmallVector<int64_t, 8> sizes;
    return !pending_[produced].type().evaluate(segment_.table(), sizes) || std::find(sizes.begin(), sizes.end(), 0) == sizes.end();
  };
  if (std::any_of(held.begin(), held.end(), has_elements)) refuse_if_strict(Reason::call_layout);
  tree_.note(Reason::call_layout);
  run_one_by_one();
}

// A view that is held holds what it is a view of.
Slots ReplayCall::live() const {
  Slots slots;
  for (uint32_t i = 0; i < pending_.size(); ++i) {
    if (!pending_.is_held(i)) continue;
    slots.push_back(i);
    if (const Deferred* const base = pending_[i].pending_base()) slots.push_back(base->type().number);
  }
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

bool ReplayCall::launch(const Slots& live) {
  std::vector<at::Tensor> held;
  const std::vector<Argument> inputs = segment_.inputs(held);
  for (SegmentLaunch* launch = cursor_->launch.load(); launch != nullptr; launch = launch->next.load())
    if (try_launch(*launch, live, inputs)) return true;
  return false;
}

bool ReplayCall::try_launch(SegmentLaunch& launch, const Slots& live, std::span<const Argument> inputs) {
  std::string failure;
  const bool failed_before = launch.failed().has_value();
  SegmentLaunch::Ready* const ready = launch.ready(live, tree_.options(), failure);
  if (ready == nullptr) {
    if (!failed_before && launch.failed()) tree_.note(*launch.failed(), failure);
    return false;
  }
  if (!ready->program.fits(inputs)) return false;
  std::vector<c10::IValue> outputs;
  try {
    if (ready->program.run(inputs, outputs) != Program::Outcome::done) return count(Stat::exits), false;
  } catch (const std::exception& error) {
    if (ended_at_a_write(text_of(error))) throw;
    return count(Stat::exits), false;   // one by one the error is eager's, and comes from its own operator
  } catch (...) {
    if (ended_at_a_write({})) throw;
    return count(Stat::exits), false;
  }
  std::vector<at::Tensor> real(pending_.size());
  for (size_t i = 0; i < ready->results.size(); ++i) real[ready->results[i]] = outputs[i].toTensor();
  settle(real, /*by_us=*/true);
  ready->hits.fetch_add(1, std::memory_order_relaxed);
  count(Stat::hits);
  return true;
}

// It raised `said`. A write may have been made already, and is not run again.
bool ReplayCall::ended_at_a_write(const std::string& said) {
  if (!cursor_->ends || cursor_->bumped.empty()) return false;
  settle(before_the_write(segment_, said));
  reset();
  return true;
}

Reason ReplayCall::why_not_launched() const {
  Reason why = Reason::too_many_recordings;
  for (const SegmentLaunch* launch = cursor_->launch.load(); launch != nullptr; launch = launch->next.load())
    if (launch->failed()) why = *launch->failed();
  return why;
}

// With `strict` nothing may run that was to be compiled and is not.
void ReplayCall::refuse_if_strict(Reason why) {
  if (!tree_.options().strict) return;
  const size_t operators = segment_.nodes().size();
  lose_pending();
  reset();
  throw UserError("escapement: " + std::to_string(operators) + " operators of '" + tree_.name() +
                  "' in replay mode would run eagerly (" + std::string(reason_name(why)) + ": " +
                  std::string(reason_message(why)) + ") and strict is set");
}

void ReplayCall::run_one_by_one() {
  count(Stat::eager_segments);
  cursor_->one_by_one.fetch_add(1, std::memory_order_relaxed);
  std::vector<at::Tensor> real;
  try {
    for (size_t number = 0; number < segment_.nodes().size(); ++number) {
      const StreamNode& node = *segment_.nodes()[number];
      const c10::AutoGradMode as_called(segment_.kept_gradients(number));
      Stack stack = segment_.arguments_of(node, real);
      run_unseen(node.op, stack);
      for (size_t i = 0; i < node.results.size(); ++i) collect(node.results[i], stack[i], real);
    }
  } catch (...) {
    settle(real);
    reset();
    throw;
  }
  settle(real);
  reset();
}

// Tensors that are still held become ordinary ones; the others are used again. Where nothing was computed there is an error
// to tell.
void ReplayCall::settle(const std::vector<at::Tensor>& real, bool by_us) {
  EagerLayouts layouts(segment_, pending_);
  for (size_t i = 0; i < pending_.size() && i < real.size(); ++i)
    if (real[i].defined()) settle_one(pending_[i], real[i], layouts, by_us);
  pending_.clear(letting_go_);
}

void ReplayCall::settle_one(Deferred& place, const at::Tensor& real, EagerLayouts& layouts, bool by_us) const {
  const Produced& type = place.type();
  const auto sizes = real.sizes();
  const bool small = std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 2; });
  const KnownLayout* const layout = by_us && small && !type.by_eager ? layouts.of(type.number) : nullptr;
  if (layout == nullptr) return place.settle(real, real.strides(), real.storage_offset());
  place.settle(real, layout->strides, type.base_slot ? layout->offset : real.storage_offset());
}

bool ReplayCall::holds_now(uint32_t produced) const {
  const Produced& type = pending_[produced].type();
  if (type.holds == LayoutHolds::always) [[likely]] return true;
  c10::SmallVector<int64_t, 8> sizes;
  return !type.evaluate(segment_.table(), sizes) || type.holds_for(sizes);
}

// Can anybody see strides that address nothing and could be anything: the program, of what it holds, or an operator?
bool ReplayCall::needs_eager_layout(const Slots& held) const {
  if (!std::all_of(held.begin(), held.end(), [this](uint32_t produced) { return holds_now(produced); })) {
    EagerLayouts layouts(segment_, pending_);
    for (const uint32_t produced : held)
      if (!holds_now(produced) && layouts.of(produced) == nullptr) return true;
  }
  if (!cursor_->extent.layout_matters) [[likely]] return false;
  const auto matter = [this](const StreamNode* node) {
    return std::any_of(node->layout_matters.begin(), node->layout_matters.end(), [this](uint32_t produced) { return !holds_now(produced); });
  };
  return std::any_of(segment_.nodes().begin(), segment_.nodes().end(), matter);
}

void ReplayCall::lose_pending() { settle({}); }

void ReplayCall::reset() {
  if (recorder_) old_recorder_ = std::move(recorder_);
  for (const at::Tensor& external : segment_.externals()) letting_go_.push_back(external);
  segment_.clear();
  cursor_ = root_;
  shadow_ = nullptr;
}

}  // namespace escapement
