// Result sizes of ops that stay library calls. A rule saves born symbols, and with them run-time guards; whether it agrees with
// the real result is checked at every recording (lower_call.cpp).
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "torch/record/lower.h"
#include "torch/record/size_rules.h"

namespace escapement {

namespace {

using namespace size_rules;

const std::vector<Dim>& sizes_of(const OpCall& call, int position) { return call.type(call.value_at(position)).sizes; }

// Every result has the sizes of the first tensor argument.
Sizes as_first(OpCall& call) {
  for (const ValueId v : call.values)
    if (v) return Sizes(call.reals.size(), call.type(v).sizes);
  return {};
}

// As many rows as there are elements that are not 0, one column for each axis.
Sizes found_elements(OpCall& call) {
  const ValueId x = call.value_at(0);
  return x ? Sizes{{Dim(), call.table().constant(call.rank(x))}} : Sizes{};
}

// ... of the argument after the gradient: x.
Sizes as_second(OpCall& call) {
  int seen = 0;
  for (const ValueId v : call.values)
    if (v && ++seen == 2) return Sizes(call.reals.size(), call.type(v).sizes);
  return {};
}

Sizes as_size_argument(OpCall& call) {
  if (call.find("size") >= 0) return {call.lengths("size")};
  return {};
}

Sizes as_input_sizes(OpCall& call) { return {call.dims("input_sizes")}; }

Sizes as_input_size(OpCall& call) { return {call.dims("input_size")}; }

Sizes as_self_or_size(OpCall& call) {
  if (call.find("size") >= 0 && call.given("size")) return {call.lengths("size")};
  return as_first(call);
}

Sizes topk(OpCall& call) {
  const ValueId v = call.value("self");
  const auto axis = axis_in(call.integer("dim", -1), call.rank(v));
  if (!axis || call.rank(v) == 0) return {};
  std::vector<Dim> sizes = call.type(v).sizes;
  sizes[*axis] = call.dim("k");
  return {sizes, sizes};
}

Sizes random_range(OpCall& call) {
  if (call.find("n") >= 0) return {{call.dim("n")}};
  return {};
}

Sizes one_hot(OpCall& call) {
  const ValueId v = call.value("self");
  if (call.varies("num_classes") || call.integer("num_classes", -1) <= 0) return {};   // as many as the data have
  std::vector<Dim> sizes = call.type(v).sizes;
  sizes.push_back(call.dim("num_classes"));
  return {sizes};
}

Sizes eye(OpCall& call) { return {{call.dim("n"), call.find("m") >= 0 ? call.dim("m") : call.dim("n")}}; }

// The main diagonal of the last two axes.
Sizes diag_embed(OpCall& call) {
  for (const char* name : {"offset", "dim1", "dim2"})
    if (call.varies(name)) return {};
  if (call.integer("offset", 0) != 0 || call.integer("dim1", -2) != -2 || call.integer("dim2", -1) != -1) return {};
  std::vector<Dim> sizes = sizes_of(call, 0);
  sizes.push_back(sizes.back());
  return {sizes};
}

int64_t at_or_last(const std::vector<int64_t>& v, size_t i, int64_t otherwise) {
  return v.empty() ? otherwise : v[std::min(i, v.size() - 1)];
}

// (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1, rounded down
Dim window_count(DimTable& dims, Dim size, Dim kernel, int64_t stride, int64_t padding, int64_t dilation) {
  const Dim width = dims.add(dims.mul(dims.sub(kernel, dims.constant(1)), dims.constant(dilation)), dims.constant(1));
  const Dim reach = dims.sub(dims.add(size, dims.constant(2 * padding)), width);
  return dims.add(dims.floordiv(reach, dims.constant(stride)), dims.constant(1));
}

// "same" keeps the sizes of the image, with steps of one.
bool keeps_sizes(OpCall& call) { return call.given("padding") && call.arg("padding").isString() && call.arg("padding").toStringRef() == "same"; }

std::vector<int64_t> padding_of(OpCall& call) {
  return call.arg("padding").isString() ? std::vector<int64_t>{0} : call.integers("padding");   // "valid"
}

// (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + what is added at the end + 1
Sizes transposed_convolution(OpCall& call) {
  const ValueId x = call.value("input"), w = call.value("weight");
  for (const char* name : {"stride", "padding", "output_padding", "dilation", "groups"})
    if (call.varies(name)) return {};
  DimTable& dims = call.table();
  const std::vector<Dim> in = call.type(x).sizes, kernel = call.type(w).sizes;
  const size_t spatial = kernel.size() - 2;
  const auto number = [&](const char* name, size_t i, int64_t otherwise) { return dims.constant(at_or_last(call.integers(name), i, otherwise)); };
  std::vector<Dim> out;
  if (in.size() == kernel.size()) out.push_back(in[0]);
  out.push_back(dims.mul(kernel[1], dims.constant(call.integer("groups"))));
  for (size_t i = 0; i < spatial; ++i) {
    const Dim steps = dims.mul(dims.sub(in[in.size() - spatial + i], dims.constant(1)), number("stride", i, 1));
    const Dim reach = dims.mul(dims.sub(kernel[2 + i], dims.constant(1)), number("dilation", i, 1));
    const Dim ends = dims.sub(dims.add(number("output_padding", i, 0), dims.constant(1)), dims.mul(dims.constant(2), number("padding", i, 0)));
    out.push_back(dims.add(dims.add(steps, reach), ends));
  }
  return {out};
}

Sizes convolution(OpCall& call) {
  const ValueId x = call.value("input"), w = call.value("weight");
  if (call.flag("transposed")) return transposed_convolution(call);
  if (call.varies("stride") || call.varies("padding") || call.varies("dilation")) return {};  // sizes are read from ATen's result
  const std::vector<Dim>&in = call.type(x).sizes, &kernel = call.type(w).sizes;
  const size_t spatial = kernel.size() - 2;
  const bool batched = in.size() == kernel.size();
  const std::vector<int64_t> stride = call.integers("stride"), padding = padding_of(call), dilation = call.integers("dilation");
  std::vector<Dim> out;
  if (batched) out.push_back(in[0]);
  out.push_back(kernel[0]);
  for (size_t i = 0; i < spatial; ++i) {
    const Dim size = in[in.size() - spatial + i];
    out.push_back(keeps_sizes(call) ? size : window_count(call.table(), size, kernel[2 + i], at_or_last(stride, i, 1), at_or_last(padding, i, 0),
                                                          at_or_last(dilation, i, 1)));
  }
  return {out};
}

// (input, state or [state, cell], ...) of whole batches: what each step gives, then the last state as the first was.
Sizes recurrent(OpCall& call) {
  const ValueId input = call.find("input") == 0 ? call.value_at(0) : ValueId();
  const size_t states = call.plan.base == "lstm" ? 2 : 1;
  if (!input || call.rank(input) != 3 || call.values.size() <= states || call.varies("bidirectional")) return {};
  Sizes sizes(1);
  for (size_t i = 1; i <= states; ++i) {
    if (!call.values[i] || call.rank(call.values[i]) != 3) return {};
    sizes.push_back(call.type(call.values[i]).sizes);
  }
  const std::vector<Dim>& in = call.type(input).sizes;
  const Dim directions = call.table().constant(call.flag("bidirectional") ? 2 : 1);
  sizes[0] = {in[0], in[1], call.table().mul(directions, sizes[1][2])};
  return sizes;
}

Sizes pooling(OpCall& call) {
  const std::vector<Dim>& in = sizes_of(call, 0);
  const std::vector<int64_t> kernel = call.integers("kernel_size"), padding = call.integers("padding"), dilation = call.integers("dilation");
  std::vector<int64_t> stride = call.integers("stride");
  if (stride.empty()) stride = kernel;
  if (call.flag("ceil_mode")) return {};
  const size_t spatial = call.plan.base.find("1d") != std::string::npos ? 1 : call.plan.base.find("2d") != std::string::npos ? 2 : 3;
  std::vector<Dim> out(in.begin(), in.end() - static_cast<std::ptrdiff_t>(spatial));
  for (size_t i = 0; i < spatial; ++i)
    out.push_back(window_count(call.table(), in[in.size() - spatial + i], call.table().constant(at_or_last(kernel, i, 1)),
                               at_or_last(stride, i, 1), at_or_last(padding, i, 0), at_or_last(dilation, i, 1)));
  return Sizes(call.reals.size(), out);
}

Sizes adaptive_pooling(OpCall& call) {
  const std::vector<Dim>& in = sizes_of(call, 0);
  const std::vector<Dim> target = call.dims("output_size");
  std::vector<Dim> out(in.begin(), in.end() - static_cast<std::ptrdiff_t>(target.size()));
  out.insert(out.end(), target.begin(), target.end());
  return Sizes(call.reals.size(), out);
}

// Scaled by whole numbers only: others are rounded in floating point.
Sizes scaled(OpCall& call, const std::vector<Dim>& in) {
  if (call.find("scale_factors") < 0 || !call.given("scale_factors")) return {};
  std::vector<Dim> out{in[0], in[1]};
  for (const double scale : call.arg("scale_factors").toDoubleVector()) {
    if (scale != std::floor(scale) || out.size() == in.size()) return {};
    out.push_back(call.table().mul(in[out.size()], call.table().constant(static_cast<int64_t>(scale))));
  }
  return {out};
}

Sizes upsample(OpCall& call) {
  const std::vector<Dim>& in = sizes_of(call, 0);
  if (!call.given("output_size")) return scaled(call, in);
  const std::vector<Dim> target = call.dims("output_size");
  std::vector<Dim> out{in[0], in[1]};
  out.insert(out.end(), target.begin(), target.end());
  return {out};
}

Sizes repeat(OpCall& call) {
  const std::vector<Dim>& in = sizes_of(call, 0);
  if (call.find("repeats") < 0) return {};
  const std::vector<Dim> repeats = call.lengths("repeats");
  if (repeats.size() < in.size()) return {};
  std::vector<Dim> out = repeats;
  const size_t added = repeats.size() - in.size();
  for (size_t i = 0; i < in.size(); ++i) out[added + i] = call.table().mul(repeats[added + i], in[i]);
  return {out};
}

// x[i, :, j]: the positions broadcast together; their axes stand where the first was, or in front if they were not adjacent.
Sizes indexed(OpCall& call) {
  const std::vector<Dim> in = call.type(call.value("self")).sizes;
  const std::vector<ValueId> indices = call.list("indices");
  std::vector<Dim> positions, out;
  int first = -1, last = -1, count = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (!is_integer(call.type(indices[i]).dtype) || call.type(indices[i]).dtype == DType::u8) return {};  // a mask
    positions = call.build.broadcast(positions, call.type(indices[i]).sizes, "index");
    if (first < 0) first = static_cast<int>(i);
    last = static_cast<int>(i);
    ++count;
  }
  if (count == 0) return {};
  const bool adjacent = last - first + 1 == count;
  if (!adjacent) out = positions;
  for (size_t i = 0; i < in.size(); ++i) {
    if (adjacent && static_cast<int>(i) == first) out.insert(out.end(), positions.begin(), positions.end());
    if (i >= indices.size() || !indices[i]) out.push_back(in[i]);
  }
  return {out};
}

// All but one axis broadcast together; that one is the positions'.
Sizes taken_along(OpCall& call) {
  const ValueId self = call.value("self"), indices = call.value("indices");
  if (!call.given("dim") || call.varies("dim") || call.rank(self) != call.rank(indices) || call.rank(self) == 0) return {};
  const auto axis = axis_in(call.integer("dim", 0), call.rank(self));
  if (!axis) return {};
  std::vector<Dim> of_self = call.type(self).sizes;
  of_self[*axis] = call.type(indices).sizes[*axis];
  return {call.build.broadcast(of_self, call.type(indices).sizes, "take_along_dim")};
}

// Each row of one with each row of the other, for all batches.
Sizes distances(OpCall& call) {
  std::vector<Dim> left = call.type(call.value("x1")).sizes, right = call.type(call.value("x2")).sizes;
  const Dim rows = left[left.size() - 2], others = right[right.size() - 2];
  left.resize(left.size() - 2);
  right.resize(right.size() - 2);
  std::vector<Dim> out = call.build.broadcast(left, right, "cdist");
  out.push_back(rows);
  out.push_back(others);
  return {out};
}

Sizes drawn(OpCall& call) {
  std::vector<Dim> sizes = call.type(call.value("self")).sizes;
  if (sizes.empty()) return {};
  sizes.back() = call.dim("num_samples");
  return {sizes};
}

// [.., C * r * r, H, W] -> [.., C, H * r, W * r]
Sizes pixel_shuffle(OpCall& call) {
  const char* const by = "upscale_factor";
  if (call.varies(by)) return {};
  DimTable& dims = call.table();
  std::vector<Dim> sizes = sizes_of(call, 0);
  const int64_t factor = call.integer(by);
  const size_t last = sizes.size() - 1;
  sizes[last - 2] = dims.floordiv(sizes[last - 2], dims.constant(factor * factor));
  for (const size_t axis : {last - 1, last}) sizes[axis] = dims.mul(sizes[axis], dims.constant(factor));
  return {sizes};
}

// Images at the places of a grid: [N, C, H, W], [N, h, w, 2] -> [N, C, h, w]; of volumes one axis more
Sizes sampled(OpCall& call) {
  const std::vector<Dim> image = sizes_of(call, 0), grid = sizes_of(call, 1);
  std::vector<Dim> out{image[0], image[1]};
  out.insert(out.end(), grid.begin() + 1, grid.end() - 1);
  return {out};
}

// [N, C, H, W] -> [N, C * kernel, windows]
Sizes unfolded(OpCall& call) {
  const std::vector<Dim> in = sizes_of(call, 0);
  for (const char* name : {"kernel_size", "dilation", "padding", "stride"})
    if (call.varies(name)) return {};
  if (in.size() != 4) return {};
  DimTable& dims = call.table();
  const auto number = [&](const char* name, size_t i) { return at_or_last(call.integers(name), i, 1); };
  Dim channels = in[1], windows = dims.constant(1);
  for (size_t i = 0; i < 2; ++i) {
    const Dim kernel = dims.constant(number("kernel_size", i));
    channels = dims.mul(channels, kernel);
    windows = dims.mul(windows, window_count(dims, in[2 + i], kernel, number("stride", i), number("padding", i), number("dilation", i)));
  }
  return {{in[0], channels, windows}};
}

// A generator's state is as long as it is.
Sizes as_seen(OpCall& call) {
  Sizes sizes(1);
  for (const int64_t size : call.reals[0].sizes()) sizes[0].push_back(call.table().constant(size));
  return sizes;
}

Sizes one_dropped(OpCall& call) {  // cross-entropy with mean or sum: a 0-d result
  if (call.reals.empty() || call.reals[0].dim() != 0) return {};
  return Sizes(call.reals.size(), std::vector<Dim>{});
}

Sizes embedding_gradient(OpCall& call) {
  const std::vector<Dim>& grad = sizes_of(call, 0);
  return {{call.dim("num_weights"), grad.back()}};
}

Sizes with_weights(OpCall& call) {  // layer_norm backward: x, weight, bias
  const ValueId x = call.value("input"), w = call.given("weight") ? call.value("weight") : ValueId();
  Sizes out{call.type(x).sizes};
  for (size_t i = 1; i < call.reals.size(); ++i) out.push_back(w ? call.type(w).sizes : std::vector<Dim>{});
  return out;
}

// Output and log-sum-exp; the other results of the CUDA forms have no rule.
Sizes attention_forward(OpCall& call) {
  std::vector<Dim> rows = call.type(call.value("query")).sizes, out = rows;
  out.back() = call.type(call.value("value")).sizes.back();
  rows.pop_back();
  return {out, rows};
}

Sizes attention_backward(OpCall& call) {
  Sizes sizes;
  for (const char* name : {"query", "key", "value"}) sizes.push_back(call.type(call.value(name)).sizes);
  return sizes;
}

// Of collectives: each process gives as many rows, or gets as many.
Sizes gathered(OpCall& call) {
  std::vector<Dim> sizes = sizes_of(call, 0);
  if (sizes.empty()) return {};
  sizes[0] = call.table().mul(sizes[0], call.dim("group_size"));
  return {sizes};
}

Sizes scattered(OpCall& call) {
  std::vector<Dim> sizes = sizes_of(call, 0);
  if (sizes.empty()) return {};
  sizes[0] = call.table().floordiv(sizes[0], call.dim("group_size"));
  return {sizes};
}

// Lists: each result has the sizes of the first list's tensor.
Sizes as_each(OpCall& call) {
  Sizes out;
  for (const ValueId v : call.values)
    if (v && out.size() < call.reals.size()) out.push_back(call.type(v).sizes);
  return out;
}

constexpr ResultLayout like = ResultLayout::preserved, fixed = ResultLayout::contiguous, image = ResultLayout::image, free = ResultLayout::of_operands, own = ResultLayout::own;

constexpr SizeRuleRow kRules[] = {
    {"nonzero", found_elements, own},
    // the sizes of the argument
    {"sort", as_first, free}, {"cumsum", as_first, free}, {"cumprod", as_first, free}, {"flip", as_first, free},
    {"roll", as_first, free}, {"dropout", as_first, free}, {"native_dropout", as_first, like}, {"bernoulli", as_first, free},
    {"argsort", as_first, free}, {"cummax", as_first, free}, {"cummin", as_first, free}, {"logcumsumexp", as_first, free},
    {"scatter", as_first, free}, {"scatter_add", as_first, free}, {"scatter_reduce", as_first, free}, {"index_put", as_first, free},
    {"index_add", as_first, free}, {"index_copy", as_first, free}, {"index_fill", as_first, free}, {"masked_scatter", as_first, free},
    {"clone", as_first, free}, {"contiguous", as_first, fixed}, {"to", as_first, free}, {"_to_copy", as_first, free},
    {"fill", as_first, free}, {"copy", as_first, free}, {"slice_scatter", as_first, free}, {"select_scatter", as_first, free},
    {"diagonal_scatter", as_first, free}, {"put", as_first, free}, {"_unsafe_index_put", as_first, free}, {"index_reduce", as_first, free},
    {"channel_shuffle", as_first, free}, {"native_channel_shuffle", as_first, free}, {"rrelu_with_noise_functional", as_first, free},
    {"fake_quantize_per_tensor_affine_cachemask", as_first, free}, {"fake_quantize_per_channel_affine_cachemask", as_first, free},
    {"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", as_first, free}, {"_fake_quantize_learnable_per_tensor_affine", as_first, free},
    {"_fake_quantize_learnable_per_channel_affine", as_first, free},
    {"tril", as_first, free}, {"triu", as_first, free}, {"alpha_dropout", as_first, free}, {"uniform", as_first, free}, {"normal_functional", as_first, free},
    {"exponential", as_first, free}, {"geometric", as_first, free}, {"cauchy", as_first, free}, {"log_normal", as_first, free}, {"random", as_first, free},
    {"poisson", as_first, fixed}, {"_standard_gamma", as_first, fixed}, {"_sample_dirichlet", as_first, fixed}, {"binomial", as_first, fixed},
    {"instance_norm", as_first, image}, {"batch_norm", as_first, image}, {"group_norm", as_first, image}, {"rms_norm", as_first, fixed},
    {"softmax", as_first, free}, {"log_softmax", as_first, free}, {"layer_norm", as_first, fixed},
    {"add", nullptr, free},
    // the sizes of an argument named size, or of the model
    {"rand", as_self_or_size, fixed}, {"randn", as_self_or_size, fixed}, {"randint", as_self_or_size, fixed}, {"normal", as_self_or_size, fixed},
    {"rand_like", as_first, free}, {"randn_like", as_first, free}, {"randint_like", as_first, free}, {"empty", as_self_or_size, fixed},
    {"empty_like", as_first, free}, {"new_empty", as_size_argument, fixed}, {"new_empty_strided", as_size_argument, own},
    {"empty_strided", as_size_argument, own}, {"full", as_size_argument, fixed}, {"zeros_like", as_first, free},
    {"ones_like", as_first, free}, {"full_like", as_first, free}, {"randperm", random_range, fixed},
    {"sum_to_size", as_size_argument, free}, {"eye", eye, fixed}, {"one_hot", one_hot, fixed}, {"diag_embed", diag_embed, fixed},
    {"bucketize", as_first, fixed}, {"searchsorted", as_second, fixed}, {"isin", as_first, fixed},
    // windows
    {"conv1d", convolution, image}, {"conv2d", convolution, image}, {"conv3d", convolution, image}, {"convolution", convolution, image},
    {"_convolution", convolution, image}, {"mkldnn_convolution", convolution, image},
    {"conv_transpose1d", transposed_convolution, image}, {"conv_transpose2d", transposed_convolution, image},
    {"conv_transpose3d", transposed_convolution, image},
    {"max_pool1d", pooling, image}, {"max_pool2d", pooling, image}, {"max_pool3d", pooling, image}, {"avg_pool1d", pooling, image},
    {"avg_pool2d", pooling, image}, {"avg_pool3d", pooling, image}, {"max_pool2d_with_indices", pooling, image},
    {"adaptive_avg_pool1d", adaptive_pooling, image}, {"adaptive_avg_pool2d", adaptive_pooling, image},
    {"_adaptive_avg_pool2d", adaptive_pooling, image}, {"adaptive_max_pool2d", adaptive_pooling, image},
    {"upsample_nearest2d", upsample, image}, {"upsample_bilinear2d", upsample, image}, {"upsample_bicubic2d", upsample, image},
    {"upsample_nearest1d", upsample, image}, {"upsample_linear1d", upsample, image}, {"upsample_nearest3d", upsample, image},
    {"upsample_trilinear3d", upsample, image}, {"_upsample_nearest_exact1d", upsample, image}, {"_upsample_nearest_exact2d", upsample, image},
    {"_upsample_nearest_exact3d", upsample, image}, {"_upsample_bilinear2d_aa", upsample, image}, {"_upsample_bicubic2d_aa", upsample, image},
    {"max_pool3d_with_indices", pooling, image}, {"adaptive_max_pool1d", adaptive_pooling, image}, {"adaptive_avg_pool3d", adaptive_pooling, image},
    {"_adaptive_avg_pool3d", adaptive_pooling, image}, {"adaptive_max_pool3d", adaptive_pooling, image},
    {"fractional_max_pool2d", unpooled, fixed}, {"fractional_max_pool3d", unpooled, fixed}, {"max_unpool2d", unpooled, image},
    {"max_unpool3d", unpooled, image}, {"constant_pad_nd", padded, image}, {"reflection_pad1d", padded, image}, {"reflection_pad2d", padded, image},
    {"reflection_pad3d", padded, image}, {"replication_pad1d", padded, image}, {"replication_pad2d", padded, image}, {"replication_pad3d", padded, image},
    {"pixel_unshuffle", pixel_unshuffle, image}, {"col2im", folded, fixed},
    // norms that keep what they computed for the gradient
    {"native_group_norm", group_norm, image}, {"native_batch_norm", batch_norm, image}, {"_native_batch_norm_legit", batch_norm, image},
    {"_native_batch_norm_legit_no_training", batch_norm, image}, {"_native_batch_norm_legit_functional", batch_norm, image},
    {"_batch_norm_with_update", batch_norm, image}, {"_batch_norm_with_update_functional", batch_norm, image}, {"_batch_norm_no_update", batch_norm, image},
    {"_weight_norm_interface", weight_norm, fixed}, {"_weight_norm_interface_backward", weight_norm, fixed},
    // matrices and transforms: LAPACK's results lie by columns, those of transforms as it suits
    {"linalg_inv_ex", same_matrix, own}, {"linalg_cholesky_ex", same_matrix, own}, {"cholesky_inverse", same_matrix, own},
    {"linalg_matrix_exp", same_matrix, own}, {"linalg_lu_factor_ex", same_matrix, own}, {"_linalg_eigh", eigen, own}, {"linalg_eig", eigen, own},
    {"linalg_eigvals", eigen, own}, {"_linalg_eigvals", eigen, own}, {"_linalg_det", determinant, own}, {"_linalg_slogdet", determinant, own},
    {"_linalg_solve_ex", solution, own}, {"linalg_lu_solve", solution, own}, {"linalg_solve_triangular", solution, own}, {"_linalg_svd", svd, own},
    {"linalg_qr", qr, own}, {"linalg_householder_product", same_matrix, own}, {"_fft_r2c", real_transform, own}, {"_fft_c2c", as_first, own},
    {"_fft_c2r", inverse_transform, own}, {"view_as_real", real_view, own}, {"view_as_complex", complex_view, own},
    {"complex", broadcast_pair, free}, {"polar", broadcast_pair, free},
    // what has a lowering, of types that have no kernels
    {"sum", reduced, fixed}, {"mean", reduced, fixed}, {"prod", reduced, fixed}, {"nansum", reduced, fixed}, {"any", reduced, fixed}, {"all", reduced, fixed},
    {"amax", reduced, fixed}, {"amin", reduced, fixed}, {"max", reduced, free}, {"min", reduced, free}, {"argmax", reduced, fixed}, {"argmin", reduced, fixed},
    {"var", reduced, fixed}, {"std", reduced, fixed}, {"logsumexp", reduced, fixed}, {"linalg_vector_norm", reduced, fixed}, {"matmul", product, own},
    {"mm", product, own}, {"bmm", product, own}, {"zeros", as_size_argument, fixed}, {"ones", as_size_argument, fixed}, {"new_zeros", as_size_argument, fixed},
    {"new_ones", as_size_argument, fixed}, {"new_full", as_size_argument, fixed},
    // recurrent networks: the library that is taken decides how results lie
    {"lstm", recurrent, own}, {"gru", recurrent, own}, {"rnn_tanh", recurrent, own}, {"rnn_relu", recurrent, own},
    // others
    {"take_along_dim", taken_along, fixed}, {"cdist", distances, fixed}, {"multinomial", drawn, fixed}, {"pixel_shuffle", pixel_shuffle, image},
    {"grid_sampler_2d", sampled, image}, {"grid_sampler_3d", sampled, image}, {"_cdist_forward", distances, fixed}, {"take", as_index, fixed},
    {"kthvalue", reduced, fixed}, {"median", reduced, fixed}, {"nanmedian", reduced, fixed}, {"mode", reduced, fixed},
    {"_embedding_bag", embedding_bags, fixed}, {"_embedding_bag_forward_only", embedding_bags, fixed}, {"_unsafe_index", indexed, free},
    {"_int_mm", integer_product, fixed}, {"_weight_int8pack_mm", integer_product, fixed}, {"im2col", unfolded, fixed}, {"renorm", as_first, fixed},
    {"index", indexed, free}, {"topk", topk, fixed}, {"repeat", repeat, fixed}, {"tile", nullptr, free},
    {"cross_entropy_loss", one_dropped, fixed}, {"nll_loss_nd", one_dropped, fixed}, {"nll_loss_forward", nll_loss, fixed}, {"nll_loss2d_forward", nll_loss, fixed},
    {"mse_loss", nullptr, free}, {"binary_cross_entropy_with_logits", pair_loss, free}, {"binary_cross_entropy", pair_loss, free},
    {"smooth_l1_loss", pair_loss, free}, {"huber_loss", pair_loss, free}, {"soft_margin_loss", pair_loss, free},
    // gradients
    {"native_dropout_backward", as_first, free}, {"nll_loss_backward", as_second, fixed},
    {"native_layer_norm_backward", with_weights, fixed}, {"embedding_dense_backward", embedding_gradient, fixed},
    {"max_pool2d_with_indices_backward", as_second, image}, {"avg_pool2d_backward", as_second, image},
    {"_adaptive_avg_pool2d_backward", as_second, image}, {"_adaptive_avg_pool3d_backward", as_second, image},
    {"max_pool3d_with_indices_backward", as_second, image}, {"avg_pool3d_backward", as_second, image}, {"adaptive_max_pool2d_backward", as_second, image},
    {"adaptive_max_pool3d_backward", as_second, image}, {"fractional_max_pool2d_backward", as_second, fixed},
    {"fractional_max_pool3d_backward", as_second, fixed}, {"reflection_pad1d_backward", as_second, image}, {"reflection_pad2d_backward", as_second, image},
    {"reflection_pad3d_backward", as_second, image}, {"replication_pad1d_backward", as_second, image}, {"replication_pad2d_backward", as_second, image},
    {"replication_pad3d_backward", as_second, image}, {"nll_loss2d_backward", as_second, fixed}, {"hardsigmoid_backward", as_first, free},
    {"convolution_backward", convolution_gradients, image}, {"native_group_norm_backward", group_norm_gradients, image},
    {"native_batch_norm_backward", batch_norm_gradients, image}, {"batch_norm_backward", batch_norm_gradients, image},
    {"grid_sampler_2d_backward", sampling_gradients, fixed}, {"grid_sampler_3d_backward", sampling_gradients, fixed},
    {"_cdist_backward", as_second, fixed}, {"_embedding_bag_backward", bag_gradients, fixed}, {"_embedding_bag_dense_backward", bag_gradients, fixed},
    {"upsample_linear1d_backward", as_input_size, image}, {"upsample_bilinear2d_backward", as_input_size, image}, {"upsample_trilinear3d_backward", as_input_size, image},
    {"upsample_bicubic2d_backward", as_input_size, image}, {"_upsample_bilinear2d_aa_backward", as_input_size, image}, {"_upsample_bicubic2d_aa_backward", as_input_size, image},
    {"upsample_nearest1d_backward", as_input_size, image}, {"upsample_nearest2d_backward", as_input_size, image}, {"upsample_nearest3d_backward", as_input_size, image},
    {"_upsample_nearest_exact1d_backward", as_input_size, image}, {"_upsample_nearest_exact2d_backward", as_input_size, image}, {"_upsample_nearest_exact3d_backward", as_input_size, image},
    {"slice_backward", as_input_sizes, fixed}, {"select_backward", as_input_sizes, fixed},
    {"escapement::rng_state", as_seen, fixed}, {"escapement::random_mask", as_size_argument, fixed},
    // collectives
    {"_c10d_functional::all_reduce", as_first, fixed}, {"_c10d_functional::broadcast", as_first, fixed},
    {"_c10d_functional::all_gather_into_tensor", gathered, fixed}, {"_c10d_functional::reduce_scatter_tensor", scattered, fixed},
    {"_c10d_functional::all_reduce_coalesced", as_each, fixed}, {"_c10d_functional::wait_tensor", as_first, own},
    // attention with its gradient
    {"_scaled_dot_product_flash_attention_for_cpu", attention_forward, ResultLayout::heads},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward, ResultLayout::heads},
};

}  // namespace

bool is_recurrent(std::string_view base) {
  const SizeRuleRow* const row = find_size_rule(base);
  return row != nullptr && row->rule == recurrent;
}

const SizeRuleRow* find_size_rule(std::string_view base) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const SizeRuleRow*> t;
    for (const SizeRuleRow& row : kRules)
      if (row.rule) t.emplace(row.name, &row);
    return t;
  }();
  const auto it = table.find(base);
  return it == table.end() ? nullptr : it->second;
}

}  // namespace escapement
