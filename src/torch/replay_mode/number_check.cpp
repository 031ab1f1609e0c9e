// See number_check.h.
#include "torch/replay_mode/number_check.h"

#include <c10/util/SmallVector.h>

#include <algorithm>
#include <bit>

#include "trace/scalar_ops.h"

namespace escapement {
namespace {

using Step = DimTable::Step;

// The value that the guard asks to be true.
ValueId truth_of(const Trace& trace, const Guard& guard) {
  const std::vector<Step> left = trace.dims.steps(guard.left), right = trace.dims.steps(guard.right);
  const bool asks_truth = guard.kind == Guard::Kind::equal && left.size() == 1 && left[0].op == SizeOp::symbol && right.size() == 1 &&
                          right[0].op == SizeOp::constant && right[0].constant == 1;
  if (!asks_truth) return {};
  const Source& source = trace.dims.info(left[0].symbol).source;
  return source.kind == Source::Kind::item && trace.type(source.value).dtype == DType::b8 ? source.value : ValueId();
}

// The instructions behind a value, as one scalar program.
class Writer {
 public:
  Writer(const Trace& trace, const NumberCheck::RealOf& real_of, ScalarProgram& program, std::vector<uint32_t>& reals)
      : trace_(trace), real_of_(real_of), program_(program), reals_(reals) {}

  std::optional<Reg> value(ValueId v) {
    const TensorType& type = trace_.type(v);
    if (type.rank() != 0 || type.dtype == DType::other) return {};
    const InstrId definition = trace_[v].definition;
    if (!definition) return input(v, type.dtype);
    const Instr& instr = trace_[definition];
    if (instr.op == Op::full) return constant(instr.attrs.value, type.dtype);
    return info(instr.op).kind == OpKind::pointwise ? pointwise(instr, type.dtype) : std::nullopt;
  }

 private:
  std::optional<Reg> input(ValueId v, DType type) {
    const auto real = real_of_(v);
    if (!real || type != DType::f64) return {};
    auto place = std::find(reals_.begin(), reals_.end(), *real);
    if (place == reals_.end()) place = reals_.insert(place, *real);
    return program_.input(static_cast<int>(place - reals_.begin()), type);
  }

  std::optional<Reg> constant(const Number& number, DType type) {
    const DType wide = compute_type(type);
    switch (number.kind) {
      case Number::Kind::real: return program_.round_to(program_.constant(number.real, wide), type);
      case Number::Kind::integer:
      case Number::Kind::boolean: return program_.round_to(program_.constant_int(number.integer, wide), type);
      default: return {};
    }
  }

  std::optional<Reg> pointwise(const Instr& instr, DType result) {
    if (instr.attrs.value.kind == Number::Kind::dim || instr.attrs.value2.kind == Number::Kind::dim) return {};
    std::vector<const TensorType*> types;
    for (const ValueId operand : instr.operands) types.push_back(&trace_.type(operand));
    const ComputeType type = compute_type_of(instr.op, types, instr.attrs);
    std::vector<Reg> operands;
    for (const ValueId operand : instr.operands) {
      const auto made = value(operand);
      if (!made) return {};
      const bool is_condition = instr.op == Op::where && operands.empty();
      operands.push_back(is_condition ? *made : program_.cast(*made, type.compute));
    }
    const Reg made = emit_op(program_, instr.op, operands, instr.attrs, type);
    return program_.round_to(program_.cast(made, compute_type(result)), result);
  }

  const Trace& trace_;
  const NumberCheck::RealOf& real_of_;
  ScalarProgram& program_;
  std::vector<uint32_t>& reals_;
};

}  // namespace

std::optional<NumberCheck> NumberCheck::of(const Trace& trace, const Guard& guard, const RealOf& real_of) {
  const ValueId truth = truth_of(trace, guard);
  if (!truth) return {};
  NumberCheck check;
  const auto result = Writer(trace, real_of, check.program_, check.reals_).value(truth);
  if (!result) return {};
  check.result_ = *result;
  check.because_ = guard.because;
  return check;
}

bool NumberCheck::holds(const double* reals) const {
  thread_local std::vector<uint64_t> results;   // empty, but for the memory
  c10::SmallVector<uint64_t, 4> inputs;
  for (const uint32_t real : reals_) inputs.push_back(std::bit_cast<uint64_t>(reals[real]));
  program_.run({inputs.data(), inputs.size()}, {}, results);
  return results[result_] != 0;
}

bool NumberCheck::operator==(const NumberCheck& other) const {
  const auto mine = program_.nodes(), theirs = other.program_.nodes();
  return result_ == other.result_ && reals_ == other.reals_ && std::equal(mine.begin(), mine.end(), theirs.begin(), theirs.end());
}

std::string NumberCheck::text() const {
  std::string numbers;
  for (const uint32_t real : reals_) numbers += (numbers.empty() ? "r" : ", r") + std::to_string(real);
  return numbers + " is " + because_;
}

}  // namespace escapement
