// See calls_convolution.h.
#include "torch/program/calls_convolution.h"

#include <ATen/Context.h>
#include <ATen/ops/linear.h>

#include <algorithm>
#include <utility>

#include "support/events.h"

namespace escapement {
namespace {

using Convolution = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::IntArrayRef, c10::IntArrayRef,
                               c10::IntArrayRef, int64_t, std::string_view, c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

constexpr const char* kConvolution = "mkldnn::_convolution_pointwise";

bool library_present() {
  static const bool present = can_pack_convolutions() && c10::Dispatcher::singleton().findSchema({kConvolution, ""}).has_value();
  return present;
}

using Numbers = std::vector<int64_t>;

// One for each axis of an image, or one for all.
std::optional<Numbers> numbers_of(const CallRecipe::Argument& argument, size_t axes) {
  if (argument.kind != CallRecipe::Argument::Kind::constant || !argument.constant.isIntList()) return {};
  Numbers numbers = argument.constant.toIntVector();
  if (numbers.size() == 1) numbers.resize(axes, numbers[0]);
  if (numbers.size() != axes) return {};
  return numbers;
}

// In words: "valid" is none, "same" what keeps the sizes of the image.
std::optional<Numbers> padding_of(const CallRecipe::Argument& argument, const Numbers& dilation, std::span<const int64_t> kernel) {
  if (argument.kind != CallRecipe::Argument::Kind::constant || !argument.constant.isString()) return numbers_of(argument, kernel.size());
  Numbers padding(kernel.size(), 0);
  if (argument.constant.toStringRef() == "valid") return padding;
  for (size_t axis = 0; axis < kernel.size(); ++axis) {
    const int64_t whole = dilation[axis] * (kernel[axis] - 1);
    if (kernel[axis] < 1 || whole % 2 != 0) return {};
    padding[axis] = whole / 2;
  }
  return padding;
}

bool is_sane(const ConvolutionWindow& window) {
  const auto none_below = [](const Numbers& numbers, int64_t least) { return std::ranges::all_of(numbers, [=](int64_t n) { return n >= least; }); };
  return none_below(window.padding, 0) && none_below(window.dilation, 1) && none_below(window.stride, 1) && window.groups >= 1;
}

// A line as an image of one row.
ConvolutionWindow of_image(ConvolutionWindow window) {
  if (window.stride.size() != 1) return window;
  window.stride.insert(window.stride.begin(), 1);
  window.dilation.insert(window.dilation.begin(), 1);
  window.padding.insert(window.padding.begin(), 0);
  return window;
}

at::Tensor as_image(const at::Tensor& line) { return line.dim() == 3 ? line.unsqueeze(2) : line; }

// Positions of the kernel in an image; 0: ATen refuses.
int64_t positions(const at::Tensor& x, const at::Tensor& weight, const ConvolutionWindow& window) {
  int64_t count = 1;
  for (size_t axis = 0; axis < window.stride.size(); ++axis) {
    const auto at = static_cast<int64_t>(axis) + 2;
    const int64_t reach = x.size(at) + 2 * window.padding[axis] - window.dilation[axis] * (weight.size(at) - 1) - 1;
    count *= reach < 0 ? 0 : reach / window.stride[axis] + 1;
  }
  return count;
}

bool suits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const ConvolutionWindow& window) {
  const auto rank = static_cast<int64_t>(window.stride.size()) + 2;
  if (x.dim() != rank || weight.dim() != rank || x.numel() == 0 || weight.numel() == 0 || weight.is_inference()) return false;
  if (x.scalar_type() != at::kFloat || weight.scalar_type() != at::kFloat || !weight.is_non_overlapping_and_dense()) return false;
  if (bias.defined() && (bias.scalar_type() != at::kFloat || bias.dim() != 1 || bias.size(0) != weight.size(0))) return false;
  if (x.size(1) != weight.size(1) * window.groups || weight.size(0) % window.groups != 0) return false;
  return positions(x, weight, window) > 0;
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const ConvolutionWindow& window) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kConvolution, "").typed<Convolution>();
  return op.call(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt, window.padding, window.stride, window.dilation,
                 window.groups, "none", c10::List<std::optional<at::Scalar>>(), "");
}

bool is_product(const at::Tensor& weight) { return weight.numel() == weight.size(0) * weight.size(1); }

bool takes_each_position_once(const ConvolutionWindow& window) {
  const auto all = [](const Numbers& numbers, int64_t n) { return std::ranges::all_of(numbers, [=](int64_t number) { return number == n; }); };
  return all(window.stride, 1) && all(window.padding, 0);
}

// What ATen computes by itself and not by that library: a call of the library takes 20 us before any work, which little work does not repay.
bool is_little_work(const at::Tensor& x, const at::Tensor& weight, const ConvolutionWindow& window) {
  constexpr int64_t kMostElements = 20480, kMostImages = 15;   // that ATen keeps to itself: of one image, of products
  constexpr int64_t kOfProduct = 4'000'000, kOfImage = 1'000'000, kOfVolume = 300'000;   // multiplications
  if (window.groups != 1 || (weight.size(2) > 3 && weight.size(3) > 3)) return false;
  const bool product = is_product(weight) && takes_each_position_once(window);
  if (product ? x.size(0) > kMostImages : x.size(0) != 1 || x.numel() > kMostElements) return false;
  const int64_t most = x.dim() == 5 ? kOfVolume : product ? kOfProduct : kOfImage;
  return x.size(0) * weight.numel() * positions(x, weight, window) <= most;
}

// Images of one position by a kernel of one: a matrix product, in squeeze-and-excitation for instance.
bool is_matrix_product(const at::Tensor& x, const at::Tensor& weight, const ConvolutionWindow& window) {
  return x.numel() == x.size(0) * x.size(1) && is_product(weight) && window.groups == 1 && takes_each_position_once(window);
}

at::Tensor matrix_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::vector<int64_t> sizes(static_cast<size_t>(x.dim()), 1);
  sizes[0] = x.size(0), sizes[1] = weight.size(0);
  const at::Tensor rows = x.reshape({x.size(0), x.size(1)}), matrix = weight.reshape({weight.size(0), weight.size(1)});
  return at::linear(rows, matrix, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt).view(sizes);
}

// Undefined: ATen's to compute.
at::Tensor by_packed_weight(const CallRecipe& recipe, CallState& state, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor kernel = as_image(weight);
  if (!library_present() || !at::globalContext().userEnabledMkldnn() || !suits(x, kernel, bias, recipe.window)) return {};
  if (is_matrix_product(x, kernel, recipe.window)) return matrix_product(x, kernel, bias);
  if (is_little_work(x, kernel, recipe.window) || (recipe.only_single && x.size(0) != 1)) return {};
  const at::Tensor packed = packed_for(x, weight, recipe.window, state.convolution, recipe.pack_limit);
  return packed.defined() ? convolve(x, packed, bias, recipe.window) : packed;
}

at::Tensor computed(const CallRecipe& recipe, CallState& state, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  at::Tensor result = by_packed_weight(recipe, state, x, weight, bias);
  if (!result.defined()) count(Stat::convolutions_unpacked);
  return result;
}

}  // namespace

std::optional<ConvolutionWindow> window_of(const std::vector<CallRecipe::Argument>& arguments, std::span<const int64_t> kernel) {
  const auto stride = numbers_of(arguments[3], kernel.size()), dilation = numbers_of(arguments[5], kernel.size());
  const auto padding = dilation ? padding_of(arguments[4], *dilation, kernel) : std::nullopt;
  const CallRecipe::Argument& groups = arguments[6];
  if (!stride || !padding || !dilation || groups.kind != CallRecipe::Argument::Kind::constant || !groups.constant.isInt()) return {};
  ConvolutionWindow window{*stride, *padding, *dilation, groups.constant.toInt()};
  return is_sane(window) ? std::optional(of_image(std::move(window))) : std::nullopt;
}

bool run_convolution(const CallRecipe& recipe, CallState& state) {
  const bool is_line = state.stack[0].toTensor().dim() == 3;
  const at::Tensor bias = recipe.bias < 0 ? at::Tensor() : state.stack[2].toTensor();
  const at::Tensor made = computed(recipe, state, as_image(state.stack[0].toTensor()), state.stack[1].toTensor(), bias);
  if (!made.defined()) return false;
  state.stack.clear();
  state.stack.emplace_back(is_line ? made.squeeze(2) : made);
  return true;
}

}  // namespace escapement
