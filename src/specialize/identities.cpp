// What gives back its operand is its operand: `x * 1`, `x / 1` and `x - 0`, two signs, `relu` of a relu, a detour through a wider type, the maximum of a
// value and itself. Models have them where a scale or a type is an option of the model's, and gradients begin with a factor of one.
//
// Only what is so for every bit of every element, NaN and -0.0 among them (the payload of a NaN is nobody's); so `x + 0.0` is none, and of half types nothing
// is rounded twice. The two must have one type and one layout. A value that leaves the program or is written later keeps memory of its own, and so
// it does where its operand is: a view, or written.
#include <optional>

#include "specialize/passes.h"
#include "trace/copier.h"

namespace escapement {
namespace {

bool is_idempotent(Op op) {
  switch (op) {
    case Op::relu: case Op::abs: case Op::floor: case Op::ceil: case Op::trunc: case Op::round: case Op::sign: return true;
    default: return false;
  }
}

bool is_own_inverse(Op op) { return op == Op::neg || op == Op::bitwise_not; }

// Of a value and itself.
bool is_choice(Op op) {
  switch (op) {
    case Op::maximum: case Op::minimum: case Op::fmax: case Op::fmin: case Op::clamp_min: case Op::clamp_max: case Op::bitwise_and: case Op::bitwise_or: return true;
    default: return false;
  }
}

// Every value of the narrower type is one of the wider's.
bool holds_exactly(DType wide, DType narrow) {
  if (wide == narrow || wide == DType::f64) return wide == narrow || narrow == DType::f32 || is_half(narrow) || (is_integer(narrow) && narrow != DType::i64);
  if (wide == DType::f32) return is_half(narrow) || narrow == DType::u8 || narrow == DType::i8 || narrow == DType::i16;
  return is_integer(wide) && is_integer(narrow) && size_of(wide) > size_of(narrow);   // a u8 is positive in all of them
}

class Finder {
 public:
  explicit Finder(const Trace& trace) : trace_(trace), fixed_(trace.storage_count), written_(trace.storage_count) {
    for (const Output& output : trace.outputs)
      if (output.value) fixed_[trace.type(output.value).storage] = true;
    for (const Instr& instr : trace.instrs)
      for (const uint32_t operand : instr.writes) fixed_[trace.type(instr.operands.at(operand)).storage] = written_[trace.type(instr.operands.at(operand)).storage] = true;
  }

  // The value of the trace that the instruction's result is; none: a new one.
  ValueId same_as(const Instr& instr) const {
    if (info(instr.op).kind != OpKind::pointwise || instr.results.size() != 1) return {};
    const ValueId operand = operand_of(instr), result = instr.results[0];
    return operand && may_stand_for(operand, result) ? operand : ValueId();
  }

 private:
  ValueId operand_of(const Instr& instr) const {
    const size_t operands = instr.operands.size();
    if (operands == 3) return instr.op == Op::where && instr.operands[1] == instr.operands[2] && is_plain(instr) ? instr.operands[1] : ValueId();
    return operands == 2 || info(instr.op).arity == 2 ? of_two(instr) : of_one(instr);
  }

  ValueId of_one(const Instr& instr) const {
    const ValueId inner = instr.operands[0];
    const Instr* const before = maker(inner);
    if (before == nullptr || before->op != instr.op) return {};
    if (instr.op == Op::cast)
      return holds_exactly(trace_.type(inner).dtype, trace_.type(before->operands[0]).dtype) ? before->operands[0] : ValueId();
    if (!is_plain(instr) || !is_plain(*before)) return {};   // rounded to another type in between
    if (is_idempotent(instr.op)) return inner;
    return is_own_inverse(instr.op) ? before->operands[0] : ValueId();
  }

  ValueId of_two(const Instr& instr) const {
    const ValueId left = instr.operands[0], right = instr.operands.size() == 2 ? instr.operands[1] : ValueId();
    if (!is_plain(instr)) return {};
    if (is_choice(instr.op)) return left == right ? left : ValueId();
    const Number number = right ? number_of(right) : instr.attrs.value;
    if (instr.op == Op::mul && right && is(number_of(left), 1)) return right;
    if (instr.op == Op::mul || instr.op == Op::div) return is(number, 1) ? left : ValueId();
    return instr.op == Op::sub && is(number, 0) ? left : ValueId();
  }

  // Nothing but a second operand written as a number.
  static bool is_plain(const Instr& instr) {
    Attrs plain;
    plain.value = instr.attrs.value;
    return instr.attrs == plain;
  }

  const Instr* maker(ValueId value) const { return trace_[value].definition ? &trace_[trace_[value].definition] : nullptr; }

  Number number_of(ValueId value) const {
    const Instr* const made = maker(value);
    const bool is_one = made != nullptr && made->op == Op::full && trace_.type(value).rank() == 0 && !written_[trace_.type(value).storage];
    return is_one ? made->attrs.value : Number();
  }

  static bool is(const Number& number, int64_t wanted) {
    if (number.kind == Number::Kind::integer) return number.integer == wanted;
    return number == Number{Number::Kind::real, 0, static_cast<double>(wanted), {}};
  }

  bool may_stand_for(ValueId operand, ValueId result) const {
    const TensorType &old = trace_.type(operand), &fresh = trace_.type(result);
    if (old.root != operand || written_[old.storage] || fixed_[fresh.storage]) return false;
    return old.dtype == fresh.dtype && same(old.sizes, fresh.sizes) && same(old.strides, fresh.strides);
  }

  bool same(const std::vector<Dim>& a, const std::vector<Dim>& b) const {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (!trace_.dims.same(a[i], b[i])) return false;
    return true;
  }

  const Trace& trace_;
  IdMap<Storage, bool> fixed_, written_;
};

}  // namespace

Trace remove_identities(const Trace& trace) {
  const Finder finder(trace);
  Trace result;
  Copier copier(trace, result);
  for (uint32_t i = 0; i < trace.instrs.size(); ++i) {
    const Instr& instr = trace.instrs[i];
    if (const ValueId operand = finder.same_as(instr)) copier.replace(instr.results[0], copier[operand]);
    else copier.copy(InstrId(i));
  }
  copier.finish();
  return result;
}

}  // namespace escapement
