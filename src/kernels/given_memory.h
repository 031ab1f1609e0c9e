// GivenMemory: which values of a trace lie in memory of the caller's. Those are the inputs, views of them, and what a library call
// returned of them: its root is the call's own result, and only the storage says whose memory it is.
#pragma once

#include "trace/trace.h"

namespace escapement {

class GivenMemory {
 public:
  explicit GivenMemory(const Trace& trace) : trace_(trace), given_(trace.storage_count) {
    for (const Value& value : trace.values) {
      if (!value.definition && is_known(value.type.storage)) given_[value.type.storage.index] = true;
    }
  }

  bool holds(ValueId v) const {
    const TensorType& type = trace_.type(v);
    const ValueId root = type.root ? type.root : v;
    return !trace_[root].definition || (is_known(type.storage) && given_[type.storage.index]);
  }

 private:
  bool is_known(Storage storage) const { return storage && storage.index < given_.size(); }

  const Trace& trace_;
  std::vector<bool> given_;   // by storage
};

}  // namespace escapement
