// A kernel as the run time sees it: code for each variant, made at first need. Implemented in jit/ (LLVM behind a cache) and by
// the loop interpreter (loop_interpreter.h) for tests and for hosts where no code may be generated.
#pragma once

#include <vector>

#include "kernels/loops.h"

namespace escapement {

enum class Variant : uint8_t {
  fast,     // every parameter has its expected inner stride; row: the reduced axes are one axis
  general,  // any strides
  partial,  // row with one reducing stage first: stretches [inner_begin, inner_end) of rows [outer_begin, outer_end) to args.scratch
  finish,   // row: combines the partial results of rows [outer_begin, outer_end) (inner_end = number of stretches), runs later stages
  block,    // row, column: with its one reduced axis of 1 to kBlockLength elements: the vector runs across the rows
  strided,  // map: any strides, but for parameters that are the same all along the vector axis: they are
  tile,     // map: as fast, but some parameters' elements are adjacent along the last axis but one instead of the last
  alone,    // column: of one column, whose elements are adjacent: as a row
};
inline constexpr size_t kVariants = 8;

// Extents and byte strides of a launch.
struct Geometry {
  std::vector<int64_t> extents;
  std::vector<int64_t> strides;    // [param * (axes + 1) + axis]; last column: the gathered axis
  friend bool operator==(const Geometry&, const Geometry&) = default;
};
inline constexpr int64_t kAnySize = -1;  // an extent that code for given sizes does not know

class KernelCode {
 public:
  virtual ~KernelCode() = default;
  virtual const LoopNest& nest() const = 0;
  virtual bool has(Variant variant) const = 0;             // partial and finish exist for some nests only
  virtual KernelFunction function(Variant variant) = 0;    // compiles at first call; thread safe; null: use `run`
  virtual bool is_made(Variant) const { return false; }    // whether `function` has been asked for it
  virtual void run(Variant variant, const KernelArgs& args, int64_t outer_begin, int64_t outer_end, int64_t inner_begin,
                   int64_t inner_end) = 0;
  // Code for exactly these sizes, which gives the same bits faster; null if there is none. `launches`: so many more had these sizes.
  // After `hot` of them such code is made in the background. Thread safe.
  virtual KernelFunction tuned(Variant, const Geometry&, int64_t /*launches*/, int64_t /*hot*/) { return nullptr; }
};

}  // namespace escapement
