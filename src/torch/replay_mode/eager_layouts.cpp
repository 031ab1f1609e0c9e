// See eager_layouts.h. The rules are ATen's of torch 2.13; tests/python/replay_mode/test_replay_layouts.py holds them against it.
#include "torch/replay_mode/eager_layouts.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorUtils.h>
#include <c10/core/Contiguity.h>
#include <c10/core/MemoryFormat.h>

#include <algorithm>

#include "torch/program/sorted_axes.h"

namespace escapement {
namespace {

using Integers = Strides;
using Layouts = c10::ArrayRef<const KnownLayout*>;
using Kind = LayoutRule::Kind;

template <class Is>
bool all(Layouts layouts, const Is& is) {
  return std::all_of(layouts.begin(), layouts.end(), [&](const KnownLayout* layout) { return is(*layout); });
}

bool has_elements(const KnownLayout& layout) { return std::find(layout.sizes.begin(), layout.sizes.end(), 0) == layout.sizes.end(); }

Integers natural_strides(c10::IntArrayRef sizes) {
  Integers strides(sizes.size());
  int64_t next = 1;
  for (size_t axis = sizes.size(); axis-- > 0;) {
    strides[axis] = next;
    if (sizes[axis] > 1) next *= sizes[axis];
  }
  return strides;
}

bool is_contiguous(const KnownLayout& layout) {
  int64_t expected = 1;
  for (size_t axis = layout.sizes.size(); axis-- > 0;) {
    if (layout.sizes[axis] != 1 && layout.strides[axis] != expected) return false;
    expected *= layout.sizes[axis];
  }
  return true;
}
bool is_channels_last(const KnownLayout& layout) { return c10::_compute_channels_last_contiguous_2d<int64_t>(layout.sizes, layout.strides); }
bool is_dense(const KnownLayout& layout) { return c10::_compute_non_overlapping_and_dense<int64_t>(layout.sizes, layout.strides); }

// Over the common shape; 0 where it is broadcast.
Integers spread(const KnownLayout& operand, c10::IntArrayRef shape) {
  Integers out(shape.size(), 0);
  const size_t missing = shape.size() - operand.sizes.size();
  for (size_t axis = 0; axis < operand.sizes.size(); ++axis)
    if (operand.sizes[axis] != 1 || shape[missing + axis] == 1) out[missing + axis] = operand.strides[axis];
  return out;
}

// It sorts nothing where all operands have the result's sizes and one of three layouts.
Integers iterated(Layouts operands, c10::IntArrayRef shape) {
  if (all(operands, [&](const KnownLayout& layout) { return c10::IntArrayRef(layout.sizes) == shape; })) {
    if (all(operands, is_contiguous)) return natural_strides(shape);
    if (all(operands, is_channels_last)) {
      const auto strides = c10::get_channels_last_strides_2d(shape);
      return Integers(strides.begin(), strides.end());
    }
    const auto same = [&](const KnownLayout& layout) { return layout.strides == operands[0]->strides; };
    if (all(operands, is_dense) && all(operands, same)) return operands[0]->strides;
  }
  c10::SmallVector<Integers, 4> over_shape;
  for (const KnownLayout* operand : operands) over_shape.push_back(spread(*operand, shape));
  return sorted_strides({over_shape.data(), over_shape.size()}, shape);
}

// New memory, in the layout that all operands suggest.
bool joined(Layouts operands, KnownLayout& out) {
  const auto other = [](const KnownLayout& layout) {
    return c10::is_channels_last_strides_2d(layout.sizes, layout.strides) || c10::is_channels_last_strides_3d(layout.sizes, layout.strides);
  };
  if (std::any_of(operands.begin(), operands.end(), [&](const KnownLayout* layout) { return other(*layout); })) return false;
  return out.strides = natural_strides(out.sizes), true;
}

bool reshaped(const KnownLayout& operand, KnownLayout& out) {
  const auto strides = at::detail::computeStride(operand.sizes, operand.strides, c10::IntArrayRef(out.sizes));
  if (!strides) return false;
  out.strides.assign(strides->begin(), strides->end());
  return true;
}

void permuted(const KnownLayout& operand, const std::vector<int32_t>& axes, KnownLayout& out) {
  for (const int32_t axis : axes) out.strides.push_back(operand.strides[static_cast<size_t>(axis)]);
}

void unsqueezed(const KnownLayout& operand, size_t axis, KnownLayout& out) {
  const bool last = axis == operand.sizes.size();
  out.strides = operand.strides;
  out.strides.insert(out.strides.begin() + axis, last ? 1 : operand.sizes[axis] * operand.strides[axis]);
}

void expanded(const KnownLayout& operand, KnownLayout& out) {
  const auto found = at::inferExpandGeometry_dimvector(operand.sizes, operand.strides, out.sizes);
  out.strides.assign(found.strides.begin(), found.strides.end());
}

bool moved(KnownLayout& out, size_t axis, const Formula& start, const int64_t* table) {
  int64_t first = 0, step = 0;
  if (!start.evaluate(table, first) || __builtin_mul_overflow(first, out.strides[axis], &step)) return false;
  return !__builtin_add_overflow(out.offset, step, &out.offset);
}

bool dropped(const KnownLayout& operand, const LayoutRule& rule, const int64_t* table, KnownLayout& out) {
  out.strides = operand.strides;
  for (size_t i = 0; i < rule.axes.size(); ++i) {
    if (!moved(out, static_cast<size_t>(rule.axes[i]), rule.starts[i], table)) return false;
    out.strides.erase(out.strides.begin() + rule.axes[i]);
  }
  return true;
}

bool stepped(const KnownLayout& operand, const LayoutRule& rule, const int64_t* table, KnownLayout& out) {
  const auto axis = static_cast<size_t>(rule.axes[0]);
  out.strides = operand.strides;
  int64_t step = 0;
  if (!moved(out, axis, rule.starts[0], table) || !rule.starts[1].evaluate(table, step)) return false;
  return !__builtin_mul_overflow(out.strides[axis], step, &out.strides[axis]);
}

bool follow(const LayoutRule& rule, Layouts operands, const int64_t* table, KnownLayout& out) {
  if (rule.kind != Kind::sorted && rule.kind != Kind::joined) out.offset = operands[0]->offset;
  switch (rule.kind) {
    case Kind::sorted: return out.strides = iterated(operands, out.sizes), true;
    case Kind::joined: return joined(operands, out);
    case Kind::reshaped: return reshaped(*operands[0], out);
    case Kind::permuted: return permuted(*operands[0], rule.axes, out), true;
    case Kind::unsqueezed: return unsqueezed(*operands[0], static_cast<size_t>(rule.axes[0]), out), true;
    case Kind::expanded: return expanded(*operands[0], out), true;
    case Kind::dropped: return dropped(*operands[0], rule, table, out);
    case Kind::stepped: return stepped(*operands[0], rule, table, out);
    case Kind::none: break;
  }
  return false;
}

}  // namespace

const KnownLayout* EagerLayouts::of(uint32_t produced) {
  if (entries_.empty()) entries_.resize(pending_.size());
  Entry& entry = entries_[produced];
  if (!std::exchange(entry.asked, true)) entry.known = find(pending_[produced].type(), entry.layout);
  return entry.known ? &entry.layout : nullptr;
}

bool EagerLayouts::find(const Produced& type, KnownLayout& out) {
  if (!type.evaluate(segment_.table(), out.sizes)) return false;
  if (type.holds_for(out.sizes)) return type.evaluate_layout(segment_.table(), out.sizes, out.strides, out.offset);
  Operands operands;
  return has_elements(out) && operands_of(type.rule, operands) && follow(type.rule, operands, segment_.table(), out);
}

bool EagerLayouts::operands_of(const LayoutRule& rule, Operands& out) {
  for (const LayoutRule::Operand& operand : rule.operands) {
    if (operand.kind == LayoutRule::Operand::Kind::produced) {
      out.push_back(of(operand.index));
    } else {
      KnownLayout& layout = *outside_.emplace_back(std::make_unique<KnownLayout>());
      out.push_back(&layout);
      if (operand.kind == LayoutRule::Operand::Kind::number) continue;
      const c10::TensorImpl& impl = *segment_.externals()[operand.index].unsafeGetTensorImpl();
      layout = {{impl.sizes().begin(), impl.sizes().end()}, {impl.strides().begin(), impl.strides().end()}, impl.storage_offset()};
    }
    if (out.back() == nullptr) return false;
  }
  return !out.empty();
}

}  // namespace escapement
