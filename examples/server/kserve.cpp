// Requests, and what describes a model; responses stand in kserve_response.cpp. See kserve.h.
#include "kserve.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

namespace server {

namespace {

using Type = c10::ScalarType;
using Signature = escapement::Signature;

struct TypeRow {
  Type type;
  const char* name;
};
constexpr TypeRow kTypes[] = {
    {Type::Float, "FP32"}, {Type::Double, "FP64"}, {Type::Half, "FP16"}, {Type::BFloat16, "BF16"}, {Type::Long, "INT64"},
    {Type::Int, "INT32"},  {Type::Short, "INT16"}, {Type::Char, "INT8"}, {Type::Byte, "UINT8"},    {Type::Bool, "BOOL"}};

const Json kNothing = Json::object();

const Json& parameters_of(const Json& json) {
  const auto found = json.find("parameters");
  if (found == json.end()) return kNothing;
  if (!found->is_object()) throw BadRequest("parameters are no object");
  return *found;
}

std::string name_of(const Json& json) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string())
    throw BadRequest("an input or output is no object with a name");
  return json["name"].get<std::string>();
}

// What asks for something that this server has not; to ignore it would answer another request.
void refuse_parameters(const Json& parameters) {
  for (const char* name : {"shared_memory_region", "classification", "sequence_id"}) {
    if (parameters.contains(name)) throw BadRequest(std::string("the parameter '") + name + "' is not supported");
  }
}

std::vector<int64_t> read_shape(const Json& json) {
  std::vector<int64_t> shape;
  if (!json.is_array()) throw BadRequest("a shape is no list of sizes");
  int64_t elements = 1;
  for (const Json& size : json) {
    if (!size.is_number_unsigned()) throw BadRequest("a shape is no list of sizes");
    shape.push_back(size.get<int64_t>());
    if (shape.back() < 0 || __builtin_mul_overflow(elements, shape.back(), &elements) || elements > int64_t{1} << 30)
      throw BadRequest("a shape is too large");
  }
  return shape;
}

class RequestReader {
 public:
  RequestReader(std::string_view bytes, const Document& document) : bytes_(bytes), document_(document) {}

  // Bytes stand in the order of the request's inputs, whatever the signature's is.
  std::vector<at::Tensor> read(const Signature& signature, size_t count) {
    std::vector<at::Tensor> tensors(count);
    const Json& inputs = document_.json.at("inputs");
    if (!inputs.is_array()) throw BadRequest("inputs are no list");
    for (const Json& input : inputs) {
      const size_t position = find(signature, count, name_of(input));
      if (tensors[position].defined())
        throw BadRequest("the input '" + signature.inputs[position].name + "' is given twice");
      tensors[position] = read_tensor(input, signature.inputs[position]);
    }
    for (size_t i = 0; i < count; ++i) {
      if (!tensors[i].defined()) throw BadRequest("the input '" + signature.inputs[i].name + "' is missing");
    }
    if (!bytes_.empty()) throw BadRequest("there are more bytes than inputs use");
    return tensors;
  }

 private:
  static size_t find(const Signature& signature, size_t count, const std::string& name) {
    for (size_t i = 0; i < count; ++i) {
      if (signature.inputs[i].name == name) return i;
    }
    throw BadRequest("the model has no input '" + name + "'");
  }

  at::Tensor read_tensor(const Json& json, const Signature::Item& wanted) {
    const std::string type = json.at("datatype").get<std::string>();
    if (type != type_name(wanted.dtype))
      throw BadRequest("the input '" + wanted.name + "' is " + type + ", expected " + type_name(wanted.dtype));
    const std::vector<int64_t> shape = read_shape(json.at("shape"));
    const Json& parameters = parameters_of(json);
    refuse_parameters(parameters);
    const auto size = parameters.find("binary_data_size");
    if (size == parameters.end()) return from_json(shape, document_.data[json.at("data").get<size_t>()], wanted.dtype);
    if (json.contains("data")) throw BadRequest("the input '" + wanted.name + "' has both data and binary_data_size");
    return from_bytes(shape, *size, wanted.dtype);
  }

  // Sizes are held against what was sent before memory is taken.
  at::Tensor from_bytes(const std::vector<int64_t>& shape, const Json& size, Type type) {
    const auto needed = static_cast<size_t>(c10::multiply_integers(shape)) * c10::elementSize(type);
    if (!size.is_number_unsigned() || size.get<size_t>() > bytes_.size() || size.get<size_t>() != needed)
      throw BadRequest("binary_data_size is not what the shape needs, or what was sent");
    const at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
    if (needed > 0) std::memcpy(tensor.mutable_data_ptr(), bytes_.data(), needed);
    if (type == Type::Bool) {
      auto* const flags = static_cast<uint8_t*>(tensor.mutable_data_ptr());
      std::transform(flags, flags + needed, flags, [](uint8_t flag) { return static_cast<uint8_t>(flag != 0); });
    }
    bytes_.remove_prefix(needed);
    return tensor;
  }

  static at::Tensor from_json(const std::vector<int64_t>& shape, const Numbers& numbers, Type type) {
    const auto elements = static_cast<size_t>(c10::multiply_integers(shape));
    if (numbers.size() > elements) throw BadRequest("there are more data than the shape has elements");
    if (numbers.size() < elements) throw BadRequest("there are fewer data than the shape has elements");
    const at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
    AT_DISPATCH_ALL_TYPES_AND3(Type::Half, Type::BFloat16, Type::Bool, type, "kserve",
                               [&] { numbers.write(tensor.mutable_data_ptr<scalar_t>()); });
    return tensor;
  }

  std::string_view bytes_;
  const Document& document_;
};

using Output = InferRequest::Output;

Output read_output(const Json& json, const Signature& signature, bool binary) {
  const std::string name = name_of(json);
  const auto& all = signature.outputs;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Signature::Item& item) { return item.name == name; });
  if (found == all.end()) throw BadRequest("the model has no output '" + name + "'");
  const Json& parameters = parameters_of(json);
  refuse_parameters(parameters);
  return {static_cast<size_t>(found - all.begin()), parameters.value("binary_data", binary)};
}

std::vector<Output> read_outputs(const Json& json, const Signature& signature) {
  std::vector<Output> outputs;
  const Json& parameters = parameters_of(json);
  refuse_parameters(parameters);
  const bool binary = parameters.value("binary_data_output", false);
  const auto named = json.find("outputs");
  if (named == json.end() || named->empty()) {
    for (size_t i = 0; i < signature.outputs.size(); ++i) outputs.push_back({i, binary});
    return outputs;
  }
  if (!named->is_array()) throw BadRequest("outputs are no list");
  std::vector<bool> seen(signature.outputs.size());
  for (const Json& one : *named) {
    outputs.push_back(read_output(one, signature, binary));
    if (seen[outputs.back().position]) throw BadRequest("an output is asked for twice");
    seen[outputs.back().position] = true;
  }
  return outputs;
}

}  // namespace

const char* type_name(Type type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  throw BadRequest(std::string("the dtype ") + c10::toString(type) + " has no name in the protocol");
}

InferRequest read_request(std::string_view body, int64_t json_length, const Signature& signature, size_t count) {
  const size_t length = json_length < 0 ? body.size() : static_cast<size_t>(json_length);
  if (length > body.size()) throw BadRequest("the body is shorter than its header says");
  const Document document = read_document(body.substr(0, length));
  try {
    InferRequest request;
    request.id = document.json.value("id", "");
    request.outputs = read_outputs(document.json, signature);
    request.inputs = RequestReader(body.substr(length), document).read(signature, count);
    return request;
  } catch (const Json::exception& error) {
    throw BadRequest(std::string("not the JSON that the protocol asks for: ") + error.what());
  }
}

bool only_ready(std::string_view body) {
  if (body.empty()) return false;
  const Document document = read_document(body);
  try {
    return document.json.value("ready", false);
  } catch (const Json::exception& error) {
    throw BadRequest(std::string("not the JSON that the protocol asks for: ") + error.what());
  }
}

Json metadata(const std::string& model, const std::string& version, const Signature& signature, size_t count) {
  const auto describe = [](const Signature::Item& item) {
    Json shape = Json::array();
    for (const auto& dim : item.dims) shape.push_back(dim.value.value_or(-1));
    return Json{{"name", item.name}, {"datatype", type_name(item.dtype)}, {"shape", shape}};
  };
  Json json{{"name", model},
            {"versions", Json::array({version})},
            {"platform", "escapement"},
            {"inputs", Json::array()},
            {"outputs", Json::array()}};
  for (size_t i = 0; i < count; ++i) json["inputs"].push_back(describe(signature.inputs[i]));
  for (const auto& output : signature.outputs) json["outputs"].push_back(describe(output));
  return json;
}

}  // namespace server
