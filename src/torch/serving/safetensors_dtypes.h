// The dtypes of safetensors that torch computes with, by their names there.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string_view>
#include <utility>

namespace escapement {

inline constexpr std::pair<const char*, c10::ScalarType> kSafetensorsDtypes[] = {
    {"F64", c10::ScalarType::Double}, {"I64", c10::ScalarType::Long},     {"F32", c10::ScalarType::Float}, {"I32", c10::ScalarType::Int},
    {"F16", c10::ScalarType::Half},   {"BF16", c10::ScalarType::BFloat16}, {"I16", c10::ScalarType::Short}, {"I8", c10::ScalarType::Char},
    {"U8", c10::ScalarType::Byte},    {"BOOL", c10::ScalarType::Bool}};

inline const char* safetensors_dtype(c10::ScalarType dtype) {   // null: it has no name there
  for (const auto& [name, type] : kSafetensorsDtypes) {
    if (type == dtype) return name;
  }
  return nullptr;
}

inline std::optional<c10::ScalarType> torch_dtype(std::string_view name) {
  for (const auto& [each, type] : kSafetensorsDtypes) {
    if (name == each) return type;
  }
  return {};
}

}  // namespace escapement
