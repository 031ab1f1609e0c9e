// Axes of an iteration domain, and how two domains are made one.
//
// A dim of a tensor that is computed inside a group runs over an ordered list of the group's axes (row-major; empty where its
// size is 1). Lists arise because a reshape may split one dim into several axes. `AxisSpace` holds the axes of two groups (sides)
// while they are being unified: equal axes are aliased, an axis is split where the other side needs its factors. An axis of one
// side never becomes equal to another axis of the same side: that would be x + x.t() on one diagonal. Equality of extents is always
// provable equality of Dims, never of hints. A space is a trial: it is thrown away if the groups cannot be joined.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dims/dims.h"

namespace escapement {

using Axis = uint8_t;

// A short list with inline storage: thousands are made per compile.
class AxisList {
 public:
  static constexpr int kMax = 15;
  AxisList() = default;
  AxisList(std::initializer_list<Axis> axes) {
    for (Axis a : axes) push_back(a);
  }
  void push_back(Axis a) {
    if (size_ == kMax) {
      full_ = true;
    } else {
      axes_[size_++] = a;
    }
  }
  void append(const AxisList& other) {
    for (Axis a : other) push_back(a);
  }
  void prepend(Axis a);
  const Axis* begin() const { return axes_.data(); }
  const Axis* end() const { return axes_.data() + size_; }
  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool overflowed() const { return full_; }  // a trial with such a list fails
  bool contains(Axis a) const;
  Axis operator[](int i) const { return axes_[i]; }
  Axis back() const { return axes_[size_ - 1]; }
  friend bool operator==(const AxisList& a, const AxisList& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<Axis, kMax> axes_{};
  uint8_t size_ = 0;
  bool full_ = false;
};

using AxisMap = std::vector<AxisList>;  // per dim of a tensor

class AxisSpace {
 public:
  enum Side : uint8_t { kFirst = 1, kSecond = 2 };
  explicit AxisSpace(DimTable& dims) : dims_(dims) {}

  Axis add(Dim extent, Side side);
  Dim extent(Axis a) const { return axes_[a].extent; }
  AxisList expand(Axis a) const;              // what `a` has become: axes that are neither aliased nor split
  AxisList expand(const AxisList& list) const;
  AxisMap expand(const AxisMap& map) const;

  bool unify(const AxisList& a, const AxisList& b);           // makes both lists run over the same axes
  bool alias(Axis a, Axis b);                                 // one to one, equal extents, of different sides
  // Takes the innermost axes whose product is `size` off the end of `list` (splitting the last one if needed) into `taken`.
  bool take(AxisList& list, Dim size, AxisList& taken);
  bool overflowed() const { return overflowed_; }

 private:
  struct Entry {
    Dim extent;
    uint8_t sides;
    int16_t alias = -1;
    int16_t outer = -1, inner = -1;
  };
  bool split(Axis a, Dim inner);                              // false: `inner` does not provably divide the extent
  Axis root(Axis a) const;

  DimTable& dims_;
  std::vector<Entry> axes_;
  bool overflowed_ = false;
};

bool is_one(const DimTable& dims, Dim d);
// a / b if b provably divides a; none otherwise.
Dim exact_quotient(DimTable& dims, Dim a, Dim b);

}  // namespace escapement
