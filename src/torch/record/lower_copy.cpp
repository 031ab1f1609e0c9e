// Copies and casts: clone, contiguous, to, copy_, fill_. Where eager hands back its argument at some sizes and a copy at others, a
// copy is recorded and the call says `may_share` (choices.h).
#include <c10/core/InferenceMode.h>

#include "torch/record/copies.h"
#include "torch/record/layout_questions.h"
#include "torch/record/lower_families.h"
#include "torch/record/suggested_format.h"

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

// Does `contiguous` hand back the argument? Decided where the answer is no relation of the axes in their own order.
bool decide_format(OpCall& call, ValueId v, c10::MemoryFormat format) {
  const at::Tensor real = call.real("self");
  return lies_as({call.tape, v, real}, format).guard_bool(__FILE__, __LINE__);
}

// `to` goes by what the strides suggest, those of axes of size 1 too; of other ranks they suggest one format.
void decide_suggested_format(OpCall& call) {
  const at::Tensor& self = call.arg("self").toTensor();
  const c10::TensorImpl& impl = *self.unsafeGetTensorImpl();
  if (self.dim() == 4) (void)impl.is_strides_like_channels_last();
  if (self.dim() == 5) (void)impl.is_strides_like_channels_last_3d();
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

bool decide_copy(OpCall& call, ValueId v, Dim copies) {
  DimTable& dims = call.table();
  const Dim copied = dims.min(copies, some_elements(dims, call.type(v)));
  const bool now = *dims.hint(copied) >= 1;
  call.tape.guard_relation(Guard::Kind::less_equal, dims.constant(1), copied, now, kSharing);
  return now;
}

void note_choice(OpCall& call, Choice choice) {
  DimTable& dims = call.table();
  const at::Tensor self = call.real("self");
  const bool copied = !call.reals[0].storage().is_alias_of(self.storage());
  const bool expected = self.numel() != 0 && *dims.hint(choice.copies) >= 1;
  ESCAPEMENT_CHECK(copied == expected, "a copy where a view was expected, or the other way");
  choice.unlike = self.is_inference() != c10::InferenceMode::is_enabled();
  call.choice = std::move(choice);
}

bool lower_clone(OpCall& call) {
  return copy_as(call, call.value("self"), call.result_type(), format_of(call, c10::MemoryFormat::Preserve));
}

bool lower_contiguous(OpCall& call) {
  const ValueId v = call.value("self");
  const auto format = format_of(call, c10::MemoryFormat::Contiguous);
  call.as_library_may_share = true;
  if (format != c10::MemoryFormat::Contiguous) return decide_format(call, v, format) ? call.done(v) : call.decline(Reason::call_layout);
  const Dim copies = contiguous_copies(call.table(), call.type(v));
  if (!copies) return call.done(v);
  const bool decides = call.tape.host_looks || call.tape.choices.decides_now();
  if (decides && !decide_copy(call, v, copies)) return call.done(v);
  call.may_share = !decides;
  const bool copied = copy_as(call, v, call.result_type(), format);
  if (!decides) note_choice(call, {.source = v, .copies = copies, .strays = {}, .itself = true});
  return copied;
}

bool lower_to(OpCall& call) {
  const ValueId v = call.value("self");
  if (call.reals[0].device() != call.real("self").device()) return call.decline(Reason::call_attribute);
  const auto format = format_of(call, c10::MemoryFormat::Preserve);
  if (format != c10::MemoryFormat::Preserve) decide_suggested_format(call);
  call.as_library_may_share = format != c10::MemoryFormat::Preserve;
  if (call.reals[0].is_same(call.real("self"))) return call.done(v);  // decided by dtype and device, else
  return copy_as(call, v, call.result_type(), format);
}

namespace {

// The functional form: a tensor laid out as `self`, whose elements nobody reads.
bool copied_as_self(OpCall& call, ValueId source) {
  const TensorType self = call.type(call.value("self"));
  const bool from_start = call.tape.trace()[self.root].definition && call.table().as_constant(self.offset) == std::optional<int64_t>(0);
  if (!from_start || !call.build.is_contiguous(self)) return call.decline(Reason::call_layout);
  Attrs attrs;
  attrs.sizes = self.sizes;
  const ValueId expanded = call.build.view(Op::expand, call.build.cast(source, self.dtype), std::move(attrs));
  return call.done(call.build.pointwise(Op::copy, std::vector<ValueId>{expanded}, {}, self.strides));
}

}  // namespace

bool lower_copy(OpCall& call) {
  ValueId source = call.value("src");
  if (const auto s = call.scalar_arg("src")) source = call.scalar(*s, call.result_type());
  if (!source || call.result_type() == DType::other || call.type(source).dtype == DType::other) return call.decline(Reason::call_dtype);
  if (call.real("src").device() != call.reals[0].device()) return call.decline(Reason::call_attribute);
  if (call.plan.form == OpPlan::Form::functional) return copied_as_self(call, source);
  return call.done(source);  // stored by the caller: a write, or a new name
}

namespace {

// A new tensor like the argument, of which nothing but sizes and layout is looked at.
bool filled_anew(OpCall& call) {
  const ValueId self = call.value("self");
  const auto s = call.scalar_arg("value");
  if (!s || s->isSymbolic() || !call.must_fit(*s, call.result_type())) return call.decline(Reason::call_attribute);
  if (!call.reals[0].is_contiguous() || !call.build.is_contiguous(call.type(self))) return call.decline(Reason::call_layout);
  hold_format(call, self, call.real("self"));
  Attrs attrs;
  attrs.sizes = call.type(self).sizes;
  attrs.dtype = call.result_type();
  attrs.value = number_of(call.tape, *s);
  return call.done(call.build.create(Op::full, std::move(attrs)));
}

}  // namespace

bool lower_fill(OpCall& call) {
  const DType dtype = call.result_type();
  if (dtype == DType::other) return call.decline(Reason::call_no_row);
  if (call.plan.form == OpPlan::Form::functional) return call.plan.base == "fill" ? filled_anew(call) : call.decline(Reason::call_no_row);
  if (call.plan.base == "zero") return call.done(call.scalar(c10::Scalar(0), dtype));
  if (const auto s = call.scalar_arg("value")) {
    if (!call.must_fit(*s, dtype)) return call.decline(Reason::call_attribute);
    return call.done(call.scalar(*s, dtype));
  }
  const ValueId value = call.value("value");
  if (call.type(value).dtype == DType::other) return call.decline(Reason::call_dtype);
  return call.done(call.build.cast(value, dtype));
}

// An assertion about sizes that holds is a guard by now: it was read. A call on which it fails is recorded anew, and raises there as
// eager does. Kept as a call it would be an effect, after which nothing may be checked any more.
bool lower_assert(OpCall& call) {
  const c10::IValue& seen = call.arg("self");
  if (seen.isSymBool()) return seen.toSymBool().guard_bool(__FILE__, __LINE__);
  return seen.isBool() ? seen.toBool() : seen.isInt() && seen.toInt() != 0;
}

}  // namespace escapement
