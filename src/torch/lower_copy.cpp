// Copies and casts: clone, contiguous, to, copy_, fill_. Where eager hands back its argument at some sizes and a copy at others, a
// copy is recorded and the call says `may_share`.
#include "torch/lower_families.h"

namespace escapement {

namespace {

c10::MemoryFormat format_of(const OpCall& call, c10::MemoryFormat otherwise) {
  if (!call.given("memory_format")) return otherwise;
  return static_cast<c10::MemoryFormat>(call.integer("memory_format"));
}

// The layout that the format gives a copy of `v`; empty: ours has no rule.
std::optional<std::vector<Dim>> copy_strides(OpCall& call, ValueId v, c10::MemoryFormat format) {
  const TensorType& type = call.type(v);
  if (format == c10::MemoryFormat::Contiguous) return call.build.contiguous_strides(type.sizes);
  if (format != c10::MemoryFormat::Preserve) return {};
  if (call.build.is_contiguous(type)) return type.strides;
  // Dense in another order keeps its strides; anything else goes by the layout rule of pointwise ops. Where symbols do not decide
  // it, contiguous is the guess that the comparison with eager's result confirms or not.
  std::vector<Dim> strides = call.build.result_strides(std::vector<ValueId>{v}, type.sizes);
  return strides.empty() ? call.build.contiguous_strides(type.sizes) : strides;
}

bool copy_as(OpCall& call, ValueId v, DType dtype, c10::MemoryFormat format) {
  if (dtype == DType::other || call.type(v).dtype == DType::other) return call.decline(Reason::call_dtype);
  const auto strides = copy_strides(call, v, format);
  if (!strides || strides->size() != call.type(v).sizes.size()) return call.decline(Reason::call_layout);
  Attrs attrs;
  const bool cast = dtype != call.type(v).dtype;
  if (cast) attrs.dtype = dtype;
  return call.done(call.build.pointwise(cast ? Op::cast : Op::copy, std::vector<ValueId>{v}, std::move(attrs), *strides));
}

// Eager hands back the argument: for all sizes, or for those that are contiguous as this one is, which is guarded.
bool is_contiguous_now(OpCall& call, ValueId v) {
  const TensorType type = call.type(v);
  if (call.real("self").numel() == 0) return guard_elements(call, v);
  Dim expected = call.table().constant(1);
  for (int axis = type.rank(); axis-- > 0;) {
    if (guard_one(call, type.sizes[axis])) continue;
    call.tape.guard_relation(Guard::Kind::equal, type.strides[axis], expected, true, kSharing);
    expected = call.table().mul(expected, type.sizes[axis]);
  }
  return true;
}

}  // namespace

bool guard_one(OpCall& call, Dim size) {
  if (call.table().hint(size) != std::optional<int64_t>(1)) return false;
  call.tape.guard_relation(Guard::Kind::equal, size, call.table().constant(1), true, kSharing);
  return true;
}

bool guard_elements(OpCall& call, ValueId v) {
  const bool none = call.real("self").numel() == 0;
  call.tape.guard_relation(Guard::Kind::equal, call.table().product(call.type(v).sizes), call.table().constant(0), none, kSharing);
  return none;
}

void guard_layout(OpCall& call, ValueId v) {
  const auto as_seen = [&](Dim dim) {
    call.tape.guard_relation(Guard::Kind::equal, dim, call.table().constant(*call.table().hint(dim)), true, kSharing);
  };
  const TensorType type = call.type(v);
  for (const Dim size : type.sizes) as_seen(size);
  for (const Dim stride : type.strides) as_seen(stride);
}

void guard_copy(OpCall& call, ValueId v, const std::vector<CopyCondition>& conditions) {
  guard_elements(call, v);
  if (conditions.empty()) guard_layout(call, v);
  for (const CopyCondition& c : conditions) call.tape.guard_relation(c.kind, c.left, c.right, c.holds, kSharing);
}

bool lower_clone(OpCall& call) {
  const ValueId v = call.value("self");
  const bool contiguous = call.plan.base == "contiguous";
  const auto format = format_of(call, contiguous ? c10::MemoryFormat::Contiguous : c10::MemoryFormat::Preserve);
  if (contiguous) {
    if (format == c10::MemoryFormat::Contiguous && call.build.is_contiguous(call.type(v))) return call.done(v);
    const bool itself = call.reals[0].is_same(call.real("self"));
    if (call.tape.host_looks && itself) return format == c10::MemoryFormat::Contiguous && is_contiguous_now(call, v) && call.done(v);
    call.may_share = true;
  }
  if (!copy_as(call, v, call.result_type(), format)) return false;
  if (!contiguous) return true;
  std::vector<CopyCondition> conditions;
  if (!call.reals[0].is_same(call.real("self")))
    conditions = why_contiguous_copies(call.table(), call.type(v), call.type(call.results[0]).strides);
  if (call.tape.host_looks) return guard_copy(call, v, conditions), true;
  call.tape.note_may_share(call.results[0], v, std::move(conditions));
  call.tape.note_may_be_same(call.results[0], v);
  return true;
}

bool lower_to(OpCall& call) {
  const ValueId v = call.value("self");
  if (call.reals[0].device() != call.real("self").device()) return call.decline(Reason::call_attribute);
  if (call.reals[0].is_same(call.real("self"))) return call.done(v);  // decided by dtype and device alone
  return copy_as(call, v, call.result_type(), format_of(call, c10::MemoryFormat::Preserve));
}

bool lower_copy(OpCall& call) {
  ValueId source = call.value("src");
  if (const auto s = call.scalar_arg("src")) source = call.scalar(*s, call.result_type());
  if (!source || call.result_type() == DType::other || call.type(source).dtype == DType::other) return call.decline(Reason::call_dtype);
  if (call.plan.form == OpPlan::Form::functional) return call.decline(Reason::call_no_row);
  if (call.real("src").device() != call.reals[0].device()) return call.decline(Reason::call_attribute);
  return call.done(source);  // stored by the caller: a write, or a new name
}

bool lower_fill(OpCall& call) {
  const DType dtype = call.result_type();
  if (call.plan.form == OpPlan::Form::functional || dtype == DType::other) return call.decline(Reason::call_no_row);
  if (call.plan.base == "zero") return call.done(call.scalar(c10::Scalar(0), dtype));
  if (const auto s = call.scalar_arg("value")) {
    if (!call.must_fit(*s, dtype)) return call.decline(Reason::call_attribute);
    return call.done(call.scalar(*s, dtype));
  }
  return call.done(call.build.cast(call.value("value"), dtype));
}

// An assertion about sizes that holds is a guard by now: it was read. A call on which it fails is recorded anew, and raises there as
// eager does. Kept as a call it would be an effect, after which nothing may be checked any more.
bool lower_assert(OpCall& call) {
  const c10::IValue& seen = call.arg("self");
  if (seen.isSymBool()) return seen.toSymBool().guard_bool(__FILE__, __LINE__);
  return seen.isBool() ? seen.toBool() : seen.isInt() && seen.toInt() != 0;
}

}  // namespace escapement
