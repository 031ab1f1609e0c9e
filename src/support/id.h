// Strong 32-bit ids: entities live in tables, and an id of one table cannot index another.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace escapement {

template <class Tag>
struct Id {
  static constexpr uint32_t kNone = 0xffffffffu;
  uint32_t index = kNone;

  constexpr Id() = default;
  constexpr explicit Id(uint32_t i) : index(i) {}
  constexpr explicit operator bool() const { return index != kNone; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

}  // namespace escapement

template <class Tag>
struct std::hash<escapement::Id<Tag>> {
  size_t operator()(escapement::Id<Tag> id) const noexcept { return std::hash<uint32_t>{}(id.index); }
};
