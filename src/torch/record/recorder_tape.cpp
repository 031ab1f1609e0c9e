// See recorder_tape.h.
#include "torch/record/recorder_tape.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "support/error.h"
#include "torch/record/device.h"
#include "torch/record/line_hook.h"
#include "torch/record/program_metadata.h"
#include "torch/record/symnode.h"
#include "torch/record/unharmed.h"
#include "torch/record/wrapper.h"

namespace escapement {

namespace {
thread_local TapePtr t_tape;

}  // namespace

static bool is_plain_but_for(c10::DispatchKeySet bits, const at::Tensor& t) {
  if (!t.defined() || t.is_nested() || t.layout() != at::kStrided || t.is_quantized() || !is_known_kind(t.device().type())) return false;
  constexpr c10::DispatchKeySet kOthers({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative, c10::DispatchKey::ZeroTensor,
                                         c10::DispatchKey::Python, c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                         c10::DispatchKey::Functionalize});
  return !t.key_set().has_any(kOthers - bits) && t.unsafeGetTensorImpl()->has_storage();
}

constexpr c10::DispatchKeySet kLazyBits({c10::DispatchKey::Conjugate, c10::DispatchKey::Negative});

bool is_plain(const at::Tensor& t) { return is_plain_but_for({}, t); }
bool is_lazy(const at::Tensor& t) { return t.defined() && t.key_set().has_any(kLazyBits) && is_plain_but_for(kLazyBits, t); }

Tape* current_tape() { return t_tape.get(); }
const TapePtr& current_tape_ptr() { return t_tape; }
void set_current_tape(TapePtr tape) { t_tape = std::move(tape); }

PythonHooks& python_hooks() {
  static PythonHooks hooks;
  return hooks;
}

DType dtype_of(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Bool: return DType::b8;
    case c10::ScalarType::Byte: return DType::u8;
    case c10::ScalarType::Char: return DType::i8;
    case c10::ScalarType::Short: return DType::i16;
    case c10::ScalarType::Int: return DType::i32;
    case c10::ScalarType::Long: return DType::i64;
    case c10::ScalarType::Half: return DType::f16;
    case c10::ScalarType::BFloat16: return DType::bf16;
    case c10::ScalarType::Float: return DType::f32;
    case c10::ScalarType::Double: return DType::f64;
    default: return DType::other;
  }
}

c10::ScalarType scalar_type_of(DType type) {
  switch (type) {
    case DType::b8: return c10::ScalarType::Bool;
    case DType::u8: return c10::ScalarType::Byte;
    case DType::i8: return c10::ScalarType::Char;
    case DType::i16: return c10::ScalarType::Short;
    case DType::i32: return c10::ScalarType::Int;
    case DType::i64: return c10::ScalarType::Long;
    case DType::f16: return c10::ScalarType::Half;
    case DType::bf16: return c10::ScalarType::BFloat16;
    case DType::f32: return c10::ScalarType::Float;
    case DType::f64: return c10::ScalarType::Double;
    default: break;
  }
  throw InternalError("a dtype without a torch equivalent");
}

std::optional<c10::ScalarType> dtype_of_input(const Trace& trace, uint32_t input) {
  const DType dtype = trace.type(trace.inputs[input].value).dtype;
  if (dtype != DType::other) return scalar_type_of(dtype);
  const int32_t foreign = trace.inputs[input].foreign;
  return foreign < 0 ? std::nullopt : std::optional(static_cast<c10::ScalarType>(foreign));
}

std::optional<int> axis_in(int64_t axis, int64_t rank) {
  const int64_t wrap = rank == 0 ? 1 : rank;
  if (axis < -wrap || axis >= wrap) return {};
  return static_cast<int>(axis < 0 ? axis + wrap : axis);
}

void Tape::refuse(Reason why, std::string detail) {
  if (closed || recording.refused) return;
  recording.refused = why;
  recording.refused_detail = std::move(detail);
}

// --- values

ValueId Tape::value_of(const at::Tensor& tensor) {
  if (const Wrapper* w = Wrapper::of(tensor)) {
    if (&w->tape() == this && w->value()) return w->value();
    return capture(w->inner());  // a wrapper left over from another recording
  }
  return capture(tensor);
}

ValueId Tape::capture(const at::Tensor& real) {
  auto known = captured_.find(real.unsafeGetTensorImpl());
  if (known == captured_.end()) {
    if (!is_plain(real)) {
      refuse(Reason::unsupported_input, "a tensor used by the program is not a plain strided one");
      return {};
    }
    if (!is_home(real)) {
      refuse(Reason::device_mixed, "a tensor used by the program lies on " + real.device().str() + ", its arguments on " + recording.device.str());
      return {};
    }
    const ValueId value = add_captured(real);
    known = captured_.try_emplace(real.unsafeGetTensorImpl()).first;
    known->second = {value, recording.captured.size() - 1};
  }
  captures_.note_use(known->second.number, real);
  return known->second.value;
}

ValueId Tape::add_captured(const at::Tensor& real) {
  const ValueId value = add_input(real, {}, "captured" + std::to_string(recording.captured.size()), /*parameter=*/true);
  recording.captured.push_back(real);
  return value;
}

ValueId Tape::capture_lifted(const at::Tensor& real) {
  const ValueId value = capture(real);
  if (value) captures_.note_own(captured_.at(real.unsafeGetTensorImpl()).number);
  return value;
}

ValueId Tape::own_literal(const at::Tensor& copy) {
  captures_.note_own(recording.captured.size());
  return add_captured(copy);
}

void Tape::judge_captures(std::span<const c10::IValue> outputs) {
  constexpr long kHolders = 2;   // recording.captured and inputs_
  if (auto found = captures_.refusal(recording, outputs, kHolders)) refuse(found->why, std::move(found->detail));
}

const at::Tensor& Tape::given(ValueId input) const {
  const auto found = std::find(input_values_.begin(), input_values_.end(), input);
  ESCAPEMENT_CHECK(found != input_values_.end(), "a value that is no input");
  return inputs_[static_cast<size_t>(found - input_values_.begin())];
}

bool Tape::is_given(const at::Tensor& real) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const at::Tensor& input) { return input.is_same(real); });
}

namespace {

int64_t first_of_stride(const at::Tensor& real, int64_t stride) {
  int64_t axis = 0;
  while (real.stride(axis) != stride || real.size(axis) <= 1) ++axis;
  return axis;
}

bool is_dense(const at::Tensor& real, const std::vector<int32_t>& order) {
  int64_t expected = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (real.stride(*axis) != expected) return false;
    expected *= real.size(*axis);
  }
  return true;
}

}  // namespace

ValueId Tape::add_input(const at::Tensor& real, std::vector<Dim> sizes, const std::string& name, bool parameter) {
  const uint32_t position = static_cast<uint32_t>(trace().inputs.size());
  TensorType type;
  type.dtype = dtype_of(real.scalar_type());
  if (sizes.empty())
    for (const int64_t size : real.sizes()) sizes.push_back(dims().constant(size));
  type.sizes = sizes;
  const bool contiguous = host_looks ? has_natural_strides(*real.unsafeGetTensorImpl()) : real.is_contiguous();
  std::vector<int32_t> order = contiguous ? std::vector<int32_t>{} : order_of(*real.unsafeGetTensorImpl());
  std::transform(order.begin(), order.end(), order.begin(), axis_of);
  if (!contiguous && is_dense(real, order)) {
    type.strides.resize(sizes.size());
    Dim stride = dims().constant(1);
    for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
      type.strides[*axis] = stride;
      stride = dims().mul(stride, sizes[*axis]);
    }
  } else if (!contiguous) {
    type.strides = irregular_strides(real, position, parameter);
    assume_order(type.strides, order);
  }
  const auto known = storages_.find(real.storage().unsafeGetStorageImpl());
  if (known != storages_.end()) type.storage = known->second;
  const ValueId value = parameter && sizes.size() == static_cast<size_t>(real.dim()) ? builder.input(std::move(type), name, true)
                                                                                     : builder.input(std::move(type), name, false);
  if (trace().type(value).dtype == DType::other) trace().inputs.back().foreign = static_cast<int32_t>(real.scalar_type());
  trace().inputs.back().contiguous = contiguous;
  trace().inputs.back().stride_order = order;
  storages_.emplace(real.storage().unsafeGetStorageImpl(), trace().type(value).storage);
  inputs_.push_back(real);
  input_values_.push_back(value);
  note_root(value, real);
  return value;
}

// A symbol each; but an axis without a stride is broadcast, which is a class of layout of its own, also while its size is 1, and axes of one
// stride share it, so that nothing is taken for their order.
std::vector<Dim> Tape::irregular_strides(const at::Tensor& real, uint32_t position, bool parameter) {
  std::vector<Dim> strides(static_cast<size_t>(real.dim()));
  const std::vector<int32_t> order = order_of(*real.unsafeGetTensorImpl());
  const auto ties = [&](int64_t d) { return std::find(order.begin(), order.end(), ~static_cast<int32_t>(d)) != order.end(); };
  for (int64_t d = 0; d < real.dim(); ++d) {
    const bool fixed = parameter || real.stride(d) == 0;
    Source source;
    source.kind = Source::Kind::input_stride;
    source.input = position;
    source.dim = static_cast<uint32_t>(d);
    if (ties(d)) strides[d] = strides[first_of_stride(real, real.stride(d))];
    else strides[d] = fixed ? dims().constant(real.stride(d)) : dims().new_symbol(SymbolKind::stride, source, real.stride(d));
  }
  return strides;
}

// What the entry checks of the input's order establish, wherever it matters: the stride of an axis of size 1 addresses nothing.
void Tape::assume_order(const std::vector<Dim>& strides, const std::vector<int32_t>& order) {
  for (size_t i = 1; i < order.size(); ++i) {
    const Dim outer = strides[order[i - 1]], inner = strides[order[i]];
    if (!dims().as_constant(outer) || !dims().as_constant(inner)) dims().assume_range(dims().sub(outer, inner), {0, Range::kMax});
  }
}

void Tape::note_root(ValueId root, const at::Tensor& real) {
  if (real.storage_offset() != 0) root_offsets_[root.index] = real.storage_offset();
}

Dim Tape::storage_offset(ValueId root) {
  const auto known = storage_offsets_.find(root.index);
  if (known != storage_offsets_.end()) return known->second;
  const auto input = input_of(root);
  if (!input) {
    if (!starts_its_memory(root)) refuse(Reason::storage_access, "where in its memory a library call's result lies was asked");
    return dims().constant(root_offset(root));
  }
  Source source;
  source.kind = Source::Kind::input_offset;
  source.input = *input;
  const Dim offset = dims().new_symbol(SymbolKind::stride, source, root_offset(root));
  dims().assume_range(offset, {0, Range::kMax});
  return storage_offsets_.emplace(root.index, offset).first->second;
}

// ATen decides where the result of a library call lies, in another tensor's memory or in what it allocated. Several results without elements
// may be views of one, which does not show.
bool Tape::starts_its_memory(ValueId root) const {
  const InstrId made = recording.trace[root].definition;
  const auto is_nothing = [&](Dim size) { return recording.trace.dims.hint(size) == std::optional<int64_t>(0); };
  const std::vector<Dim>& sizes = recording.trace.type(root).sizes;
  if (made && recording.trace[made].results.size() > 1 && std::any_of(sizes.begin(), sizes.end(), is_nothing)) return false;
  const Storage storage = recording.trace.type(root).storage;
  const auto shares = [&](const Value& v) { return v.type.root && v.type.root != root && v.type.storage == storage; };
  return root_offset(root) == 0 && std::none_of(recording.trace.values.begin(), recording.trace.values.end(), shares);
}

int64_t Tape::root_offset(ValueId root) const {
  const auto it = root_offsets_.find(root.index);
  return it == root_offsets_.end() ? 0 : it->second;
}

ValueId Tape::scalar(const Number& number, DType dtype) {
  const std::string key = std::to_string(static_cast<int>(number.kind)) + ":" + std::to_string(number.integer) + ":" +
                          std::to_string(std::bit_cast<int64_t>(number.real)) + ":" + std::to_string(number.dim.index) + ":" +
                          std::to_string(static_cast<int>(dtype));
  auto [it, fresh] = scalars_.try_emplace(key);
  if (fresh) {
    Attrs attrs;
    attrs.value = number;
    attrs.dtype = dtype;
    it->second = builder.create(Op::full, std::move(attrs));
  }
  return it->second;
}

void Tape::forget(uint32_t first_value) {
  choices.forget(first_value);
  const auto gone = [&](uint32_t value) { return value >= first_value; };
  std::erase_if(scalars_, [&](const auto& entry) { return gone(entry.second.index); });
  std::erase_if(root_offsets_, [&](const auto& entry) { return gone(entry.first); });
  std::erase_if(storage_offsets_, [&](const auto& entry) { return gone(entry.first); });
  for (uint32_t i = 0; i < dims().symbol_count(); ++i) {
    const ValueId source = dims().info(Symbol(i)).source.value;
    if (source && gone(source.index)) dims().set_source(Symbol(i), {});
  }
}

// --- symbols

c10::SymInt Tape::symint(Dim dim, int64_t hint) {
  if (!live()) return hint;
  if (const auto constant = dims().as_constant(dim)) return *constant;
  return c10::SymInt(Node::integer(shared_from_this(), dim, hint));
}

Dim Tape::dim_of(const c10::SymInt& value) {
  if (!value.is_heap_allocated()) return dims().constant(value.as_int_unchecked());
  const Node* node = Node::of(value.toSymNodeImplUnowned());
  if (node && &node->tape() == this) return settled(node->dim());
  return dims().constant(value.guard_int(__FILE__, __LINE__));
}

Dim Tape::born(Source source, int64_t hint) { return dims().new_symbol(SymbolKind::born, source, hint); }

InstrId Tape::bound_after(Dim left, Dim right) const {
  InstrId after;
  for (const Dim dim : {left, right}) {
    for (const Symbol symbol : recording.trace.dims.symbols(dim)) {
      const Source& source = recording.trace.dims.info(symbol).source;
      if (!source.value) continue;
      const InstrId definition = recording.trace[source.value].definition;
      if (definition && (!after || after < definition)) after = definition;
    }
  }
  return after;
}

namespace {

// Python's threads take turns, and what they ask is guarded like this one's. A thread of torch's own that runs a fork of TorchScript asks while this one records:
// what is written down is not made for two.
bool is_elsewhere(Tape& tape) {
  if (tape.thread == std::this_thread::get_id() || !tape.location_hook || tape.location_hook() != kNotLooked) return false;
  tape.refuse(Reason::recorder_refused, "a size of the program was used on a thread in which no Python runs");
  return true;
}

}  // namespace

void Tape::guard(Guard::Kind kind, Dim left, Dim right, std::string because) {
  if (!live() || is_elsewhere(*this)) return;
  const Location location = here();
  std::tie(left, right) = builder.oldest(left, right);
  const InstrId bound = bound_after(left, right);
  if (exits && bound) exits->before_guard(*this, bound, because, location);
  builder.set_location(location);
  builder.guard(kind, left, right, std::move(because), bound);
}

void Tape::guard_relation(Guard::Kind kind, Dim left, Dim right, bool holds, const std::string& because) {
  using K = Guard::Kind;
  if (!holds) {  // the negation is what was seen
    if (kind == K::equal) return guard_relation(K::not_equal, left, right, true, because);
    if (kind == K::not_equal) return guard_relation(K::equal, left, right, true, because);
    if (kind == K::less) return guard_relation(K::less_equal, right, left, true, because);
    return guard_relation(K::less, right, left, true, because);
  }
  if (is_elsewhere(*this)) return;
  DimTable& d = dims();
  left = settled(left);
  right = settled(right);
  const Truth known = kind == K::equal ? d.equal(left, right) : kind == K::less ? d.less(left, right) : kind == K::less_equal ? d.less_equal(left, right) : Truth::unknown;
  if (known == Truth::yes) return;
  if (kind == K::not_equal && d.equal(left, right) == Truth::no) return;
  // A relation between a symbol and a number narrows the symbol's range, so that it is not asked again.
  guard(kind, left, right, because);
  if (kind == K::equal) return d.assume_equal(left, right);
  const int64_t open = kind == K::less ? 1 : 0;
  if (const auto bound = d.as_constant(right); bound && kind != K::not_equal) d.assume_range(left, {Range::kMin, *bound - open});
  if (const auto bound = d.as_constant(left); bound && kind != K::not_equal) d.assume_range(right, {*bound + open, Range::kMax});
}

void Tape::pin(Dim dim, int64_t value, const std::string& because) {
  if (!live() || is_elsewhere(*this)) return;
  dim = settled(dim);
  if (dims().as_constant(dim)) return;
  recording.specialised.push_back(dims().to_string(dim) + " == " + std::to_string(value) + ": " + because);
  // The host has its answer, whether the relation can be written down or not.
  unharmed(*this, [&] { guard_relation(Guard::Kind::equal, dim, dims().constant(value), true, because); });
}

Dim Tape::item(ValueId value, int64_t hint) {
  builder.set_location(here());
  // Read now: what `value` names may be written later, or may have been written since its definition.
  const ValueId now = builder.pointwise(Op::copy, std::vector<ValueId>{value});
  Source source;
  source.kind = Source::Kind::item;
  source.value = now;
  const Dim dim = born(source, hint);
  if (trace().type(value).dtype == DType::b8) dims().assume_range(dim, {0, 1});
  return dim;
}

void Tape::guard_float_value(ValueId value, double seen) {
  if (!live()) return;
  ValueId same;
  if (seen != seen) {
    same = builder.pointwise(Op::isnan, std::vector<ValueId>{value});
  } else {
    Number number;
    number.kind = Number::Kind::real;
    const auto equals = [&](ValueId v, double wanted) {
      number.real = wanted;
      return builder.pointwise(Op::eq, std::vector<ValueId>{v, scalar(number, DType::f64)});
    };
    const ValueId wide = builder.cast(value, DType::f64);
    same = equals(wide, seen);
    if (seen == 0) {  // which of the two zeros it is shows in its reciprocal
      const ValueId side = equals(builder.pointwise(Op::reciprocal, std::vector<ValueId>{wide}), 1 / seen);
      same = builder.pointwise(Op::logical_and, std::vector<ValueId>{same, side});
    }
  }
  recording.specialised.push_back("a floating-point value read by the host");
  guard_truth(same, "a floating-point value read by the host");
}

void Tape::guard_truth(ValueId truth, const char* because) {
  if (!live()) return;
  Source source;
  source.kind = Source::Kind::item;
  source.value = truth;
  const Dim number = born(source, 1);
  dims().assume_range(number, {0, 1});
  guard_relation(Guard::Kind::equal, number, dims().constant(1), true, because);
}

Location Tape::here() {
  if (!location_hook) return {};
  const int line = location_hook();
  if (line == kNotLooked) refuse(Reason::caught_exception, "an interrupt came while it was asked where an operator stands");
  if (line < 0) return {};
  const auto [known, fresh] = lines_.try_emplace(line);
  if (fresh) known->second = builder.locate(std::to_string(line));  // a front end that knows the files writes better texts
  return known->second;
}

void Tape::note_write(ValueId destination) {
  if (lent.holds(trace().type(destination))) refuse(Reason::storage_access, "an operator writes memory whose address the program has");
  choices.written(destination);
}

}  // namespace escapement
