// Copier: the one way for a pass to bring what it does not change from one trace to another. It carries inputs, symbols, locations,
// guards and outputs over, and knows for every value and instruction of the old trace what stands for it in the new one; a pass
// decides per instruction: copy it, replace its results, or leave it out.
//
// No id of the old trace ever stands in the new one: a symbol that was read from a value has no source until that value is there, and
// stays without one if the pass leaves the value out; a use of something that was left out is an InternalError. The types tell ids of
// values and of instructions apart, and every access is checked (support/checked.h).
#pragma once

#include <vector>

#include "support/checked.h"
#include "trace/builder.h"
#include "trace/trace.h"

namespace escapement {

class Copier {
 public:
  // `to` must be empty. Symbols keep their numbers, so Dims of `from` are valid in `to`.
  Copier(const Trace& from, Trace& to);

  ValueId operator[](ValueId old) const;           // InternalError: not there (yet)
  bool has(ValueId old) const { return static_cast<bool>(values_[old]); }
  Builder& builder() { return builder_; }
  InstrId copy(InstrId old);                       // operands must be there
  void replace(ValueId old, ValueId with);         // a value of the new trace
  void finish();                                   // guards and outputs

 private:
  TensorType mapped(ValueId old) const;
  InstrId placed_after(InstrId old) const;
  void set(ValueId old, ValueId fresh);

  const Trace& from_;
  Trace& to_;
  Builder builder_;
  IdMap<ValueId, ValueId> values_;
  IdMap<InstrId, InstrId> instrs_;                 // the copy, or what defines the replacement of a result; none: an input, if done
  IdMap<InstrId, bool> done_;                      // copied or replaced
  IdMap<ValueId, std::vector<Symbol>> born_;       // the symbols read from a value
  IdMap<Storage, Storage> storages_;               // of a replaced root: its replacement's, for whatever shares its memory
};

}  // namespace escapement
