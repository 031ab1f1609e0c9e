// Control flow on sizes and on values, numbers as arguments and results, exceptions. See programs.h.
#include "programs.h"

namespace programs {
namespace {

using at::Tensor;

// --- sizes

Tensor branch_on_a_size(Tensor x) {
  if (MARK(x.size(0)) > 100) return x * 2;
  return x + 1;
}
PROGRAM(branch_on_a_size, 3, matrix, branch_on_a_size, f(in[0]));

Tensor branch_on_a_symbol(Tensor x) {
  if (MARK(escapement::sym_size(x, 0)) > 100) return x * 2;
  return x + 1;
}
PROGRAM(branch_on_a_symbol, 2, matrix, branch_on_a_symbol, f(in[0]));

Tensor sizes_stay_symbolic(Tensor x) {
  const c10::SymInt rows = escapement::sym_size(x, 0), columns = escapement::sym_size(x, 1);
  return x.view_symint({rows * columns}).add(1).view_symint({columns, rows}) * 2;
}
PROGRAM(sizes_stay_symbolic, 1, matrix, sizes_stay_symbolic, f(in[0]));

Tensor new_tensor_of_symbolic_size(Tensor x) {
  const Tensor zeros = at::zeros_symint({escapement::sym_size(x, 1) + 1}, x.options());
  return zeros.narrow_symint(0, 1, escapement::sym_size(x, 1)) + x.sum(0);
}
PROGRAM(new_tensor_of_symbolic_size, 1, matrix, new_tensor_of_symbolic_size, f(in[0]));

Tensor loop_over_columns(Tensor x) {
  Tensor sum = x.new_zeros({1});
  const int64_t columns = MARK(x.size(1));
  for (int64_t i = 0; i < std::min<int64_t>(columns, 4); ++i) sum = sum + x.select(1, i).sum();
  return sum;
}
PROGRAM(loop_over_columns, 3, matrix, loop_over_columns, f(in[0]));

Tensor fixed_loop(Tensor x) {
  for (int i = 0; i < 6; ++i) x = at::sin(x) + i;
  return x;
}
PROGRAM(fixed_loop, 1, matrix, fixed_loop, f(in[0]));

Tensor numel_as_a_number(Tensor x) { return x / static_cast<double>(MARK(x.numel()) + 1); }
PROGRAM(numel_as_a_number, 3, matrix, numel_as_a_number, f(in[0]));

Tensor all_sizes_as_numbers(Tensor x) { return at::ones(MARK(x.sizes().vec()), x.options()) - x; }
PROGRAM(all_sizes_as_numbers, 3, matrix, all_sizes_as_numbers, f(in[0]));

c10::SymInt symbolic_result(Tensor x) { return escapement::sym_numel(x) * 2 + 1; }
PROGRAM(symbolic_result, 1, matrix, symbolic_result, f(in[0]));

Tensor rank_decides(Tensor x) { return x.dim() == 2 ? x.sum(-1) : x * 2; }
PROGRAM(rank_decides, 1, matrix, rank_decides, f(in[0]));

Tensor recursion(Tensor x, int depth) { return depth == 0 ? x : at::tanh(recursion(x, depth - 1)) + x; }
PROGRAM(recursion, 1, matrix, [](Tensor x) { return recursion(x, 3); }, f(in[0]));

// --- values

Tensor branch_on_a_value(Tensor x) {
  if (MARK(x.sum().item<double>() > 0)) return x + 1;
  return x - 1;
}
Flat all_of_one_sign(Shape s) { return {at::rand({s.rows, s.columns}) + 0.5}; }
PROGRAM(branch_on_a_value, 3, all_of_one_sign, branch_on_a_value, f(in[0]));

Tensor branch_on_a_truth_value(Tensor x) {
  if (MARK(at::all(x > 0).item<bool>())) return at::log(x);
  return x.clone();
}
Flat positive_or_not(Shape s) { return {s.columns % 2 ? at::rand({s.rows, s.columns}) + 0.5 : at::ones({s.rows, s.columns}).neg()}; }
PROGRAM(branch_on_a_truth_value, 2, positive_or_not, branch_on_a_truth_value, f(in[0]));

Tensor selection_by_mask(Tensor x) { return at::where(x > 0, x, x.exp()); }
PROGRAM(selection_by_mask, 1, matrix, selection_by_mask, f(in[0]));

Tensor size_born_at_run_time(Tensor x) { return x.masked_select(x > 0).mul(2).sum(); }
PROGRAM(size_born_at_run_time, 1, matrix, size_born_at_run_time, f(in[0]));

// --- numbers

Tensor symbolic_integer(Tensor x, c10::SymInt n) { return at::zeros_symint({n, 2}, x.options()) + x.sum(); }
PROGRAM(symbolic_integer, 1, matrix, symbolic_integer, f(in[0], c10::SymInt(in[0].size(0) + 3)));

Tensor plain_integer(Tensor x, int64_t n) { return x * n + n; }
PROGRAM(plain_integer, 1, matrix, plain_integer, f(in[0], MARK(int64_t{3})));

Tensor changing_integer(Tensor x, int64_t n) { return x * n; }
PROGRAM(changing_integer, 3, matrix, changing_integer, f(in[0], MARK(in[0].size(0))));

Tensor constant_double(Tensor x, double scale, float offset) { return x * scale + offset; }
PROGRAM(constant_double, 1, matrix, constant_double, f(in[0], 0.25, 1.5f));

Tensor run_time_double(Tensor x, c10::SymFloat scale) { return x * at::Scalar(scale); }
PROGRAM(run_time_double, 1, matrix, run_time_double, f(in[0], c10::SymFloat(0.5 * static_cast<double>(in[0].size(0)))));

Tensor truth_values(Tensor x, bool twice, bool negative) {
  x = at::relu(x);
  if (twice) x = x * 2;
  return negative ? -x : x;
}
PROGRAM(truth_values, 4, matrix, truth_values, f(in[0], in[0].size(0) % 2 == 0, in[0].size(1) % 2 == 0));

std::tuple<Tensor, int64_t, double, bool> numbers_as_results(Tensor x, bool flag) { return {x + 1, x.dim(), -0.5, !flag}; }
PROGRAM(numbers_as_results, 1, matrix, numbers_as_results, f(in[0], true));

// --- exceptions

Tensor shape_mismatch(Tensor x, Tensor w) { return at::matmul(x, w) + 1; }
Flat mismatched_if_large(Shape s) { return {at::randn({s.rows, s.columns}), at::randn({s.columns + (s.rows > 20), 3})}; }
PROGRAM(shape_mismatch, 1, mismatched_if_large, shape_mismatch, f(in[0], in[1]));

Tensor own_exception(Tensor x) {
  if (MARK(escapement::sym_size(x, 1)) == 0) throw std::out_of_range("no columns");
  return at::softmax(x, 1);
}
PROGRAM(own_exception, 1, matrix, own_exception, f(in[0]));

}  // namespace
}  // namespace programs
