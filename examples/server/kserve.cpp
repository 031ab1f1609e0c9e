// See kserve.h.
#include "kserve.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

namespace server {

namespace {

using Type = c10::ScalarType;

struct TypeRow {
  Type type;
  const char* name;
};
constexpr TypeRow kTypes[] = {
    {Type::Float, "FP32"}, {Type::Double, "FP64"}, {Type::Half, "FP16"}, {Type::BFloat16, "BF16"}, {Type::Long, "INT64"},
    {Type::Int, "INT32"},  {Type::Short, "INT16"}, {Type::Char, "INT8"}, {Type::Byte, "UINT8"},    {Type::Bool, "BOOL"}};

const char* type_name(Type type) {
  for (const TypeRow& row : kTypes) {
    if (row.type == type) return row.name;
  }
  throw BadRequest(std::string("the dtype ") + c10::toString(type) + " has no name in the protocol");
}

template <class Use>
void with_type(Type type, Use use) {
  AT_DISPATCH_ALL_TYPES_AND3(Type::Half, Type::BFloat16, Type::Bool, type, "kserve", [&] { use(scalar_t()); });
}

// --- requests

constexpr int kMaxDepth = 16;

// Numbers in order, through any nesting.
template <class Scalar>
void flatten(const Json& data, Scalar*& next, Scalar* end, int depth) {
  if (data.is_array()) {
    if (depth > kMaxDepth) throw BadRequest("data are nested too deeply");
    for (const Json& item : data) flatten(item, next, end, depth + 1);
    return;
  }
  if (next == end) throw BadRequest("there are more data than the shape has elements");
  if (data.is_boolean())
    *next++ = static_cast<Scalar>(data.get<bool>());
  else if (data.is_number_integer())
    *next++ = static_cast<Scalar>(data.get<int64_t>());
  else if (data.is_number() && !std::is_integral_v<Scalar>)
    *next++ = static_cast<Scalar>(data.get<double>());
  else
    throw BadRequest("data are no numbers of the datatype");
}

std::vector<int64_t> read_shape(const Json& json, size_t width) {
  std::vector<int64_t> shape;
  int64_t bytes = static_cast<int64_t>(width);
  for (const Json& size : json.at("shape")) {
    if (!size.is_number_integer() || size.get<int64_t>() < 0) throw BadRequest("a shape is no list of sizes");
    shape.push_back(size.get<int64_t>());
    if (__builtin_mul_overflow(bytes, shape.back(), &bytes) || bytes > int64_t{1} << 30)
      throw BadRequest("a shape is too large");
  }
  return shape;
}

class RequestReader {
 public:
  RequestReader(std::string_view bytes, const Json& json) : bytes_(bytes), json_(json) {}

  // Bytes stand in the order of the request's inputs, whatever the signature's is.
  std::vector<at::Tensor> read(const escapement::Signature& signature, size_t count) {
    std::vector<at::Tensor> tensors(count);
    for (const Json& input : json_.at("inputs")) {
      const size_t position = find(signature, count, input.at("name").get<std::string>());
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
  static size_t find(const escapement::Signature& signature, size_t count, const std::string& name) {
    for (size_t i = 0; i < count; ++i) {
      if (signature.inputs[i].name == name) return i;
    }
    throw BadRequest("the model has no input '" + name + "'");
  }

  at::Tensor read_tensor(const Json& json, const escapement::Signature::Item& wanted) {
    const std::string type = json.at("datatype").get<std::string>();
    if (type != type_name(wanted.dtype))
      throw BadRequest("the input '" + wanted.name + "' is " + type + ", expected " + type_name(wanted.dtype));
    const at::Tensor tensor =
        at::empty(read_shape(json, c10::elementSize(wanted.dtype)), at::TensorOptions().dtype(wanted.dtype));
    const Json* size = json.contains("parameters") && json["parameters"].contains("binary_data_size")
                           ? &json["parameters"]["binary_data_size"]
                           : nullptr;
    if (size)
      take_bytes(size->get<size_t>(), tensor);
    else
      take_json(json.at("data"), tensor);
    return tensor;
  }

  void take_bytes(size_t size, const at::Tensor& into) {
    if (size > bytes_.size() || size != into.nbytes())
      throw BadRequest("binary_data_size is not what the shape needs, or what was sent");
    if (size > 0) std::memcpy(into.mutable_data_ptr(), bytes_.data(), size);
    if (into.scalar_type() == Type::Bool) {
      auto* const flags = static_cast<uint8_t*>(into.mutable_data_ptr());
      std::transform(flags, flags + size, flags, [](uint8_t flag) { return static_cast<uint8_t>(flag != 0); });
    }
    bytes_.remove_prefix(size);
  }

  static void take_json(const Json& data, const at::Tensor& into) {
    with_type(into.scalar_type(), [&](auto zero) {
      auto* next = into.mutable_data_ptr<decltype(zero)>();
      auto* const end = next + into.numel();
      flatten(data, next, end, 0);
      if (next != end) throw BadRequest("there are fewer data than the shape has elements");
    });
  }

  std::string_view bytes_;
  const Json& json_;
};

bool flag(const Json& json, const char* name, bool otherwise) {
  return json.contains("parameters") ? json["parameters"].value(name, otherwise) : otherwise;
}

std::vector<bool> binary_outputs(const Json& json, const escapement::Signature& signature) {
  std::vector<bool> binary(signature.outputs.size(), flag(json, "binary_data_output", false));
  if (!json.contains("outputs")) return binary;
  for (const Json& output : json["outputs"]) {
    for (size_t i = 0; i < binary.size(); ++i) {
      if (signature.outputs[i].name == output.at("name").get<std::string>())
        binary[i] = flag(output, "binary_data", binary[i]);
    }
  }
  return binary;
}

}  // namespace

InferRequest read_request(std::string_view body, int64_t json_length, const escapement::Signature& signature, size_t count) {
  const size_t length = json_length < 0 ? body.size() : static_cast<size_t>(json_length);
  if (length > body.size()) throw BadRequest("the body is shorter than its header says");
  try {
    const Json json = Json::parse(body.substr(0, length));
    InferRequest request;
    request.id = json.value("id", "");
    request.inputs = RequestReader(body.substr(length), json).read(signature, count);
    request.binary = binary_outputs(json, signature);
    return request;
  } catch (const Json::exception& error) {
    throw BadRequest(std::string("not the JSON that the protocol asks for: ") + error.what());
  }
}

// --- responses

InferResponse write_response(const InferRequest& request, const std::string& model, const escapement::Signature& signature,
                             const std::vector<at::Tensor>& outputs) {
  Json json{{"model_name", model}, {"outputs", Json::array()}};
  if (!request.id.empty()) json["id"] = request.id;
  std::string bytes;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor tensor = outputs[i].contiguous();
    Json output{
        {"name", signature.outputs[i].name}, {"shape", tensor.sizes().vec()}, {"datatype", type_name(tensor.scalar_type())}};
    if (request.binary[i]) {
      output["parameters"] = {{"binary_data_size", tensor.nbytes()}};
      bytes.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    } else {
      with_type(tensor.scalar_type(), [&](auto zero) {
        using Scalar = decltype(zero);
        const Scalar* const data = tensor.const_data_ptr<Scalar>();
        Json values = Json::array();
        for (int64_t k = 0; k < tensor.numel(); ++k) {
          if constexpr (std::is_integral_v<Scalar>)
            values.push_back(data[k]);
          else
            values.push_back(static_cast<double>(data[k]));
        }
        output["data"] = std::move(values);
      });
    }
    json["outputs"].push_back(std::move(output));
  }
  InferResponse response{json.dump(), -1};
  if (bytes.empty()) return response;
  response.json_length = static_cast<int64_t>(response.body.size());
  response.body += bytes;
  return response;
}

Json metadata(const std::string& model, const escapement::Signature& signature, size_t count) {
  const auto describe = [](const escapement::Signature::Item& item) {
    Json shape = Json::array();
    for (const auto& dim : item.dims) shape.push_back(dim.value.value_or(-1));
    return Json{{"name", item.name}, {"datatype", type_name(item.dtype)}, {"shape", shape}};
  };
  Json json{{"name", model},
            {"versions", Json::array({"1"})},
            {"platform", "escapement"},
            {"inputs", Json::array()},
            {"outputs", Json::array()}};
  for (size_t i = 0; i < count; ++i) json["inputs"].push_back(describe(signature.inputs[i]));
  for (const auto& output : signature.outputs) json["outputs"].push_back(describe(output));
  return json;
}

}  // namespace server
