// Who may record, and how often. One thread at a time has the turn, until the code of its recording is published or given up; a function has
// Options::max_recordings, and where that is asked for so many of each form (call_arguments.h). A form whose recording was refused is not
// recorded again, unless another recording may end otherwise. What recordings have learned is kept for the next: generators, axes.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/fork.h"
#include "support/reason.h"
#include "torch/record/recorder.h"

namespace escapement {

class RecordingBudget {
 public:
  class Turn;

  explicit RecordingBudget(int64_t most) : most_(most) {}
  void limit_forms(int most_of_a_form) { most_of_a_form_ = most_of_a_form; }   // before the first call

  // Null: `refused` says why. `outdated`: whether something has been published that the call has not tried; it may well fit.
  std::shared_ptr<Turn> take(std::span<const c10::IValue> arguments, const std::function<bool()>& outdated, Reason& refused);
  std::shared_ptr<Turn> take_for_side();   // to record a side trace, which is not limited here. Null: somebody has the turn

  void note_refusal(const std::string& form, const Recording& recording);
  void refuse(const std::string& form, Reason why);           // for good
  void close(Reason why);                                     // for all forms
  void give_back(int recordings);                             // of versions that others are to take the place of
  void know(const at::Generator& generator);
  std::vector<at::Generator> generators() const;
  std::set<size_t> decided() const;
  int recordings() const;
  void take_over(const RecordingBudget& other);               // what it has spent

 private:
  // Kinds of calls whose recording was refused: recording them again would end in the same way.
  struct Refused {
    Reason why;
    bool again = false;   // another one may end otherwise
  };
  // All under the lock.
  bool is_taken();
  std::shared_ptr<Turn> hand_out(int* spent, bool recorded);
  const Refused* refusal_of(std::span<const c10::IValue> arguments) const;
  void note_generator(const at::Generator& generator);

  const int64_t most_;
  int most_of_a_form_ = INT_MAX;
  mutable ForkMutex mutex_;
  std::map<std::string, Refused> refused_;    // by form
  std::map<std::string, int> spent_;          // by form, if forms are limited
  std::vector<at::Generator> generators_;     // that recordings drew from
  std::set<size_t> decided_;                  // Recording::decided
  int recordings_ = 0, given_back_ = 0;
  std::optional<Reason> closed_;
  bool busy_ = false;                         // somebody records, or code is being made in the background
  int busy_in_ = 0;                           // the process, by its forks()
};

// The right to record. It ends when the code is published or given up, in whatever thread that happens; a recording that an exception
// of the program's own ended does not count.
class RecordingBudget::Turn {
 public:
  Turn(RecordingBudget& budget, int* spent, bool recorded) : recorded(recorded), budget_(budget), spent_(spent) {}
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  bool recorded;

 private:
  RecordingBudget& budget_;
  int* const spent_;   // recordings of this form, if they are limited
};

}  // namespace escapement
