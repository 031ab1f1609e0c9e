// Executable: a launch plan compiled for running. Immutable once finished; any number of threads run it, each call in a Context of
// its own.
//
// A call: the caller puts the values of the entry symbols and the addresses of the inputs into a context, then `run` walks the
// steps. What needs a tensor library (outputs, library calls, values that appear at run time) is asked of the Host. Sizes are
// evaluated, and launches prepared, only where symbol values differ from the context's last call.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "jit/run/arena.h"
#include "jit/run/device_launch.h"
#include "jit/run/launch.h"
#include "jit/run/parallel.h"
#include "jit/run/shape_program.h"
#include "kernels/plan.h"

namespace escapement {

// Who watches the steps of a call: a profiler.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void begins(uint32_t step) = 0;
  virtual void ends() noexcept = 0;
};

struct Context {
  std::vector<int64_t> symbols;      // in: the caller writes the entry symbols of this call
  std::vector<int64_t> table;        // values of all slots
  std::vector<void*> bases;          // per buffer: address of its root's first element. in: the input buffers
  std::vector<Launch> launches;      // per recipe
  std::vector<uint64_t> epochs;      // per level: grows when a value of the level may have changed
  std::vector<uint8_t> stale;        // per level: to be evaluated even if its symbols have not changed
  struct LateSlot {
    std::byte* memory = nullptr;
    size_t capacity = 0;
  };
  std::vector<LateSlot> late_slots;  // temporaries whose size is known late, per slot
  Arena arena;                       // all other temporaries
  size_t arena_bytes = 0;            // what the current shapes need of it
  int threads = 0;                   // that the launches were cut for
  StepObserver* observer = nullptr;  // of this call; nearly always none
  bool dirty = false;                // the call has changed what its caller sees, or drawn random numbers; also where it ended with an exception

  Context() = default;
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

class Host {
 public:
  virtual ~Host() = default;
  virtual void* allocate(uint32_t buffer) = 0;     // fresh memory of an output buffer, in the root value's layout
  virtual bool call(uint32_t step) = 0;            // runs a CallStep and sets the bases of its results; false: a result does not
                                                   // have the layout that the plan relies on
  virtual void takes_long() {}                     // what comes now keeps a core busy for a while
  virtual int64_t read(const Source& source) = 0;  // a symbol that appeared: size or stride of a result, or an item
  // A KernelStep of a plan for a device, whose streams and scratch memory the host knows of. `data`: as PreparedLaunch::launch.
  virtual void launch(uint32_t step, PreparedLaunch& launch, std::span<void* const> data);
};

enum class RunStatus : uint8_t { done, check_failed_clean, check_failed_dirty, gather_failed };

struct RunResult {
  RunStatus status = RunStatus::done;
  uint32_t step = 0;                 // where it ended
};

// One compiled step, and a symbol-bearing step's level.
struct StepCode {
  enum class Kind : uint8_t { kernel, call, check, nothing } kind = Kind::nothing;
  bool dirties = false;              // changes memory that the caller sees
  bool dirties_when_done = false;    // acts in another way (draws random numbers): where it raises it has done nothing
  uint32_t index = 0;                // kernel: recipe; check: check
  uint32_t allocate_begin = 0, allocate_end = 0;  // buffers first used here
  uint32_t level = 0;                // != 0: its symbols appear after this step
};
struct CheckCode {
  Guard::Kind kind = Guard::Kind::equal;
  Slot left = 0, right = 0;
};
struct TemporaryCode {
  uint32_t buffer = 0, slot = 0;
  Slot bytes = 0;
};
struct BornLevel {
  uint32_t step = 0;
  std::vector<std::pair<Slot, Source>> symbols;
};

class Executable {
 public:
  // `device`: the number of the device that the plan is for, whose code is all DeviceKernelCode; none: this processor.
  Executable(const LaunchPlan& plan, std::span<const std::shared_ptr<KernelCode>> code, ParallelHost parallel, int threads,
             int64_t hot_launches = 0, std::optional<int> device = {});
  // For tests: the check of this number, counted from 1 in the order of the steps, is not made. False: there is none.
  bool leave_out_check(uint32_t number);

  // --- while compiling: slots that the host needs too, steps that it does itself. Then `finish`, once.
  Slot slot(Dim dim) { return shapes_.add(dim); }
  Slot constant(int64_t value) { return shapes_.add_constant(value); }
  void finish(const LaunchPlan& plan);

  // --- afterwards
  std::unique_ptr<Context> new_context() const;
  RunResult run(Context& context, Host& host) const;
  // What a call with these entry symbols needs, without running it.
  struct Memory {
    int64_t arena_bytes = 0;                       // temporaries; without those whose size appears at run time
    bool complete = true;                          // there are none such
    std::vector<int64_t> table;                    // sizes known at entry
  };
  Memory measure(std::span<const int64_t> symbols) const;
  const ShapeProgram& shapes() const { return shapes_; }
  std::span<const uint32_t> entry_symbols() const { return entry_symbols_; }
  uint32_t level_before(uint32_t step) const;      // the highest level whose symbols are known when a step starts

 private:
  friend class PlanCompiler;
  bool sizes_fit(Context& context, Host& host, uint32_t level, bool dirty) const;
  void refresh(Context& context) const;
  void note_threads(Context& context) const;
  void place_temporaries(Context& context) const;
  void allocate(Context& context, Host& host, const StepCode& step) const;
  void read_born(Context& context, Host& host, uint32_t level) const;
  int64_t launch(Context& context, Host& host, uint32_t recipe) const;
  int64_t launch_on_device(Context& context, Host& host, uint32_t step, uint32_t recipe) const;

  ParallelHost parallel_;
  int threads_;
  std::optional<int> device_;
  std::vector<BornLevel> born_;                    // level i + 1
  ShapeProgram shapes_;
  std::vector<uint32_t> entry_symbols_;
  std::vector<StepCode> steps_;                    // the plan's, and one more for what no step uses
  std::vector<LaunchRecipe> recipes_;
  std::vector<std::shared_ptr<KernelCode>> code_;
  std::vector<CheckCode> checks_;
  std::vector<uint32_t> allocations_;              // buffers, in the order of the steps that first use them
  std::vector<TemporaryCode> early_, late_;        // temporaries by when their slot's size is known
  std::vector<uint32_t> late_of_buffer_;           // per buffer: index into late_, or kNone: an output
  uint32_t slot_count_ = 0, buffer_count_ = 0;
};

}  // namespace escapement
