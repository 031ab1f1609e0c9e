// Copier: what every pass that reads one trace and appends to another shares. It carries inputs, symbols, locations, guards and
// outputs over, and maps values; a pass decides per instruction: copy it, replace its results, or leave it out.
#pragma once

#include <vector>

#include "trace/builder.h"
#include "trace/trace.h"

namespace escapement {

class Copier {
 public:
  // `to` must be empty. Symbols keep their numbers, so Dims of `from` are valid in `to`.
  Copier(const Trace& from, Trace& to);

  ValueId operator[](ValueId old) const { return values_[old.index]; }  // none: not copied (yet)
  Builder& builder() { return builder_; }
  InstrId copy(InstrId old);                       // operands must be mapped
  void replace(ValueId old, ValueId with) { values_[old.index] = with; }
  void finish();                                   // guards, sources of symbols, outputs

 private:
  TensorType mapped(const TensorType& type) const;

  const Trace& from_;
  Trace& to_;
  Builder builder_;
  std::vector<ValueId> values_;
  std::vector<InstrId> instrs_;
};

}  // namespace escapement
