// What the emitters of device kernels share: the machine as an emitter sees it, points, stages that no team divides, reductions of a warp.
//
// A thread runs the same StageBody as the CPU's kernels, on one element at a time (on a few neighbours where a map is fast), so there is one
// definition of what an element computes. Reductions follow the canonical order (trace/reduce_order.h): its 32 lanes are the threads of a warp.
//
// Threads of a warp or block that wait for one another must all arrive: barriers and shuffles stand under conditions only that are the same for all
// of them ("uniform" below). What may differ from thread to thread never encloses one.
#pragma once

#include <llvm/IR/Module.h>

#include "jit/llvm/device/device.h"
#include "jit/llvm/kernel.h"
#include "jit/llvm/reducer.h"

namespace escapement {

inline constexpr const char* kIntrinsicPrefix = "escapement.device.";
inline constexpr const char* kSharedAttribute = "escapement-shared-bytes";

class DeviceKernel {
 public:
  DeviceKernel(llvm::Function& function, const LoopNest& nest, DeviceVariant variant);

  KernelEmitter kernel;
  Ir& ir;
  const LoopNest& nest;
  const DeviceVariant variant;

  // --- the machine; numbers are i64
  Value* thread() const { return thread_; }
  Value* threads() const { return threads_; }
  Value* block() const { return block_; }
  Value* blocks() const { return blocks_; }
  Value* lane() const { return lane_; }        // of the warp
  Value* warp() const { return warp_; }        // of the block
  Value* warps() const { return warps_; }
  Value* is_first_of(Team team);               // who stores what the whole team knows
  void barrier() { call("barrier"); }
  void warp_barrier() { call("warp_barrier"); }
  Partial shuffle_down(Partial partial, unsigned distance);
  Partial shuffle_from(Partial partial, unsigned lane);

  // Words of the block's memory, zero-based; what a kernel uses of it is the largest end it named.
  Value* shared_word(Value* number, unsigned end);
  void store_partial(Value* word, Reducer& reducer, Partial partial);   // two words
  Partial load_partial(Value* word, Reducer& reducer);

  // for (i = begin; i < end; i += step), the step known at run time
  void stride_loop(const char* name, Value* begin, Value* end, Value* step, EmitWith body);
  std::vector<unsigned> axes(bool reduced) const;   // without the vector axis of maps and columns
  Value* product(const std::vector<unsigned>& axes);
  Value* quotient_up(Value* a, Value* b);
  void finish();                                    // ends the function

 private:
  Value* call(const char* name, std::vector<Value*> arguments = {});
  Value* shuffle(const char* name, Value* value, unsigned number);
  void leave_if_nothing_to_gather();

  llvm::Function& function_;
  Value *thread_, *threads_, *block_, *blocks_, *lane_, *warp_, *warps_;
  unsigned shared_words_ = 0;
};

// Sets an odometer to a flat number that is often 0: axes of one element cost no division.
void start_at(DeviceKernel& device, Odometer& odometer, Value* flat, Value* count);

// The 32 accumulators of a stretch combined over the lanes of the warp; every thread gets the result, its index in the row.
Partial combine_warp(DeviceKernel& device, Reducer& reducer, Partial accumulator, Value* stretch_begin);

// Whether an earlier stage of a row has touched memory that a later one may touch from another thread.
class Hazards {
 public:
  explicit Hazards(const LoopNest& nest) : nest_(nest) {}
  bool needs_barrier(const Stage& next) const;   // before it
  void passed(const Stage& stage);
  void barrier() { loads_ = stores_ = false; }

 private:
  const LoopNest& nest_;
  bool loads_ = false, stores_ = false;
};
bool loads_memory(const Stage& stage);

// Whether each parameter with unit stride has its base (null: it has none to look at) at a multiple of `together` elements.
Value* all_aligned(DeviceKernel& device, const std::vector<Value*>& bases, unsigned together);

// --- by schedule
void emit_device_map(DeviceKernel& device);
void emit_device_row(DeviceKernel& device);
void emit_device_column(DeviceKernel& device);

void emit_device(llvm::Module& module, const DeviceSource& source);

// --- device IR to what a machine runs
void lower_to_ptx(llvm::Module& module);
void lower_to_twin(llvm::Module& module);

}  // namespace escapement
