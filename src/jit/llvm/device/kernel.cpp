// See kernel.h.
#include "jit/llvm/device/kernel.h"

#include <string>

#include "support/error.h"

namespace escapement {

namespace {

const TargetInfo& one_element_at_a_time() {
  static const TargetInfo* target = new TargetInfo{"device", "", 32};
  return *target;
}

Variant variant_of(DeviceVariant variant) { return variant.fast ? Variant::fast : Variant::general; }

// The number of a value's bits, as an integer.
Value* pattern_of(Ir& ir, Value* value) { return ir.b.CreateBitCast(value, ir.b.getIntNTy(value->getType()->getScalarSizeInBits())); }

llvm::Type* type_of(llvm::LLVMContext& c, std::string_view name) {
  if (name == "none") return llvm::Type::getVoidTy(c);
  return name == "i32" ? static_cast<llvm::Type*>(llvm::Type::getInt32Ty(c)) : llvm::PointerType::get(c, 0);
}

std::string_view result_of(std::string_view name) {
#define DEVICE_INTRINSIC(row, result, parameters, what) \
  if (name == #row) return #result;
#include "jit/llvm/device/intrinsics.def"
#undef DEVICE_INTRINSIC
  throw InternalError("no such device intrinsic");
}

// What waits for other threads may not be moved under another condition.
llvm::FunctionCallee intrinsic(llvm::Module& module, std::string_view name, const std::vector<Value*>& arguments) {
  std::vector<llvm::Type*> types;
  for (Value* argument : arguments) types.push_back(argument->getType());
  auto* type = llvm::FunctionType::get(type_of(module.getContext(), result_of(name)), types, false);
  llvm::FunctionCallee callee = module.getOrInsertFunction(kIntrinsicPrefix + std::string(name), type);
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::Convergent);
  return callee;
}

}  // namespace

// --- the machine

DeviceKernel::DeviceKernel(llvm::Function& function, const LoopNest& loop_nest, DeviceVariant v)
    : kernel(function, loop_nest, variant_of(v), one_element_at_a_time(), ArgumentBlock(loop_nest)), ir(kernel.ir), nest(loop_nest), variant(v),
      function_(function) {
  const auto number = [&](const char* name) { return ir.b.CreateZExt(call(name), ir.b.getInt64Ty(), name); };
  thread_ = number("thread");
  threads_ = number("threads");
  block_ = number("block");
  blocks_ = number("blocks");
  lane_ = ir.b.CreateAnd(thread_, ir.i64(kWarp - 1), "lane");
  warp_ = ir.b.CreateLShr(thread_, ir.i64(5), "warp");
  warps_ = ir.b.CreateLShr(threads_, ir.i64(5), "warps");
  leave_if_nothing_to_gather();
}

Value* DeviceKernel::call(const char* name, std::vector<Value*> arguments) {
  return ir.b.CreateCall(intrinsic(*function_.getParent(), name, arguments), arguments);
}

Value* DeviceKernel::is_first_of(Team team) {
  const bool warp = team == Team::warp || team == Team::partial;
  return ir.b.CreateICmpEQ(warp ? lane_ : thread_, ir.i64(0));
}

// 32 bits at a time.
Value* DeviceKernel::shuffle(const char* name, Value* value, unsigned number) {
  if (!value) return nullptr;
  llvm::Type *i32 = ir.b.getInt32Ty(), *i64 = ir.b.getInt64Ty();
  Value* bits = pattern_of(ir, value);
  const auto word = [&](Value* part) { return call(name, {part, llvm::ConstantInt::get(i32, number)}); };
  Value* moved;
  if (bits->getType() == i64) {
    Value* low = ir.b.CreateZExt(word(ir.b.CreateTrunc(bits, i32)), i64);
    Value* high = ir.b.CreateZExt(word(ir.b.CreateTrunc(ir.b.CreateLShr(bits, ir.i64(32)), i32)), i64);
    moved = ir.b.CreateOr(low, ir.b.CreateShl(high, ir.i64(32)));
  } else {
    moved = ir.b.CreateTrunc(word(ir.b.CreateZExt(bits, i32)), bits->getType());
  }
  return ir.b.CreateBitCast(moved, value->getType());
}

Partial DeviceKernel::shuffle_down(Partial partial, unsigned distance) {
  Value* value = shuffle("shuffle_down", partial.value, distance);
  return {value, shuffle("shuffle_down", partial.index, distance)};
}

Partial DeviceKernel::shuffle_from(Partial partial, unsigned lane) {
  Value* value = shuffle("shuffle_from", partial.value, lane);
  return {value, shuffle("shuffle_from", partial.index, lane)};
}

// --- memory of the block

Value* DeviceKernel::shared_word(Value* number, unsigned end) {
  shared_words_ = std::max(shared_words_, end);
  return ir.slot_i64(call("shared"), number);
}

void DeviceKernel::store_partial(Value* word, Reducer& reducer, Partial partial) {
  ir.b.CreateAlignedStore(to_bits(ir, reducer.type(), partial.value), word, llvm::Align(8));
  if (partial.index) ir.b.CreateAlignedStore(partial.index, ir.slot_i64(word, ir.i64(1)), llvm::Align(8));
}

Partial DeviceKernel::load_partial(Value* word, Reducer& reducer) {
  Value* value = from_bits(ir, reducer.type(), ir.load_i64(word, ir.i64(0)));
  return {value, reducer.has_index() ? ir.load_i64(word, ir.i64(1)) : nullptr};
}

void DeviceKernel::finish() {
  ir.finish();
  function_.addFnAttr(kSharedAttribute, std::to_string(8 * shared_words_));
  // 256 threads may have all registers that there are. A smaller limit would only make the assembler spill for more blocks at a time.
  if (most_threads(nest, variant) > kWarp * kOtherWarps) function_.addFnAttr("nvvm.maxntid", std::to_string(most_threads(nest, variant)));
}

// --- loops and counts

void DeviceKernel::stride_loop(const char* name, Value* begin, Value* end, Value* step, EmitWith body) {
  Var i = ir.var(begin, name);
  ir.while_loop(name, [&] { return ir.b.CreateICmpSLT(ir.get(i), end); }, [&] {
    body(ir.get(i));
    ir.set(i, ir.b.CreateAdd(ir.get(i), step));
  });
}

std::vector<unsigned> DeviceKernel::axes(bool reduced) const {
  const unsigned count = kernel.axes() - (nest.schedule == Schedule::row ? 0 : 1);
  std::vector<unsigned> result;
  for (unsigned a = 0; a < count; ++a)
    if (nest.axes[a].reduced == reduced) result.push_back(a);
  return result;
}

Value* DeviceKernel::product(const std::vector<unsigned>& axes) {
  Value* result = ir.i64(1);
  for (const unsigned a : axes) result = ir.b.CreateMul(result, kernel.extent(a));
  return result;
}

Value* DeviceKernel::quotient_up(Value* a, Value* b) { return ir.b.CreateUDiv(ir.b.CreateAdd(a, ir.b.CreateSub(b, ir.i64(1))), b); }

// Nothing may be read when there is no valid position. Asked once, before any thread waits for another: some of them would be gone.
void DeviceKernel::leave_if_nothing_to_gather() {
  Value* length = nest.schedule == Schedule::map ? ir.i64(1) : product(axes(true));
  Value* points = product(axes(false));
  if (nest.schedule != Schedule::row) points = ir.b.CreateMul(points, kernel.extent(kernel.axes() - 1));
  for (const Stage& stage : nest.stages) {
    Value* elements = stage.kind == Stage::Kind::each_row ? points : ir.b.CreateMul(points, length);
    for (const LoopInput* input : StageBody(kernel, stage, 1).gathers()) {
      Value* none = ir.b.CreateICmpSLE(kernel.scalar(input->bound), ir.i64(0));
      ir.leave_if(ir.b.CreateAnd(none, ir.b.CreateICmpSGT(elements, ir.i64(0))),
                  [&] { ir.b.CreateAlignedStore(ir.i64(1 + input->number), kernel.failure, llvm::Align(8)); });
    }
  }
  kernel.gathers_checked = true;
}

void start_at(DeviceKernel& device, Odometer& odometer, Value* flat, Value* count) {
  Ir& ir = device.ir;
  odometer.start_at_zero();
  ir.if_then(ir.b.CreateICmpSGT(count, ir.i64(1)), [&] { odometer.start(flat); });
}

// --- reductions

Partial combine_warp(DeviceKernel& device, Reducer& reducer, Partial accumulator, Value* stretch_begin) {
  for (unsigned step = kWarp / 2; step > 0; step /= 2) accumulator = reducer.combine(accumulator, device.shuffle_down(accumulator, step), 1);
  return reducer.in_row(device.shuffle_from(accumulator, 0), stretch_begin);
}

// --- hazards

bool loads_memory(const Stage& stage) {
  for (const LoopInput& input : stage.inputs)
    if (input.kind == LoopInput::Kind::load || input.kind == LoopInput::Kind::gather) return true;
  return false;
}

bool Hazards::needs_barrier(const Stage& next) const {
  return (loads_memory(next) && stores_) || (!next.stores.empty() && (loads_ || stores_));
}

void Hazards::passed(const Stage& stage) {
  loads_ |= loads_memory(stage);
  stores_ |= !stage.stores.empty();
}

// --- alignment

Value* all_aligned(DeviceKernel& device, const std::vector<Value*>& bases, unsigned together) {
  Ir& ir = device.ir;
  Value* odd = ir.i64(0);
  for (unsigned p = 0; p < bases.size(); ++p) {
    if (!bases[p] || device.nest.params[p].inner != InnerStride::unit) continue;
    Value* address = ir.b.CreatePtrToInt(bases[p], ir.b.getInt64Ty());
    Value* with_gathered = ir.b.CreateOr(address, device.kernel.stride(p, device.kernel.axes()));   // any position of it
    odd = ir.b.CreateOr(odd, ir.b.CreateAnd(with_gathered, ir.i64(together * size_of(device.nest.params[p].dtype) - 1)));
  }
  return ir.b.CreateICmpEQ(odd, ir.i64(0));
}

// --- a whole kernel

namespace {

llvm::Function& declare(llvm::Module& module, const DeviceSource& source) {
  llvm::LLVMContext& c = module.getContext();
  auto* block = llvm::ArrayType::get(llvm::Type::getInt64Ty(c), ArgumentBlock(*source.nest).words());
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(c), {llvm::PointerType::get(c, 0)}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, source.name, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  function->addFnAttr(llvm::Attribute::Convergent);
  function->addParamAttr(0, llvm::Attribute::getWithByValType(c, block));
  function->addParamAttr(0, llvm::Attribute::getWithAlignment(c, llvm::Align(8)));
  function->getArg(0)->setName("words");
  return *function;
}

}  // namespace

void emit_device(llvm::Module& module, const DeviceSource& source) {
  ESCAPEMENT_CHECK(has_team(*source.nest, source.variant), "this nest has no such device variant");
  DeviceKernel device(declare(module, source), *source.nest, source.variant);
  switch (source.nest->schedule) {
    case Schedule::map: emit_device_map(device); break;
    case Schedule::row: emit_device_row(device); break;
    case Schedule::column: emit_device_column(device); break;
  }
  device.finish();
}

}  // namespace escapement
