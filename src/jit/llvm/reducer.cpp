// See reducer.h.
#include "jit/llvm/reducer.h"

#include <limits>
#include <numeric>

#include "support/error.h"

namespace escapement {

namespace {

int64_t smallest(DType type) {
  switch (type) {
    case DType::b8: case DType::u8: return 0;
    case DType::i8: return std::numeric_limits<int8_t>::min();
    case DType::i16: return std::numeric_limits<int16_t>::min();
    case DType::i32: return std::numeric_limits<int32_t>::min();
    default: return std::numeric_limits<int64_t>::min();
  }
}

int64_t largest(DType type) {
  if (type == DType::b8) return 1;
  return type == DType::u8 ? 255 : ~smallest(type);
}

uint64_t identity_bits(Identity identity, DType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (identity) {
    case Identity::zero: return 0;
    case Identity::one: return escapement::to_bits(int64_t{1}, type);
    case Identity::least: return is_float(type) ? escapement::to_bits(-kInfinity, type) : escapement::to_bits(smallest(type), type);
    case Identity::greatest: return is_float(type) ? escapement::to_bits(kInfinity, type) : escapement::to_bits(largest(type), type);
  }
  throw InternalError("unknown identity");
}

Value* half_of(Ir& ir, Value* vector, unsigned from, unsigned count) {
  if (!vector) return nullptr;
  if (count == 1) return ir.b.CreateExtractElement(vector, uint64_t{from});
  std::vector<int> mask(count);
  std::iota(mask.begin(), mask.end(), static_cast<int>(from));
  return ir.b.CreateShuffleVector(vector, mask);
}

}  // namespace

Reducer::Reducer(KernelEmitter& kernel, const Stage& stage, const LoopReduction& reduction)
    : kernel_(kernel), ir_(kernel.ir), reduction_(reduction), type_(stage.body.type(reduction.value)), row_(escapement::reduction(reduction.op)) {}

Partial Reducer::identity(unsigned lanes, llvm::Type* index_type) {
  Value* value = ir_.constant(type_, identity_bits(row_.identity, type_), lanes);
  if (!has_index()) return {value, nullptr};
  llvm::APInt none = llvm::APInt::getSignedMaxValue(index_type->getIntegerBitWidth());  // after every real index
  return {value, ir_.splat(llvm::ConstantInt::get(index_type, none), lanes)};
}

Partial Reducer::element(StageBody& body, const Chunk& chunk, Value* stretch_begin) {
  llvm::Type* i32 = ir_.b.getInt32Ty();
  Partial found{body.value(reduction_.value), nullptr};
  if (has_index()) {
    Value* first = ir_.b.CreateTrunc(ir_.b.CreateSub(chunk.position, stretch_begin), i32);
    found.index = ir_.b.CreateAdd(ir_.splat(first, chunk.lanes), ir_.iota(i32, chunk.lanes));
  }
  if (!chunk.mask) return found;
  Partial none = identity(chunk.lanes, i32);
  found.value = ir_.b.CreateSelect(chunk.mask, found.value, none.value);
  if (has_index()) found.index = ir_.b.CreateSelect(chunk.mask, found.index, none.index);
  return found;
}

Partial Reducer::element_of_column(StageBody& body, unsigned lanes, Value* index) {
  Value* value = body.value(reduction_.value);
  return {value, has_index() ? ir_.splat(ir_.b.CreateTrunc(index, ir_.b.getInt32Ty()), lanes) : nullptr};
}

Partial Reducer::combine(Partial a, Partial b, unsigned lanes) {
  if (has_index()) return combine_with_index(a, b);
  ScalarNode node{row_.combine, type_};
  return {emit_scalar(ir_, node, a.value, b.value, nullptr, kernel_.lanes(lanes)), nullptr};
}

// NaN beats everything, then the better value, then the lower index: so the order of combining does not matter.
Partial Reducer::combine_with_index(Partial a, Partial b) {
  ScalarNode better{row_.combine, DType::b8, 0, 0, 0, static_cast<uint64_t>(type_)};
  ScalarNode same{ScalarOp::eq, DType::b8, 0, 0, 0, static_cast<uint64_t>(type_)};
  Value* take = emit_scalar(ir_, better, b.value, a.value, nullptr, {});
  Value* tie = emit_scalar(ir_, same, a.value, b.value, nullptr, {});
  if (is_float(type_)) {
    Value *a_nan = ir_.b.CreateFCmpUNO(a.value, a.value), *b_nan = ir_.b.CreateFCmpUNO(b.value, b.value);
    take = ir_.b.CreateOr(take, ir_.b.CreateAnd(b_nan, ir_.b.CreateNot(a_nan)));
    tie = ir_.b.CreateOr(tie, ir_.b.CreateAnd(a_nan, b_nan));
  }
  take = ir_.b.CreateOr(take, ir_.b.CreateAnd(tie, ir_.b.CreateICmpSLT(b.index, a.index)));
  return {ir_.b.CreateSelect(take, b.value, a.value), ir_.b.CreateSelect(take, b.index, a.index)};
}

// What is not a number stays once it is there.
Partial Reducer::combine_later(Partial a, Partial b) {
  auto& ir = ir_.b;
  const bool large = row_.combine == ScalarOp::gt;
  Value* take = nullptr;
  if (is_float(type_)) {
    Value* better = large ? ir.CreateFCmpUGT(b.value, a.value) : ir.CreateFCmpULT(b.value, a.value);
    take = ir.CreateAnd(better, ir.CreateFCmpORD(a.value, a.value));
  } else {
    ScalarNode better{row_.combine, DType::b8, 0, 0, 0, static_cast<uint64_t>(type_)};
    take = emit_scalar(ir_, better, b.value, a.value, nullptr, {});
  }
  return {ir.CreateSelect(take, b.value, a.value), ir.CreateSelect(take, b.index, a.index)};
}

Partial Reducer::tree(std::vector<Partial> vectors, unsigned lanes) {
  for (size_t half = vectors.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) vectors[i] = combine(vectors[i], vectors[i + half], lanes);
  Partial result = vectors[0];
  for (unsigned half = lanes / 2; half > 0; half /= 2) {
    Partial low{half_of(ir_, result.value, 0, half), half_of(ir_, result.index, 0, half)};
    Partial high{half_of(ir_, result.value, half, half), half_of(ir_, result.index, half, half)};
    result = combine(low, high, half);
  }
  return result;
}

Partial Reducer::in_row(Partial stretch, Value* stretch_begin) {
  if (has_index()) {
    llvm::Type* wide = stretch.index->getType()->getWithNewType(ir_.b.getInt64Ty());
    auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(wide);
    Value* begin = ir_.splat(stretch_begin, vector ? vector->getNumElements() : 1);
    stretch.index = ir_.b.CreateAdd(ir_.b.CreateSExt(stretch.index, wide), begin);
  }
  return stretch;
}

// --- totals

TotalVar Reducer::total(unsigned lanes) {
  TotalVar total{partial_var(ir_, identity(lanes, ir_.b.getInt64Ty())), {}};
  if (compensated()) total.error = ir_.var(ir_.constant(type_, 0, lanes), "error");
  return total;
}

void Reducer::reset(TotalVar total, unsigned lanes) {
  set(ir_, total.sum, identity(lanes, ir_.b.getInt64Ty()));
  if (compensated()) ir_.set(total.error, ir_.constant(type_, 0, lanes));
}

void Reducer::begin(TotalVar total, Partial stretch) { set(ir_, total.sum, stretch); }

void Reducer::add(TotalVar total, Partial stretch, unsigned lanes) {
  const Partial before = get(ir_, total.sum), after = combine(before, stretch, lanes);
  set(ir_, total.sum, after);
  if (!compensated()) return;
  auto& b = ir_.b;
  Value* taken = b.CreateFSub(after.value, before.value);
  Value* lost = b.CreateFAdd(b.CreateFSub(before.value, b.CreateFSub(after.value, taken)), b.CreateFSub(stretch.value, taken));
  ir_.set(total.error, b.CreateFAdd(ir_.get(total.error), lost));
}

Value* Reducer::result(TotalVar total, unsigned lanes) {
  const Partial sum = get(ir_, total.sum);
  if (has_index()) return sum.index;
  if (!compensated()) return sum.value;
  Value* magnitude = ir_.b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, sum.value);
  Value* infinity = ir_.constant(type_, escapement::to_bits(std::numeric_limits<double>::infinity(), type_), lanes);
  return ir_.b.CreateSelect(ir_.b.CreateFCmpOLT(magnitude, infinity), ir_.b.CreateFAdd(sum.value, ir_.get(total.error)), sum.value);
}

Value* Reducer::is_settled(TotalVar total) {
  Value* found = ir_.get(total.sum.value);
  return row_.identity == Identity::zero ? found : ir_.b.CreateNot(found);
}

// --- storage of accumulators

AccumulatorArray::AccumulatorArray(KernelEmitter& kernel, Reducer& reducer, unsigned elements)
    : ir_(kernel.ir), type_(reducer.type()), values_(ir_.array(ir_.storage_type(type_), elements, "accumulators")) {
  if (reducer.has_index()) indices_ = ir_.array(ir_.b.getInt32Ty(), elements, "indices");
}

Partial AccumulatorArray::load(Value* first, unsigned lanes) {
  llvm::Type *element = ir_.storage_type(type_), *i32 = ir_.b.getInt32Ty();
  auto vector = [&](llvm::Type* t, Value* base) {
    llvm::Align align(t->getScalarSizeInBits() / 8);
    llvm::LoadInst* loaded = ir_.b.CreateAlignedLoad(ir_.vector(t, lanes), ir_.b.CreateGEP(t, base, first), align);
    // Else LLVM makes a masked store of "store (select mask, x, what was loaded here)", which takes 20 cycles and forwards nothing.
    loaded->setVolatile(indices_ != nullptr);
    return loaded;
  };
  return {widen(ir_, type_, vector(element, values_), lanes), indices_ ? vector(i32, indices_) : nullptr};
}

void AccumulatorArray::store(Value* first, unsigned lanes, Partial partial) {
  auto put = [&](llvm::Type* t, Value* base, Value* value) {
    llvm::Align align(t->getScalarSizeInBits() / 8);
    ir_.b.CreateAlignedStore(value, ir_.b.CreateGEP(t, base, first), align);
  };
  put(ir_.storage_type(type_), values_, narrow(ir_, type_, partial.value, {lanes}));
  if (indices_) put(ir_.b.getInt32Ty(), indices_, partial.index);
}

PartialVar partial_var(Ir& ir, Partial initial) {
  return {ir.var(initial.value, "accumulator"), initial.index ? ir.var(initial.index, "index") : Var{}};
}

Partial get(Ir& ir, PartialVar var) { return {ir.get(var.value), var.index.slot ? ir.get(var.index) : nullptr}; }

void set(Ir& ir, PartialVar var, Partial partial) {
  ir.set(var.value, partial.value);
  if (var.index.slot) ir.set(var.index, partial.index);
}

}  // namespace escapement
