// Bodies: see kernel.h. A node is shared if all lanes of every chunk have the same value for it; shared nodes are emitted once, as
// scalars, by `enter`. Scalars and vectors give the same bits, because every basic operation is exactly rounded.
#include <algorithm>

#include "jit/llvm/kernel.h"
#include "support/error.h"

namespace escapement {

StageBody::StageBody(KernelEmitter& kernel, const Stage& stage, unsigned lanes) : kernel_(kernel), stage_(stage), lanes_(lanes) { mark_used(); }

// --- what is needed

void StageBody::keep(Reg reg, const Access& place, Value* last) {
  kept_ = {reg, place, last};
  mark_used();
}

void StageBody::take(Reg reg, const Access& place) {
  taken_ = {reg, place, nullptr};
  mark_used();
}

void StageBody::mark_used() {
  auto nodes = stage_.body.nodes();
  used_.assign(nodes.size(), false);
  size_ = 0;
  if (kept_) used_[kept_->reg] = true;
  for (const LoopStore& s : stage_.stores) used_[s.value] = used_[s.value] || !stores_rounded(s);
  for (const LoopReduction& r : stage_.reductions) used_[r.value] = true;
  for (const RowKeep& k : stage_.keeps) used_[k.value] = true;
  for (size_t i = nodes.size(); i-- > 0;) {
    for (const LoopStore& s : stage_.stores)
      if (s.value == i) used_[stored_reg(s)] = true;
    if (!used_[i] || is_taken(i)) continue;
    const ScalarNode& n = nodes[i];
    const Reg operands[] = {n.a, n.b, n.c};
    for (int k = 0; k < arity_of(n.op); ++k) used_[operands[k]] = true;
    bool gather = n.op == ScalarOp::input && stage_.inputs[n.bits].kind == LoopInput::Kind::gather;
    if (gather) used_[stage_.inputs[n.bits].position] = true;
    size_ += arity_of(n.op) > 0;
  }
}

bool StageBody::stores_rounded(const LoopStore& store) const {
  const ScalarNode& node = stage_.body.nodes()[store.value];
  return node.op == ScalarOp::round_to && node.bits == static_cast<uint64_t>(kernel_.nest.params[store.param].dtype);
}

// A store rounds: what it stores need not be rounded before, unless somebody else uses it so.
Reg StageBody::stored_reg(const LoopStore& store) const {
  return stores_rounded(store) && !used_[store.value] ? stage_.body.nodes()[store.value].a : store.value;
}

bool StageBody::input_is_shared(const LoopInput& input) const {
  switch (input.kind) {
    case LoopInput::Kind::load: return point_.params[input.number].kind == Access::Kind::zero;
    case LoopInput::Kind::gather: return point_.params[input.number].kind == Access::Kind::zero && shared_[input.position];
    case LoopInput::Kind::index: return point_.axes[input.number].kind == IndexSource::Kind::scalar;
    case LoopInput::Kind::row: return !point_.row_values_are_vectors;
  }
  return false;
}

void StageBody::classify() {
  auto nodes = stage_.body.nodes();
  shared_.assign(nodes.size(), true);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ScalarNode& n = nodes[i];
    const Reg operands[] = {n.a, n.b, n.c};
    if (n.op == ScalarOp::input) shared_[i] = input_is_shared(stage_.inputs[n.bits]);
    for (int k = 0; k < arity_of(n.op); ++k) shared_[i] = shared_[i] && shared_[operands[k]];
    if (is_taken(i)) shared_[i] = false;
  }
}

// --- emission

void StageBody::enter(const Point& point) {
  point_ = point;
  classify();
  leave_if_nothing_to_gather();
  auto nodes = stage_.body.nodes();
  scalars_.assign(nodes.size(), nullptr);
  splats_.assign(nodes.size(), nullptr);
  gathered_.assign(stage_.inputs.size(), Access{});
  for (size_t i = 0; i < nodes.size(); ++i)
    if (used_[i] && shared_[i]) scalars_[i] = emit_node(nodes[i], {1, kernel_.ir.i64(0), nullptr, nullptr}, true);
  for (size_t i = 0; i < nodes.size(); ++i) {  // splats of what varying nodes use, before the loop
    if (!used_[i] || shared_[i] || is_taken(i)) continue;
    const Reg operands[] = {nodes[i].a, nodes[i].b, nodes[i].c};
    for (int k = 0; k < arity_of(nodes[i].op); ++k)
      if (shared_[operands[k]]) value(operands[k]);
    const LoopInput* input = nodes[i].op == ScalarOp::input ? &stage_.inputs[nodes[i].bits] : nullptr;
    if (input && input->kind == LoopInput::Kind::gather && shared_[input->position]) gathered_[nodes[i].bits] = gathered(*input);
  }
  for (const LoopStore& s : stage_.stores) if (shared_[stored_reg(s)]) value(stored_reg(s));
  for (const LoopReduction& r : stage_.reductions) if (shared_[r.value]) value(r.value);
  if (kept_ && shared_[kept_->reg]) value(kept_->reg);
}

void StageBody::begin(const Chunk& chunk) {
  chunk_ = chunk;
  auto nodes = stage_.body.nodes();
  values_.assign(nodes.size(), nullptr);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!used_[i] || shared_[i]) continue;
    if (is_taken(i)) values_[i] = load(kernel_, nodes[i].type, taken_->place, full_chunk(chunk.position, lanes_));
    else values_[i] = emit_node(nodes[i], chunk, false);
  }
  if (kept_) store_kept(chunk);
}

void StageBody::store_kept(const Chunk& chunk) {
  Value* position = kept_->last ? kernel_.ir.min(chunk.position, kept_->last) : chunk.position;
  escapement::store(kernel_, stage_.body.type(kept_->reg), kept_->place, full_chunk(position, lanes_), value(kept_->reg));
}

Value* StageBody::value(Reg reg) {
  if (!shared_[reg]) return values_[reg];
  const ScalarNode& node = stage_.body.nodes()[reg];
  if (node.op == ScalarOp::constant) return kernel_.ir.constant(node.type, node.bits, lanes_);
  if (!splats_[reg]) splats_[reg] = kernel_.ir.splat(scalars_[reg], lanes_);
  return splats_[reg];
}

void StageBody::store() {
  for (const LoopStore& s : stage_.stores)
    escapement::store(kernel_, kernel_.nest.params[s.param].dtype, point_.params[s.param], chunk_, stored_form(s));
}

Value* StageBody::stored_form(const LoopStore& store) {
  const DType type = kernel_.nest.params[store.param].dtype;
  const Lanes lanes = kernel_.lanes(chunk_.lanes);
  const Reg reg = stored_reg(store);
  const bool rounded = reg == store.value && stage_.body.is_exact_in(reg, type);
  return rounded ? narrow_rounded(kernel_.ir, type, value(reg), lanes) : narrow(kernel_.ir, type, value(reg), lanes);
}

Value* StageBody::emit_node(const ScalarNode& node, const Chunk& chunk, bool shared) {
  if (node.op == ScalarOp::input) return emit_input(stage_.inputs[node.bits], node.type, chunk, shared);
  if (node.op == ScalarOp::param) return kernel_.scalar(static_cast<unsigned>(node.bits));
  auto operand = [&](int k, Reg r) -> Value* { return k >= arity_of(node.op) ? nullptr : shared ? scalars_[r] : value(r); };
  return emit_scalar(kernel_.ir, node, operand(0, node.a), operand(1, node.b), operand(2, node.c), kernel_.lanes(chunk.lanes));
}

Value* StageBody::emit_input(const LoopInput& input, DType type, const Chunk& chunk, bool shared) {
  switch (input.kind) {
    case LoopInput::Kind::load: return load(kernel_, kernel_.nest.params[input.number].dtype, point_.params[input.number], chunk);
    case LoopInput::Kind::gather: return emit_gather(input, chunk, shared);
    case LoopInput::Kind::index: return emit_index(input, chunk);
    case LoopInput::Kind::row: break;
  }
  ESCAPEMENT_CHECK(type == kernel_.nest.row_values[input.number], "a row value has its type");
  return point_.row_values[input.number];
}

Value* StageBody::emit_index(const LoopInput& input, const Chunk& chunk) {
  Ir& ir = kernel_.ir;
  const IndexSource& source = point_.axes[input.number];
  llvm::Type* i64 = ir.b.getInt64Ty();
  if (source.kind == IndexSource::Kind::scalar) return source.value;
  if (source.kind == IndexSource::Kind::listed) return ir.b.CreateAlignedLoad(ir.vector(i64, chunk.lanes), source.value, llvm::Align(64));
  return ir.b.CreateAdd(ir.splat(chunk.position, chunk.lanes), ir.iota(i64, chunk.lanes));
}

// --- gather

std::vector<const LoopInput*> StageBody::gathers() const {
  std::vector<const LoopInput*> result;
  auto nodes = stage_.body.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!used_[i] || nodes[i].op != ScalarOp::input) continue;
    const LoopInput& input = stage_.inputs[nodes[i].bits];
    if (input.kind == LoopInput::Kind::gather) result.push_back(&input);
  }
  return result;
}

// Nothing may be read when there is no valid position. The caller reports the failure and drops the results.
void StageBody::leave_if_nothing_to_gather() {
  if (kernel_.gathers_checked) return;
  Ir& ir = kernel_.ir;
  for (const LoopInput* input : gathers())
    ir.leave_if(ir.b.CreateICmpSLE(kernel_.scalar(input->bound), ir.i64(0)),
                [&] { ir.b.CreateAlignedStore(ir.i64(1 + input->number), kernel_.failure, llvm::Align(8)); });
}

Value* StageBody::checked_position(const LoopInput& input, Value* position, const Chunk& chunk) {
  Ir& ir = kernel_.ir;
  Value* bound = ir.splat(kernel_.scalar(input.bound), chunk.lanes);
  Value* zero = llvm::Constant::getNullValue(position->getType());
  if (input.wrap) position = ir.b.CreateSelect(ir.b.CreateICmpSLT(position, zero), ir.b.CreateAdd(position, bound), position);
  Value* wrong = ir.b.CreateICmpUGE(position, bound);  // negative positions are huge unsigned ones
  Value* reported = chunk.mask ? ir.b.CreateAnd(wrong, chunk.mask) : wrong;
  ir.if_then(ir.any(reported, chunk.lanes),
             [&] { ir.b.CreateAlignedStore(ir.i64(1 + input.number), kernel_.failure, llvm::Align(8)); });
  return ir.b.CreateSelect(wrong, zero, position);
}

// A position that all lanes share moves the base: the rest is an ordinary access.
Access StageBody::gathered(const LoopInput& input) {
  Ir& ir = kernel_.ir;
  Access access = point_.params[input.number];
  Value* position = checked_position(input, scalars_[input.position], {});
  access.base = ir.at(access.base, ir.b.CreateMul(position, kernel_.stride(input.number, kernel_.axes())));
  return access;
}

Value* StageBody::emit_gather(const LoopInput& input, const Chunk& chunk, bool shared) {
  DType type = kernel_.nest.params[input.number].dtype;
  if (shared) return load(kernel_, type, gathered(input), chunk);
  size_t number = static_cast<size_t>(&input - stage_.inputs.data());
  if (gathered_[number].base) return load(kernel_, type, gathered_[number], chunk);
  Value* position = checked_position(input, value(input.position), chunk);
  const Positions positions{position, kernel_.stride(input.number, kernel_.axes())};
  return load_scattered(kernel_, type, point_.params[input.number], chunk, positions);
}

}  // namespace escapement
