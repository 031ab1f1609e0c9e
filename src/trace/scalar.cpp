// Construction and execution of scalar programs. The meaning of the basic operations is in scalar_basic.cpp.
#include "trace/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "support/error.h"

namespace escapement {

namespace {

constexpr Reg kFree = 0xffff;

struct ScalarOpInfo {
  std::string_view name;
  int arity;
};
constexpr ScalarOpInfo kScalarOps[] = {
#define SCALAR_OP(name, arity) {#name, arity},
#include "trace/scalar.def"
#undef SCALAR_OP
};

bool keeps_operand_type(ScalarOp op) {
  switch (op) {
    case ScalarOp::eq: case ScalarOp::ne: case ScalarOp::lt: case ScalarOp::le: case ScalarOp::gt: case ScalarOp::ge:
    case ScalarOp::is_nan: case ScalarOp::convert: case ScalarOp::bitcast: return true;
    default: return false;
  }
}

uint64_t hash(const ScalarNode& n) {
  uint64_t h = n.bits * 0x9e3779b97f4a7c15u;
  h ^= (uint64_t(n.op) << 56) ^ (uint64_t(n.type) << 48) ^ (uint64_t(n.a) << 32) ^ (uint64_t(n.b) << 16) ^ n.c;
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 29);
}

std::string hex(uint64_t value) {
  std::array<char, 16> buffer;
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, 16).ptr;
  return "0x" + std::string(buffer.data(), end);
}

std::string decimal(double value) {
  std::array<char, 32> buffer;
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

std::string constant_text(const ScalarNode& node) {
  if (!is_float(node.type)) return std::to_string(int_from_bits(node.bits, node.type));
  double value = double_from_bits(node.bits, node.type);
  return value == value ? decimal(value) : "nan:" + hex(node.bits);
}

}  // namespace

int arity_of(ScalarOp op) { return kScalarOps[static_cast<size_t>(op)].arity; }
std::string_view name_of(ScalarOp op) { return kScalarOps[static_cast<size_t>(op)].name; }

// --- construction

void ScalarProgram::rehash(size_t slots) {
  slots_.assign(slots, kFree);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    size_t at = hash(nodes_[i]) & (slots - 1);
    while (slots_[at] != kFree) at = (at + 1) & (slots - 1);
    slots_[at] = static_cast<Reg>(i);
  }
}

// Of choices among values and of signs, for the rest rounds.
uint8_t ScalarProgram::exact_in(const ScalarNode& node) const {
  if (node.type != DType::f32) return 0;
  const auto holds = [&](DType half) { return to_bits(double_from_bits(node.bits, DType::f32), half) == node.bits ? half_bit(half) : uint8_t{0}; };
  switch (node.op) {
    case ScalarOp::constant: return holds(DType::f16) | holds(DType::bf16);
    case ScalarOp::round_to: return half_bit(static_cast<DType>(node.bits));
    case ScalarOp::neg: case ScalarOp::abs: case ScalarOp::copysign: return exact_[node.a];
    case ScalarOp::min: case ScalarOp::max: return exact_[node.a] & exact_[node.b];
    case ScalarOp::select: return exact_[node.b] & exact_[node.c];
    default: return 0;
  }
}

Reg ScalarProgram::find_or_append(const ScalarNode& node) {
  if (2 * (nodes_.size() + 1) > slots_.size()) rehash(std::max<size_t>(64, slots_.size() * 2));
  size_t at = hash(node) & (slots_.size() - 1);
  for (; slots_[at] != kFree; at = (at + 1) & (slots_.size() - 1))
    if (nodes_[slots_[at]] == node) return slots_[at];
  ESCAPEMENT_CHECK(nodes_.size() < kFree, "scalar program too long");
  exact_.push_back(exact_in(node));
  nodes_.push_back(node);
  return slots_[at] = static_cast<Reg>(nodes_.size() - 1);
}

Reg ScalarProgram::emit(ScalarOp op, DType type, Reg a, Reg b, Reg c, uint64_t bits) {
  ESCAPEMENT_CHECK(!is_half(type) && type != DType::other, "half types are storage only");
  const Reg operands[] = {a, b, c};
  for (int i = 0; i < arity_of(op); ++i) ESCAPEMENT_CHECK(operands[i] < nodes_.size(), "operand not defined");
  if (keeps_operand_type(op)) bits = static_cast<uint64_t>(nodes_[a].type);
  return find_or_append({op, type, a, b, c, bits});
}

Reg ScalarProgram::input(int number, DType type, DType storage) {
  const Reg made = emit(ScalarOp::input, type, 0, 0, 0, static_cast<uint64_t>(number));
  exact_[made] |= half_bit(storage);
  return made;
}
Reg ScalarProgram::param(int number, DType type) { return emit(ScalarOp::param, type, 0, 0, 0, static_cast<uint64_t>(number)); }
Reg ScalarProgram::constant(double value, DType type) { return constant_bits(to_bits(value, type), type); }
Reg ScalarProgram::constant_int(int64_t value, DType type) { return constant_bits(to_bits(value, type), type); }
Reg ScalarProgram::constant_bits(uint64_t bits, DType type) { return emit(ScalarOp::constant, type, 0, 0, 0, bits); }

Reg ScalarProgram::cast(Reg a, DType to) { return type(a) == to ? a : emit(ScalarOp::convert, to, a); }

Reg ScalarProgram::round_to(Reg a, DType storage) {
  if (!is_half(storage)) return a;
  ESCAPEMENT_CHECK(type(a) == DType::f32, "half types are rounded from f32");
  if (is_exact_in(a, storage)) return a;
  return emit(ScalarOp::round_to, DType::f32, a, 0, 0, static_cast<uint64_t>(storage));
}

// One line a node: "%3 = fma.f32 %0, %1, %2".
std::string ScalarProgram::to_string() const {
  std::string text;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ScalarNode& n = nodes_[i];
    text += "%" + std::to_string(i) + " = " + std::string(name_of(n.op)) + "." + std::string(name_of(n.type));
    const Reg operands[] = {n.a, n.b, n.c};
    for (int k = 0; k < arity_of(n.op); ++k) text += (k ? ", %" : " %") + std::to_string(operands[k]);
    if (n.op == ScalarOp::constant) text += " " + constant_text(n);
    if (n.op == ScalarOp::input || n.op == ScalarOp::param) text += " " + std::to_string(n.bits);
    if (n.op == ScalarOp::round_to) text += ", " + std::string(name_of(static_cast<DType>(n.bits)));
    text += "\n";
  }
  return text;
}

// --- execution

void ScalarProgram::run(std::span<const uint64_t> inputs, std::span<const uint64_t> params,
                        std::vector<uint64_t>& results) const {
  std::vector<const uint64_t*> pointers(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) pointers[i] = &inputs[i];
  run_block(pointers, params, 1, results);
}

void ScalarProgram::run_block(std::span<const uint64_t* const> inputs, std::span<const uint64_t> params, size_t count,
                              std::vector<uint64_t>& results) const {
  results.resize(nodes_.size() * count);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const ScalarNode& n = nodes_[i];
    uint64_t* out = results.data() + i * count;
    auto at = [&](Reg r) { return results.data() + r * count; };
    switch (n.op) {
      case ScalarOp::input:
        ESCAPEMENT_CHECK(n.bits < inputs.size(), "input not given");
        std::copy_n(inputs[n.bits], count, out);
        break;
      case ScalarOp::param:
        ESCAPEMENT_CHECK(n.bits < params.size(), "param not given");
        std::fill_n(out, count, params[n.bits]);
        break;
      default: evaluate_block(n, at(n.a), at(n.b), at(n.c), out, count);
    }
  }
}

}  // namespace escapement
