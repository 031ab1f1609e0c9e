// Arguments, lanes, chunks, odometer: see kernel.h.
#include "jit/llvm/kernel.h"

#include <algorithm>

namespace escapement {

// --- arguments

namespace {

enum ArgsField : unsigned { kData, kExtents, kStrides, kScalars, kFailure, kScratch };

Value* field(Ir& ir, Value* args, ArgsField number) {
  Value* slot = ir.b.CreateConstGEP1_64(ir.b.getPtrTy(), args, number);
  return ir.b.CreateAlignedLoad(ir.b.getPtrTy(), slot, llvm::Align(8));
}

}  // namespace

KernelEmitter::KernelEmitter(llvm::Function& function, const LoopNest& loop_nest, Variant v, const TargetInfo& t, const Geometry* sizes)
    : nest(loop_nest), variant(v), target(t), ir(function), sizes_(sizes) {
  Value* args = function.getArg(0);
  outer_begin = function.getArg(1);
  outer_end = function.getArg(2);
  inner_begin = function.getArg(3);
  inner_end = function.getArg(4);
  Value *data = field(ir, args, kData), *extents = field(ir, args, kExtents);
  strides_ = field(ir, args, kStrides);
  scalars_ = field(ir, args, kScalars);
  failure = field(ir, args, kFailure);
  scratch = field(ir, args, kScratch);
  read(data, extents);
}

KernelEmitter::KernelEmitter(llvm::Function& function, const LoopNest& loop_nest, Variant v, const TargetInfo& t, const ArgumentBlock& block)
    : nest(loop_nest), variant(v), target(t), ir(function) {
  const auto word = [&](unsigned number) { return ir.slot_i64(function.getArg(0), ir.i64(number)); };
  const auto address = [&](unsigned number) { return ir.b.CreateAlignedLoad(ir.b.getPtrTy(), word(number), llvm::Align(8)); };
  strides_ = word(block.strides());
  scalars_ = word(block.scalars());
  failure = address(block.failure());
  scratch = address(block.scratch());
  read(word(block.data()), word(block.extents()));
}

void KernelEmitter::read(Value* data, Value* extents) {
  for (unsigned p = 0; p < params(); ++p)
    data_.push_back(ir.b.CreateAlignedLoad(ir.b.getPtrTy(), ir.b.CreateConstGEP1_64(ir.b.getPtrTy(), data, p), llvm::Align(8)));
  for (unsigned a = 0; a < axes(); ++a) {
    const bool known = sizes_ != nullptr && sizes_->extents[a] != kAnySize;
    extents_.push_back(known ? ir.i64(sizes_->extents[a]) : ir.load_i64(extents, ir.i64(a)));
  }
}

Value* KernelEmitter::stride(unsigned param, unsigned axis) {
  const unsigned place = param * (axes() + 1) + axis;
  return sizes_ != nullptr ? ir.i64(sizes_->strides[place]) : ir.load_i64(strides_, ir.i64(place));
}

Value* KernelEmitter::scalar(unsigned number) { return from_bits(ir, nest.scalars[number], ir.load_i64(scalars_, ir.i64(number))); }

// --- lanes

namespace {

// Bits of the elements that the body mostly works on: 32 as soon as one is 32 bits wide (half types count as that), else the widest.
unsigned element_bits(const LoopNest& nest) {
  bool has_word = false;
  int64_t widest = 1;
  auto see = [&](DType type) {
    int64_t bytes = is_half(type) ? 4 : size_of(type);
    has_word |= bytes == 4;
    widest = std::max(widest, bytes);
  };
  for (const LoopParam& p : nest.params) see(p.dtype);
  for (const Stage& stage : nest.stages)
    for (const ScalarNode& node : stage.body.nodes()) see(node.type);
  return has_word || widest > 4 ? 32 : static_cast<unsigned>(8 * widest);
}

}  // namespace

unsigned vector_lanes(const LoopNest& nest, const TargetInfo& target) {
  return std::min(32u, static_cast<unsigned>(target.vector_bits) / element_bits(nest));
}

Chunk full_chunk(Value* position, unsigned lanes) { return {lanes, position, nullptr, nullptr}; }

Chunk masked_chunk(Ir& ir, Value* position, Value* end, unsigned lanes) {
  Value* count = ir.min(ir.b.CreateSub(end, position), ir.i64(lanes));
  llvm::Type* i32 = ir.b.getInt32Ty();
  Value* mask = ir.b.CreateICmpSGT(ir.splat(ir.b.CreateTrunc(count, i32), lanes), ir.iota(i32, lanes));
  return {lanes, position, count, mask};
}

Chunk masked_chunk(Ir& ir, Value* position, Value* begin, Value* end, unsigned lanes) {
  Chunk chunk = masked_chunk(ir, position, end, lanes);
  Value *before = ir.b.CreateSub(begin, position), *none = ir.i64(0);
  chunk.first = ir.b.CreateSelect(ir.b.CreateICmpSGT(before, none), before, none);
  llvm::Type* i32 = ir.b.getInt32Ty();
  Value* reached = ir.b.CreateICmpSLE(ir.splat(ir.b.CreateTrunc(chunk.first, i32), lanes), ir.iota(i32, lanes));
  chunk.mask = ir.b.CreateAnd(chunk.mask, reached);
  return chunk;
}

// --- odometer

Odometer::Odometer(KernelEmitter& kernel, std::vector<unsigned> axes) : kernel_(kernel), axes_(std::move(axes)) {
  llvm::Type* i64 = kernel.ir.b.getInt64Ty();
  for (size_t k = 0; k < axes_.size(); ++k) indices_.push_back(kernel.ir.var(i64, "index"));
  for (unsigned p = 0; p < kernel.params(); ++p) offsets_.push_back(kernel.ir.var(i64, "offset"));
}

Value* Odometer::index(unsigned axis) {
  auto k = std::find(axes_.begin(), axes_.end(), axis) - axes_.begin();
  return kernel_.ir.get(indices_[static_cast<size_t>(k)]);
}

void Odometer::start_at_zero() {
  for (Var v : indices_) kernel_.ir.set(v, kernel_.ir.i64(0));
  for (Var v : offsets_) kernel_.ir.set(v, kernel_.ir.i64(0));
}

void Odometer::start(Value* flat) {
  Ir& ir = kernel_.ir;
  Value* rest = flat;
  for (size_t k = axes_.size(); k-- > 1;) {
    Value* extent = kernel_.extent(axes_[k]);
    ir.set(indices_[k], ir.b.CreateURem(rest, extent));
    rest = ir.b.CreateUDiv(rest, extent);
  }
  if (!axes_.empty()) ir.set(indices_[0], rest);
  for (unsigned p = 0; p < kernel_.params(); ++p) {
    Value* sum = ir.i64(0);
    for (size_t k = 0; k < axes_.size(); ++k)
      sum = ir.b.CreateAdd(sum, ir.b.CreateMul(ir.get(indices_[k]), kernel_.stride(p, axes_[k])));
    ir.set(offsets_[p], sum);
  }
}

void Odometer::remember() {
  remembered_.clear();
  for (Var v : indices_) remembered_.push_back(kernel_.ir.get(v));
  for (Var v : offsets_) remembered_.push_back(kernel_.ir.get(v));
}

void Odometer::go_back() {
  for (size_t i = 0; i < remembered_.size(); ++i)
    kernel_.ir.set(i < indices_.size() ? indices_[i] : offsets_[i - indices_.size()], remembered_[i]);
}

void Odometer::advance() {
  if (!axes_.empty()) advance_axis(axes_.size() - 1);
}

void Odometer::advance_axis(size_t k) {
  Ir& ir = kernel_.ir;
  Value* next = ir.b.CreateAdd(ir.get(indices_[k]), ir.i64(1));
  ir.set(indices_[k], next);
  for (unsigned p = 0; p < kernel_.params(); ++p)
    ir.set(offsets_[p], ir.b.CreateAdd(ir.get(offsets_[p]), kernel_.stride(p, axes_[k])));
  if (k == 0) return;
  ir.if_then(ir.b.CreateICmpEQ(next, kernel_.extent(axes_[k])), [&] {
    ir.set(indices_[k], ir.i64(0));
    for (unsigned p = 0; p < kernel_.params(); ++p) {
      Value* run = ir.b.CreateMul(kernel_.extent(axes_[k]), kernel_.stride(p, axes_[k]));
      ir.set(offsets_[p], ir.b.CreateSub(ir.get(offsets_[p]), run));
    }
    advance_axis(k - 1);
  });
}

}  // namespace escapement
