// See choices.h.
#include "torch/record/choices.h"

#include <algorithm>

#include "torch/record/copies.h"
#include "torch/record/recorder_tape.h"

namespace escapement {

namespace {

constexpr const char* kMemory = "memory that is shared at some sizes can be seen";
constexpr const char* kSame = "a result that is the argument itself where that is empty";
constexpr const char* kLayout = "the layout of a view at some sizes, of a copy at others";

// Results that have one layout, whatever that of the operands is.
bool keeps_layout(const Instr& instr) { return info(instr.op).kind != OpKind::contract; }

bool can_share(const Choice& choice) { return choice.copies && !choice.atens; }
bool is_argument(const Choice& choice) { return choice.itself && !choice.atens; }

bool is_output(const Trace& trace, ValueId value) {
  return std::any_of(trace.outputs.begin(), trace.outputs.end(), [&](const Output& output) { return output.value == value; });
}

}  // namespace

uint32_t Choices::storage(ValueId value) const { return tape_.trace().type(value).storage.index; }

void Choices::note(ValueId copy, const Choice& choice) {
  if (!choice.copies && !choice.itself) return;
  layouts_.resize(std::max<size_t>(layouts_.size(), copy.index + 1));
  if (choice.strays && !choice.atens) layouts_[copy.index].insert(noted_.size());
  noted_.push_back({choice, copy, tape_.recording.ops});
}

bool Choices::is_noted(ValueId copy) const {
  return std::any_of(noted_.begin(), noted_.end(), [&](const Noted& noted) { return noted.copy == copy; });
}

void Choices::forget(uint32_t first_value) {
  std::erase_if(noted_, [&](const Noted& noted) { return noted.copy.index >= first_value; });
  if (layouts_.size() > first_value) layouts_.resize(first_value);
  followed_ = std::min(followed_, tape_.trace().instrs.size());
}

bool Choices::decides_now() const { return decided_.contains(tape_.recording.ops); }

// --- what is guarded

Dim Choices::how_apart(const Noted& noted) {
  DimTable& dims = tape_.dims();
  const Dim none = dims.sub(dims.constant(1), some_elements(dims, tape_.trace().type(noted.choice.source)));
  return dims.max(noted.choice.copies, none);
}

bool Choices::is_shared_now(const Noted& noted) {
  const auto now = tape_.dims().hint(how_apart(noted));
  return !noted.apart && (!now || *now < 1);
}

void Choices::demand(Noted& noted, bool Noted::* done, Dim at_least_one, const char* what) {
  if (!tape_.live() || std::exchange(noted.*done, true)) return;
  const auto now = tape_.dims().hint(at_least_one);
  if (!now || *now < 1) return lose(noted, what);
  tape_.guard_relation(Guard::Kind::less_equal, tape_.dims().constant(1), at_least_one, true, what);
}

void Choices::demand_apart(Noted& noted) {
  if (noted.choice.copies) demand(noted, &Noted::apart, how_apart(noted), kMemory);
}

void Choices::demand_elements(Noted& noted) {
  demand(noted, &Noted::filled, tape_.dims().product(tape_.trace().type(noted.choice.source).sizes), kSame);
}

void Choices::demand_kind(Noted& noted) {
  demand_apart(noted);
  demand_elements(noted);
}

// Whichever side it is: the next call's is the same.
void Choices::hold_side(const Noted& noted) {
  if (!tape_.live()) return;
  DimTable& dims = tape_.dims();
  const Dim copied = dims.min(noted.choice.copies, some_elements(dims, tape_.trace().type(noted.choice.source)));
  const auto now = dims.hint(copied);
  if (!now) return tape_.refuse(Reason::recorder_refused, kMemory);
  tape_.guard_relation(Guard::Kind::less_equal, dims.constant(1), copied, *now >= 1, kMemory);
}

void Choices::lose(const Noted& noted, const char* what) {
  tape_.recording.decided.insert(noted.number);
  tape_.recording.learned = true;
  tape_.refuse(Reason::recorder_refused, what);
}

// --- memory

// What may be one memory with this, at some sizes or at those of the recording.
std::set<uint32_t> Choices::joined(uint32_t storage_of, bool now) {
  std::set<uint32_t> all{storage_of};
  for (size_t before = 0; before != all.size();) {
    before = all.size();
    for (const Noted& noted : noted_) {
      if (!can_share(noted.choice) || noted.apart || (now && !is_shared_now(noted))) continue;
      const uint32_t a = storage(noted.copy), b = storage(noted.choice.source);
      if (all.contains(a) || all.contains(b)) all.insert({a, b});
    }
  }
  return all;
}

// Nothing that is seen is one memory with this: of each way there, the first copy stays one.
void Choices::part(uint32_t storage_of, const Seen& seen) {
  const std::set<uint32_t> near = joined(storage_of, true);
  const auto is_seen = [&](uint32_t other) { return other != storage_of && seen(other); };
  const bool lost = std::any_of(near.begin(), near.end(), is_seen);
  for (Noted& noted : noted_) {
    if (!can_share(noted.choice) || noted.apart) continue;
    const bool from = near.contains(storage(noted.copy)), to = near.contains(storage(noted.choice.source));
    if (from && to && lost) lose(noted, kMemory);
    if (from == to) continue;
    const std::set<uint32_t> beyond = joined(storage(from ? noted.choice.source : noted.copy), false);
    if (std::any_of(beyond.begin(), beyond.end(), is_seen)) demand_apart(noted);
  }
}

void Choices::written(ValueId value) {
  if (noted_.empty()) return;
  layout_read(value);
  part(storage(value), [](uint32_t) { return true; });
  // From here on the tensor stands for another value, and at the end nobody would know it again.
  for (Noted& noted : noted_) {
    const bool is_copy = storage(noted.copy) == storage(value), is_source = storage(noted.choice.source) == storage(value);
    if (is_argument(noted.choice) && (is_copy || is_source)) demand_kind(noted);
    if (noted.choice.atens && noted.choice.copies && (is_copy || is_source)) hold_side(noted);   // a view sees the write, a copy does not
  }
  hold_modes(storage(value));
}

void Choices::renamed(ValueId value) {
  for (Noted& noted : noted_) {
    const bool is_one = storage(noted.copy) == storage(value) || storage(noted.choice.source) == storage(value);
    if (noted.choice.itself && is_one) noted.choice.atens ? hold_side(noted) : demand_kind(noted);
  }
}

void Choices::asked_kind(ValueId value) {
  for (Noted& noted : noted_)
    if (storage(noted.copy) == storage(value)) noted.choice.atens ? hold_side(noted) : demand_kind(noted);
}

// --- strides

void Choices::follow_layouts() {
  const Trace& trace = tape_.trace();
  layouts_.resize(trace.values.size());
  for (; followed_ < trace.instrs.size(); ++followed_) {
    const Instr& instr = trace.instrs[followed_];
    if (!keeps_layout(instr)) continue;
    for (const ValueId operand : instr.operands) {
      const std::set<size_t> known = operand ? layouts_[operand.index] : std::set<size_t>();
      for (const ValueId result : instr.results) layouts_[result.index].insert(known.begin(), known.end());
    }
  }
}

void Choices::layout_read(ValueId value) {
  if (noted_.empty()) return;
  follow_layouts();
  DimTable& dims = tape_.dims();
  for (const size_t number : layouts_[value.index]) {
    Noted& noted = noted_[number];
    if (!noted.apart) demand(noted, &Noted::straight, dims.sub(dims.constant(1), noted.choice.strays), kLayout);
  }
}

// --- the end

void Choices::at_exit() {
  for (Noted& noted : noted_)
    if (is_argument(noted.choice) || noted.choice.unlike) demand_kind(noted);
}

void Choices::at_end() {
  if (noted_.empty()) return;
  const Trace& trace = tape_.trace();
  std::set<uint32_t> visible, outputs;
  for (const Output& output : trace.outputs)
    if (output.value) outputs.insert(storage(output.value));
  visible = outputs;
  for (const Input& input : trace.inputs)
    if (input.value) visible.insert(storage(input.value));
  hold_identities();
  for (const uint32_t output : outputs) hold_modes(output);
  for (const uint32_t output : outputs) part(output, [&](uint32_t other) { return visible.contains(other); });
  for (const Output& output : std::vector<Output>(trace.outputs))
    if (output.value) layout_read(output.value);
}

// A result that eager hands back, from hand to hand, is the argument, or another result.
void Choices::hold_identities() {
  const Trace& trace = tape_.trace();
  const auto is_known = [&](ValueId value) { return tape_.input_of(value) || is_output(trace, value); };
  for (Noted& noted : noted_) {
    if (!is_argument(noted.choice) || !is_output(trace, noted.copy)) continue;
    ValueId source = noted.choice.source;
    for (size_t i = noted_.size(); i-- > 0 && !is_known(source);)
      if (is_argument(noted_[i].choice) && noted_[i].copy == source) source = noted_[i].choice.source;
    if (is_known(source)) demand_elements(noted);
  }
}

// Also of nothing, which is no memory: a view of a view of an argument was made when the argument was.
void Choices::hold_modes(uint32_t of) {
  std::set<uint32_t> back{of};
  for (size_t i = noted_.size(); i-- > 0;) {
    if (!back.contains(storage(noted_[i].copy))) continue;
    back.insert(storage(noted_[i].choice.source));
    if (noted_[i].choice.unlike) noted_[i].choice.atens ? hold_side(noted_[i]) : demand_kind(noted_[i]);   // a view of memory of ours has our mode
  }
}

}  // namespace escapement
