// Unification of axes: union-find with splits. Lists are compared from the innermost axis outwards, since row-major strides of
// the inner axes do not depend on the outer ones.
#include "kernels/axes.h"

#include <algorithm>

namespace escapement {
namespace {
constexpr size_t kMaxAxes = 200;  // of one trial; an Axis is 8 bits
}

void AxisList::prepend(Axis a) {
  AxisList longer;
  longer.push_back(a);
  longer.append(*this);
  longer.full_ = longer.full_ || full_;
  *this = longer;
}

bool AxisList::contains(Axis a) const { return std::find(begin(), end(), a) != end(); }

bool is_one(const DimTable& dims, Dim d) { return dims.as_constant(d) == 1; }

Dim exact_quotient(DimTable& dims, Dim a, Dim b) {
  if (dims.same(a, b)) return dims.constant(1);
  if (dims.as_constant(b) == 0 || dims.divisible(a, b) != Truth::yes) return Dim{};
  const Dim quotient = dims.floordiv(a, b);
  return dims.same(dims.mul(quotient, b), a) ? quotient : Dim{};
}

Axis AxisSpace::add(Dim extent, Side side) {
  if (axes_.size() >= kMaxAxes) {
    overflowed_ = true;
    return 0;
  }
  axes_.push_back({extent, side});
  return static_cast<Axis>(axes_.size() - 1);
}

Axis AxisSpace::root(Axis a) const {
  while (axes_[a].alias >= 0) a = static_cast<Axis>(axes_[a].alias);
  return a;
}

AxisList AxisSpace::expand(Axis a) const {
  a = root(a);
  AxisList list;
  if (axes_[a].outer < 0) {
    list.push_back(a);
    return list;
  }
  list.append(expand(static_cast<Axis>(axes_[a].outer)));
  list.append(expand(static_cast<Axis>(axes_[a].inner)));
  return list;
}

AxisList AxisSpace::expand(const AxisList& list) const {
  AxisList expanded;
  for (Axis a : list) expanded.append(expand(a));
  return expanded;
}

AxisMap AxisSpace::expand(const AxisMap& map) const {
  AxisMap expanded;
  expanded.reserve(map.size());
  for (const AxisList& list : map) expanded.push_back(expand(list));
  return expanded;
}

bool AxisSpace::split(Axis a, Dim inner) {
  const Dim outer = exact_quotient(dims_, axes_[a].extent, inner);
  if (!outer || is_one(dims_, outer)) return false;
  const Side side = static_cast<Side>(axes_[a].sides);
  const Axis first = add(outer, side);
  const Axis second = add(inner, side);
  if (overflowed_) return false;
  axes_[a].outer = first;
  axes_[a].inner = second;
  return true;
}

bool AxisSpace::alias(Axis a, Axis b) {
  a = root(a);
  b = root(b);
  if (a == b) return true;
  if ((axes_[a].sides & axes_[b].sides) != 0) return false;
  axes_[b].alias = a;
  axes_[a].sides |= axes_[b].sides;
  return true;
}

bool AxisSpace::unify(const AxisList& a, const AxisList& b) {
  AxisList left = expand(a), right = expand(b);
  while (!left.empty() && !right.empty()) {
    const Axis x = left.back(), y = right.back();
    if (x != y && dims_.same(extent(x), extent(y))) {
      if (!alias(x, y)) return false;
    } else if (x != y && !split(x, extent(y)) && !split(y, extent(x))) {
      return false;
    } else if (x != y) {  // one was split: look again at its inner part
      left = expand(left);
      right = expand(right);
      continue;
    }
    AxisList shorter_left, shorter_right;
    for (int i = 0; i + 1 < left.size(); ++i) shorter_left.push_back(left[i]);
    for (int i = 0; i + 1 < right.size(); ++i) shorter_right.push_back(right[i]);
    left = expand(shorter_left);
    right = expand(shorter_right);
  }
  return left.empty() && right.empty() && !overflowed_ && !a.overflowed() && !b.overflowed();
}

bool AxisSpace::take(AxisList& list, Dim size, AxisList& taken) {
  taken = AxisList();
  list = expand(list);
  while (!is_one(dims_, size)) {
    if (list.empty()) return false;
    const Axis last = list.back();
    Dim rest = exact_quotient(dims_, size, extent(last));
    if (!rest) {
      if (!split(last, size)) return false;
      list = expand(list);
      continue;
    }
    taken.prepend(last);
    AxisList shorter;
    for (int i = 0; i + 1 < list.size(); ++i) shorter.push_back(list[i]);
    list = shorter;
    size = rest;
  }
  return !taken.overflowed() && !overflowed_;
}

}  // namespace escapement
