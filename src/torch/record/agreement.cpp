// See agreement.h.
#include "torch/record/agreement.h"

#include <algorithm>
#include <optional>

#include "torch/record/wrapper.h"

namespace escapement {

Mark mark(const Tape& tape) { return {tape.recording.trace.instrs.size(), tape.recording.trace.values.size()}; }

void take_back(Tape& tape, const Mark& m) {
  Trace& trace = tape.trace();
  trace.instrs.resize(m.instrs);
  trace.values.resize(m.values);
  std::erase_if(trace.guards, [&](const Guard& g) { return g.after && g.after.index >= m.instrs; });
  tape.forget(static_cast<uint32_t>(m.values));
}

bool sizes_agree(const OpCall& call, ValueId v, const at::Tensor& real) {
  const TensorType& type = call.type(v);
  if (type.rank() != real.dim() || type.dtype != dtype_of(real.scalar_type())) return false;
  for (int d = 0; d < type.rank(); ++d)
    if (call.table().hint(type.sizes[d]) != std::optional<int64_t>(real.size(d))) return false;
  return true;
}

bool strides_agree(const OpCall& call, ValueId v, const at::Tensor& real) {
  const TensorType& type = call.type(v);
  if (real.numel() == 0) return true;
  for (int d = 0; d < type.rank(); ++d)
    if (real.size(d) != 1 && call.table().hint(type.strides[d]) != std::optional<int64_t>(real.stride(d))) return false;
  return true;
}

namespace {

bool offset_agrees(const OpCall& call, ValueId v, const at::Tensor& real) {
  const TensorType& type = call.type(v);
  const auto offset = call.table().hint(type.offset);
  return real.numel() == 0 || (offset && call.tape.root_offset(type.root) + *offset == real.storage_offset());
}

// Does the value claim the same memory as the arguments that ATen's result really shares?
bool sharing_agrees(OpCall& call, ValueId v, const at::Tensor& real) {
  const Storage storage = call.type(v).storage;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const at::Tensor arg = call.real_at(static_cast<int>(i));
    const ValueId value = call.value_at(static_cast<int>(i));
    if (!value || !arg.defined() || !arg.has_storage()) continue;
    const bool really = arg.storage().is_alias_of(real.storage());
    const bool claimed = call.type(value).storage == storage;
    if (really == claimed) continue;
    if (!(really && call.may_share)) return false;
  }
  return true;
}

// --- storing the value of an in-place or out= form

bool owned_alone(const OpCall& call, const Wrapper& w) {
  const ValueId root = call.type(w.value()).root;
  return static_cast<bool>(call.tape.trace()[root].definition) && w.inner().storage().use_count() == 1;
}

bool same_layout(const OpCall& call, ValueId a, ValueId b) {
  const TensorType &x = call.type(a), &y = call.type(b);
  const DimTable& dims = call.table();
  if (x.rank() != y.rank() || x.dtype != y.dtype) return false;
  for (int d = 0; d < x.rank(); ++d)
    if (!dims.same(x.sizes[d], y.sizes[d]) || !dims.same(x.strides[d], y.strides[d])) return false;
  return true;
}

// 0-d constants are shared by the tape: nothing may be renamed to one, since it might be written later.
bool is_fresh(const OpCall& call, ValueId v, const Mark& m) {
  if (v.index < m.values || call.type(v).root != v) return false;
  const Instr& definition = call.tape.trace()[call.tape.trace()[v].definition];
  return !(definition.op == Op::full && call.rank(v) == 0);
}

// What is written in place may be broadcast; an out= argument has the result's sizes, or ATen gives it those.
bool is_as_large(OpCall& call, ValueId target, ValueId result) {
  if (call.plan.form != OpPlan::Form::out) return true;
  const std::vector<Dim> wanted = call.type(result).sizes, sizes = call.type(target).sizes;
  const auto agrees = [&](Dim a, Dim b) { return call.table().hint(a) == call.table().hint(b); };
  if (!std::equal(wanted.begin(), wanted.end(), sizes.begin(), sizes.end(), agrees)) return false;
  hold_same_sizes(call, wanted, sizes);
  return true;
}

// The wrapper's tensor now holds `v`: by renaming where nobody else can see its memory, else by a write.
bool store(OpCall& call, uint32_t argument, ValueId v, const at::Tensor& real, const Mark& m, bool resized) {
  Wrapper* w = Wrapper::of(call.args[argument].toTensor());
  const ValueId old = call.value_at(static_cast<int>(argument));
  call.tape.note_write(old);
  if (w && owned_alone(call, *w) && is_fresh(call, v, m) && sizes_agree(call, v, real) &&
      (resized ? strides_agree(call, v, real) : same_layout(call, old, v))) {
    if (resized) hold_resized(call, v, old);
    w->stand_for(v);
    return true;
  }
  if (resized || !is_as_large(call, old, v)) return false;
  call.build.write(old, v);
  return true;
}

}  // namespace

bool functional_agrees(OpCall& call) {
  if (call.results.size() != call.reals.size()) return false;
  for (size_t i = 0; i < call.results.size(); ++i) {
    const ValueId v = call.results[i];
    const at::Tensor& real = call.reals[i];
    if (!v || !real.defined()) {
      if (v || real.defined()) return false;
      continue;
    }
    if (!sizes_agree(call, v, real) || !strides_agree(call, v, real) || !sharing_agrees(call, v, real)) return false;
    if (call.type(v).storage != call.type(call.type(v).root).storage) return false;
    if (!call.may_share && !offset_agrees(call, v, real)) return false;
  }
  return true;
}

bool values_agree(const OpCall& call, const Mark& m) {
  for (size_t i = 0; i < call.results.size(); ++i) {
    const ValueId v = call.results[i];
    if (!v || v.index < m.values) continue;
    // Broadcast into the target: only the target's own sizes are known for sure.
    if (call.rank(v) > call.reals[i].dim()) return false;
  }
  return call.results.size() == call.plan.writes.size();
}

bool store_all(OpCall& call, const Mark& m, const std::vector<std::vector<int64_t>>& before) {
  for (size_t i = 0; i < call.plan.writes.size(); ++i) {
    const uint32_t argument = call.plan.writes[i];
    const at::Tensor real = call.real_at(static_cast<int>(argument));
    const bool resized = real.sizes() != c10::IntArrayRef(before[argument]);
    if (!store(call, argument, call.results[i], real, m, resized)) return false;
  }
  return true;
}

}  // namespace escapement
