// Tables over ops.def.
#include "trace/ops.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

namespace escapement {
namespace {

constexpr auto kRows = std::to_array<OpInfo>({
#define OP(name, kind, arity, rule, domain, tier, aten, scalar) \
  {#name, OpKind::kind, arity, TypeRule::rule, Domain::domain, Tier::tier, aten},
#include "trace/ops.def"
#undef OP
});

constexpr auto kNumbers = std::to_array<RowNumber>({
#define NUMBER(op, attribute, name, otherwise, varies) {Op::op, RowNumber::Place::attribute, name, otherwise, RowNumber::Varies::varies},
#include "trace/numbers.def"
#undef NUMBER
});

struct TraitRow {
  Op op;
  size_t operand;
  OperandTrait trait;
  bool operator==(const TraitRow&) const = default;
};
constexpr auto kTraits = std::to_array<TraitRow>({
#define OPERAND(op, position, trait) {Op::op, position, OperandTrait::trait},
#include "trace/operands.def"
#undef OPERAND
});

}  // namespace

const OpInfo& info(Op op) { return kRows[static_cast<size_t>(op)]; }
std::string_view name_of(Op op) { return info(op).name; }
int op_count() { return static_cast<int>(kRows.size()); }

std::span<const RowNumber> numbers_of(Op op) {
  const auto begin = std::ranges::find(kNumbers, op, &RowNumber::op);
  const auto end = std::find_if(begin, kNumbers.end(), [&](const RowNumber& row) { return row.op != op; });
  return {begin, end};
}

bool has_trait(Op op, size_t operand, OperandTrait trait) {
  const bool is_row_number = trait == OperandTrait::number && operand >= static_cast<size_t>(info(op).arity) && !numbers_of(op).empty();
  return is_row_number || std::ranges::find(kTraits, TraitRow{op, operand, trait}) != kTraits.end();
}

bool computes_on(Op op, DType type) {
  switch (info(op).domain) {
    case Domain::_: return false;
    case Domain::floats: return is_float(type) || info(op).rule == TypeRule::promote_float;
    case Domain::singles: return type != DType::f64 && (is_float(type) || info(op).rule == TypeRule::promote_float);
    case Domain::whole: return is_integer(type);
    case Domain::bits: return is_integer(type) || type == DType::b8;
    case Domain::numbers: return is_float(type) || is_integer(type);
    case Domain::anything: return true;
  }
  return false;
}

std::optional<Op> op_from_name(std::string_view name) {
  static const auto* const by_name = [] {
    auto* map = new std::unordered_map<std::string_view, Op>;
    for (size_t i = 0; i < kRows.size(); ++i) map->emplace(kRows[i].name, static_cast<Op>(i));
    return map;
  }();
  const auto found = by_name->find(name);
  if (found == by_name->end()) return std::nullopt;
  return found->second;
}

}  // namespace escapement
