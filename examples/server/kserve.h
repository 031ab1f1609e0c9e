// The KServe v2 inference protocol ("Open Inference Protocol"), between JSON or raw bytes and tensors.
//
// Data come as JSON numbers, flat or nested, or as little-endian bytes behind the JSON (the binary extension: parameters
// binary_data_size of an input; binary_data of an output, binary_data_output of the request). A number that its datatype
// cannot hold is refused. JSON has no NaN and no infinity: a result that holds one is refused as JSON, and comes as bytes.
#pragma once

#include <ATen/core/Tensor.h>
#include <escapement/signature.h>

#include <string>
#include <string_view>
#include <vector>

#include "document.h"
#include "reply.h"

namespace server {

struct InferRequest {
  struct Output {
    size_t position;  // in the signature
    bool binary;      // asked for as bytes
  };
  std::string id;
  std::vector<at::Tensor> inputs;  // in the order of the signature, its first `count` inputs
  std::vector<Output> outputs;     // in the order of the request; all where it names none
};

// `json_length`: of the JSON at the start of the body, whose rest are bytes; negative: all of it is JSON. BadRequest.
InferRequest read_request(std::string_view body, int64_t json_length, const escapement::Signature& signature, size_t count);

Reply write_response(const InferRequest& request, const std::string& model, const std::string& version,
                     const escapement::Signature& signature, const std::vector<at::Tensor>& outputs);

// The model's metadata; `count` as above.
Json metadata(const std::string& model, const std::string& version, const escapement::Signature& signature, size_t count);

// Whether the body of a repository index request asks for ready models only. BadRequest.
bool only_ready(std::string_view body);

// The protocol's name of a dtype; BadRequest where it has none.
const char* type_name(c10::ScalarType type);

}  // namespace server
