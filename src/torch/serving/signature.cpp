// Signatures (include/escapement/signature.h) of exported programs.
#include "escapement/signature.h"

#include "support/text.h"
#include "torch/exported/arguments.h"
#include "torch/serving/module_state.h"

namespace escapement {

namespace {

using Dim = Signature::Dim;
using Item = Signature::Item;

class SignatureReader {
 public:
  explicit SignatureReader(const ExportedProgram& program) : program_(program) {}

  Signature read() const {
    Signature signature;
    for (const ExportedInput& input : program_.inputs) {
      if (input.is_user()) signature.inputs.push_back(item(input));
    }
    for (const ExportedOutput& output : program_.outputs) {
      if (!output.is_write) signature.outputs.push_back(item(output));
    }
    return signature;
  }

 private:
  Item item(const ExportedInput& input) const {
    if (input.kind == ExportedInput::Kind::integer)
      return {Item::Kind::integer, input.name, c10::ScalarType::Undefined, {dim(input.size, program_.symbols)}};
    Item result{Item::Kind::tensor, input.name, dtype_from_schema(input.tensor.dtype), {}};
    for (const SizeSpec& size : input.tensor.sizes) result.dims.push_back(dim(size, program_.symbols));
    return result;
  }

  Item item(const ExportedOutput& output) const {
    if (!output.is_tensor) return {output.value.is_number ? Item::Kind::integer : Item::Kind::other, output.name, {}, {}};
    Item result{Item::Kind::tensor, output.name, dtype_from_schema(output.dtype), {}};
    for (const SizeSpec& size : output.sizes) result.dims.push_back(dim(size, program_.result_symbols));
    return result;
  }

  Dim dim(const SizeSpec& size, const SizeSymbols& symbols) const {
    Dim result;
    result.text = size_to_text(size, symbols);
    if (size.op == SizeOp::constant) result.value = result.least = result.most = size.number;
    if (size.op != SizeOp::symbol) return result;
    result.is_symbol = true;
    const auto range = program_.ranges.find(result.text);
    if (range == program_.ranges.end()) return result;
    result.most = range->second.most;
    result.least = range->second.least <= 2 ? 0 : range->second.least;
    return result;
  }

  const ExportedProgram& program_;
};

std::string range_text(const Dim& dim) {
  const bool open = dim.most == std::numeric_limits<int64_t>::max();
  return "  " + dim.text + " in " + std::to_string(dim.least) + ".." + (open ? "" : std::to_string(dim.most));
}

std::string item_text(const Item& item, bool with_ranges) {
  if (item.kind == Item::Kind::other) return "value";
  std::string text = item.kind == Item::Kind::integer ? "integer" : dtype_name(item.dtype);
  const auto dim_text = [](const Dim& dim) { return dim.text; };
  if (item.kind == Item::Kind::tensor || !item.dims.empty()) text += "[" + join(item.dims, ", ", dim_text) + "]";
  for (const Dim& dim : item.dims) {
    if (with_ranges && dim.is_symbol) text += range_text(dim);
  }
  return text;
}

}  // namespace

std::string dtype_name(c10::ScalarType dtype) {
  using Type = c10::ScalarType;
  static constexpr std::pair<Type, const char*> kNames[] = {
      {Type::Float, "float32"}, {Type::Double, "float64"}, {Type::Half, "float16"}, {Type::BFloat16, "bfloat16"},
      {Type::Long, "int64"},    {Type::Int, "int32"},      {Type::Short, "int16"},  {Type::Char, "int8"},
      {Type::Byte, "uint8"},    {Type::Bool, "bool"}};
  for (const auto& [type, name] : kNames) {
    if (type == dtype) return name;
  }
  return c10::toString(dtype);
}

std::string Signature::text() const {
  std::string text;
  for (const Item& input : inputs) text += input.name + ": " + item_text(input, true) + "\n";
  text += "-> " + join(outputs, ", ", [](const Item& output) { return item_text(output, false); });
  return text + "\n";
}

Signature signature_of(const ExportedProgram& program) { return SignatureReader(program).read(); }

}  // namespace escapement
