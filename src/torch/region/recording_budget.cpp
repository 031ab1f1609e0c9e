// See recording_budget.h.
#include "torch/region/recording_budget.h"

#include <algorithm>

#include "support/fork.h"
#include "support/limits.h"
#include "torch/region/call_arguments.h"

namespace escapement {

RecordingBudget::Turn::~Turn() {
  const std::lock_guard lock(budget_.mutex_);
  budget_.busy_ = false;
  if (recorded) return;
  --budget_.recordings_;
  if (spent_) --*spent_;
}

bool RecordingBudget::is_taken() {
  if (busy_ && busy_in_ != forks()) busy_ = false;  // a fork left that thread behind
  return busy_;
}

std::shared_ptr<RecordingBudget::Turn> RecordingBudget::hand_out(int* spent, bool recorded) {
  busy_ = true;
  busy_in_ = forks();
  return std::make_shared<Turn>(*this, spent, recorded);
}

// Null: it may be recorded.
const RecordingBudget::Refused* RecordingBudget::refusal_of(std::span<const c10::IValue> arguments) const {
  if (refused_.empty()) return nullptr;
  const auto known = refused_.find(form_of(arguments));
  return known == refused_.end() || known->second.again ? nullptr : &known->second;
}

std::shared_ptr<RecordingBudget::Turn> RecordingBudget::take(std::span<const c10::IValue> arguments, const std::function<bool()>& outdated,
                                                             Reason& refused) {
  const std::lock_guard lock(mutex_);
  if (outdated() || is_taken()) return refused = Reason::not_ready, nullptr;
  if (closed_) return refused = *closed_, nullptr;
  if (recordings_ - given_back_ >= most_) return refused = Reason::too_many_recordings, nullptr;
  if (const Refused* const known = refusal_of(arguments)) return refused = known->why, nullptr;
  int* spent = nullptr;
  if (most_of_a_form_ < INT_MAX) {
    spent = &spent_[form_of(arguments)];
    if (*spent >= most_of_a_form_) return refused = Reason::budget_used, nullptr;
    ++*spent;
  }
  ++recordings_;
  return hand_out(spent, false);
}

std::shared_ptr<RecordingBudget::Turn> RecordingBudget::take_for_side() {
  const std::lock_guard lock(mutex_);
  return is_taken() ? nullptr : hand_out(nullptr, true);
}

// A recording that looked at no size and no value before it was refused ends so for every call of this form. One that did may go
// another way: it gets a second chance. So does one that drew from generators which are known now, or one that found the world changed:
// another thread may have done that. What raised at one call does not at others, for all that is known.
void RecordingBudget::note_refusal(const std::string& form, const Recording& recording) {
  const std::lock_guard lock(mutex_);
  const auto [known, fresh] = refused_.try_emplace(form, Refused{*recording.refused});
  const bool otherwise = !recording.trace.guards.empty() || *recording.refused == Reason::state_changed;
  const bool by_chance = *recording.refused == Reason::caught_exception;
  known->second = {*recording.refused, recording.learned || by_chance || (fresh && otherwise)};
  for (const at::Generator& generator : recording.unknown_generators) note_generator(generator);
  decided_.insert(recording.decided.begin(), recording.decided.end());
}

void RecordingBudget::refuse(const std::string& form, Reason why) {
  const std::lock_guard lock(mutex_);
  refused_[form] = {why, false};
}

void RecordingBudget::close(Reason why) {
  const std::lock_guard lock(mutex_);
  closed_ = why;
}

void RecordingBudget::give_back(int recordings) {
  const std::lock_guard lock(mutex_);
  given_back_ += recordings;
  for (auto& [form, spent] : spent_) spent = 0;
}

void RecordingBudget::know(const at::Generator& generator) {
  const std::lock_guard lock(mutex_);
  note_generator(generator);
}

void RecordingBudget::note_generator(const at::Generator& generator) {
  const bool known = std::find(generators_.begin(), generators_.end(), generator) != generators_.end();
  if (!known && generators_.size() < limits::known_generators) generators_.push_back(generator);
}

std::vector<at::Generator> RecordingBudget::generators() const {
  const std::lock_guard lock(mutex_);
  return generators_;
}

std::set<size_t> RecordingBudget::decided() const {
  const std::lock_guard lock(mutex_);
  return decided_;
}

int RecordingBudget::recordings() const {
  const std::lock_guard lock(mutex_);
  return recordings_;
}

void RecordingBudget::take_over(const RecordingBudget& other) {
  const int spent = other.recordings();
  const std::lock_guard lock(mutex_);
  recordings_ = spent;
}

}  // namespace escapement
