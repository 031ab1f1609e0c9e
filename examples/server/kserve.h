// The KServe v2 inference protocol (kserve.github.io, "Open Inference Protocol"), between JSON or raw bytes and tensors.
//
// Data come as JSON numbers, flat or nested, or as little-endian bytes behind the JSON (the binary extension: parameters
// binary_data_size of an input; binary_data of an output, binary_data_output of the request). JSON has no NaN and no
// infinity: such results are null there.
#pragma once

#include <ATen/core/Tensor.h>
#include <escapement/signature.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace server {

using Json = nlohmann::json;

struct BadRequest : std::runtime_error {  // the client's mistake; the text says which
  using std::runtime_error::runtime_error;
};

struct InferRequest {
  std::string id;
  std::vector<at::Tensor> inputs;  // in the order of the signature, its first `count` inputs
  std::vector<bool> binary;        // per output: asked for as bytes
};

// `json_length`: of the JSON at the start of the body, whose rest are bytes; negative: all of it is JSON.
InferRequest read_request(std::string_view body, int64_t json_length, const escapement::Signature& signature, size_t count);

struct InferResponse {
  std::string body;
  int64_t json_length = -1;  // as above
};
InferResponse write_response(const InferRequest& request, const std::string& model, const escapement::Signature& signature,
                             const std::vector<at::Tensor>& outputs);

// The model's metadata; `count` as above.
Json metadata(const std::string& model, const escapement::Signature& signature, size_t count);

}  // namespace server
