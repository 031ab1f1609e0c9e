// The operators of random functions. A row: name, how a C++ program would write it, number of arguments, kind, the code. In the code
// `x`, `y`, `z` are the arguments, `p` and `q` the numbers, `d(x, p)` an axis of x.
#include <c10/core/SymInt.h>

#include "functions.h"

namespace functions {
namespace {

int64_t d(const Tensor& x, int64_t p) { return x.dim() == 0 ? 0 : p % x.dim(); }
Tensor small(const Tensor& x) { return at::clamp(x, -9, 9); }
Tensor floating(const Tensor& x) { return at::isFloatingType(x.scalar_type()) ? x : x.to(at::kFloat); }
Tensor truth(const Tensor& x) { return x.scalar_type() == at::kBool ? x : x > 0; }
// Indices below a size, however the tensor looks; by an operator, so that nothing is read.
Tensor rows_of(const Tensor& x, const Tensor& of, int64_t dim) {
  return at::remainder(x.to(at::kLong), at::scalar_tensor(of.sym_size(dim), at::kLong)).abs();
}
Tensor flat(const Tensor& x) { return x.reshape({-1}); }
Tensor filled(const Tensor& like, int64_t p) {   // by host code, as a library would
  Tensor made = at::zeros({p + 1}, like.options().dtype(at::kFloat));
  auto memory = made.accessor<float, 1>();
  for (int64_t i = 0; i <= p; ++i) memory[i] = static_cast<float>(i);
  return made;
}
Tensor borrowed(int64_t p) {
  std::vector<float> memory(static_cast<size_t>(p + 1), static_cast<float>(p));
  return at::from_blob(memory.data(), {p + 1}).clone();
}
Tensor literal(int64_t p) {
  std::vector<float> values(static_cast<size_t>(p + 1), 2.0f);
  return at::tensor(values);
}

#define ROW(name, text, arity, kind, ...)                                                                                       \
  OpRow{name, text, arity, Kind::kind, [](Frame& frame, const Step& step) -> Tensor {                                          \
          [[maybe_unused]] const int64_t p = step.numbers[0], q = step.numbers[1];                                            \
          [[maybe_unused]] auto at_ = [&](size_t i) -> Tensor& { return frame.value(step.inputs[i < step.inputs.size() ? i : 0]); }; \
          [[maybe_unused]] Tensor &x = at_(0), &y = at_(1), &z = at_(2);                                                      \
          __VA_ARGS__;                                                                                                        \
        }}
#define MAP(name, text, arity, kind, ...) ROW(name, text, arity, kind, return __VA_ARGS__)
#define STATEMENT(name, text, arity, kind, ...) ROW(name, text, arity, kind, __VA_ARGS__; return x)

const OpRow kRows[] = {
    // one element at a time
    MAP("neg", "-$0", 1, exact, at::neg(floating(x))), MAP("abs", "$0.abs()", 1, exact, at::abs(floating(x))),
    MAP("relu", "at::relu($0)", 1, exact, at::relu(floating(x))), MAP("sign", "$0.sign()", 1, decides, at::sign(x)),
    MAP("square", "at::square(small($0))", 1, exact, at::square(small(floating(x)))), MAP("floor", "at::floor($0)", 1, decides, at::floor(floating(x))),
    MAP("round", "at::round($0)", 1, decides, at::round(floating(x))), MAP("trunc", "at::trunc($0)", 1, decides, at::trunc(floating(x))),
    MAP("logical_not", "at::logical_not($0)", 1, decides, at::logical_not(x)), MAP("clone", "$0.clone()", 1, exact, x.clone()),
    MAP("contiguous", "$0.contiguous()", 1, exact, x.contiguous()), MAP("clamp", "at::clamp($0, -#0, #1)", 1, exact, at::clamp(floating(x), -p, q)),
    MAP("exp", "at::exp(-$0.abs())", 1, inexact, at::exp(-floating(x).abs())), MAP("tanh", "at::tanh($0)", 1, inexact, at::tanh(floating(x))),
    MAP("sigmoid", "at::sigmoid($0)", 1, inexact, at::sigmoid(floating(x))), MAP("gelu", "at::gelu($0)", 1, inexact, at::gelu(floating(x))),
    MAP("silu", "at::silu($0)", 1, inexact, at::silu(floating(x))), MAP("sqrt", "at::sqrt($0.abs())", 1, inexact, at::sqrt(floating(x).abs())),
    MAP("log1p", "at::log1p($0.abs())", 1, inexact, at::log1p(floating(x).abs())), MAP("cos", "at::cos($0)", 1, inexact, at::cos(small(floating(x)))),
    MAP("softmax", "at::softmax($0, d($0, #0))", 1, inexact, at::softmax(floating(x), d(x, p))),
    MAP("log_softmax", "at::log_softmax($0, d($0, #0))", 1, inexact, at::log_softmax(floating(x), d(x, p))),
    MAP("layer_norm", "at::layer_norm($0, {$0.size(-1)})", 1, inexact, at::layer_norm_symint(floating(x), {x.sym_size(-1)})),
    // two or three
    MAP("add", "$0 + $1", 2, exact, at::add(x, y)), MAP("add.alpha", "at::add($0, $1, #0)", 2, exact, at::add(floating(x), floating(y), p)),
    MAP("sub", "$0 - $1", 2, exact, at::sub(floating(x), floating(y))), MAP("mul", "small($0) * small($1)", 2, exact, at::mul(small(floating(x)), small(floating(y)))),
    MAP("mul.number", "$0 * #0", 1, exact, at::mul(small(floating(x)), p)), MAP("add.number", "$0 + #0.5", 1, exact, at::add(x, static_cast<double>(p))),
    MAP("maximum", "at::maximum($0, $1)", 2, exact, at::maximum(x, y)), MAP("minimum", "at::minimum($0, $1)", 2, exact, at::minimum(x, y)),
    MAP("eq", "$0 == $1", 2, decides, at::eq(x, y)), MAP("lt", "$0 < $1", 2, decides, at::lt(x, y)), MAP("gt.number", "$0 > #0", 1, decides, at::gt(x, p)),
    MAP("where", "at::where(truth($0), $1, $2)", 3, decides, at::where(truth(x), floating(y), floating(z))),
    MAP("div", "$0 / ($1.abs() + 1)", 2, inexact, at::div(floating(x), at::abs(floating(y)) + 1)),
    MAP("floor_divide", "at::div($0, #0 + 1, \"floor\")", 1, decides, at::div(x, p + 1, "floor")),
    MAP("remainder", "at::remainder($0, #0 + 2)", 1, decides, at::remainder(floating(x), p + 2)),
    MAP("pow", "at::pow(small($0), 2)", 1, exact, at::pow(small(floating(x)), 2)), MAP("lerp", "at::lerp($0, $1, 2)", 2, exact, at::lerp(floating(x), floating(y), 2)),
    MAP("addcmul", "at::addcmul($0, small($1), small($2))", 3, exact, at::addcmul(floating(x), small(floating(y)), small(floating(z)))),
    MAP("masked_fill", "at::masked_fill($0, truth($1), #0)", 2, decides, at::masked_fill(x, truth(y), p)),
    MAP("logical_and", "at::logical_and($0, $1)", 2, decides, at::logical_and(x, y)),
    // reductions
    MAP("sum", "$0.sum()", 1, exact, at::sum(x)), MAP("sum.dim", "$0.sum(d($0, #0), #1 % 2)", 1, exact, at::sum(x, {d(x, p)}, q % 2 != 0)),
    MAP("mean", "$0.mean(d($0, #0))", 1, inexact, at::mean(floating(x), {d(x, p)})), MAP("amax", "$0.amax(d($0, #0), #1 % 2)", 1, exact, at::amax(x, {d(x, p)}, q % 2 != 0)),
    MAP("amin", "$0.amin()", 1, exact, at::amin(x)), MAP("max.dim", "std::get<#1 % 2>($0.max(d($0, #0)))", 1, decides,
        q % 2 != 0 ? std::get<1>(at::max(x, d(x, p))) : std::get<0>(at::max(x, d(x, p)))),
    MAP("argmax", "$0.argmax(d($0, #0))", 1, decides, at::argmax(floating(x), d(x, p))), MAP("any", "$0.any()", 1, decides, at::any(x)),
    MAP("all", "$0.all(d($0, #0))", 1, decides, at::all(x, d(x, p))), MAP("cumsum", "$0.cumsum(d($0, #0))", 1, exact, at::cumsum(x, d(x, p))),
    MAP("count_nonzero", "at::count_nonzero($0)", 1, decides, at::count_nonzero(x)), MAP("var", "$0.var(d($0, #0), false)", 1, inexact, at::var(floating(x), d(x, p), false)),
    MAP("norm", "$0.norm()", 1, inexact, at::norm(floating(x))), MAP("logsumexp", "$0.logsumexp(d($0, #0))", 1, inexact, at::logsumexp(floating(x), {d(x, p)})),
    // views
    MAP("t", "$0.t()", 1, exact, x.t()), MAP("transpose", "$0.transpose(0, d($0, #0))", 1, exact, x.transpose(0, d(x, p))),
    MAP("unsqueeze", "$0.unsqueeze(#0 % ($0.dim() + 1))", 1, exact, x.unsqueeze(p % (x.dim() + 1))), MAP("squeeze", "$0.squeeze()", 1, exact, x.squeeze()),
    MAP("squeeze.dim", "$0.squeeze(d($0, #0))", 1, exact, x.squeeze(d(x, p))), MAP("view", "$0.view({-1})", 1, exact, x.view({-1})),
    MAP("reshape", "$0.reshape({-1})", 1, exact, x.reshape({-1})), MAP("flatten", "$0.flatten()", 1, exact, x.flatten()),
    MAP("reshape.sizes", "$0.reshape({$0.size(1), $0.size(0)})", 1, exact, x.reshape({x.size(1), x.size(0)})),
    MAP("reshape.symbols", "$0.reshape_symint({sym_size($0, 1), sym_size($0, 0)})", 1, exact, x.reshape_symint({x.sym_size(1), x.sym_size(0)})),
    MAP("slice", "$0.slice(d($0, #0), #1)", 1, exact, x.slice(d(x, p), q)), MAP("slice.step", "$0.slice(d($0, #0), 0, {}, #1 + 1)", 1, exact, x.slice(d(x, p), 0, std::nullopt, q + 1)),
    MAP("slice.end", "$0.slice(d($0, #0), 0, -#1)", 1, exact, x.slice(d(x, p), 0, -q)), MAP("select", "$0.select(d($0, #0), #1)", 1, exact, x.select(d(x, p), q)),
    MAP("select.last", "$0.select(d($0, #0), -1)", 1, exact, x.select(d(x, p), -1)), MAP("narrow", "$0.narrow(d($0, #0), 0, #1)", 1, exact, x.narrow(d(x, p), 0, q)),
    MAP("expand", "$0.unsqueeze(0).expand({#0 + 1, -1, -1})", 1, exact, x.unsqueeze(0).expand({p + 1, -1, -1})), MAP("expand_as", "$0.expand_as($1)", 2, exact, x.expand_as(y)),
    MAP("chunk", "$0.chunk(2, d($0, #0)).back()", 1, exact, x.chunk(2, d(x, p)).back()), MAP("split", "$0.split(#1 + 1, d($0, #0))[0]", 1, exact, x.split(q + 1, d(x, p))[0]),
    MAP("unbind", "$0.unbind(d($0, #0)).back()", 1, exact, x.unbind(d(x, p)).at(x.size(d(x, p)) - 1)), MAP("diagonal", "$0.diagonal()", 1, exact, x.diagonal()),
    MAP("as_strided", "$0.as_strided({2, 2}, {1, 1})", 1, exact, x.as_strided({2, 2}, {1, 1})), MAP("detach", "$0.detach()", 1, exact, x.detach()),
    // put together
    MAP("cat", "at::cat({$0, $1}, d($0, #0))", 2, exact, at::cat({x, y}, d(x, p))), MAP("stack", "at::stack({$0, $1}, d($0, #0))", 2, exact, at::stack({x, y}, d(x, p))),
    MAP("pad", "at::constant_pad_nd($0, {#0, #1}, 1)", 1, exact, at::constant_pad_nd(x, {p, q}, 1)), MAP("repeat", "$0.repeat({2, #0})", 1, exact, x.repeat({2, p})),
    MAP("flip", "$0.flip(d($0, #0))", 1, exact, x.flip({d(x, p)})), MAP("roll", "$0.roll(#1, d($0, #0))", 1, exact, x.roll({q}, {d(x, p)})),
    MAP("tril", "$0.tril(#0 - 1)", 1, exact, x.tril(p - 1)), MAP("outer", "at::outer(flat(small($0)), flat(small($1)))", 2, exact, at::outer(flat(small(floating(x))), flat(small(floating(y))))),
    MAP("index_select", "$0.index_select(0, index($1))", 2, decides, x.index_select(0, rows_of(flat(y), x, 0))), MAP("gather", "$0.gather(0, index($1))", 2, decides, x.gather(0, rows_of(y, x, 0))),
    MAP("index", "$0.index({index($1)})", 2, decides, x.index({rows_of(y, x, 0)})), MAP("masked_select", "$0.masked_select(truth($1))", 2, decides, x.masked_select(truth(y))),
    MAP("nonzero", "$0.nonzero()", 1, decides, x.nonzero()), MAP("unique", "std::get<0>(at::_unique($0))", 1, decides, std::get<0>(at::_unique(x))),
    MAP("sort", "std::get<0>($0.sort(d($0, #0)))", 1, decides, std::get<0>(x.sort(d(x, p)))), MAP("scatter_add", "$0.scatter_add(0, index($1), $0)", 2, decides, x.scatter_add(0, rows_of(y, x, 0), x)),
    MAP("one_hot", "at::one_hot(index($0), 12)", 1, decides, at::one_hot(at::remainder(x.to(at::kLong), 12), 12)),
    MAP("matmul", "at::matmul($0, $1.t())", 2, exact, at::matmul(small(floating(x)), small(floating(y)).t())), MAP("matmul.self", "at::matmul($0.t(), $0)", 1, exact, at::matmul(small(floating(x)).t(), small(floating(x)))),
    MAP("linear", "at::linear($0, $1)", 2, exact, at::linear(small(floating(x)), small(floating(y)))),
    MAP("bmm", "at::bmm($0.unsqueeze(0), $1.t().unsqueeze(0))", 2, exact, at::bmm(small(floating(x)).unsqueeze(0), small(floating(y)).t().unsqueeze(0))),
    MAP("conv1d", "at::conv1d($0.unsqueeze(0), at::ones({1, $0.size(0), 2}))", 1, exact, at::conv1d(small(floating(x)).unsqueeze(0), at::ones({1, x.size(0), 2}, floating(x).options()))),
    // dtypes
    MAP("double", "$0.to(at::kDouble)", 1, exact, x.to(at::kDouble)), MAP("float", "$0.to(at::kFloat)", 1, exact, x.to(at::kFloat)),
    MAP("long", "$0.to(at::kLong)", 1, decides, x.to(at::kLong)), MAP("int", "$0.to(at::kInt)", 1, decides, x.to(at::kInt)), MAP("bool", "$0.to(at::kBool)", 1, decides, x.to(at::kBool)),
    MAP("bfloat16", "$0.to(at::kBFloat16)", 1, inexact, x.to(at::kBFloat16)), MAP("type_as", "$0.type_as($1)", 2, decides, x.type_as(y)),
    // made anew
    MAP("zeros", "at::zeros({$0.size(0), #0})", 1, exact, at::zeros({x.size(0), p})), MAP("ones_like", "at::ones_like($0)", 1, exact, at::ones_like(x)),
    MAP("full", "at::full_symint({sym_size($0, 0)}, #0)", 1, exact, at::full_symint({x.sym_size(0)}, p, at::kFloat)), MAP("arange", "at::arange(sym_size($0, 0))", 1, exact, at::arange(x.sym_size(0), at::kFloat)),
    MAP("eye", "at::eye(#0)", 0, exact, at::eye(p)), MAP("number", "at::full({2}, number)", 0, exact, at::full({2}, frame.number, at::kFloat)),
    MAP("filled", "filled by an accessor", 1, exact, filled(x, p)), MAP("literal", "at::tensor(std::vector<float>(#0 + 1, 2))", 0, exact, literal(p)),
    MAP("from_blob", "at::from_blob(vector(#0 + 1, #0), ...).clone()", 0, exact, borrowed(p)),
    MAP("rand", "at::rand_like($0)", 1, inexact, at::rand_like(floating(x))), MAP("randint", "at::randint(5, {#0 + 1})", 0, exact, at::randint(5, {p + 1}, at::kFloat)),
    // in place
    STATEMENT("add_", "$0.add_($1)", 2, exact, x.add_(y)), STATEMENT("add_.number", "$0.add_(#0)", 1, exact, x.add_(p)), STATEMENT("mul_", "$0.mul_(small($1))", 2, exact, x.clamp_(-9, 9).mul_(small(y))),
    STATEMENT("relu_", "$0.relu_()", 1, exact, x.relu_()), STATEMENT("fill_", "$0.fill_(#0)", 1, exact, x.fill_(p)), STATEMENT("zero_", "$0.zero_()", 1, exact, x.zero_()),
    STATEMENT("copy_", "$0.copy_($1)", 2, exact, x.copy_(y)), STATEMENT("tanh_", "$0.tanh_()", 1, inexact, x.tanh_()), STATEMENT("sub_", "$0.sub_($1)", 2, exact, x.sub_(y)),
    STATEMENT("row.add_", "$0.select(0, #0).add_(1)", 1, exact, x.select(0, p).add_(1)), STATEMENT("slice.copy_", "$0.slice(d($0, #0), #1).copy_($1)", 2, exact, x.slice(d(x, p), q).copy_(y)),
    STATEMENT("t.add_", "$0.t().add_($1)", 2, exact, x.t().add_(y)), STATEMENT("masked_fill_", "$0.masked_fill_(truth($1), #0)", 2, decides, x.masked_fill_(truth(y), p)),
    STATEMENT("index_put_", "$0.index_put_({index($1)}, #0)", 2, decides, x.index_put_({rows_of(flat(y), x, 0)}, p)), STATEMENT("view.mul_", "$0.view({-1}).mul_(2)", 1, exact, x.view({-1}).mul_(2)),
    STATEMENT("unsqueeze_", "$0.unsqueeze_(0)", 1, exact, x.unsqueeze_(0)), STATEMENT("squeeze_", "$0.squeeze_()", 1, exact, x.squeeze_()), STATEMENT("t_", "$0.t_()", 1, exact, x.t_()),
    STATEMENT("bernoulli_", "$0.bernoulli_()", 1, exact, x.bernoulli_()), STATEMENT("random_", "$0.random_(5)", 1, exact, x.random_(5)), STATEMENT("resize_", "$0.resize_({2, 2}).fill_(1)", 1, exact, x.resize_({2, 2}).fill_(1)),
    // out=
    STATEMENT("add_out", "at::add_out($0, $1, $2)", 3, exact, at::add_out(x, y, z)), MAP("add_out.new", "at::add_out(at::empty({0}), $0, $1)", 2, exact, [&] { Tensor o = at::empty({0}, x.options()); return at::add_out(o, x, y); }()),
    STATEMENT("sum_out", "at::sum_out($0, $1.clone(), 0)", 2, exact, at::sum_out(x, y.clone(), {0})), STATEMENT("cat_out", "at::cat_out($0, {$1.clone(), $2.clone()})", 3, exact, at::cat_out(x, {y.clone(), z.clone()})),
    // what the host asks
    MAP("if.size", "$0.size(0) > #0 ? $0 + 1 : $1", 2, exact, x.size(0) > p ? x + 1 : y), MAP("if.symbol", "sym_size($0, 0) > #0 ? $0 + 1 : $1", 2, exact, x.sym_size(0) > p ? x + 1 : y),
    MAP("if.dim", "$0.dim() > 1 ? $0 : $1", 2, exact, x.dim() > 1 ? x : y), MAP("if.numel", "$0.numel() % 2 ? $0 : $1", 2, exact, x.numel() % 2 != 0 ? x : y), MAP("if.item", "$0.sum().item<int64_t>() > #0 ? $0 : $1", 2, decides, at::sum(x).to(at::kLong).item<int64_t>() > p ? x : y),
    MAP("if.bool", "($0 > #0).any().item<bool>() ? $0 : $1", 2, decides, at::any(x > p).item<bool>() ? x : y), MAP("if.contiguous", "$0.is_contiguous() ? $0 : $1", 2, exact, x.is_contiguous() ? x : y),
    MAP("if.equal", "$0.sizes() == $1.sizes() ? $0 : $1", 2, exact, x.sizes() == y.sizes() ? x : y), MAP("if.stride", "$0.stride(0) > 1 ? $0 : $1", 2, exact, x.stride(0) > 1 ? x : y),
    MAP("item", "$1 + $0.amax().item<float>()", 2, decides, y + at::amax(x).to(at::kFloat).item<float>()), MAP("loop", "for i < min($0.size(0), 3): sum += $0[i]", 1, exact, [&] { Tensor sum = at::zeros({}); for (int64_t i = 0; i < std::min<int64_t>(x.size(0), 3); ++i) sum = sum + x[i]; return sum; }()),
    MAP("times.size", "$0 * $0.size(-1)", 1, exact, small(floating(x)) * x.size(-1)), MAP("times.symbol", "$0 * sym_size($0, -1)", 1, exact, at::mul(small(floating(x)), at::Scalar(x.sym_size(-1)))),
    STATEMENT("throw", "if ($0.size(0) == #0) throw std::runtime_error(\"#0\")", 1, exact, if (x.size(0) == p) throw std::runtime_error("thrown")),
    STATEMENT("bind", "in_out = $0", 1, exact, *frame.in_out = Tensor(x)), STATEMENT("bind.add", "in_out = in_out + $0", 1, exact, *frame.in_out = *frame.in_out + x),
};

}  // namespace

std::span<const OpRow> table() { return kRows; }

}  // namespace functions
