// Packages written: see package.h.
#include <ATen/core/Tensor.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <deque>

#include "exported/safetensors.h"
#include "exported/zip_writer.h"
#include "support/error.h"
#include "support/events.h"
#include "support/json.h"
#include "support/version.h"
#include "torch/exported/arguments.h"
#include "torch/serving/module_impl.h"
#include "torch/serving/package.h"
#include "torch/serving/safetensors_dtypes.h"
#include "trace/trace.h"

namespace escapement {

std::string torch_version() {
  return TORCH_VERSION;
}

namespace {

constexpr size_t kPad = 64;

int64_t schema_number(c10::ScalarType dtype) {
  for (int64_t number = 1; number <= 35; ++number) {
    const bool known = number <= 13 || number >= 28;
    if (known && dtype_from_schema(number) == dtype) return number;
  }
  throw UserError("the dtype " + dtype_name(dtype) + " cannot be saved");
}

void write_numbers(Json& json, const char* name, c10::IntArrayRef numbers) {
  json.key(name).open_array();
  for (const int64_t number : numbers) json.value(number);
  json.close();
}

// One storage is one tensor of the file. Under the name and in the shape of the tensor that fills it, if there is one; else
// as bytes, with every tensor a view of these.
class StorageWriter {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    const size_t known = find(tensor);
    if (known == storages_.size())
      storages_.push_back(new_storage(free_name(name), tensor));
    else if (!storages_[known].tensor.is_same(tensor))
      storages_[known].whole = false;
    named_.emplace_back(tensor, known);
  }

  // {"tensor": name, "dtype": 7, "sizes": [], "strides": [], "offset": 0}, of the tensor that was added as this one.
  void describe(Json& json, size_t added) const {
    const auto& [tensor, storage] = named_[added];
    json.open_object().field("tensor", storages_[storage].name).field("dtype", schema_number(tensor.scalar_type()));
    write_numbers(json, "sizes", tensor.sizes());
    write_numbers(json, "strides", tensor.strides());
    json.field("offset", tensor.storage_offset()).close();
  }

  void write(ZipWriter& zip) {
    // First what keeps its successors aligned, then by width.
    std::vector<size_t> order(storages_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank(storages_[a]) < rank(storages_[b]); });
    std::vector<SafeTensor> tensors;
    std::vector<std::span<const std::byte>> parts(1);
    for (const size_t i : order) append(storages_[i], tensors, parts);
    const std::string header = safetensors_header(tensors);
    parts[0] = std::as_bytes(std::span(header.data(), header.size()));
    zip.add("weights.safetensors", parts);
  }

 private:
  struct Stored {
    std::string name;
    at::Tensor tensor;  // the first on this storage
    const void* data;
    size_t bytes;
    bool whole;  // the tensor fills the storage in its usual order, and is the only one on it
  };

  size_t find(const at::Tensor& tensor) const {
    const auto same = [&](const Stored& s) { return s.bytes > 0 && s.data == tensor.storage().data(); };
    return static_cast<size_t>(std::find_if(storages_.begin(), storages_.end(), same) - storages_.begin());
  }

  std::string free_name(std::string name) const {
    const auto taken = [&] {
      return std::any_of(storages_.begin(), storages_.end(), [&](const Stored& s) { return s.name == name; });
    };
    while (taken() || name == "__metadata__") name += "_";
    return name;
  }

  static Stored new_storage(const std::string& name, const at::Tensor& tensor) {
    const size_t bytes = tensor.storage().nbytes();
    const bool whole = tensor.is_contiguous() && tensor.storage_offset() == 0 && tensor.nbytes() == bytes &&
                       safetensors_dtype(tensor.scalar_type()) != nullptr;
    return {name, tensor, tensor.storage().data(), bytes, whole};
  }

  static size_t padded(const Stored& stored) {
    return stored.whole ? stored.bytes : (stored.bytes + kPad - 1) / kPad * kPad;
  }
  static int rank(const Stored& stored) {
    return padded(stored) % kPad == 0 ? 0 : 8 - static_cast<int>(stored.tensor.dtype().itemsize());
  }

  static void append(const Stored& stored, std::vector<SafeTensor>& tensors,
                     std::vector<std::span<const std::byte>>& parts) {
    static constexpr std::byte kZeros[kPad]{};
    const uint64_t begin = tensors.empty() ? 0 : tensors.back().end;
    SafeTensor tensor{stored.name, "U8", {static_cast<int64_t>(padded(stored))}, begin, begin + padded(stored)};
    if (stored.whole) {
      tensor.dtype = safetensors_dtype(stored.tensor.scalar_type());
      tensor.shape = stored.tensor.sizes().vec();
    }
    parts.emplace_back(static_cast<const std::byte*>(stored.data), stored.bytes);
    parts.emplace_back(kZeros, padded(stored) - stored.bytes);
    tensors.push_back(std::move(tensor));
  }

  std::vector<Stored> storages_;
  std::vector<std::pair<at::Tensor, size_t>> named_;
};

class PackageWriter {
 public:
  PackageWriter(const Module::Impl& module, const ModuleState& state) : module_(module), state_(state) {
    const auto& weights = state.runner.weights();
    for (size_t i = 0; i < weights.size(); ++i) storage_.add(module.facts.weights[i].name, weights[i]);
    added_ = weights.size();
  }

  std::string write(const std::string& path) {
    ZipWriter zip(path);
    zip.add(kPackageMark, kPackageFormat);
    zip.add("model.json", module_.facts.json);
    write_manifest();
    zip.add("package.json", json_.text());
    storage_.write(zip);
    for (size_t i = 0; i < traces_.size(); ++i) zip.add("traces/" + std::to_string(i) + ".txt", traces_[i]);
    for (const auto& [key, object] : objects_) zip.add("code/" + key + ".o", object.bytes);
    zip.finish();
    return path + ": " + std::to_string(traces_.size()) + " versions, " + std::to_string(objects_.size()) + " objects";
  }

 private:
  void write_manifest() {
    json_.open_object().field("escapement", build_version()).field("torch", torch_version()).key("versions").open_array();
    for (const KeptVersion& kept : state_.region.versions().kept()) write_version(kept);
    json_.close().key("weights").open_array();
    for (size_t i = 0; i < module_.facts.weights.size(); ++i) storage_.describe(json_, i);
    json_.close().key("code").open_object();
    for (const auto& [key, object] : objects_) json_.field(key, object.digest);
    json_.close().close();
  }

  // Captured tensors are weights, by number, or constants that the program made.
  void write_version(const KeptVersion& kept) {
    const std::optional<NamedFlags> flags = named_flags(kept.ground.flags);
    if (!flags) return count(Reason::package_flags_unnamed);
    json_.open_object().key("captured").open_array();
    for (const at::Tensor& tensor : kept.captured) write_captured(tensor);
    json_.close().field("default_dtype", schema_number(kept.ground.dtype)).key("flags").open_object();
    for (const auto& [name, values] : *flags) write_numbers(json_, name.c_str(), values);
    json_.close().close();
    traces_.push_back(print(*kept.trace));
    objects_.merge(object_code(*kept.compiled));
  }

  void write_captured(const at::Tensor& tensor) {
    const auto& weights = state_.runner.weights();
    const auto found =
        std::find_if(weights.begin(), weights.end(), [&](const at::Tensor& weight) { return weight.is_same(tensor); });
    if (found != weights.end()) {
      json_.value(static_cast<int64_t>(found - weights.begin()));
      return;
    }
    storage_.add("constant." + std::to_string(added_ - weights.size()), tensor);
    storage_.describe(json_, added_++);
  }

  const Module::Impl& module_;
  const ModuleState& state_;
  StorageWriter storage_;
  size_t added_ = 0;
  std::vector<std::string> traces_;
  ObjectCode objects_;
  Json json_;
};

}  // namespace

std::string write_package(const Module::Impl& module, ModuleState& state, const std::string& path) {
  return PackageWriter(module, state).write(path);
}

}  // namespace escapement
