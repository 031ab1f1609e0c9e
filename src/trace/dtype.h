// Element types. The list is one Boost.Hana tuple in dtype.cpp; this header stays free of Hana.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace escapement {

// Ordered by promotion category: bool < unsigned/signed integers < floating point < opaque.
// `other` marks dtypes that only library calls touch (complex, quantised, float8).
enum class DType : uint8_t { b8, u8, i8, i16, i32, i64, f16, bf16, f32, f64, other };

constexpr bool is_float(DType t) { return t >= DType::f16 && t <= DType::f64; }
constexpr bool is_integer(DType t) { return t >= DType::u8 && t <= DType::i64; }
constexpr bool is_half(DType t) { return t == DType::f16 || t == DType::bf16; }

int64_t size_of(DType);                          // bytes per element; 0 for `other`
std::string_view name_of(DType);                 // "f32"
std::optional<DType> dtype_from_name(std::string_view);
DType promote(DType, DType);                     // torch.promote_types for the ten types
DType compute_type(DType);                       // f16, bf16 -> f32; everything else itself: where arithmetic happens

}  // namespace escapement
