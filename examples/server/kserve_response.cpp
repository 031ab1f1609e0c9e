// Responses, and errors. Numbers are written by hand, in the fewest digits that give the same number back: a JSON value
// for each would cost more than the model. See kserve.h and reply.h.
#include <ATen/Dispatch.h>

#include <charconv>
#include <cmath>

#include "kserve.h"

namespace server {

namespace {

using Type = c10::ScalarType;

constexpr size_t kErrorBytes = 500;  // of a text: it may quote a body

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class Scalar>
bool write_number(Scalar value, std::string& to) {
  if constexpr (std::is_same_v<Scalar, bool>) {
    to += value ? "true" : "false";
    return true;
  } else {
    using Written = std::conditional_t<std::is_integral_v<Scalar> || std::is_same_v<Scalar, double>, Scalar, float>;
    const auto written = static_cast<Written>(value);
    if (!std::isfinite(static_cast<double>(written))) return false;
    char digits[32];
    to.append(digits, std::to_chars(digits, digits + sizeof digits, written).ptr);
    return true;
  }
}

// False: one of them is no number of JSON.
bool write_numbers(const at::Tensor& tensor, std::string& to) {
  bool finite = true;
  AT_DISPATCH_ALL_TYPES_AND3(Type::Half, Type::BFloat16, Type::Bool, tensor.scalar_type(), "kserve", [&] {
    const scalar_t* const data = tensor.const_data_ptr<scalar_t>();
    for (int64_t k = 0; finite && k < tensor.numel(); ++k) {
      if (k > 0) to += ',';
      finite = write_number(data[k], to);
    }
  });
  return finite;
}

// The object's text, open at its end.
std::string open_text(const Json& object) {
  std::string text = dump(object);
  text.pop_back();
  return text;
}

void write_output(const escapement::Signature::Item& item, const at::Tensor& tensor, bool binary, std::string& json,
                  std::string& bytes) {
  Json header{{"name", item.name}, {"shape", tensor.sizes().vec()}, {"datatype", type_name(tensor.scalar_type())}};
  if (binary) {
    header["parameters"] = {{"binary_data_size", tensor.nbytes()}};
    json += dump(header);
    bytes.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    return;
  }
  json += open_text(header) + ",\"data\":[";
  if (!write_numbers(tensor, json))
    throw BadRequest("the output '" + item.name +
                     "' holds NaN or infinity, which JSON cannot say: ask for it with binary_data");
  json += "]}";
}

}  // namespace

Reply write_response(const InferRequest& request, const std::string& model, const std::string& version,
                     const escapement::Signature& signature, const std::vector<at::Tensor>& outputs) {
  Json head{{"model_name", model}, {"model_version", version}};
  if (!request.id.empty()) head["id"] = request.id;
  Reply reply;
  std::string bytes;
  bool binary = false;
  reply.body = open_text(head) + ",\"outputs\":[";
  for (const InferRequest::Output& output : request.outputs) {
    if (reply.body.back() == '}') reply.body += ',';
    const at::Tensor tensor = outputs[output.position].contiguous();
    write_output(signature.outputs[output.position], tensor, output.binary, reply.body, bytes);
    binary |= output.binary;
  }
  reply.body += "]}";
  if (!binary) return reply;
  reply.json_length = static_cast<int64_t>(reply.body.size());
  reply.type = "application/octet-stream";
  reply.body += bytes;
  return reply;
}

Reply error_reply(int status, const std::string& text, int retry_after) {
  Reply reply;
  reply.status = status;
  reply.body = dump({{"error", text.substr(0, kErrorBytes)}});
  reply.retry_after = retry_after;
  return reply;
}

}  // namespace server
