// Pointwise ops, reductions, creation, indexing, combining and writes of the reference evaluator.
#include "trace/evaluator_ops.h"

#include <algorithm>

#include "support/error.h"
#include "trace/reduce_order.h"
#include "trace/scalar_ops.h"

namespace escapement::reference {

namespace {

constexpr size_t kBlock = 256;

uint64_t number_bits(const Job& job, const Number& number, DType type) {
  switch (number.kind) {
    case Number::Kind::none: return to_bits(int64_t{0}, type);
    case Number::Kind::real: return to_bits(number.real, type);
    case Number::Kind::dim: return to_bits(job.dim(number.dim), type);
    default: return to_bits(number.integer, type);
  }
}

// Row-major positions of the axes in `sizes`, as one flat number per element of `sizes`.
struct Odometer {
  explicit Odometer(std::span<const int64_t> sizes) : sizes(sizes), at(sizes.size(), 0) {}
  void step() {
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (++at[axis] < sizes[axis]) return;
      at[axis] = 0;
    }
  }
  std::span<const int64_t> sizes;
  std::vector<int64_t> at;
};

int64_t place_of(const HostTensor& t, std::span<const int64_t> at) {
  int64_t place = t.offset;
  for (size_t axis = 0; axis < at.size(); ++axis) place += at[axis] * t.strides[axis];
  return place;
}

}  // namespace

uint64_t convert(uint64_t bits, DType from, DType to) {
  ScalarProgram program;
  Reg result = program.round_to(program.cast(program.input(0, compute_type(from), from), compute_type(to)), to);
  std::vector<uint64_t> values;
  program.run(std::span(&bits, 1), {}, values);
  return values[result];
}

// --- pointwise

void pointwise(const Job& job) {
  const PointwiseProgram made = pointwise_program(job.instr.op, job.types, job.result.dtype, job.instr.attrs);
  std::vector<uint64_t> params, values;
  for (const Number* number : {&job.instr.attrs.value, &job.instr.attrs.value2})
    if (number->kind == Number::Kind::dim)
      params.push_back(number_bits(job, *number, compute_type_of(job.instr.op, job.types, job.instr.attrs).compute));
  const std::vector<int64_t> out = job.result.places();
  std::vector<std::vector<int64_t>> in;
  for (const HostTensor& operand : job.operands) in.push_back(operand.places(job.result.sizes));
  for (size_t begin = 0; begin < out.size(); begin += kBlock) {
    const size_t count = std::min(kBlock, out.size() - begin);
    std::vector<std::vector<uint64_t>> loaded(in.size(), std::vector<uint64_t>(count));
    std::vector<const uint64_t*> inputs;
    for (size_t k = 0; k < in.size(); ++k) {
      for (size_t i = 0; i < count; ++i) loaded[k][i] = job.operands[k].load(in[k][begin + i]);
      inputs.push_back(loaded[k].data());
    }
    made.program.run_block(inputs, params, count, values);
    for (size_t i = 0; i < count; ++i) job.result.store(out[begin + i], values[made.result * count + i]);
  }
}

// --- reductions

namespace {

// The operand seen as [kept axes..., reduced axes...], those in the order of the attribute.
struct Rows {
  HostTensor kept, reduced;
};
Rows split_axes(const HostTensor& a, std::span<const int32_t> axes) {
  Rows rows{a, a};
  for (HostTensor* part : {&rows.kept, &rows.reduced}) part->sizes.clear(), part->strides.clear();
  rows.reduced.offset = 0;
  for (size_t axis = 0; axis < a.sizes.size(); ++axis) {
    const bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<int32_t>(axis)) != axes.end();
    if (is_reduced) continue;
    HostTensor& part = axes.empty() ? rows.reduced : rows.kept;
    part.sizes.push_back(a.sizes[axis]);
    part.strides.push_back(a.strides[axis]);
  }
  for (const int32_t axis : axes) {
    if (a.sizes.empty()) break;   // a scalar has axis 0, too
    rows.reduced.sizes.push_back(a.sizes[static_cast<size_t>(axis)]);
    rows.reduced.strides.push_back(a.strides[static_cast<size_t>(axis)]);
  }
  return rows;
}

// What of an element is combined.
uint64_t element_of(Op op, uint64_t bits, DType from, DType type) {
  const bool counts = reduction(op).accumulator == Accumulator::count;
  return counts ? convert(convert(bits, from, DType::b8), DType::b8, type) : convert(bits, from, type);
}

}  // namespace

void reduce(const Job& job) {
  const HostTensor& a = job.operands[0];
  const DType type = reduction_accumulator(job.instr.op, a.dtype, job.result.dtype);
  const bool position = gives_position(job.instr.op);
  const Rows rows = split_axes(a, job.instr.attrs.axes);
  const std::vector<int64_t> out = job.result.places(), kept = rows.kept.places(), within = rows.reduced.places();
  for (size_t row = 0; row < kept.size(); ++row) {
    Reduction total(job.instr.op, type);
    for (size_t i = 0; i < within.size(); ++i)
      total.add(element_of(job.instr.op, a.load(kept[row] + within[i]), a.dtype, type), static_cast<int64_t>(i));
    job.result.store(out[row], convert(total.result(), position ? DType::i64 : type, job.result.dtype));
  }
}

// --- creation

void create(const Job& job) {
  const Attrs& attrs = job.instr.attrs;
  const DType type = job.result.dtype;
  const std::vector<int64_t> out = job.result.places();
  if (job.instr.op == Op::full) {
    for (int64_t place : out) job.result.store(place, number_bits(job, attrs.value, type));
    return;
  }
  const bool real = attrs.value.kind == Number::Kind::real || attrs.value2.kind == Number::Kind::real;
  const DType counting = real ? DType::f64 : DType::i64;  // eager counts in the wide type and converts
  Number one;
  one.kind = Number::Kind::integer;
  one.integer = 1;
  const Number& step = attrs.value2.kind == Number::Kind::none ? one : attrs.value2;
  const uint64_t first = number_bits(job, attrs.value, counting), by = number_bits(job, step, counting);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    const double real_value = double_from_bits(first, counting) + double_from_bits(by, counting) * static_cast<double>(n);
    const uint64_t value = real ? to_bits(real_value, counting) : first + by * static_cast<uint64_t>(n);
    job.result.store(out[i], convert(value, counting, type));
  }
}

// --- indexing

namespace {

int64_t checked_position(const Job& job, uint64_t bits, int64_t size, size_t axis) {
  const auto position = static_cast<int64_t>(bits);
  if (position >= 0 && position < size) return position;
  if (job.instr.op == Op::gather)
    throw UserError("index " + std::to_string(position) + " is out of bounds for dimension " + std::to_string(axis) + " with size " +
                    std::to_string(size));
  throw UserError("index out of range in self");
}

}  // namespace

// The result's position at `axis` (embedding: all leading axes) selects the data's.
void index(const Job& job) {
  const HostTensor &data = job.operands[0], &positions = job.operands[1];
  const bool embedding = job.instr.op == Op::embedding, gather = job.instr.op == Op::gather;
  const size_t axis = embedding || data.sizes.empty() ? 0 : static_cast<size_t>(job.instr.attrs.axis);
  Odometer result(job.result.sizes);
  for (int64_t out : job.result.places()) {
    std::vector<int64_t> at = result.at, from = gather ? at : std::vector<int64_t>();
    if (embedding) from.assign(at.begin(), at.end() - 1);
    if (!embedding && !gather && !positions.sizes.empty()) from = {at[axis]};
    const uint64_t wanted = positions.load(place_of(positions, from));
    if (embedding) at = {0, at.back()};
    at.resize(data.sizes.size());  // a vector may be asked at one position without axes, and the other way round
    if (!data.sizes.empty()) at[axis] = checked_position(job, wanted, data.sizes[axis], axis);
    else if (checked_position(job, wanted, 1, 0) == 0) at.clear();
    job.result.store(out, data.load(place_of(data, at)));
    result.step();
  }
}

// --- combining

namespace {

void cat(const Job& job) {
  const auto axis = static_cast<size_t>(job.instr.attrs.axis);
  HostTensor part = job.result;
  for (const HostTensor& operand : job.operands) {
    part.sizes[axis] = operand.sizes[axis];
    write(part, operand);
    part.offset += operand.sizes[axis] * part.strides[axis];
  }
}

// Negative padding cuts. Positions outside the operand get the value.
void pad(const Job& job) {
  const HostTensor& a = job.operands[0];
  const std::vector<Dim>& pairs = job.instr.attrs.sizes;
  std::vector<int64_t> before(a.sizes.size(), 0);
  for (size_t pair = 0; 2 * pair < pairs.size(); ++pair) before[before.size() - 1 - pair] = job.dim(pairs[2 * pair]);
  Odometer result(job.result.sizes);
  for (int64_t out : job.result.places()) {
    std::vector<int64_t> at = result.at;
    bool inside = true;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      at[axis] -= before[axis];
      inside = inside && at[axis] >= 0 && at[axis] < a.sizes[axis];
    }
    job.result.store(out, inside ? a.load(place_of(a, at)) : number_bits(job, job.instr.attrs.value, a.dtype));
    result.step();
  }
}

}  // namespace

void combine(const Job& job) { job.instr.op == Op::cat ? cat(job) : pad(job); }

// The source is read before anything is written: the two may overlap.
void write(const HostTensor& destination, const HostTensor& source) {
  std::vector<uint64_t> values;
  for (int64_t place : source.places(destination.sizes)) values.push_back(convert(source.load(place), source.dtype, destination.dtype));
  size_t next = 0;
  for (int64_t place : destination.places()) destination.store(place, values[next++]);
}

}  // namespace escapement::reference
