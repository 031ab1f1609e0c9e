// LaunchPlan: what one call does, in order: kernels, library calls, checks; where every tensor lives; how sizes follow from the
// inputs. All sizes are Dims of the plan's trace; the run time (jit/run) evaluates them once per change of shape.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "kernels/loops.h"
#include "trace/trace.h"

namespace escapement {

// Memory of one root value.
struct Buffer {
  enum class Kind : uint8_t {
    input,      // a tensor the caller passed
    output,     // fresh memory that leaves the call: from the host's allocator, with the value's own sizes and strides
    temporary,  // arena, at slot `slot`
    call,       // allocated by a library call (its results could not be planned)
  } kind = Kind::temporary;
  ValueId root;
  Dim bytes;            // output, temporary
  uint32_t input = 0;   // input
  uint32_t slot = 0;    // temporary: buffers with equal slot never live at once
  uint32_t first = 0, last = 0;  // steps between which the memory is in use
};

// A tensor as a kernel parameter: strides along the nest's axes (0 = broadcast), in elements.
struct KernelOperand {
  uint32_t buffer = 0;
  DType dtype = DType::f32;
  Dim offset;                 // elements from the buffer's root element
  std::vector<Dim> strides;   // one per axis
  Dim gathered;               // stride of the gathered axis; none if the param is not gathered
};

struct KernelStep {
  uint32_t kernel = 0;               // index into LaunchPlan::kernels
  std::vector<Dim> extents;          // one per axis
  std::vector<KernelOperand> operands;  // one per param
  std::vector<Number> scalars;       // one per scalar of the nest
  std::vector<ValueId> writes;       // values that this launch materialises
  std::string failure;               // what a failing gather says: "index_select", "index_select_axis_1", "embedding", "gather", "nll_loss"
};

struct CallStep {
  InstrId instr;                     // a call or contract instruction of the trace
  bool into_planned = false;         // its (single) result has a planned buffer: use the out= form if ATen has one
  std::vector<ValueId> dead_before;  // buffers that may have memory beside the arena, and that no step needs from here on
  std::vector<ValueId> dead_after;   // ... or behind this one
};

// A fact that can only be tested once born symbols are known (or at entry: see LaunchPlan::entry).
struct CheckStep {
  uint32_t guard = 0;                // index into trace.guards
};

using Step = std::variant<KernelStep, CallStep, CheckStep>;

struct Kernel {
  LoopNest nest;
  std::string name;                  // "k0_layer_norm_gelu": stable, from the ops
  std::vector<Op> ops;
};

// Why two neighbours did not become one kernel.
struct Apart {
  ValueId producer, consumer;
  Reason why;
};

struct LaunchPlan {
  Trace trace;                       // the trace after all passes; the plan's ids refer to it
  CheckedVector<Kernel> kernels;       // without repetition
  CheckedVector<Step> steps;
  CheckedVector<Buffer> buffers;
  CheckedVector<uint32_t> buffer_of;   // per value index: its root's buffer, or Id<void>::kNone
  std::vector<uint32_t> entry;       // guards (indices) testable before anything runs
  std::vector<Apart> apart;
  uint32_t slot_count = 0;
};

std::string print(const LaunchPlan& plan);   // for golden tests and explain
std::string print_steps(const LaunchPlan& plan);  // only what runs, and who stayed apart
void verify(const LaunchPlan& plan);

struct FusionLimits {
  bool fuse = true;                  // false: every op its own kernel (slow twin)
  int max_ops = 512;
};

// Trace (composites expanded) -> plan. Deterministic; never fails on a valid trace: what is not fused is called.
LaunchPlan make_plan(Trace trace, const FusionLimits& limits);
// For a device: every buffer is the host's to allocate, in the root value's layout, also what does not leave the call.
void keep_off_arena(LaunchPlan& plan);

}  // namespace escapement
