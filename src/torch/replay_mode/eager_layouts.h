// EagerLayouts: the sizes, strides and offset that eager gives what a running segment produces, also where they address nothing. Where the
// expressions of the stream do not hold (LayoutHolds) eager's own rule is applied to the operands' layouts, which are found in the same way.
// A layout that follows no rule is not known.
#pragma once

#include <memory>
#include <vector>

#include "torch/replay_mode/pending.h"
#include "torch/replay_mode/segment.h"

namespace escapement {

struct KnownLayout {
  c10::SmallVector<int64_t, 8> sizes, strides;
  int64_t offset = 0;
};

class EagerLayouts {
 public:
  EagerLayouts(const Segment& segment, const Pending& pending) : segment_(segment), pending_(pending) {}
  const KnownLayout* of(uint32_t produced);   // null: not known

 private:
  struct Entry {
    KnownLayout layout;
    bool asked = false, known = false;
  };
  using Operands = c10::SmallVector<const KnownLayout*, 4>;
  bool find(const Produced& type, KnownLayout& out);
  bool operands_of(const LayoutRule& rule, Operands& out);

  const Segment& segment_;
  const Pending& pending_;
  std::vector<Entry> entries_;       // of all produced tensors, once one is asked for
  std::vector<std::unique_ptr<KnownLayout>> outside_;
};

}  // namespace escapement
