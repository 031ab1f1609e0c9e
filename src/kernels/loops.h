// LoopNest: what one kernel computes, free of target, vector width and thread count.
//
// Meaning. The axes are parallel or reduced. For every point p of the parallel axes, the stages run in order; an `each_element`
// stage runs its body once for every point r of the reduced axes (row-major over them, in the axes' order), an `each_row` stage
// once. Bodies are ScalarPrograms whose `input` nodes are described by LoopInput. Values pass between stages as row values
// (one per p: results of reductions and of each_row stages) or by recomputing. Reductions combine in the canonical order of
// trace/reduce_order.h, so the result does not depend on how the nest is scheduled. Points p are independent of each other,
// except through parameters that the same nest both reads and writes at equal addresses (in-place).
//
// A nest without reduced axes is a `map`: each_element runs once per p. Loads and stores have run-time strides on every axis;
// a broadcast operand has stride 0 there. loop_interpreter.h is the living definition; loop text is in loops_text.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trace/ops.h"
#include "trace/scalar.h"

namespace escapement {

enum class Schedule : uint8_t {
  map,     // no reduced axis; the last axis is the vector axis
  row,     // the reduced axes are innermost and flat; the vector runs along them
  column,  // the last axis is parallel and is the vector axis; reduced axes lie outside it
};

struct LoopAxis {
  bool reduced = false;
  bool indexed = false;  // some body reads its index: it must not be merged with a neighbour
  friend bool operator==(const LoopAxis&, const LoopAxis&) = default;
};

// What is expected of a parameter along the vector axis. Tested at launch; if it does not hold, the general variant runs.
enum class InnerStride : uint8_t { zero, unit };

struct LoopParam {
  DType dtype = DType::f32;  // storage type
  bool written = false;
  InnerStride inner = InnerStride::unit;
  friend bool operator==(const LoopParam&, const LoopParam&) = default;
};

struct LoopInput {
  enum class Kind : uint8_t {
    load,     // params[number] at the current point
    gather,   // params[number] at the current point plus `position` times the stride of extra axis axes.size() + 0 (see KernelArgs);
              // negative positions count from the end if `wrap`; out of range: position 0 is read, failure is set
    index,    // i64: index along axes[number]
    row,      // row_values[number]
  } kind = Kind::load;
  uint32_t number = 0;
  Reg position = 0;        // gather: an i64 register of the same body
  uint32_t bound = 0;      // gather: scalars[bound] (i64) is the number of valid positions
  bool wrap = false;       // gather
  friend bool operator==(const LoopInput&, const LoopInput&) = default;
};

struct LoopStore {
  uint32_t param = 0;
  Reg value = 0;           // has compute_type(param dtype); conversion to the storage type rounds to nearest even
  friend bool operator==(const LoopStore&, const LoopStore&) = default;
};

struct LoopReduction {
  Op op = Op::sum;         // a row of reduce.def
  Reg value = 0;           // f32, f64, i64 (sum, prod), any compute type (amax...), b8 (any, all)
  uint32_t row_value = 0;  // receives the result: the accumulator type; i64 for argmax/argmin (row-major index in the reduced axes)
  friend bool operator==(const LoopReduction&, const LoopReduction&) = default;
};

struct RowKeep {
  Reg value = 0;
  uint32_t row_value = 0;
  friend bool operator==(const RowKeep&, const RowKeep&) = default;
};

struct Stage {
  enum class Kind : uint8_t { each_element, each_row } kind = Kind::each_element;
  ScalarProgram body;
  std::vector<LoopInput> inputs;          // indexed by the number of an `input` node
  std::vector<LoopStore> stores;          // each_row: the parameter's strides on reduced axes are not used
  std::vector<LoopReduction> reductions;  // each_element only
  std::vector<RowKeep> keeps;             // each_row only
};

struct LoopNest {
  Schedule schedule = Schedule::map;
  std::vector<LoopAxis> axes;        // outermost first. row: parallel axes, then reduced. column: parallel, reduced, one parallel
  std::vector<LoopParam> params;
  std::vector<DType> scalars;        // types of run-time scalars (`param` nodes)
  std::vector<DType> row_values;
  std::vector<Stage> stages;
};

std::string print(const LoopNest& nest);
LoopNest parse_loop_nest(std::string_view text);
uint64_t structural_hash(const LoopNest& nest);            // equal nests (names apart) hash equal: compiled once
bool structurally_equal(const LoopNest& a, const LoopNest& b);
void verify(const LoopNest& nest);

// --- the call convention of a compiled kernel (and of the loop interpreter)
struct KernelArgs {
  void* const* data;            // per param: address of its element at index 0 on every axis
  const int64_t* extents;       // per axis
  const int64_t* strides;       // [param * (axes + 1) + axis], in bytes; column `axes`: the gathered axis of that param, else 0
  const uint64_t* scalars;      // register form (trace/scalar.h)
  int64_t* failure;             // gather out of range: set to 1 + input's param number
  void* scratch;                // partial, finish: uint64_t[row][stretch][reduction][2] (value bits; index of argmax/argmin)
};

// Runs the points [outer_begin, outer_end) of the flattened parallel axes (row-major; without the vector axis for map and column) and
// [inner_begin, inner_end) of the vector axis (map, column; row: ignored).
using KernelFunction = void (*)(const KernelArgs* args, int64_t outer_begin, int64_t outer_end, int64_t inner_begin,
                                int64_t inner_end);

}  // namespace escapement
