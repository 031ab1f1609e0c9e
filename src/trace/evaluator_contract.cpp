// Matrix products of the reference evaluator: sums in f64, one rounding. Alpha and beta are 1. A linear may carry the activation that
// follows it (specialize/epilogue.h).
#include <algorithm>

#include "support/error.h"
#include "trace/evaluator_ops.h"
#include "trace/scalar.h"
#include "trace/scalar_ops.h"

namespace escapement::reference {

namespace {

// A vector on the left is a row, on the right a column, as in torch.matmul.
HostTensor as_matrix(HostTensor t, bool left) {
  if (t.sizes.size() >= 2) return t;
  const auto at = [left](auto& list) { return left ? list.begin() : list.end(); };
  t.sizes.insert(at(t.sizes), 1);
  t.strides.insert(at(t.strides), 0);
  return t;
}

HostTensor transposed(HostTensor t) {
  if (t.sizes.size() < 2) return t;
  std::swap(t.sizes.end()[-1], t.sizes.end()[-2]);
  std::swap(t.strides.end()[-1], t.strides.end()[-2]);
  return t;
}

// The matrices' first elements, broadcast over the result's batch.
std::vector<int64_t> batch_places(HostTensor t, std::span<const int64_t> batch) {
  t.sizes.resize(t.sizes.size() - 2);
  t.strides.resize(t.strides.size() - 2);
  return t.places(batch);
}

std::vector<int64_t> common_batch(const HostTensor& a, const HostTensor& b) {
  const size_t rank = std::max(a.sizes.size(), b.sizes.size()) - 2;
  std::vector<int64_t> batch(rank, 1);
  for (const HostTensor* t : {&a, &b}) {
    const size_t own = t->sizes.size() - 2;
    for (size_t i = 0; i < own; ++i)
      if (t->sizes[i] != 1) batch[rank - own + i] = t->sizes[i];
  }
  return batch;
}

double value(const HostTensor& t, int64_t place) { return double_from_bits(t.load(place), t.dtype); }

// Row-major over batch, rows, columns: the result's own order, as axes of size 1 that vanish do not change it.
std::vector<double> product(const HostTensor& left, const HostTensor& right) {
  const HostTensor a = as_matrix(left, true), b = as_matrix(right, false);
  const std::vector<int64_t> batch = common_batch(a, b);
  const std::vector<int64_t> a_first = batch_places(a, batch), b_first = batch_places(b, batch);
  const size_t ra = a.sizes.size(), rb = b.sizes.size();
  std::vector<double> result;
  for (size_t n = 0; n < a_first.size(); ++n)
    for (int64_t i = 0; i < a.sizes[ra - 2]; ++i)
      for (int64_t j = 0; j < b.sizes[rb - 1]; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < a.sizes[ra - 1]; ++k)
          sum += value(a, a_first[n] + i * a.strides[ra - 2] + k * a.strides[ra - 1]) *
                 value(b, b_first[n] + k * b.strides[rb - 2] + j * b.strides[rb - 1]);
        result.push_back(sum);
      }
  return result;
}

}  // namespace

namespace {

// The activation of each element, in place.
void apply_epilogue(std::string_view name, const HostTensor& result) {
  const auto op = op_from_name(name);
  ESCAPEMENT_CHECK(op.has_value(), "an epilogue is an op of the table");
  TensorType type;
  type.dtype = result.dtype;
  const TensorType* const types[] = {&type};
  const PointwiseProgram made = pointwise_program(*op, types, result.dtype, {});
  std::vector<uint64_t> values;
  for (const int64_t place : result.places()) {
    const uint64_t element = result.load(place);
    made.program.run(std::span(&element, 1), {}, values);
    result.store(place, values[made.result]);
  }
}

}  // namespace

bool can_contract(Op op) {
  return op == Op::mm || op == Op::bmm || op == Op::addmm || op == Op::baddbmm || op == Op::matmul || op == Op::linear;
}

void contract(const Job& job) {
  const Op op = job.instr.op;
  const bool addend_first = op == Op::addmm || op == Op::baddbmm, linear = op == Op::linear;
  const size_t first = addend_first ? 1 : 0;
  const HostTensor &left = job.operands[first], &right = job.operands[first + 1];
  const std::vector<double> sums = product(left, linear ? transposed(right) : right);
  const HostTensor* addend = addend_first ? &job.operands[0] : linear && job.operands.size() > 2 ? &job.operands[2] : nullptr;
  const std::vector<int64_t> added = addend ? addend->places(job.result.sizes) : std::vector<int64_t>();
  size_t i = 0;
  for (int64_t out : job.result.places()) {
    job.result.store(out, to_bits(sums[i] + (addend ? value(*addend, added[i]) : 0), job.result.dtype));
    ++i;
  }
  if (linear && !job.instr.attrs.mode.empty()) apply_epilogue(job.instr.attrs.mode, job.result);
}

}  // namespace escapement::reference
