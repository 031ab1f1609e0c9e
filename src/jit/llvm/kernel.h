// What the emitters of a kernel share: its arguments, where a body stands (Point, Chunk), memory access, outer loops, bodies.
//
// Layout of a kernel's IR, all schedules:
//   entry    arguments, data pointers, extents, strides along the vector axis; leave if the range is empty
//   outer    one iteration per parallel point (map, column: without the vector axis); an Odometer keeps indices and byte offsets
//            up to date by additions, with one division per axis at entry of the range and none inside
//   shared   what all lanes have in common (constants, scalars, splat loads, row-invariant gathers): before the vector loop
//   main     bodies on full vectors of L lanes
//   tail     the same body under a mask for the rest
// Promises given to LLVM: none that is not proved. No noalias, no nsw, no inbounds, no fast-math; alignment is the element's.
#pragma once

#include <optional>
#include <vector>

#include "jit/llvm/compile.h"
#include "jit/llvm/emit_scalar.h"
#include "jit/llvm/ir.h"
#include "jit/run/device_code.h"
#include "kernels/loops.h"

namespace escapement {

class KernelEmitter {
 public:
  KernelEmitter(llvm::Function& function, const LoopNest& nest, Variant variant, const TargetInfo& target, const Geometry* sizes);
  // A kernel of a device: its argument is an ArgumentBlock, and it has no ranges (device/kernel.h).
  KernelEmitter(llvm::Function& function, const LoopNest& nest, Variant variant, const TargetInfo& target, const ArgumentBlock& block);

  const LoopNest& nest;
  const Variant variant;
  const TargetInfo& target;
  Ir ir;
  Value *outer_begin = nullptr, *outer_end = nullptr, *inner_begin = nullptr, *inner_end = nullptr;
  Value *failure, *scratch;
  bool gathers_checked = false;    // whether the kernel has been left already if there is nothing to gather from

  unsigned axes() const { return static_cast<unsigned>(nest.axes.size()); }
  unsigned params() const { return static_cast<unsigned>(nest.params.size()); }
  Value* data(unsigned param) const { return data_[param]; }
  Value* extent(unsigned axis) const { return extents_[axis]; }
  Value* stride(unsigned param, unsigned axis);   // bytes; axis == axes(): the gathered axis
  Value* scalar(unsigned number);                 // register form
  Lanes lanes(unsigned count) const { return {count, target.vector_bits >= 256, target.converts_bf16, target.vector_bits >= 512}; }

 private:
  void read(Value* data, Value* extents);

  std::vector<Value*> data_, extents_;
  Value *strides_, *scalars_;
  const Geometry* sizes_ = nullptr;   // null: none is known
};

// Lanes of a vector for this nest: what fills one register with the elements most of the body works on; divides 32.
unsigned vector_lanes(const LoopNest& nest, const TargetInfo& target);

// --- where a body stands

// How a parameter's elements lie along the lanes.
struct Access {
  enum class Kind { zero, unit, strided, listed } kind = Kind::zero;
  Value* base = nullptr;    // address at position 0 of the vector axis
  Value* stride = nullptr;  // strided: bytes
  Value* list = nullptr;    // listed: i64 array, lane -> byte offset from base; every lane holds the offset of a valid element
  bool aligned = false;     // unit: a full chunk's first element lies at a multiple of the chunk's size
};

// The part of the vector axis that one instance of a body covers.
struct Chunk {
  unsigned lanes = 1;
  Value* position = nullptr;  // i64: of lane 0
  Value* count = nullptr;     // i64, at least 1: lanes in use; null: all
  Value* mask = nullptr;      // the same as a vector of i1; null: all
  Value* first = nullptr;     // i64: lanes before this one are not in use; then `count` may be less than 1. Null: 0
};
Chunk full_chunk(Value* position, unsigned lanes);
Chunk masked_chunk(Ir& ir, Value* position, Value* end, unsigned lanes);
Chunk masked_chunk(Ir& ir, Value* position, Value* begin, Value* end, unsigned lanes);   // of elements of unit access only: the rest may lie before `begin`

struct IndexSource {
  enum class Kind { scalar, lanes, listed } kind = Kind::scalar;
  Value* value = nullptr;   // scalar: the index; listed: i64 array; lanes: unused, the index is the position
};

struct Point {
  std::vector<Access> params;
  std::vector<IndexSource> axes;
  std::vector<Value*> row_values;   // scalars (row) or vectors (column)
  bool row_values_are_vectors = false;
};

// --- memory

Value* load(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk);   // register form
void store(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk, Value* stored);   // memory form
// Further places for a scattered load: a vector of i64, valid for unused lanes too, and the bytes from one place to the
// next. They are multiplied as scalars: below AVX512 no instruction multiplies vectors of i64.
struct Positions {
  Value *places = nullptr, *stride = nullptr;
};
// Element by element at base + offset(lane) + places[lane] * stride.
Value* load_scattered(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk,
                      const Positions& positions);

// --- outer loops

class Odometer {
 public:
  Odometer(KernelEmitter& kernel, std::vector<unsigned> axes);
  void start(Value* flat);                        // row-major over its axes; divides
  void start_at_zero();
  void advance();                                 // to the next point; at the last one it wraps around
  void remember();                                // where it stands, to ...
  void go_back();                                 // ... be there again
  Value* offset(unsigned param) { return kernel_.ir.get(offsets_[param]); }   // bytes
  Value* index(unsigned axis);                    // an axis of its own
  const std::vector<unsigned>& axes() const { return axes_; }

 private:
  void advance_axis(size_t k);

  KernelEmitter& kernel_;
  std::vector<unsigned> axes_;
  std::vector<Var> indices_;   // per own axis
  std::vector<Var> offsets_;   // per param
  std::vector<Value*> remembered_;
};

// --- bodies

class StageBody {
 public:
  StageBody(KernelEmitter& kernel, const Stage& stage, unsigned lanes);
  // A value that one stage hands on to another in the kernel's own memory, where there is room for a whole chunk at each place. `keep`: each
  // chunk's is stored, those behind position `last` there. `take`: it is loaded instead of computed. Before `enter`.
  void keep(Reg reg, const Access& place, Value* last = nullptr);
  void take(Reg reg, const Access& place);
  bool takes() const { return taken_.has_value(); }
  bool only_reduces() const { return stage_.stores.empty() && !kept_ && gathers().empty(); }   // its results are all that is seen of it
  void enter(const Point& point);    // emits what all lanes share. Only where at least one element follows: it reads memory
  void begin(const Chunk& chunk);    // emits the nodes for this chunk
  Value* value(Reg reg);             // of the chunk begun last
  void store();                      // the stage's stores, after all its loads
  unsigned size() const { return size_; }   // nodes that do work
  std::vector<const LoopInput*> gathers() const;   // those whose values are used
  unsigned lanes() const { return lanes_; }
  const Stage& stage() const { return stage_; }

 private:
  struct Handed {
    Reg reg = 0;
    Access place;
    Value* last = nullptr;
  };

  void mark_used();
  bool is_taken(size_t node) const { return taken_ && taken_->reg == node; }
  void store_kept(const Chunk& chunk);
  void classify();
  bool input_is_shared(const LoopInput& input) const;
  bool stores_rounded(const LoopStore& store) const;
  Reg stored_reg(const LoopStore& store) const;
  Value* stored_form(const LoopStore& store);
  Value* emit_node(const ScalarNode& node, const Chunk& chunk, bool shared);
  Value* emit_input(const LoopInput& input, DType type, const Chunk& chunk, bool shared);
  Value* emit_index(const LoopInput& input, const Chunk& chunk);
  Value* emit_gather(const LoopInput& input, const Chunk& chunk, bool shared);
  Value* checked_position(const LoopInput& input, Value* position, const Chunk& chunk);
  Access gathered(const LoopInput& input);
  void leave_if_nothing_to_gather();

  KernelEmitter& kernel_;
  const Stage& stage_;
  unsigned lanes_, size_ = 0;
  Point point_;
  Chunk chunk_;
  std::optional<Handed> kept_, taken_;
  std::vector<bool> used_, shared_;
  std::vector<Value*> scalars_, splats_, values_;   // per node: shared value, the same in all lanes, value of this chunk
  std::vector<Access> gathered_;                    // per input: the access once a shared position is applied
};

// Runs the body over [begin, end) of the vector axis: main loop and tail.
void emit_vector_loop(KernelEmitter& kernel, StageBody& body, Value* begin, Value* end);

// --- schedules

void emit_map(KernelEmitter& kernel);      // all variants but tile
void emit_tile(KernelEmitter& kernel);     // maps, variant tile
void emit_row(KernelEmitter& kernel);      // all variants but block; columns: variant alone
void emit_block(KernelEmitter& kernel);    // rows, variant block
void emit_column(KernelEmitter& kernel);   // all variants but block and alone

}  // namespace escapement
