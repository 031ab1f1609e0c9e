// See batch_form.h.
#include "torch/serving/batch_form.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "support/error.h"
#include "support/text.h"

namespace escapement {

namespace {

using Item = Signature::Item;

bool is_lengths(const Item& item) {
  return item.name == "lengths" && item.dtype == c10::ScalarType::Long && item.dims.size() == 1 && item.dims[0].is_symbol;
}

bool starts_with(const Item& item, const std::string& symbol) {
  return item.kind == Item::Kind::tensor && !item.dims.empty() && item.dims[0].text == symbol;
}

std::string begin_of(const Item& item) {
  if (item.kind != Item::Kind::tensor) return "is no tensor";
  return item.dims.empty() ? "has no dims" : "begins with " + item.dims[0].text;
}

[[noreturn]] void refuse(const char* form, const std::string& why) {
  throw ServingError(ErrorCode::invalid_input, std::string("escapement: requests cannot be batched by ") + form + ": " + why);
}

const Item* first_tensor(const Signature& signature) {   // null: it takes none
  const auto is_tensor = [](const Item& item) { return item.kind == Item::Kind::tensor; };
  const auto found = std::find_if(signature.inputs.begin(), signature.inputs.end(), is_tensor);
  return found == signature.inputs.end() ? nullptr : &*found;
}

size_t most_of(const Item& item) { return static_cast<size_t>(std::max<int64_t>(item.dims[0].most, 1)); }

// The text of the batch's symbol.
const std::string& batch_symbol(const Signature& signature) {
  const Item* const item = first_tensor(signature);
  if (!item) refuse("rows", "the program takes no tensor");
  if (item->dims.empty() || !item->dims[0].is_symbol)
    refuse("rows", "the input " + quote(item->name) + " " + begin_of(*item) + ", and not with a dynamic size");
  return item->dims[0].text;
}

// Why the signature is no `rows`; empty where it is.
void require_rows(const Signature& signature) {
  const std::string& batch = batch_symbol(signature);
  for (const Item& input : signature.inputs) {
    if (input.kind == Item::Kind::tensor && !starts_with(input, batch))
      refuse("rows", "the input " + quote(input.name) + " " + begin_of(input) + ", and not with the batch, " + batch);
  }
  for (const Item& output : signature.outputs) {
    if (!starts_with(output, batch))
      refuse("rows", "the result " + quote(output.name) + " " + begin_of(output) + ", and not with the batch, " + batch);
  }
}

void require_no_writes(const ModuleFacts& facts, Batching asked) {
  if (facts.written.empty()) return;
  refuse(asked == Batching::rows ? "rows" : "lengths", "the program writes " + quote(facts.written[0]) +
                                                            ", and a call for several requests would write it otherwise than one call each");
}

bool has_lengths(const Signature& signature) {
  if (signature.inputs.size() < 2 || !is_lengths(signature.inputs.back())) return false;
  const auto& first = signature.inputs[0].dims;
  if (first.empty() || !first[0].is_symbol) return false;
  const std::string &total = first[0].text, &requests = signature.inputs.back().dims[0].text;
  const auto begins = [&](const Item& output) { return starts_with(output, total) || starts_with(output, requests); };
  const auto last = signature.inputs.end() - 1;
  return total != requests && std::all_of(signature.inputs.begin(), last, [&](const Item& input) { return starts_with(input, total); }) &&
         std::all_of(signature.outputs.begin(), signature.outputs.end(), begins);
}

at::Tensor lengths_of(std::span<const int64_t> rows) {
  const at::Tensor lengths = at::empty({static_cast<int64_t>(rows.size())}, at::TensorOptions().dtype(at::kLong));
  std::copy(rows.begin(), rows.end(), lengths.mutable_data_ptr<int64_t>());
  return lengths;
}

}  // namespace

BatchForm::BatchForm(const ModuleFacts& facts, Batching asked) : inputs(facts.signature.inputs.size()) {
  const Signature& signature = facts.signature;
  if (asked == Batching::rows || asked == Batching::lengths) require_no_writes(facts, asked);
  const bool lengths = asked != Batching::none && asked != Batching::rows && facts.written.empty() && has_lengths(signature);
  if (asked == Batching::lengths && !lengths)
    refuse("lengths", "the last input is to be named lengths, int64 with one dynamic size; the other inputs are to begin with another dynamic size, and "
                      "each result with one of the two");
  if (asked == Batching::rows) require_rows(signature);
  batching = lengths ? Batching::lengths : asked == Batching::rows ? asked : Batching::none;
  if (batching != Batching::none) most_rows = most_of(*first_tensor(signature));
  if (lengths) most_requests = most_of(signature.inputs[--inputs]);
  for (const Item& output : signature.outputs)
    per_row.push_back(!lengths || starts_with(output, signature.inputs[0].dims[0].text));
}

void BatchForm::check(const ModuleFacts& facts, const Values& request) const {
  if (batching != Batching::lengths) return facts.check(request);
  if (request.size() != inputs)
    throw UserError("escapement: a request has " + std::to_string(inputs) + " inputs (`lengths` is left out), and " +
                    std::to_string(request.size()) + " are given");
  const bool tensor = request[0].isTensor() && request[0].toTensor().defined() && request[0].toTensor().dim() > 0;
  const int64_t rows = tensor ? request[0].toTensor().size(0) : 0;
  Values call = request;
  call.emplace_back(lengths_of({&rows, 1}));
  facts.check(call);
}

int64_t BatchForm::rows(const Values& request) const {
  if (batching == Batching::none) return 1;
  const auto tensor = std::find_if(request.begin(), request.end(), [](const c10::IValue& value) { return value.isTensor(); });
  return tensor->toTensor().size(0);
}

std::vector<int64_t> BatchForm::key(const Values& request) const {
  std::vector<int64_t> key;
  for (const c10::IValue& value : request) {
    if (value.isTensor()) {
      const c10::IntArrayRef sizes = value.toTensor().sizes();
      key.insert(key.end(), sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end());
    } else {
      key.push_back(value.toInt());
    }
  }
  return key;
}

Values BatchForm::join(std::span<const Values* const> requests) const {
  Values call;
  for (size_t i = 0; i < inputs; ++i) {
    if (requests.size() == 1 || !(*requests[0])[i].isTensor()) {
      call.push_back((*requests[0])[i]);
      continue;
    }
    std::vector<at::Tensor> parts;
    for (const Values* request : requests) parts.push_back((*request)[i].toTensor());
    call.emplace_back(at::cat(parts));
  }
  if (batching == Batching::lengths) {
    std::vector<int64_t> lengths;
    for (const Values* request : requests) lengths.push_back(rows(*request));
    call.emplace_back(lengths_of(lengths));
  }
  return call;
}

std::vector<Values> BatchForm::divide(const Values& results, std::span<const int64_t> rows) const {
  std::vector<Values> parts(rows.size());
  int64_t begin = 0;
  for (size_t k = 0; k < rows.size(); begin += rows[k], ++k) {
    for (size_t i = 0; i < results.size(); ++i) {
      const bool whole = batching == Batching::none || !results[i].isTensor();
      const bool apart = !whole && !per_row[i];
      const auto part = [&](const at::Tensor& all) {
        return whole ? all : apart ? all.narrow(0, static_cast<int64_t>(k), 1) : all.narrow(0, begin, rows[k]);
      };
      parts[k].push_back(results[i].isTensor() ? c10::IValue(part(results[i].toTensor()).clone()) : results[i]);
    }
  }
  return parts;
}

}  // namespace escapement
