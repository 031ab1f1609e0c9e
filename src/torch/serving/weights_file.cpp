// Weights of a file in safetensors' format (include/escapement/load.h). The text is not trusted (exported/safetensors.h).
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "exported/safetensors.h"
#include "support/error.h"
#include "support/text.h"
#include "torch/serving/module_impl.h"
#include "torch/serving/safetensors_dtypes.h"

namespace escapement {

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw UserError("escapement: '" + path + "' " + why); }

std::vector<std::byte> bytes_of_file(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) fail(path, "is no file that can be read");
  std::ifstream stream(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = stream ? static_cast<std::streamoff>(stream.tellg()) : -1;
  if (size < 0) fail(path, "is no file that can be read");
  std::vector<std::byte> bytes(static_cast<size_t>(size));
  stream.seekg(0);
  if (!stream.read(reinterpret_cast<char*>(bytes.data()), size)) fail(path, "could not be read to its end");
  return bytes;
}

at::Tensor tensor_of(const SafeTensor& stored, const std::byte* data) {
  const std::optional<c10::ScalarType> dtype = torch_dtype(stored.dtype);
  if (!dtype) throw UserError("the tensor " + quote(stored.name) + " is " + stored.dtype + ", which is not read");
  const c10::InferenceMode ordinary(false);
  at::Tensor tensor = at::empty(stored.shape, at::TensorOptions().dtype(*dtype));
  auto* const to = static_cast<std::byte*>(tensor.mutable_data_ptr());
  std::copy(data + stored.begin, data + stored.end, to);   // as many as the shape has: read_safetensors has compared them
  if (*dtype == c10::ScalarType::Bool) std::replace_if(to, to + tensor.nbytes(), [](std::byte each) { return each != std::byte{0}; }, std::byte{1});
  return tensor;
}

}  // namespace

}  // namespace escapement

namespace escapement::inline ESCAPEMENT_ABI {

std::map<std::string, at::Tensor> read_weights(const std::string& path) {
  try {
    const std::vector<std::byte> bytes = bytes_of_file(path);
    std::map<std::string, at::Tensor> weights;
    try {
      const SafeTensors file = read_safetensors(bytes);
      for (const SafeTensor& stored : file.tensors) weights[stored.name] = tensor_of(stored, bytes.data() + file.data);
    } catch (const UserError& error) {
      fail(path, std::string("cannot be read: ") + error.what());
    }
    return weights;
  } catch (const UserError& error) {
    throw ServingError(ErrorCode::bad_file, error.what());
  } catch (...) {
    throw_serving_error(path);
  }
}

}  // namespace escapement::inline ESCAPEMENT_ABI
