// Packages read: see package.h. The file is not trusted where `trusted` does not say so: every length is checked (zip.h,
// safetensors.h, json_reader.h), tensors lie inside their bytes, numbers name what is there.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "exported/package_manifest.h"
#include "exported/safetensors.h"
#include "support/error.h"
#include "support/events.h"
#include "support/text.h"
#include "support/version.h"
#include "torch/exported/archive.h"
#include "torch/exported/arguments.h"
#include "torch/serving/package.h"
#include "trace/verifier.h"

namespace escapement {

namespace {

constexpr uint64_t kMaxJson = uint64_t{256} << 20, kMaxTrace = uint64_t{256} << 20, kMaxObject = uint64_t{64} << 20;

// The bytes of all tensors, and who keeps them.
struct Data {
  std::shared_ptr<const void> owner;
  std::byte* start = nullptr;
};

// The pages of the file; a copy where another tool wrote the archive and the data are not aligned.
Data data_of(std::shared_ptr<const ZipFile::Mapping> mapping, uint64_t start) {
  const std::span<std::byte> bytes = mapping->bytes().subspan(start);
  if (reinterpret_cast<uintptr_t>(bytes.data()) % 64 == 0) return {std::move(mapping), bytes.data()};
  auto copy = std::make_shared<at::Tensor>(at::empty({static_cast<int64_t>(bytes.size())}, at::TensorOptions().dtype(at::kByte)));
  auto* const to = static_cast<std::byte*>(copy->mutable_data_ptr());
  std::copy(bytes.begin(), bytes.end(), to);
  return {std::move(copy), to};
}

// A storage on some of the bytes, which live as long as it.
at::Tensor bytes_on(const Data& data, uint64_t begin, uint64_t end) {
  using Owner = std::shared_ptr<const void>;
  const c10::InferenceMode ordinary(false);
  c10::DataPtr pointer(data.start + begin, new Owner(data.owner), [](void* owner) { delete static_cast<Owner*>(owner); },
                       c10::Device(c10::DeviceType::CPU));
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), static_cast<size_t>(end - begin),
                                                       std::move(pointer), nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                                               c10::scalarTypeToTypeMeta(c10::ScalarType::Byte));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(end - begin)});
  return tensor;
}

class PackageReader {
 public:
  PackageReader(const ZipFile& zip, bool trusted) : zip_(zip), trusted_(trusted) {}

  ProgramSource read() {
    within(kPackageMark, [&] { check_format(); });
    source_.json = text("model.json", kMaxJson);
    within("model.json", [&] { source_.program = read_program(source_.json); });
    const std::string manifest_text = text("package.json", kMaxJson);
    within("weights.safetensors", [&] { open_tensors(); });
    within("package.json", [&] {
      const PackageManifest manifest = read_manifest(manifest_text);
      read_weights(manifest.weights);
      read_versions(manifest);
    });
    return std::move(source_);
  }

 private:
  template <class Action>
  void within(const char* entry, Action action) {
    try {
      action();
    } catch (const UserError& error) {
      const std::string cause = error.what();
      if (cause.starts_with("escapement: ")) throw;
      zip_.fail(std::string("cannot be loaded: ") + entry + ": " + cause);
    }
  }

  const ZipFile::Entry& entry(const std::string& name) const {
    const ZipFile::Entry* found = zip_.find(name);
    if (!found) zip_.fail("is a package without " + name.substr(0, 200));
    return *found;
  }
  std::string text(const std::string& name, uint64_t most) const { return zip_.read_text(entry(name), most); }

  void check_format() const {
    const std::string format = text(kPackageMark, 100);
    if (format != kPackageFormat)
      throw UserError("its format is " + quote(format) + ", and " + kPackageFormat +
                      " is read: save it again with this version");
  }

  void open_tensors() {
    auto mapping = zip_.map(entry("weights.safetensors"));
    tensors_ = read_safetensors(mapping->bytes());
    data_ = data_of(std::move(mapping), tensors_.data);
  }

  // Tensors that are described alike are one tensor, and those of one storage share it.
  at::Tensor tensor(const PackageTensor& wanted) {
    const SafeTensor* stored = tensors_.find(wanted.entry);
    if (!stored) throw UserError("the tensor " + quote(wanted.entry) + " is missing");
    const auto [at, fresh] = bytes_.try_emplace(wanted.entry);
    if (fresh) at->second.bytes = bytes_on(data_, stored->begin, stored->end);
    try {
      return found_or_made(at->second, wanted.meta);
    } catch (const UserError& error) {
      throw UserError("the tensor " + quote(wanted.entry) + ": " + error.what());
    }
  }

  struct Stored {
    at::Tensor bytes;
    std::vector<at::Tensor> views;
  };
  static at::Tensor found_or_made(Stored& stored, const ExportedTensor& meta) {
    at::Tensor made = tensor_on(stored.bytes, meta);
    if (reinterpret_cast<uintptr_t>(made.storage().data()) % made.dtype().itemsize() != 0)
      throw UserError("it is not aligned");
    for (const at::Tensor& other : stored.views) {
      if (other.dtype() == made.dtype() && other.sizes() == made.sizes() && other.strides() == made.strides() &&
          other.storage_offset() == made.storage_offset())
        return other;
    }
    return stored.views.emplace_back(std::move(made));
  }

  void read_weights(const std::vector<PackageTensor>& weights) {
    for (const PackageTensor& weight : weights) source_.weights.push_back(tensor(weight));
    const auto& inputs = source_.program.inputs;
    const auto wanted =
        std::count_if(inputs.begin(), inputs.end(), [](const ExportedInput& input) { return !input.is_user(); });
    if (static_cast<size_t>(wanted) != source_.weights.size())
      throw UserError("the program has " + std::to_string(wanted) + " weights, and " +
                      std::to_string(source_.weights.size()) + " are listed");
  }

  void read_versions(const PackageManifest& manifest) {
    if (manifest.versions.empty()) return;
    if (!trusted_) return count(Reason::package_not_trusted);
    if (manifest.escapement != build_version() || manifest.torch != torch_version()) return count(Reason::package_trace_stale);
    for (size_t i = 0; i < manifest.versions.size(); ++i) read_version(manifest.versions[i], i);
    for (const auto& [key, digest] : manifest.code)
      source_.objects.emplace(key, ObjectBytes{digest, text("code/" + key + ".o", kMaxObject)});
  }

  // One for another state of this process is kept: calls come to it when the process is so.
  void read_version(const PackageManifest::Version& version, size_t number) {
    Recording recording = read_recording(version, number);
    const std::optional<uint32_t> flags = number_of(version.flags);
    if (!flags) return count(Reason::package_flags_unnamed);
    recording.ground = {*flags, dtype_from_schema(version.default_dtype)};
    source_.versions.push_back(std::move(recording));
  }

  Recording read_recording(const PackageManifest::Version& version, size_t number) {
    const std::string name = "traces/" + std::to_string(number) + ".txt";
    Recording recording;
    for (const PackageManifest::Captured& one : version.captured) recording.captured.push_back(captured_tensor(one));
    try {
      recording.trace = parse_trace(text(name, kMaxTrace));
      verify(recording.trace);
      check_inputs(recording);
    } catch (const InternalError& error) {
      throw UserError(name + ": " + error.what());
    }
    recording.ops = recording.trace.instrs.size();
    return recording;
  }

  at::Tensor captured_tensor(const PackageManifest::Captured& captured) {
    if (const PackageTensor* const own = std::get_if<PackageTensor>(&captured)) return tensor(*own);
    const int64_t number = std::get<int64_t>(captured);
    if (number < 0 || static_cast<size_t>(number) >= source_.weights.size())
      throw UserError("there is no weight " + std::to_string(number));
    return source_.weights[static_cast<size_t>(number)];
  }

  // The user's inputs first, in the program's order and kinds, then the captured tensors.
  void check_inputs(const Recording& recording) const {
    std::vector<Input::Kind> wanted;
    for (const ExportedInput& input : source_.program.inputs) {
      if (input.is_user())
        wanted.push_back(input.kind == ExportedInput::Kind::integer ? Input::Kind::integer : Input::Kind::tensor);
    }
    wanted.insert(wanted.end(), recording.captured.size(), Input::Kind::tensor);
    const auto same = [](const Input& input, Input::Kind kind) { return input.kind == kind; };
    const auto& inputs = recording.trace.inputs;
    if (!std::equal(inputs.begin(), inputs.end(), wanted.begin(), wanted.end(), same))
      throw UserError("a trace has other inputs than the program");
  }

  const ZipFile& zip_;
  const bool trusted_;
  Data data_;
  SafeTensors tensors_;
  std::map<std::string, Stored> bytes_;
  ProgramSource source_;
};

}  // namespace

bool is_package(const ZipFile& zip) {
  return zip.find(kPackageMark) != nullptr;
}

ProgramSource read_package(const ZipFile& zip, bool trusted) {
  return PackageReader(zip, trusted).read();
}

}  // namespace escapement
