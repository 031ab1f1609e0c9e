// Exits: the places of a recording at which its host looked at a value behind something that its caller can see. A program that finds another
// value there cannot start again (or would do in vain what it has done, where exits are asked for everywhere); it goes on behind the
// exit, in a side trace (specialize/side_trace.h), or with the program itself, which is run once more and given what has been computed already instead of computing it (forward.h).
//
// For that a recording notes a script: operator by operator, what the program got. And it knows at any time what the program still holds.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "specialize/side_trace.h"
#include "trace/trace.h"

namespace escapement {

struct FloatExpr;
struct OpPlan;
struct Tape;
class Wrapper;

// What the program got from one operator, or from reading a value.
struct ScriptStep {
  struct Result {
    enum class Kind : uint8_t { nothing, tensor, argument, integer, truth, real } kind = Kind::nothing;
    uint32_t argument = 0;
    ValueId value{};                  // tensor; real: the tensor without axes that was read
    c10::ScalarType dtype = c10::ScalarType::Float;
    bool inference = false;           // its memory was made in inference mode
    Dim dim{};                        // integer, truth
    double seen = 0;                  // real
  };
  struct Return {
    bool is_list = false;
    uint32_t count = 1;               // of results
  };
  std::optional<c10::OperatorName> name;   // none: a value is read
  std::vector<Return> returns;
  std::vector<Result> results;
  std::vector<std::pair<uint32_t, ValueId>> renamed;   // arguments, and what they stand for since
  bool draws = false;                 // random numbers
};

struct Exit {
  Snapshot at;
  size_t steps = 0;                   // of the script
  std::shared_ptr<Trace> before;         // the recording up to there, with what was known of sizes then; its outputs are what is handed on
  std::string because;
  Location location;
};

class ExitNotes {
 public:
  explicit ExitNotes(bool everywhere) : everywhere_(everywhere) {}

  // --- what the program holds; from any thread
  void hold(const Wrapper* wrapper);
  void drop(const Wrapper* wrapper);
  void hold(const std::shared_ptr<const FloatExpr>& number);

  // --- the script
  void note(const c10::OperatorHandle& op, const OpPlan& plan, std::span<const c10::IValue> arguments, std::span<const c10::IValue> results,
            bool draws, const Trace& trace);
  void note_read(ScriptStep::Result read);
  void give_up() { possible_ = false; }   // something was done that cannot be left out when the program runs again

  // --- exits. A guard is about to be made of what appeared after `bound`.
  void before_guard(Tape& tape, InstrId bound, const std::string& because, Location location);
  std::vector<ScriptStep> take_script() { return std::move(script_); }
  std::vector<Exit> take_exits() { return std::move(exits_); }

  // While one operator is recorded: it has run, and its instructions are not complete.
  class InsideOp {
   public:
    explicit InsideOp(ExitNotes* notes) : notes_(notes) { if (notes_) ++notes_->inside_; }
    ~InsideOp() { if (notes_) --notes_->inside_; }
    InsideOp(const InsideOp&) = delete;
    InsideOp& operator=(const InsideOp&) = delete;

   private:
    ExitNotes* const notes_;
  };

 private:
  bool has_acted(const Trace& trace);
  std::vector<ValueId> held(const Trace& trace);

  std::mutex mutex_;
  std::unordered_set<const Wrapper*> wrappers_;
  std::vector<std::weak_ptr<const FloatExpr>> numbers_;

  std::vector<ScriptStep> script_;
  std::vector<Exit> exits_;
  const bool everywhere_;             // at checks before any effect, too
  bool possible_ = true, acted_ = false;
  size_t scanned_ = 0;                // instructions asked whether they act outside
  int inside_ = 0;
};

}  // namespace escapement
