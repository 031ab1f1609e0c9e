// See lent_memory.h.
#include "torch/record/lent_memory.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/clone.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>

#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

constexpr size_t kMostBytes = 1024 * 1024;   // compared before each operator
constexpr const char* kBecause = "the memory of a tensor made of it was accessed";

// Nothing of an input can be in there. Constants without axes are shared by the tape.
bool is_made_of_constants(const Trace& trace, ValueId root) {
  const InstrId definition = trace[root].definition;
  if (!definition || trace[definition].effect || !trace[definition].operands.empty()) return false;
  return trace[definition].op != Op::full || trace.type(root).rank() > 0;
}

void pin(Tape& tape, Dim dim) {
  if (const auto seen = tape.dims().hint(dim)) tape.pin(dim, *seen, kBecause);
}

void pin(Tape& tape, const Number& number) {
  if (number.kind == Number::Kind::dim) pin(tape, number.dim);
}

// Everything that the instruction was told.
void pin_arguments(Tape& tape, InstrId definition) {
  const Attrs attrs = tape.trace()[definition].attrs;
  pin(tape, attrs.value);
  for (const CallArg& argument : attrs.args)
    for (const Number& number : argument.numbers) pin(tape, number);
}

std::vector<int64_t> hints(const DimTable& dims, const std::vector<Dim>& sizes) {
  std::vector<int64_t> seen;
  for (const Dim dim : sizes) seen.push_back(dims.hint(dim).value_or(0));
  return seen;
}

const std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<const std::byte*>(tensor.const_data_ptr()); }

}  // namespace

bool is_written(const Trace& trace, Storage storage) {
  return std::any_of(trace.instrs.begin(), trace.instrs.end(), [&](const Instr& instr) {
    return std::any_of(instr.writes.begin(), instr.writes.end(), [&](uint32_t operand) {
      return trace.type(instr.operands[operand]).storage == storage;
    });
  });
}

bool LentMemory::holds(const TensorType& type) const {
  return std::any_of(lent_.begin(), lent_.end(), [&](const Lent& lent) { return lent.storage == type.storage; });
}

bool LentMemory::lend(Tape& tape, ValueId value, const at::Tensor& real) {
  const Storage storage = tape.trace().type(value).storage;
  if (!real.is_cpu()) return false;   // nobody here can look at it
  if (holds(tape.trace().type(value))) return true;
  const ValueId root = tape.trace().type(value).root;
  if (!is_made_of_constants(tape.trace(), root) || is_written(tape.trace(), storage)) return false;
  const std::vector<Dim> sizes = tape.trace().type(root).sizes;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
  const at::Tensor memory = at::as_strided(real, hints(tape.dims(), sizes), hints(tape.dims(), tape.trace().type(root).strides),
                                           tape.root_offset(root));
  if (!memory.is_contiguous() || memory.nbytes() > kMostBytes - bytes_) return false;
  pin_arguments(tape, tape.trace()[root].definition);
  for (const Dim size : sizes) pin(tape, size);
  bytes_ += memory.nbytes();
  const bool filled = tape.trace()[tape.trace()[root].definition].op == Op::full;
  lent_.push_back({root, storage, memory, {bytes_of(memory), bytes_of(memory) + memory.nbytes()}, filled});
  return tape.live();
}

void LentMemory::take_in(Tape& tape) {
  for (Lent& lent : lent_) {
    if (!tape.live()) return;
    if (lent.seen.empty()) continue;
    const bool same = std::memcmp(bytes_of(lent.memory), lent.seen.data(), lent.seen.size()) == 0;
    if (same && lent.known) continue;
    lent.known = true;
    lent.seen.assign(bytes_of(lent.memory), bytes_of(lent.memory) + lent.seen.size());
    const c10::impl::ExcludeDispatchKeyGuard unseen(kRecorderKey);
    const ValueId literal = tape.own_literal(lent.memory.clone());
    tape.choices.written(lent.root);
    tape.builder.write(lent.root, literal);
  }
}

}  // namespace escapement
