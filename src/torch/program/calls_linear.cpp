// See calls_linear.h.
#include "torch/program/calls_linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include "support/error.h"

namespace escapement {
namespace {

// ATen's own in-place activation, for hosts where the plain form won.
void apply(const std::string& epilogue, at::Tensor& y) {
  if (epilogue.empty()) return;
  if (epilogue == "relu") at::relu_(y);
  else if (epilogue == "gelu") at::gelu_(y, "none");
  else if (epilogue == "gelu_tanh") at::gelu_(y, "tanh");
  else if (epilogue == "silu") at::silu_(y);
  else if (epilogue == "sigmoid") at::sigmoid_(y);
  else if (epilogue == "tanh") at::tanh_(y);
  else throw InternalError("an epilogue that no linear knows: " + epilogue);
}

at::Tensor as_matrix(const at::Tensor& t, int64_t rows, int64_t columns) {
  if (t.dim() == 2) return t;
  return new_view(t, {rows, columns}, {columns, 1}, t.storage_offset(), t.dtype());
}

// at::linear flattens exactly these; the others take another path there, and so here.
bool flattens(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& out) {
  return weight.dim() == 2 && weight.size(1) > 0 && x.numel() > 0 && out.is_contiguous() &&
         (x.dim() == 2 || (x.dim() == 3 && x.is_contiguous()));
}

void plain_into(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, at::Tensor out) {
  const int64_t k = weight.size(1), n = weight.size(0), m = x.numel() / k;
  const at::Tensor x2 = as_matrix(x, m, k);
  const at::Tensor wt = new_view(weight, {k, n}, {weight.stride(1), weight.stride(0)}, weight.storage_offset(), weight.dtype());
  at::Tensor out2 = as_matrix(out, m, n);
  if (bias.defined()) at::addmm_out(out2, bias, x2, wt);
  else at::mm_out(out2, x2, wt);
}

struct Operands {
  at::Tensor x, weight, bias;
};

bool run_plain(const CallRecipe& recipe, const Operands& in, TensorTable& tensors, const std::vector<TensorRecipe>& recipes) {
  const CallRecipe::Result& result = recipe.results[0];
  if (result.planned) {
    at::Tensor out = tensors.get(result.recipe);
    if (flattens(in.x, in.weight, out)) {
      plain_into(in.x, in.weight, in.bias, out);
      apply(recipe.epilogue, out);
      return true;
    }
  }
  at::Tensor y = at::linear(in.x, in.weight, in.bias.defined() ? std::optional<at::Tensor>(in.bias) : std::nullopt);
  apply(recipe.epilogue, y);
  return take_result(result, std::move(y), tensors, recipes);
}

}  // namespace

bool run_linear(const CallRecipe& recipe, CallState& state, TensorTable& tensors, const Context&,
                const std::vector<TensorRecipe>& recipes) {
  const Operands in{tensors.get(static_cast<uint32_t>(recipe.x)), tensors.get(static_cast<uint32_t>(recipe.weight)),
                    recipe.bias < 0 ? at::Tensor() : tensors.get(static_cast<uint32_t>(recipe.bias))};
  if (!recipe.may_pack || !can_pack(in.x, in.weight)) return run_plain(recipe, in, tensors, recipes);
  const std::optional<LinearChoice> chosen = chosen_linear(in.weight);
  if (chosen == LinearChoice::plain || !refresh_packing(in.weight, state.packed, recipe.pack_limit)) return run_plain(recipe, in, tensors, recipes);
  const auto packed = [&] { return packed_linear(in.x, state.packed, in.bias, recipe.epilogue); };
  const auto plain = [&] {
    at::Tensor y = at::linear(in.x, in.weight, in.bias.defined() ? std::optional<at::Tensor>(in.bias) : std::nullopt);
    apply(recipe.epilogue, y);
  };
  const LinearChoice choice = chosen ? *chosen : choose_linear(in.weight, plain, [&] { packed(); });
  if (choice == LinearChoice::plain) return run_plain(recipe, in, tensors, recipes);
  return take_result(recipe.results[0], packed(), tensors, recipes);
}

}  // namespace escapement
