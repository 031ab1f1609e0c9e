// The list of element types is one Hana tuple; every table below is unpacked from it at compile time.
#include "trace/dtype.h"

#include <array>
#include <boost/hana/length.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/unpack.hpp>

namespace escapement {
namespace {

namespace hana = boost::hana;

struct Row {
  DType type;
  std::string_view name;
  int64_t size;
  DType compute;
};

template <DType kType, int kSize, DType kCompute = kType>
struct Element {
  std::string_view name;
  constexpr Row row() const { return {kType, name, kSize, kCompute}; }
};

constexpr auto kElements = hana::make_tuple(
    Element<DType::b8, 1>{"b8"}, Element<DType::u8, 1>{"u8"}, Element<DType::i8, 1>{"i8"}, Element<DType::i16, 2>{"i16"},
    Element<DType::i32, 4>{"i32"}, Element<DType::i64, 8>{"i64"}, Element<DType::f16, 2, DType::f32>{"f16"},
    Element<DType::bf16, 2, DType::f32>{"bf16"}, Element<DType::f32, 4>{"f32"}, Element<DType::f64, 8>{"f64"},
    Element<DType::other, 0>{"other"});

constexpr auto kRows = hana::unpack(kElements, [](auto... element) { return std::array{element.row()...}; });
constexpr size_t kCount = kRows.size();

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < kCount; ++i)
    if (kRows[i].type != static_cast<DType>(i)) return false;
  return true;
}
static_assert(rows_are_in_order(), "a DType is an index into the rows");

constexpr DType wider(DType a, DType b) { return a < b ? b : a; }

// torch.promote_types. Within a category the wider wins, except where neither holds the other's values.
constexpr DType promote_pair(DType a, DType b) {
  if (a == b) return a;
  const DType low = a < b ? a : b, high = wider(a, b);
  if (high == DType::other) return DType::other;
  if (low == DType::f16 && high == DType::bf16) return DType::f32;
  if (low == DType::u8 && high == DType::i8) return DType::i16;
  return high;
}

constexpr auto make_promotions() {
  std::array<std::array<DType, kCount>, kCount> table{};
  for (size_t a = 0; a < kCount; ++a)
    for (size_t b = 0; b < kCount; ++b) table[a][b] = promote_pair(static_cast<DType>(a), static_cast<DType>(b));
  return table;
}
constexpr auto kPromotions = make_promotions();

const Row& row(DType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

int64_t size_of(DType type) { return row(type).size; }
std::string_view name_of(DType type) { return row(type).name; }
DType compute_type(DType type) { return row(type).compute; }
DType promote(DType a, DType b) { return kPromotions[static_cast<size_t>(a)][static_cast<size_t>(b)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& candidate : kRows)
    if (candidate.name == name) return candidate.type;
  return std::nullopt;
}

}  // namespace escapement
