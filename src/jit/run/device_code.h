// A kernel of a device, as code generation and launches agree on it: who works on one point, and where its arguments lie.
//
// A kernel gets one argument by value: a block of 64-bit words (ArgumentBlock), which a launch writes in place. Its grid and its blocks have one
// dimension; it gives the same bits for any number of blocks, and for any number of warps in a block where the team does not fix it. See
// docs/cuda.md for the teams.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/loops.h"

namespace escapement {

// Who works on one point of the parallel axes, the vector axis of maps and columns left out.
enum class Team : uint8_t {
  thread,   // map: a thread on a point, the vector axis among them: short vector axes
  tile,     // map: the threads of a block on a piece of the vector axis
  warp,     // row: a warp on a row
  block,    // row: a block on a row; column: a block on 32 columns
  partial,  // row: a warp on a stretch of the first stage, results to scratch; column: a block on a stretch of 32 columns
  finish,   // as block, the first stage's results from scratch
};

struct DeviceVariant {
  Team team = Team::thread;
  // map, row: every parameter has its expected inner stride (is_fast of launch.h). column: of the reduced axes only the last is longer than 1.
  bool fast = false;
  friend bool operator==(const DeviceVariant&, const DeviceVariant&) = default;
};

bool has_team(const LoopNest& nest, DeviceVariant variant);
std::string name_of(DeviceVariant variant);

inline constexpr unsigned kWarp = 32;
inline constexpr unsigned kMostWarps = 16;      // of a block on a row
inline constexpr unsigned kColumnWarps = 8;     // of a block on columns, always: a warp is 32 neighbouring columns
inline constexpr unsigned kOtherWarps = 8;      // of any other block, at most
inline constexpr unsigned kVectorBytes = 16;    // of one access of a thread, at most

// Threads of a block, at most: what the registers of a thread are counted for.
constexpr unsigned most_threads(const LoopNest& nest, DeviceVariant variant) {
  const bool of_row = nest.schedule == Schedule::row && (variant.team == Team::block || variant.team == Team::finish);
  return kWarp * (of_row ? kMostWarps : kOtherWarps);
}

// The words of a kernel's argument, in order.
class ArgumentBlock {
 public:
  explicit ArgumentBlock(const LoopNest& nest)
      : axes_(static_cast<unsigned>(nest.axes.size())), params_(static_cast<unsigned>(nest.params.size())),
        scalars_(static_cast<unsigned>(nest.scalars.size())) {}

  unsigned data() const { return 0; }                                      // of each parameter: its element at index 0 on every axis
  unsigned extents() const { return params_; }                             // per axis
  unsigned strides() const { return extents() + axes_; }                   // bytes; [param * (axes + 1) + axis]; last: the gathered axis
  unsigned scalars() const { return strides() + params_ * (axes_ + 1); }   // register form (trace/scalar.h)
  unsigned failure() const { return scalars() + scalars_; }                // address of the failure word, as KernelArgs::failure
  unsigned scratch() const { return failure() + 1; }                       // partial, finish: as KernelArgs::scratch
  unsigned words() const { return scratch() + 1; }

 private:
  unsigned axes_, params_, scalars_;
};

// Elements of the vector axis that a thread of a tile takes in one access of a fast map.
unsigned device_vector(const LoopNest& nest);

}  // namespace escapement
