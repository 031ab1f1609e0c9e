// See warm_up.h.
#include "warm_up.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

namespace server {

namespace {

using Signature = escapement::Signature;
using Values = std::vector<c10::IValue>;

std::optional<c10::IValue> zeros(const Signature::Item& item, int64_t rows) {
  std::vector<int64_t> sizes;
  for (const Signature::Dim& dim : item.dims) {
    if (!dim.value && !dim.is_symbol) return {};
    sizes.push_back(dim.value.value_or(std::clamp<int64_t>(&dim == &item.dims[0] ? rows : 8, dim.least, dim.most)));
  }
  if (item.kind == Signature::Item::Kind::integer) return c10::IValue(sizes[0]);
  return c10::IValue(at::zeros(sizes, at::TensorOptions().dtype(item.dtype)));
}

std::optional<Values> inputs_of(const Signature& signature, const escapement::Batcher& batcher, int64_t rows, int64_t requests) {
  Values inputs;
  for (size_t i = 0; i < batcher.inputs(); ++i) {
    std::optional<c10::IValue> input = zeros(signature.inputs[i], rows);
    if (!input) return {};
    inputs.push_back(std::move(*input));
  }
  if (batcher.batching() == escapement::Batching::lengths) inputs.emplace_back(at::full({requests}, rows / requests, at::TensorOptions().dtype(at::kLong)));
  return inputs;
}

}  // namespace

escapement::WarmUpReport warm_up(const escapement::Module& module, const escapement::Batcher& batcher) {
  std::vector<Values> calls;
  for (const auto& [rows, requests] : {std::pair<int64_t, int64_t>{7, 1}, {64, 4}, {1, 1}}) {
    if (auto inputs = inputs_of(module.signature(), batcher, rows, requests)) calls.push_back(std::move(*inputs));
  }
  return module.warm_up_with(calls);
}

}  // namespace server
