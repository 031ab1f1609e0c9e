// The meaning of each basic scalar operation on bit patterns, and the conversions between memory and registers. Every target
// must agree with this file bit for bit (NaN payloads aside).
//
// Each operation runs alone over a block that lives in memory, so no compiler can contract a multiplication and an addition
// into one rounding here, whatever its flags.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "support/error.h"
#include "trace/scalar.h"

namespace escapement {

namespace {

// --- values of C++ types in registers

struct Bool {
  bool value;
};

template <class T>
T get(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else if constexpr (std::is_same_v<T, Bool>) return Bool{(bits & 1) != 0};
  else return static_cast<T>(bits);
}

template <class T>
uint64_t put(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(value);
  else if constexpr (std::is_same_v<T, Bool>) return value.value;
  else return static_cast<uint64_t>(static_cast<int64_t>(value));  // sign-extends the signed, keeps the unsigned
}

template <class T>
constexpr bool kFloat = std::is_floating_point_v<T>;
template <class T>
constexpr bool kBool = std::is_same_v<T, Bool>;

template <class F>
auto with_type(DType type, F f) {
  switch (type) {
    case DType::b8: return f(Bool{});
    case DType::u8: return f(uint8_t{});
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::i32: return f(int32_t{});
    case DType::i64: return f(int64_t{});
    case DType::f32: return f(float{});
    case DType::f64: return f(double{});
    default: throw InternalError("half types are storage only");
  }
}

struct Block {
  const uint64_t *a, *b, *c;
  uint64_t* out;
  size_t count;
};

template <class T, class F>
void map1(const Block& k, F f) {
  for (size_t i = 0; i < k.count; ++i) k.out[i] = put(f(get<T>(k.a[i])));
}
template <class T, class F>
void map2(const Block& k, F f) {
  for (size_t i = 0; i < k.count; ++i) k.out[i] = put(f(get<T>(k.a[i]), get<T>(k.b[i])));
}

[[noreturn]] void bad_type(const ScalarNode& node) {
  throw InternalError("scalar op " + std::string(name_of(node.op)) + " has no meaning for type " + std::string(name_of(node.type)));
}

// --- arithmetic

// Integers wrap: they are added as unsigned 64-bit numbers and cut to size. On bool, as in ATen: `or` and `and`.
template <class T>
void arithmetic(const ScalarNode& node, const Block& k) {
  using Wide = std::conditional_t<kFloat<T>, T, uint64_t>;
  auto cut = [](Wide v) { return static_cast<T>(v); };
  auto magnitude = [&](T x) {
    if constexpr (kFloat<T>) return std::fabs(x);
    else return x < 0 ? cut(-Wide(x)) : x;
  };
  switch (node.op) {
    case ScalarOp::add: return map2<T>(k, [&](T x, T y) { return cut(Wide(x) + Wide(y)); });
    case ScalarOp::sub: return map2<T>(k, [&](T x, T y) { return cut(Wide(x) - Wide(y)); });
    case ScalarOp::mul: return map2<T>(k, [&](T x, T y) { return cut(Wide(x) * Wide(y)); });
    case ScalarOp::div: return map2<T>(k, [](T x, T y) { return static_cast<T>(x / y); });
    case ScalarOp::neg: return map1<T>(k, [&](T x) { return cut(-Wide(x)); });
    case ScalarOp::abs: return map1<T>(k, magnitude);
    // A NaN operand is the result; of equal operands the first.
    case ScalarOp::min: return map2<T>(k, [](T x, T y) { return y < x || y != y ? y : x; });
    case ScalarOp::max: return map2<T>(k, [](T x, T y) { return y > x || y != y ? y : x; });
    default: bad_type(node);
  }
}

void bool_arithmetic(const ScalarNode& node, const Block& k) {
  switch (node.op) {
    case ScalarOp::add: case ScalarOp::max: return map2<Bool>(k, [](Bool x, Bool y) { return Bool{x.value || y.value}; });
    case ScalarOp::mul: case ScalarOp::min: return map2<Bool>(k, [](Bool x, Bool y) { return Bool{x.value && y.value}; });
    case ScalarOp::abs: return map1<Bool>(k, [](Bool x) { return x; });
    default: bad_type(node);
  }
}

template <class T>
void fused(const Block& k) {
  for (size_t i = 0; i < k.count; ++i) k.out[i] = put(std::fma(get<T>(k.a[i]), get<T>(k.b[i]), get<T>(k.c[i])));
}

// std::rint rounds by the current mode, which nobody here changes: to nearest, ties to even.
template <class T>
void float_only(const ScalarNode& node, const Block& k) {
  switch (node.op) {
    case ScalarOp::fma: return fused<T>(k);
    case ScalarOp::sqrt: return map1<T>(k, [](T x) { return std::sqrt(x); });
    case ScalarOp::floor: return map1<T>(k, [](T x) { return std::floor(x); });
    case ScalarOp::ceil: return map1<T>(k, [](T x) { return std::ceil(x); });
    case ScalarOp::trunc: return map1<T>(k, [](T x) { return std::trunc(x); });
    case ScalarOp::rint: return map1<T>(k, [](T x) { return std::rint(x); });
    case ScalarOp::copysign: return map2<T>(k, [](T x, T y) { return std::copysign(x, y); });
    case ScalarOp::scale: return map2<T>(k, [](T x, T y) { return y != y ? y : std::ldexp(x, static_cast<int>(y)); });
    default: return arithmetic<T>(node, k);
  }
}

void evaluate_arithmetic(const ScalarNode& node, const Block& k) {
  with_type(node.type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kBool<T>) bool_arithmetic(node, k);
    else if constexpr (kFloat<T>) float_only<T>(node, k);
    else arithmetic<T>(node, k);
  });
}

// --- comparisons

template <class T>
auto plain(T value) {
  if constexpr (kBool<T>) return value.value;
  else return value;
}

void evaluate_comparison(const ScalarNode& node, const Block& k) {
  with_type(static_cast<DType>(node.bits), [&](auto tag) {
    using T = decltype(tag);
    auto compare = [&](auto relation) { map2<T>(k, [&](T x, T y) { return Bool{relation(plain(x), plain(y))}; }); };
    switch (node.op) {
      case ScalarOp::eq: return compare([](auto x, auto y) { return x == y; });
      case ScalarOp::ne: return compare([](auto x, auto y) { return x != y; });
      case ScalarOp::lt: return compare([](auto x, auto y) { return x < y; });
      case ScalarOp::le: return compare([](auto x, auto y) { return x <= y; });
      case ScalarOp::gt: return compare([](auto x, auto y) { return x > y; });
      case ScalarOp::ge: return compare([](auto x, auto y) { return x >= y; });
      default: return map1<T>(k, [](T x) { return Bool{plain(x) != plain(x)}; });  // is_nan
    }
  });
}

// --- bits

template <class T>
void bitwise(const ScalarNode& node, const Block& k) {
  auto cut = [](uint64_t v) { return static_cast<T>(v); };
  switch (node.op) {
    case ScalarOp::bit_and: return map2<T>(k, [&](T x, T y) { return cut(x & y); });
    case ScalarOp::bit_or: return map2<T>(k, [&](T x, T y) { return cut(x | y); });
    case ScalarOp::bit_xor: return map2<T>(k, [&](T x, T y) { return cut(x ^ y); });
    case ScalarOp::bit_not: return map1<T>(k, [&](T x) { return cut(~uint64_t(x)); });
    case ScalarOp::shl: return map2<T>(k, [&](T x, T y) { return cut(uint64_t(x) << (y & 63)); });
    case ScalarOp::shr: return map2<T>(k, [&](T x, T y) { return cut(uint64_t(int64_t(x) >> (y & 63))); });
    default: bad_type(node);
  }
}

void bool_bitwise(const ScalarNode& node, const Block& k) {
  switch (node.op) {
    case ScalarOp::bit_and: return map2<Bool>(k, [](Bool x, Bool y) { return Bool{x.value && y.value}; });
    case ScalarOp::bit_or: return map2<Bool>(k, [](Bool x, Bool y) { return Bool{x.value || y.value}; });
    case ScalarOp::bit_xor: return map2<Bool>(k, [](Bool x, Bool y) { return Bool{x.value != y.value}; });
    case ScalarOp::bit_not: return map1<Bool>(k, [](Bool x) { return Bool{!x.value}; });
    default: bad_type(node);
  }
}

void evaluate_bits(const ScalarNode& node, const Block& k) {
  with_type(node.type, [&](auto tag) {
    using T = decltype(tag);
    if constexpr (kBool<T>) bool_bitwise(node, k);
    else if constexpr (kFloat<T>) bad_type(node);
    else bitwise<T>(node, k);
  });
}

// --- conversion

// What x86's cvttps2dq and its kin give, because that is what ATen's kernels compile to: the smallest number of the type where
// the value does not fit. ATen takes 8- and 16-bit integers by way of a wider one and cuts.
template <class Wide, class F>
Wide truncate(F value) {
  constexpr F bound = static_cast<F>(uint64_t{1} << (8 * sizeof(Wide) - 1));
  return value >= -bound && value < bound ? static_cast<Wide>(value) : std::numeric_limits<Wide>::min();
}

template <class To, class From>
To convert_value(From value) {
  if constexpr (kBool<To>) return Bool{plain(value) != 0};
  else if constexpr (kBool<From>) return static_cast<To>(value.value);
  else if constexpr (!kFloat<From> || kFloat<To>) return static_cast<To>(value);
  else if constexpr (sizeof(To) == 8 || std::is_unsigned_v<To>) return static_cast<To>(truncate<int64_t>(value));
  else return static_cast<To>(truncate<int32_t>(value));
}

void evaluate_convert(const ScalarNode& node, const Block& k) {
  with_type(static_cast<DType>(node.bits), [&](auto from) {
    with_type(node.type, [&](auto to) { map1<decltype(from)>(k, [](auto x) { return convert_value<decltype(to)>(x); }); });
  });
}

// i32 registers are sign-extended, f32 registers are not: the pattern moves, the extension follows the new type.
void evaluate_bitcast(const ScalarNode& node, const Block& k) {
  for (size_t i = 0; i < k.count; ++i)
    k.out[i] = node.type == DType::i32 ? put(get<int32_t>(k.a[i])) : node.type == DType::f32 ? uint32_t(k.a[i]) : k.a[i];
}

// --- half types

// Rounds to nearest even.
uint16_t to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | ((magnitude >> 13) & 0x1ff);  // the payload's upper bits, made quiet: F16C
  if (magnitude >= 0x477ff000) return sign | 0x7c00;                               // 65520 and above
  if (magnitude < 0x38800000) {  // below the smallest normal: adding 0.5 puts the wanted bits at the end of the mantissa
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

float from_f16(uint16_t half) {
  uint32_t sign = uint32_t(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest > 0x7c00) return std::bit_cast<float>(sign | 0x7fc00000 | (rest << 13));
  if (rest == 0x7c00) return std::bit_cast<float>(sign | 0x7f800000);
  if (rest < 0x400) return std::copysign(static_cast<float>(rest) * 0x1p-24f, std::bit_cast<float>(sign | 0x3f800000));
  return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000));
}

uint16_t to_bf16(float value) {
  if (value != value) return 0x7fc0;  // c10::BFloat16 drops sign and payload
  uint32_t bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float from_bf16(uint16_t half) { return std::bit_cast<float>(uint32_t(half) << 16); }

void evaluate_round_to(const ScalarNode& node, const Block& k) {
  if (static_cast<DType>(node.bits) == DType::f16) map1<float>(k, [](float x) { return from_f16(to_f16(x)); });
  else map1<float>(k, [](float x) { return from_bf16(to_bf16(x)); });
}

void evaluate_select(const Block& k) {
  for (size_t i = 0; i < k.count; ++i) k.out[i] = (k.a[i] & 1) ? k.b[i] : k.c[i];
}

}  // namespace

void evaluate_block(const ScalarNode& node, const uint64_t* a, const uint64_t* b, const uint64_t* c, uint64_t* out, size_t count) {
  Block block{a, b, c, out, count};
  switch (node.op) {
    case ScalarOp::constant: std::fill_n(out, count, node.bits); return;
    case ScalarOp::eq: case ScalarOp::ne: case ScalarOp::lt: case ScalarOp::le: case ScalarOp::gt: case ScalarOp::ge:
    case ScalarOp::is_nan: return evaluate_comparison(node, block);
    case ScalarOp::bit_and: case ScalarOp::bit_or: case ScalarOp::bit_xor: case ScalarOp::bit_not: case ScalarOp::shl:
    case ScalarOp::shr: return evaluate_bits(node, block);
    case ScalarOp::select: return evaluate_select(block);
    case ScalarOp::convert: return evaluate_convert(node, block);
    case ScalarOp::bitcast: return evaluate_bitcast(node, block);
    case ScalarOp::round_to: return evaluate_round_to(node, block);
    case ScalarOp::input: case ScalarOp::param: throw InternalError("inputs have no value of their own");
    default: return evaluate_arithmetic(node, block);
  }
}

uint64_t evaluate(const ScalarNode& node, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t result = 0;
  evaluate_block(node, &a, &b, &c, &result, 1);
  return result;
}

uint64_t to_bits(double value, DType type) {
  float single = static_cast<float>(value);
  if (type == DType::f16) return put(from_f16(to_f16(single)));
  if (type == DType::bf16) return put(from_bf16(to_bf16(single)));
  return with_type(type, [&](auto tag) { return put(convert_value<decltype(tag)>(value)); });
}

uint64_t to_bits(int64_t value, DType type) {
  if (is_half(type)) return to_bits(static_cast<double>(static_cast<float>(value)), type);
  return with_type(type, [&](auto tag) { return put(convert_value<decltype(tag)>(value)); });
}

double double_from_bits(uint64_t bits, DType type) {
  return with_type(compute_type(type), [&](auto tag) { return convert_value<double>(get<decltype(tag)>(bits)); });
}

int64_t int_from_bits(uint64_t bits, DType type) {
  return with_type(compute_type(type), [&](auto tag) { return convert_value<int64_t>(get<decltype(tag)>(bits)); });
}

namespace {

template <class T>
T read(const void* element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

}  // namespace

uint64_t load_bits(const void* element, DType type) {
  if (type == DType::f16) return put(from_f16(read<uint16_t>(element)));
  if (type == DType::bf16) return put(from_bf16(read<uint16_t>(element)));
  if (type == DType::b8) return read<uint8_t>(element) != 0;
  return with_type(type, [&](auto tag) { return put(read<decltype(tag)>(element)); });
}

void store_bits(void* element, DType type, uint64_t bits) {
  if (type == DType::f16) bits = to_f16(get<float>(bits));
  if (type == DType::bf16) bits = to_bf16(get<float>(bits));
  std::memcpy(element, &bits, static_cast<size_t>(size_of(type)));  // little-endian hosts only
}

}  // namespace escapement
