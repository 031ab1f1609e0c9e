// Loads and stores of one chunk: see kernel.h.
//
// Unused lanes of a masked chunk never touch memory outside the elements in use: loads of 32- and 64-bit elements are masked
// instructions; narrow ones (LLVM scalarises their masked forms below AVX512BW) pass through a small buffer on the stack in a tiny
// loop; element-by-element loads read lane 0's element again. Stores are masked with AVX512, else made in pieces.
#include <numeric>

#include "jit/llvm/kernel.h"

namespace escapement {

namespace {

llvm::Align align_of(DType type) { return llvm::Align(static_cast<uint64_t>(size_of(type))); }

Value* load_element(Ir& ir, DType type, Value* address) {
  return ir.b.CreateAlignedLoad(ir.storage_type(type), address, align_of(type));
}

void store_element(Ir& ir, DType type, Value* address, Value* stored) { ir.b.CreateAlignedStore(stored, address, align_of(type)); }

Value* first_lane(Ir& ir, const Chunk& chunk) { return chunk.first ? chunk.first : ir.i64(0); }

// --- contiguous

llvm::Align align_of(DType type, const Access& access, const Chunk& chunk) {
  return access.aligned ? llvm::Align(chunk.lanes * static_cast<uint64_t>(size_of(type))) : align_of(type);
}

Value* unit_address(Ir& ir, DType type, const Access& access, const Chunk& chunk) {
  return ir.b.CreateGEP(ir.storage_type(type), access.base, chunk.position);
}

bool has_masked_instruction(const KernelEmitter& kernel, DType type) { return size_of(type) >= 4 || kernel.target.vector_bits >= 512; }

Value* load_through_buffer(KernelEmitter& kernel, DType type, Value* address, const Chunk& chunk) {
  Ir& ir = kernel.ir;
  llvm::Type *element = ir.storage_type(type), *vector = ir.vector(element, chunk.lanes);
  Value* buffer = ir.array(element, chunk.lanes, "tail");
  ir.b.CreateAlignedStore(llvm::Constant::getNullValue(vector), buffer, llvm::Align(64));
  ir.loop("copy", first_lane(ir, chunk), chunk.count, 1, [&](Value* i) {
    store_element(ir, type, ir.b.CreateGEP(element, buffer, i), load_element(ir, type, ir.b.CreateGEP(element, address, i)));
  });
  return ir.b.CreateAlignedLoad(vector, buffer, llvm::Align(64));
}

Value* load_unit(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk) {
  Ir& ir = kernel.ir;
  Value* address = unit_address(ir, type, access, chunk);
  llvm::Type* vector = ir.vector(ir.storage_type(type), chunk.lanes);
  if (!chunk.mask) return ir.b.CreateAlignedLoad(vector, address, align_of(type, access, chunk));
  if (!has_masked_instruction(kernel, type)) return load_through_buffer(kernel, type, address, chunk);
  return ir.b.CreateMaskedLoad(vector, address, align_of(type), chunk.mask, llvm::Constant::getNullValue(vector));
}

// --- element by element

Value* lane_stride(Ir& ir, DType type, const Access& access) {
  if (access.kind == Access::Kind::unit) return ir.i64(size_of(type));
  return access.kind == Access::Kind::strided ? access.stride : ir.i64(0);
}

// Byte offset from the base, per lane. Unused lanes: lane 0's.
std::vector<Value*> lane_offsets(Ir& ir, DType type, const Access& access, const Chunk& chunk) {
  std::vector<Value*> offsets;
  if (access.kind == Access::Kind::listed) {
    for (unsigned l = 0; l < chunk.lanes; ++l) offsets.push_back(ir.load_i64(access.list, ir.i64(l)));
    return offsets;
  }
  Value* stride = lane_stride(ir, type, access);
  Value* next = ir.b.CreateMul(chunk.position, stride);
  offsets.push_back(next);
  for (unsigned l = 1; l < chunk.lanes; ++l) {
    next = ir.b.CreateAdd(next, stride);
    offsets.push_back(chunk.count ? ir.b.CreateSelect(ir.b.CreateICmpSGT(chunk.count, ir.i64(l)), next, offsets[0]) : next);
  }
  return offsets;
}

void store_each_lane(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk, Value* stored) {
  Ir& ir = kernel.ir;
  std::vector<Value*> offsets = lane_offsets(ir, type, access, chunk);
  for (unsigned l = 0; l < chunk.lanes; ++l)
    store_element(ir, type, ir.at(access.base, offsets[l]), ir.lane(stored, l, chunk.lanes));
}

// The lanes in use of a vector, at adjacent addresses: a power of two at a time. Masked stores of AVX2 take some 50 cycles on AMD's
// processors and forward nothing to later loads.
void store_in_pieces(KernelEmitter& kernel, DType type, Value* address, const Chunk& chunk, Value* stored) {
  Ir& ir = kernel.ir;
  Var at = ir.var(address, "at"), rest = ir.var(stored, "rest");
  for (unsigned size = chunk.lanes; size > 0; size /= 2) {
    Value* has_piece = ir.b.CreateICmpNE(ir.b.CreateAnd(chunk.count, ir.i64(size)), ir.i64(0));
    ir.if_then(has_piece, [&] {
      std::vector<int> low(size), next(chunk.lanes, llvm::PoisonMaskElem);
      std::iota(low.begin(), low.end(), 0);
      std::iota(next.begin(), next.end() - static_cast<int>(size), static_cast<int>(size));
      Value* piece = size == 1 ? ir.lane(ir.get(rest), 0, chunk.lanes) : ir.b.CreateShuffleVector(ir.get(rest), low);
      store_element(ir, type, ir.get(at), piece);
      ir.set(at, ir.at(ir.get(at), ir.i64(size * size_of(type))));
      ir.set(rest, ir.b.CreateShuffleVector(ir.get(rest), next));
    });
  }
}

// The lanes in use, in a tiny loop from a buffer.
void store_through_buffer(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk, Value* stored) {
  Ir& ir = kernel.ir;
  llvm::Type* element = ir.storage_type(type);
  Value* buffer = ir.array(element, chunk.lanes, "tail");
  ir.b.CreateAlignedStore(stored, buffer, llvm::Align(64));
  bool listed = access.kind == Access::Kind::listed;
  Value* stride = lane_stride(ir, type, access);
  Value* first = listed ? access.base : ir.at(access.base, ir.b.CreateMul(chunk.position, stride));
  ir.loop("copy", first_lane(ir, chunk), chunk.count, 1, [&](Value* i) {
    Value* offset = listed ? ir.load_i64(access.list, i) : ir.b.CreateMul(i, stride);
    store_element(ir, type, ir.at(first, offset), load_element(ir, type, ir.b.CreateGEP(element, buffer, i)));
  });
}

// Every second element: of two vectors, the last element of the first being the first of the second, so that nothing behind the chunk is read.
Value* load_every_second(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk) {
  Ir& ir = kernel.ir;
  llvm::Type *element = ir.storage_type(type), *vector = ir.vector(element, chunk.lanes);
  Value* first = ir.b.CreateGEP(element, access.base, ir.b.CreateShl(chunk.position, 1));
  Value* low = ir.b.CreateAlignedLoad(vector, first, align_of(type));
  Value* high = ir.b.CreateAlignedLoad(vector, ir.b.CreateGEP(element, first, ir.i64(chunk.lanes - 1)), align_of(type));
  std::vector<int> lanes;
  for (unsigned l = 0; l < chunk.lanes; ++l) lanes.push_back(static_cast<int>(2 * l < chunk.lanes ? 2 * l : 2 * l + 1));
  return ir.b.CreateShuffleVector(low, high, lanes);
}

Value* load_elements(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk, const Positions& positions) {
  Ir& ir = kernel.ir;
  std::vector<Value*> offsets = lane_offsets(ir, type, access, chunk);
  Value* result = llvm::PoisonValue::get(ir.vector(ir.storage_type(type), chunk.lanes));
  for (unsigned l = 0; l < chunk.lanes; ++l) {
    Value* offset = offsets[l];
    if (positions.places)
      offset = ir.b.CreateAdd(offset, ir.b.CreateMul(ir.lane(positions.places, l, chunk.lanes), positions.stride));
    Value* element = load_element(ir, type, ir.at(access.base, offset));
    result = chunk.lanes == 1 ? element : ir.b.CreateInsertElement(result, element, uint64_t{l});
  }
  return result;
}

Value* has_stride(Ir& ir, const Access& access, int64_t bytes) { return ir.b.CreateICmpEQ(access.stride, ir.i64(bytes)); }

// What is usual among strides is worth a branch, which always goes the same way.
Value* load_strided(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk) {
  Ir& ir = kernel.ir;
  Var loaded = ir.var(ir.vector(ir.storage_type(type), chunk.lanes), "loaded");   // as it lies in memory
  const Access unit{Access::Kind::unit, access.base, nullptr, nullptr};
  const auto otherwise = [&] { ir.set(loaded, load_elements(kernel, type, access, chunk, {})); };
  const auto by_two = [&] {
    if (chunk.mask) return otherwise();
    ir.if_else(has_stride(ir, access, 2 * size_of(type)), [&] { ir.set(loaded, load_every_second(kernel, type, access, chunk)); }, otherwise);
  };
  ir.if_else(has_stride(ir, access, size_of(type)), [&] { ir.set(loaded, load_unit(kernel, type, unit, chunk)); }, by_two);
  return widen(ir, type, ir.get(loaded), chunk.lanes);
}

void store_strided(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk, Value* stored) {
  const Access unit{Access::Kind::unit, access.base, nullptr, nullptr};
  kernel.ir.if_else(has_stride(kernel.ir, access, size_of(type)), [&] { store(kernel, type, unit, chunk, stored); }, [&] {
    if (chunk.mask) store_through_buffer(kernel, type, access, chunk, stored);
    else store_each_lane(kernel, type, access, chunk, stored);
  });
}

Value* scalar_address(Ir& ir, DType type, const Access& access, const Chunk& chunk) {
  if (access.kind == Access::Kind::zero) return access.base;
  return ir.at(access.base, lane_offsets(ir, type, access, chunk)[0]);
}

}  // namespace

Value* load_scattered(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk, const Positions& positions) {
  return widen(kernel.ir, type, load_elements(kernel, type, access, chunk, positions), chunk.lanes);
}

Value* load(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk) {
  Ir& ir = kernel.ir;
  if (chunk.lanes == 1) return widen(ir, type, load_element(ir, type, scalar_address(ir, type, access, chunk)), 1);
  switch (access.kind) {
    case Access::Kind::zero: return widen(ir, type, ir.splat(load_element(ir, type, access.base), chunk.lanes), chunk.lanes);
    case Access::Kind::unit: return widen(ir, type, load_unit(kernel, type, access, chunk), chunk.lanes);
    case Access::Kind::strided: return load_strided(kernel, type, access, chunk);
    case Access::Kind::listed: break;
  }
  return load_scattered(kernel, type, access, chunk, {});
}

void store(KernelEmitter& kernel, DType type, const Access& access, const Chunk& chunk, Value* stored) {
  Ir& ir = kernel.ir;
  if (chunk.lanes == 1) return store_element(ir, type, scalar_address(ir, type, access, chunk), stored);
  bool unit = access.kind == Access::Kind::unit;
  if (unit && !chunk.mask) {
    ir.b.CreateAlignedStore(stored, unit_address(ir, type, access, chunk), align_of(type, access, chunk));
  } else if (unit && kernel.target.vector_bits < 512 && !chunk.first) {
    store_in_pieces(kernel, type, unit_address(ir, type, access, chunk), chunk, stored);
  } else if (unit && kernel.target.vector_bits >= 512) {
    ir.b.CreateMaskedStore(stored, unit_address(ir, type, access, chunk), align_of(type), chunk.mask);
  } else if (access.kind == Access::Kind::strided) {
    store_strided(kernel, type, access, chunk, stored);
  } else if (chunk.mask) {
    store_through_buffer(kernel, type, access, chunk, stored);
  } else {
    store_each_lane(kernel, type, access, chunk, stored);
  }
}

}  // namespace escapement
