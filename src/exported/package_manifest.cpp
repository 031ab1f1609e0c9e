// See package_manifest.h.
#include "exported/package_manifest.h"

#include "exported/json_reader.h"

namespace escapement {
namespace {

constexpr int64_t kStrided = 7;

std::vector<int64_t> numbers(const JsonValue& json) {
  std::vector<int64_t> result;
  for (const JsonValue& number : json.array()) result.push_back(number.integer());
  return result;
}

SizeSpec constant(int64_t number) {
  SizeSpec spec;
  spec.op = SizeOp::constant;
  spec.number = number;
  return spec;
}

PackageTensor read_tensor(const JsonValue& json) {
  PackageTensor tensor;
  tensor.entry = json["tensor"].string();
  tensor.meta.dtype = json["dtype"].integer();
  tensor.meta.device = "cpu";
  tensor.meta.layout = kStrided;
  for (const int64_t size : numbers(json["sizes"])) tensor.meta.sizes.push_back(constant(size));
  tensor.meta.strides = numbers(json["strides"]);
  tensor.meta.offset = json["offset"].integer();
  return tensor;
}

PackageManifest::Captured read_captured(const JsonValue& json) {
  if (json.kind() == JsonValue::Kind::integer) return json.integer();
  return read_tensor(json);
}

PackageManifest::Version read_version(const JsonValue& json) {
  PackageManifest::Version version;
  for (const JsonValue& tensor : json["captured"].array()) version.captured.push_back(read_captured(tensor));
  version.default_dtype = json["default_dtype"].integer();
  for (const JsonValue::Member& flag : json["flags"].members()) version.flags.emplace_back(flag.name, numbers(flag.value));
  return version;
}

}  // namespace

PackageManifest read_manifest(std::string_view package_json) {
  const JsonValue json = JsonValue::parse(package_json);
  PackageManifest manifest;
  manifest.escapement = json["escapement"].string();
  manifest.torch = json["torch"].string();
  for (const JsonValue& weight : json["weights"].array()) manifest.weights.push_back(read_tensor(weight));
  for (const JsonValue& version : json["versions"].array()) manifest.versions.push_back(read_version(version));
  for (const JsonValue::Member& member : json["code"].members()) manifest.code.emplace_back(member.name, member.value.string());
  return manifest;
}

}  // namespace escapement
