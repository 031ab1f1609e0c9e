// Views, writes in place, out=, random numbers, containers, layouts and aliases. See programs.h.
#include "programs.h"

namespace programs {
namespace {

using at::Tensor;

// --- in place, views, out=

Tensor in_place_on_a_copy(Tensor x) {
  Tensor y = x.clone();
  y.add_(1).mul_(x);
  y.select(0, 0).zero_();
  return y;
}
PROGRAM(in_place_on_a_copy, 1, matrix, in_place_on_a_copy, f(in[0]));

Tensor& in_place_on_the_argument(Tensor& x) { return x.mul_(2).add_(1); }
PROGRAM(in_place_on_the_argument, 1, matrix, in_place_on_the_argument, [&] {
  Tensor x = in[0];
  return std::vector<Tensor>{Tensor(f(x)), x};
}());

void only_an_effect(Tensor x, const Tensor& y) { x.copy_(at::relu(y)); }
PROGRAM(only_an_effect, 1, two_matrices, only_an_effect, (f(in[0], in[1]), in[0]));

Tensor view_of_the_argument(Tensor x) { return x.transpose(0, 1).unsqueeze(0); }
PROGRAM(view_of_the_argument, 1, matrix, view_of_the_argument, f(in[0]));

Tensor write_through_a_view(Tensor x) {
  x.narrow(1, 0, 1).fill_(3);
  return x.sum(1);
}
Flat with_columns(Shape s) { return {at::randn({s.rows, s.columns + 1})}; }
PROGRAM(write_through_a_view, 1, with_columns, write_through_a_view, f(in[0]));

Tensor out_argument(Tensor x, Tensor y) {
  Tensor result = at::empty_like(x);
  at::add_out(result, x, y);
  return result.mul(2);
}
PROGRAM(out_argument, 1, two_matrices, out_argument, f(in[0], in[1]));

Tensor slices_and_cat(Tensor x) {
  const c10::SymInt half = escapement::sym_size(x, 1) / 2;
  return at::cat({x.narrow_symint(1, half, escapement::sym_size(x, 1) - half), x.narrow_symint(1, 0, half)}, 1);
}
PROGRAM(slices_and_cat, 1, matrix, slices_and_cat, f(in[0]));

Tensor the_same_tensor_comes_back(Tensor x) { return x; }
PROGRAM(the_same_tensor_comes_back, 1, matrix, the_same_tensor_comes_back, f(in[0]));

// --- random numbers

Tensor random_numbers(Tensor x) { return x + at::rand_like(x) * 2; }
PROGRAM(random_numbers, 1, matrix, random_numbers, f(in[0]));

Tensor dropout(Tensor x) { return at::dropout(x, 0.5, true) + 1; }
PROGRAM(dropout, 1, matrix, dropout, f(in[0]));

// --- containers

std::pair<Tensor, Tensor> pair_of_results(Tensor x) { return {x.sum(0), at::relu(x)}; }
PROGRAM(pair_of_results, 1, matrix, pair_of_results, f(in[0]));

Tensor list_of_tensors(const std::vector<Tensor>& xs) {
  Tensor sum = xs[0];
  for (size_t i = 1; i < xs.size(); ++i) sum = sum + xs[i] * 2;
  return sum;
}
PROGRAM(list_of_tensors, 1, two_matrices, list_of_tensors, f({in[0], in[1], in[0]}));

Tensor reference_to_a_list(at::TensorList xs) { return at::stack(xs).sum(0); }
PROGRAM(reference_to_a_list, 1, two_matrices, reference_to_a_list, f(std::vector<Tensor>{in[0], in[1]}));

std::vector<Tensor> list_of_results(Tensor x) { return {x + 1, x * 2, x}; }
PROGRAM(list_of_results, 1, matrix, list_of_results, f(in[0]));

std::optional<Tensor> optionals(Tensor x, std::optional<Tensor> bias) {
  if (bias) return x + *bias;
  return std::nullopt;
}
PROGRAM(optionals, 2, two_matrices, optionals, f(in[0], in[0].size(0) % 2 ? std::optional<Tensor>(in[1]) : std::nullopt));

std::tuple<Tensor, std::array<Tensor, 2>> nested(std::tuple<Tensor, std::pair<Tensor, double>> x, std::array<Tensor, 2> y) {
  const auto& [a, rest] = x;
  return {a * rest.second + rest.first, {y[0] - a, y[1] + a}};
}
PROGRAM(nested, 1, two_matrices, nested, [&] {
  const auto found = f({in[0], {in[1], 0.5}}, {in[1], in[0]});
  return std::vector<Tensor>{std::get<0>(found), std::get<1>(found)[0], std::get<1>(found)[1]};
}());

Tensor undefined_tensor(Tensor x, Tensor bias) { return bias.defined() ? x + bias : x * 2; }
PROGRAM(undefined_tensor, 1, matrix, undefined_tensor, f(in[0], Tensor()));

// --- layouts and aliases

Tensor scaled_sum(Tensor x, Tensor y) { return (x * 2 + y).sum(1); }
Flat transposed(Shape s) { return {at::randn({s.columns, s.rows}).t(), at::randn({s.columns, s.rows}).t()}; }
PROGRAM(non_contiguous_arguments, 1, transposed, scaled_sum, f(in[0], in[1]));

Flat every_other_column(Shape s) {
  return {at::randn({s.rows, 2 * s.columns}).slice(1, 0, 2 * s.columns, 2), at::randn({s.rows, s.columns})};
}
PROGRAM(strided_arguments, 2, every_other_column, scaled_sum, f(in[0], in[1]));

Tensor add_to_first(Tensor x, Tensor y) { return x.add_(y).clone(); }
PROGRAM(one_tensor_twice, 1, matrix, add_to_first, f(in[0], in[0]));

Flat overlapping(Shape s) {
  const Tensor base = at::randn({s.rows + 1, s.columns});
  return {base.narrow(0, 0, s.rows), base.narrow(0, 1, s.rows)};
}
PROGRAM(overlapping_arguments, 1, overlapping, [](Tensor x, Tensor y) { return (x + y).relu(); }, f(in[0], in[1]));

Tensor broadcast(Tensor x, Tensor row) { return at::relu(x + row) * row; }
Flat matrix_and_row(Shape s) { return {at::randn({s.rows, s.columns}), at::randn({s.columns})}; }
PROGRAM(broadcast, 1, matrix_and_row, broadcast, f(in[0], in[1]));

Tensor other_dtypes(Tensor x) { return (x.to(at::kLong) / 2 + x.to(at::kDouble)).to(at::kFloat); }
PROGRAM(other_dtypes, 1, matrix, other_dtypes, f(in[0]));

}  // namespace
}  // namespace programs
