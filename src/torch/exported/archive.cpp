// See archive.h.
#include "torch/exported/archive.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "support/error.h"
#include "support/text.h"
#include "torch/exported/arguments.h"
#include "torch/program/host.h"

namespace escapement {

namespace {

constexpr uint64_t kMaxJson = uint64_t{256} << 20;
constexpr int64_t kStrided = 7;
constexpr std::string_view kOwn = "escapement: ";   // how an error begins that names the file

bool lie_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
      a.storage_offset() == b.storage_offset();
}

// The number of elements from the start of the storage to the last one touched, plus one.
int64_t extent(const ExportedTensor& meta, const std::vector<int64_t>& sizes) {
  int64_t last = meta.offset;
  bool bad = meta.offset < 0, empty = false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t reach = 0;
    bad = bad || sizes[d] < 0 || meta.strides[d] < 0;
    empty = empty || sizes[d] == 0;
    bad = bad || (sizes[d] > 0 && __builtin_mul_overflow(sizes[d] - 1, meta.strides[d], &reach)) ||
        __builtin_add_overflow(last, reach, &last);
  }
  if (bad || __builtin_add_overflow(last, 1, &last)) throw UserError("its sizes and strides are no tensor's");
  return empty ? meta.offset : last;
}

void check_count(const std::vector<int64_t>& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) throw UserError("its sizes overflow");
  }
}

std::vector<int64_t> plain_sizes(const ExportedTensor& meta) {
  std::vector<int64_t> sizes;
  for (const SizeSpec& size : meta.sizes) sizes.push_back(size.number);
  return sizes;
}

}  // namespace

at::Tensor tensor_on(const at::Tensor& data, const ExportedTensor& meta) {
  const c10::ScalarType dtype = dtype_from_schema(meta.dtype);
  if (meta.layout != kStrided || meta.strides.size() != meta.sizes.size())
    throw UserError("only strided tensors are supported");
  if (!meta.device.starts_with("cpu"))
    throw UserError("it is on the device " + meta.device + ": export the program on the CPU");
  const std::vector<int64_t> sizes = plain_sizes(meta);
  int64_t bytes = 0;
  const int64_t elements = extent(meta, sizes);
  check_count(sizes);
  if (__builtin_mul_overflow(elements, static_cast<int64_t>(c10::elementSize(dtype)), &bytes) ||
      static_cast<uint64_t>(bytes) > data.nbytes())
    throw UserError("it reaches beyond its data (" + std::to_string(data.nbytes()) + " bytes)");
  return new_view(data, sizes, meta.strides, meta.offset, c10::scalarTypeToTypeMeta(dtype));
}

template <class Read>
auto ExportArchive::reading(const std::string& name, Read read) const {
  try {
    return read();
  } catch (const UserError& error) {
    const std::string cause = error.what();
    fail(cause.starts_with(kOwn) ? cause : name + ": " + cause);
  }
}

void ExportArchive::fail(const std::string& cause) const {
  if (cause.starts_with(kOwn)) throw UserError(cause);
  zip_->fail("cannot be loaded: " + cause);
}

ExportArchive::ExportArchive(std::unique_ptr<const ZipFile> zip) : zip_(std::move(zip)) {
  find_root();
  expect_text("archive_format", "pt2");
  expect_text("archive_version", "0");
  expect_text("byteorder", "little");
  const std::string model = find_model(), json = "models/" + model + ".json";
  json_ = read_json(json);
  program_ = reading(json, [&] { return read_program(json_); });
  weights_ = read_config("data/weights/" + model + "_weights_config.json");
  constants_ = read_config("data/constants/" + model + "_constants_config.json");
}

// All entries stand under one folder, named as the file was when it was written.
void ExportArchive::find_root() {
  static constexpr std::string_view kMarker = "/archive_format";
  for (const ZipFile::Entry& entry : zip_->entries()) {
    if (entry.name.find('/') == entry.name.size() - kMarker.size() && entry.name.ends_with(kMarker)) {
      root_ = entry.name.substr(0, entry.name.size() - kMarker.size() + 1);
      return;
    }
  }
  zip_->fail("is no torch.export archive: it has no archive_format");
}

void ExportArchive::expect_text(const char* name, std::string_view value) const {
  const ZipFile::Entry* entry = zip_->find(root_ + name);
  if (!entry) zip_->fail(std::string("has no ") + name);
  const std::string text = zip_->read_text(*entry, 100);
  if (text != value)
    zip_->fail(std::string("has ") + name + " " + quote(text) + " where \"" + std::string(value) + "\" is read");
}

std::string ExportArchive::find_model() const {
  static constexpr std::string_view kFolder = "models/", kEnding = ".json";
  std::vector<std::string> found;
  for (const ZipFile::Entry& entry : zip_->entries()) {
    const std::string prefix = root_ + std::string(kFolder);
    if (!entry.name.starts_with(prefix) || !entry.name.ends_with(kEnding) ||
        entry.name.size() < prefix.size() + kEnding.size()) continue;
    found.push_back(entry.name.substr(prefix.size(), entry.name.size() - prefix.size() - kEnding.size()));
  }
  if (found.empty()) zip_->fail("holds no exported program (models/NAME.json); a package of compiled code cannot be loaded");
  if (found.size() == 1) return found[0];
  if (std::find(found.begin(), found.end(), "model") != found.end()) return "model";
  zip_->fail("holds several programs (" + join(found, ", ", [](const std::string& name) { return name; }) +
      "), none of them named model");
}

std::string ExportArchive::read_json(const std::string& name) const {
  const ZipFile::Entry* entry = zip_->find(root_ + name);
  if (!entry) zip_->fail("has no " + name);
  return zip_->read_text(*entry, kMaxJson);
}

ExportArchive::Weights ExportArchive::read_config(const std::string& name) const {
  return reading(name, [&] { return read_weights(read_json(name)); });
}

// The bytes of an entry as a tensor of bytes.
at::Tensor ExportArchive::read_bytes(const std::string& file) const {
  const ZipFile::Entry* entry = zip_->find(root_ + file);
  if (!entry) throw UserError("the entry " + quote(file) + " is missing");
  at::Tensor bytes = at::empty({static_cast<int64_t>(entry->size)}, at::TensorOptions().dtype(at::kByte));
  zip_->read(*entry, {static_cast<std::byte*>(bytes.mutable_data_ptr()), entry->size});
  return bytes;
}

std::vector<at::Tensor> ExportArchive::weights() const {
  const c10::InferenceMode ordinary(false);   // buffers are written in calls of any mode
  std::map<std::string, Loaded> loaded;   // by entry
  std::vector<at::Tensor> result;
  for (const ExportedInput& input : program_.inputs) {
    if (!input.is_user()) reading("the tensor " + quote(input.name), [&] { result.push_back(weight(input.name, loaded)); });
  }
  return result;
}

at::Tensor ExportArchive::weight(const std::string& name, std::map<std::string, Loaded>& loaded) const {
  const auto in_weights = weights_.find(name), in_constants = constants_.find(name);
  const bool is_weight = in_weights != weights_.end();
  if (!is_weight && in_constants == constants_.end()) throw UserError("its data are missing");
  const ExportedWeight& found = is_weight ? in_weights->second : in_constants->second;
  const std::string file = (is_weight ? "data/weights/" : "data/constants/") + found.file;
  Loaded& entry = loaded[file];
  if (!entry.bytes.defined()) entry.bytes = read_bytes(file);
  at::Tensor tensor = tensor_on(entry.bytes, found.tensor);
  const auto same = std::find_if(entry.tensors.begin(), entry.tensors.end(),
      [&](const at::Tensor& other) { return lie_alike(other, tensor); });
  if (same != entry.tensors.end()) return *same;
  return entry.tensors.emplace_back(std::move(tensor));
}

}  // namespace escapement
