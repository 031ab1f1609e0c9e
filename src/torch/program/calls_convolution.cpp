// See calls_convolution.h.
#include "torch/program/calls_convolution.h"

#include <ATen/Context.h>

#include <algorithm>

namespace escapement {
namespace {

using Convolution = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, c10::IntArrayRef, c10::IntArrayRef,
                               c10::IntArrayRef, int64_t, std::string_view, c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);

constexpr const char* kConvolution = "mkldnn::_convolution_pointwise";

bool library_present() {
  static const bool present = can_pack_convolutions() && c10::Dispatcher::singleton().findSchema({kConvolution, ""}).has_value();
  return present;
}

std::optional<std::vector<int64_t>> two_of(const CallRecipe::Argument& argument) {
  if (argument.kind != CallRecipe::Argument::Kind::constant || !argument.constant.isIntList()) return {};
  std::vector<int64_t> numbers = argument.constant.toIntVector();
  if (numbers.size() == 1) numbers.push_back(numbers[0]);
  if (numbers.size() != 2) return {};
  return numbers;
}

// In words: "valid" is none, "same" what keeps the sizes of the image.
std::optional<std::vector<int64_t>> padding_of(const CallRecipe::Argument& argument, const std::vector<int64_t>& dilation, std::array<int64_t, 2> kernel) {
  if (argument.kind != CallRecipe::Argument::Kind::constant || !argument.constant.isString()) return two_of(argument);
  if (argument.constant.toStringRef() == "valid") return std::vector<int64_t>{0, 0};
  std::vector<int64_t> padding;
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t whole = dilation[axis] * (kernel[axis] - 1);
    if (kernel[axis] < 1 || whole % 2 != 0) return {};
    padding.push_back(whole / 2);
  }
  return padding;
}

// Positions of the kernel along an axis of an image; below 1: ATen refuses.
int64_t positions(int64_t size, int64_t kernel, const ConvolutionWindow& window, size_t axis) {
  const int64_t reach = size + 2 * window.padding[axis] - window.dilation[axis] * (kernel - 1) - 1;
  return reach < 0 || window.stride[axis] < 1 ? 0 : reach / window.stride[axis] + 1;
}

bool suits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const ConvolutionWindow& window) {
  if (x.dim() != 4 || weight.dim() != 4 || x.numel() == 0 || weight.numel() == 0 || weight.is_inference()) return false;
  if (x.scalar_type() != at::kFloat || weight.scalar_type() != at::kFloat || !weight.is_non_overlapping_and_dense()) return false;
  if (bias.defined() && (bias.scalar_type() != at::kFloat || bias.dim() != 1 || bias.size(0) != weight.size(0))) return false;
  if (window.groups < 1 || x.size(1) != weight.size(1) * window.groups || weight.size(0) % window.groups != 0) return false;
  return positions(x.size(2), weight.size(2), window, 0) > 0 && positions(x.size(3), weight.size(3), window, 1) > 0;
}

bool is_sane(const ConvolutionWindow& window) {
  const auto none_below = [](const std::vector<int64_t>& numbers, int64_t least) { return std::ranges::all_of(numbers, [=](int64_t n) { return n >= least; }); };
  return none_below(window.padding, 0) && none_below(window.dilation, 1) && none_below(window.stride, 1);
}

at::Tensor convolve(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, const ConvolutionWindow& window) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kConvolution, "").typed<Convolution>();
  return op.call(x, weight, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt, window.padding, window.stride, window.dilation,
                 window.groups, "none", c10::List<std::optional<at::Scalar>>(), "");
}

// What ATen computes by itself and not by that library: a call of the library takes 20 us before any work, which little work does not repay.
bool is_little_work(const at::Tensor& x, const at::Tensor& weight, const ConvolutionWindow& window) {
  constexpr int64_t kMostElements = 20480;   // of an image that ATen keeps to itself
  if (x.size(0) != 1 || window.groups != 1 || x.numel() > kMostElements || (weight.size(2) > 3 && weight.size(3) > 3)) return false;
  const bool is_product = weight.size(2) == 1 && weight.size(3) == 1;
  const int64_t most = is_product ? 4'000'000 : 1'000'000;
  return weight.numel() * positions(x.size(2), weight.size(2), window, 0) * positions(x.size(3), weight.size(3), window, 1) <= most;
}

}  // namespace

std::optional<ConvolutionWindow> window_of(const std::vector<CallRecipe::Argument>& arguments, std::array<int64_t, 2> kernel) {
  const auto stride = two_of(arguments[3]), dilation = two_of(arguments[5]);
  const auto padding = dilation ? padding_of(arguments[4], *dilation, kernel) : std::nullopt;
  const CallRecipe::Argument& groups = arguments[6];
  if (!stride || !padding || !dilation || groups.kind != CallRecipe::Argument::Kind::constant || !groups.constant.isInt()) return {};
  ConvolutionWindow window{*stride, *padding, *dilation, groups.constant.toInt()};
  return is_sane(window) ? std::optional(std::move(window)) : std::nullopt;
}

bool run_convolution(const CallRecipe& recipe, CallState& state) {
  const at::Tensor &x = state.stack[0].toTensor(), &weight = state.stack[1].toTensor();
  const at::Tensor bias = recipe.bias < 0 ? at::Tensor() : state.stack[2].toTensor();
  if (!library_present() || !at::globalContext().userEnabledMkldnn() || !suits(x, weight, bias, recipe.window)) return false;
  if (is_little_work(x, weight, recipe.window)) return false;
  at::Tensor made = convolve(x, packed_for(x, weight, recipe.window, state.convolution), bias, recipe.window);
  state.stack.clear();
  state.stack.emplace_back(std::move(made));
  return true;
}

}  // namespace escapement
