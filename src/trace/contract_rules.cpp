// Contractions: sizes of matrix products and attention, with the messages of ATen. Results are contiguous, except attention's.
#include <algorithm>

#include "support/error.h"
#include "trace/layout.h"
#include "trace/op_rules.h"

namespace escapement {
namespace {

using Sizes = std::vector<Dim>;

void check_count(Op op, OperandTypes operands, size_t least, size_t most) {
  if (operands.size() >= least && operands.size() <= most) return;
  throw UserError(std::string(name_of(op)) + ": wrong number of operands: " + std::to_string(operands.size()));
}

void check_rank(Op op, const TensorType& type, int rank) {
  if (type.rank() != rank)
    throw UserError(std::string(name_of(op)) + ": expected a " + std::to_string(rank) + "D tensor, got " +
                    std::to_string(type.rank()) + "D");
}

Dim row_count(Rules& rules, const TensorType& a) {
  return rules.dims.product(std::span(a.sizes).first(a.sizes.size() - 1));
}

void require_inner(Rules& rules, Dim left, Dim right, const std::string& shapes) {
  rules.require_equal(left, right, "mat1 and mat2 shapes cannot be multiplied (" + shapes + ")");
}

std::string shapes(Rules& rules, Dim m, Dim k, Dim k2, Dim n) {
  return rules.shown(m) + "x" + rules.shown(k) + " and " + rules.shown(k2) + "x" + rules.shown(n);
}

Sizes linear_sizes(Rules& rules, OperandTypes operands) {
  check_count(rules.op, operands, 2, 3);
  const TensorType &x = *operands[0], &w = *operands[1];
  if (x.rank() < 1 || w.rank() < 1 || w.rank() > 2) throw UserError("linear: both arguments need to be at least 1D, the weight at most 2D");
  const Dim out = w.rank() == 2 ? w.sizes[0] : rules.dims.constant(1);
  require_inner(rules, x.sizes.back(), w.sizes.back(), shapes(rules, row_count(rules, x), x.sizes.back(), w.sizes.back(), out));
  Sizes sizes(x.sizes.begin(), x.sizes.end() - 1);
  if (w.rank() == 2) sizes.push_back(out);
  return sizes;
}

// numpy's rules: a vector on either side is a matrix whose extra axis vanishes; all but the last two axes broadcast.
Sizes matmul_sizes(Rules& rules, OperandTypes operands) {
  check_count(rules.op, operands, 2, 2);
  const TensorType &a = *operands[0], &b = *operands[1];
  if (a.rank() == 0 || b.rank() == 0)
    throw UserError("both arguments to matmul need to be at least 1D, but they are " + std::to_string(a.rank()) + "D and " +
                    std::to_string(b.rank()) + "D");
  const Dim one = rules.dims.constant(1);
  const Dim m = a.rank() > 1 ? a.sizes[a.sizes.size() - 2] : one, n = b.rank() > 1 ? b.sizes.back() : one;
  const Dim k = a.sizes.back(), k2 = b.rank() > 1 ? b.sizes[b.sizes.size() - 2] : b.sizes.back();
  require_inner(rules, k, k2, shapes(rules, m, k, k2, n));
  const auto batch = [](const TensorType& t) { return std::span(t.sizes).first(t.sizes.size() - std::min<size_t>(t.sizes.size(), 2)); };
  Sizes sizes = broadcast_sizes(rules.dims, rules.demands, batch(a), batch(b), "matmul");
  if (a.rank() > 1) sizes.push_back(m);
  if (b.rank() > 1) sizes.push_back(n);
  return sizes;
}

// mm, bmm and their forms with an addend, whose two factors come last.
Sizes product_sizes(Rules& rules, OperandTypes operands, int rank) {
  const TensorType &a = *operands[0], &b = *operands[1];
  check_rank(rules.op, a, rank);
  check_rank(rules.op, b, rank);
  const size_t batch = static_cast<size_t>(rank) - 2;
  require_inner(rules, a.sizes[batch + 1], b.sizes[batch],
                shapes(rules, a.sizes[batch], a.sizes[batch + 1], b.sizes[batch], b.sizes[batch + 1]));
  if (batch > 0) rules.require_equal(a.sizes[0], b.sizes[0], "batch1 and batch2 must have same number of batches, got " +
                                                                 rules.shown(a.sizes[0]) + " and " + rules.shown(b.sizes[0]));
  Sizes sizes(a.sizes.begin(), a.sizes.end() - 1);
  sizes.push_back(b.sizes.back());
  return sizes;
}

Sizes added_product_sizes(Rules& rules, OperandTypes operands, int rank) {
  check_count(rules.op, operands, 3, 3);
  Sizes sizes = product_sizes(rules, operands.subspan(1), rank);
  const Sizes with_addend = broadcast_sizes(rules.dims, rules.demands, sizes, operands[0]->sizes, std::string(name_of(rules.op)));
  const bool fits = with_addend.size() == sizes.size() &&
                    std::equal(sizes.begin(), sizes.end(), with_addend.begin(), [&](Dim x, Dim y) { return rules.dims.same(x, y); });
  if (!fits) throw UserError("The expanded size of the tensor must match the existing size: " + rules.shown(sizes) + " and " +
                             rules.shown(operands[0]->sizes));
  return sizes;
}

// Queries [..., L, E], keys [..., S, E], values [..., S, V]. Fewer heads of keys and values than of queries are allowed.
TensorType infer_attention(Rules& rules, OperandTypes operands) {
  check_count(rules.op, operands, 3, 4);
  const TensorType &q = *operands[0], &k = *operands[1], &v = *operands[2];
  if (q.rank() < 2 || k.rank() != q.rank() || v.rank() != q.rank())
    throw UserError("scaled_dot_product_attention: expected query, key and value of equal rank of at least 2");
  const std::string message = "scaled_dot_product_attention: sizes do not match: " + rules.shown(q.sizes) + ", " +
                              rules.shown(k.sizes) + ", " + rules.shown(v.sizes);
  const size_t last = q.sizes.size() - 1;
  rules.require_equal(q.sizes[last], k.sizes[last], message);
  rules.require_equal(k.sizes[last - 1], v.sizes[last - 1], message);
  Sizes sizes = q.sizes;
  sizes[last] = v.sizes[last];
  // ATen's kernel lays its result out as the queries are: usually [batch, length, heads, size] in memory. It wants their elements side by side;
  // of others ATen makes matrix products.
  TensorType result = rules.plain(q.dtype, q.device, std::move(sizes));
  if (!rules.dims.same(q.sizes[last], v.sizes[last]) || rules.dims.as_constant(q.strides[last]) != 1) return result;
  if (auto strides = preserved_strides(rules.dims, q); !strides.empty()) result.strides = std::move(strides);
  return result;
}

Sizes contraction_sizes(Rules& rules, OperandTypes operands) {
  switch (rules.op) {
    case Op::linear: return linear_sizes(rules, operands);
    case Op::matmul: return matmul_sizes(rules, operands);
    case Op::mm: check_count(rules.op, operands, 2, 2); return product_sizes(rules, operands, 2);
    case Op::bmm: check_count(rules.op, operands, 2, 2); return product_sizes(rules, operands, 3);
    case Op::addmm: return added_product_sizes(rules, operands, 2);
    case Op::baddbmm: return added_product_sizes(rules, operands, 3);
    default: throw InternalError("no rule for contraction " + std::string(name_of(rules.op)));
  }
}

}  // namespace

TensorType infer_contraction(Rules& rules, OperandTypes operands, const Attrs&) {
  if (rules.op == Op::attention) return infer_attention(rules, operands);
  Sizes sizes = contraction_sizes(rules, operands);
  return rules.plain(operands[0]->dtype, operands[0]->device, std::move(sizes));
}

}  // namespace escapement
