// See program_entry.h.
#include "torch/program_entry.h"

#include <algorithm>

#include "guards/check.h"
#include "support/error.h"
#include "torch/recorder_tape.h"

namespace escapement {
namespace {

// Keys that a plain CPU tensor may carry or lack without any effect on what we do: the caller has decided about gradients, and
// autocast is off where it matters. All others (Python, conjugate, functorch, sparse, ...) make the tensor another kind of thing.
constexpr c10::DispatchKeySet kIrrelevant = c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset;
constexpr c10::DispatchKeySet kPlain = c10::DispatchKeySet(c10::DispatchKey::CPU);

bool is_plain(const c10::TensorImpl& impl) { return impl.key_set() - kIrrelevant == kPlain; }

constexpr size_t kSmallTable = 96;  // slots kept on the stack

// Memory of a tensor as an address range.
struct Bytes {
  const char *begin, *end;
};
Bytes bytes_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return {nullptr, nullptr};
  const char* first = static_cast<const char*>(tensor.const_data_ptr());
  int64_t low = 0, high = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    const int64_t reach = (tensor.size(d) - 1) * tensor.stride(d);
    (reach < 0 ? low : high) += reach;
  }
  const auto element = static_cast<int64_t>(tensor.element_size());
  return {first + low * element, first + (high + 1) * element};
}
bool overlap(const Bytes& a, const Bytes& b) { return a.begin < b.end && b.begin < a.end; }

bool order_holds(const c10::TensorImpl& impl, std::span<const int32_t> order) {
  const auto sizes = impl.sizes();
  const auto strides = impl.strides();
  int64_t outer = INT64_MAX;
  for (const int32_t axis : order) {
    if (sizes[axis] == 1) continue;
    if (strides[axis] > outer) return false;
    outer = strides[axis];
  }
  return true;
}

int64_t item_of(const at::Tensor& tensor) {
  const c10::Scalar value = tensor.item();
  return value.isBoolean() ? value.toBool() : value.toLong();
}

// What a failing check reports; the quick path reports nothing.
struct Silent {
  bool operator()(uint32_t, const char*, const char*, int64_t, int64_t) const { return false; }
};

}  // namespace

EntryChecks::EntryChecks(const LaunchPlan& plan, std::vector<at::Tensor> captured)
    : captured_(std::move(captured)), shapes_(plan.trace.dims, std::vector<uint32_t>(plan.trace.dims.symbol_count(), 0)),
      trace_(plan.trace) {
  ESCAPEMENT_CHECK(trace_.inputs.size() >= captured_.size(), "captured tensors are inputs");
  argument_count_ = trace_.inputs.size() - captured_.size();
  for (const Input& input : trace_.inputs) add_input(trace_, input);
  for (const uint32_t number : plan.entry) {
    const Guard& guard = trace_.guards[number];
    guards_.push_back({guard.kind, shapes_.add(guard.left), shapes_.add(guard.right), number});
  }
  shapes_.finish();
  add_bindings(plan);
  add_overlaps(plan);
}

EntryChecks::DimCheck EntryChecks::dim_check(const Trace& trace, Dim dim) {
  const std::vector<DimTable::Step> steps = trace.dims.steps(dim);
  DimCheck check;
  if (steps.size() == 1 && steps[0].op == DimTable::Step::Op::constant) {
    check.value = steps[0].constant;
    return check;
  }
  const bool symbol = steps.size() == 1;
  check.kind = symbol ? DimCheck::Kind::symbol : DimCheck::Kind::expression;
  check.slot = shapes_.add(dim);
  return check;
}

void EntryChecks::add_input(const Trace& trace, const Input& input) {
  InputCheck check;
  check.sizes = static_cast<uint32_t>(dims_.size());
  if (input.kind == Input::Kind::integer && input.dim) {
    check.kind = InputCheck::Kind::integer;
    dims_.push_back(dim_check(trace, input.dim));
  } else if (input.kind == Input::Kind::tensor && input.value) {
    const TensorType& type = trace.type(input.value);
    check.kind = InputCheck::Kind::tensor;
    check.rank = static_cast<uint8_t>(type.rank());
    // A dtype without a name of ours is not known here: such a tensor never fits, and the program stays with eager.
    if (type.dtype != DType::other) check.dtype = c10::scalarTypeToTypeMeta(scalar_type_of(type.dtype));
    check.contiguous = input.contiguous;
    for (const Dim size : type.sizes) dims_.push_back(dim_check(trace, size));
    check.strides = static_cast<uint32_t>(dims_.size());
    check.order = static_cast<uint32_t>(orders_.size());
    if (!input.contiguous) {
      for (const Dim stride : type.strides) dims_.push_back(dim_check(trace, stride));
      orders_.insert(orders_.end(), input.stride_order.begin(), input.stride_order.end());
    }
    check.order_size = static_cast<uint32_t>(orders_.size()) - check.order;
  }
  inputs_.push_back(check);
  names_.push_back(input.name);
}

void EntryChecks::add_bindings(const LaunchPlan& plan) {
  for (uint32_t symbol = 0; symbol < plan.trace.dims.symbol_count(); ++symbol) {
    Source source = plan.trace.dims.info(Symbol(symbol)).source;
    if (source.kind == Source::Kind::item && source.value && source.value.index < plan.trace.values.size()) {
      // An item of an input itself; items of computed values are read while the plan runs.
      const uint32_t buffer = plan.buffer_of.empty() ? Id<void>::kNone : plan.buffer_of[source.value.index];
      if (buffer == Id<void>::kNone || plan.buffers[buffer].kind != Buffer::Kind::input) continue;
      source.input = plan.buffers[buffer].input;
    } else if (source.kind < Source::Kind::input_size || source.kind > Source::Kind::input_value) {
      continue;
    }
    bindings_.push_back({source.kind, source.input, source.dim, symbol});
  }
}

void EntryChecks::add_overlaps(const LaunchPlan& plan) {
  std::vector<uint8_t> written(plan.trace.storage_count, 0);
  for (const Instr& instr : plan.trace.instrs) {
    for (const uint32_t operand : instr.writes) written[plan.trace.type(instr.operands[operand]).storage.index] = 1;
    if (instr.op == Op::write) written[plan.trace.type(instr.operands[0]).storage.index] = 1;
  }
  const auto storage = [&](uint32_t input) { return plan.trace.type(plan.trace.inputs[input].value).storage; };
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind != InputCheck::Kind::tensor || !written[storage(i).index]) continue;
    for (uint32_t j = 0; j < inputs_.size(); ++j) {
      if (inputs_[j].kind != InputCheck::Kind::tensor || storage(i) == storage(j)) continue;
      if (written[storage(j).index] && j < i) continue;  // the pair stands already
      overlaps_.push_back({i, j});
    }
  }
}

bool EntryChecks::present(std::span<const Argument> arguments) const {
  if (arguments.size() != argument_count_) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool tensor = arguments[i].tensor != nullptr;
    if (inputs_[i].kind == InputCheck::Kind::ignored) continue;
    if (tensor != (inputs_[i].kind == InputCheck::Kind::tensor)) return false;
  }
  return true;
}

bool EntryChecks::dim_holds(const DimCheck& check, int64_t seen, std::span<const int64_t> table) const {
  return seen == (check.kind == DimCheck::Kind::constant ? check.value : table[check.slot]);
}

int64_t EntryChecks::read(const Binding& binding, std::span<const Argument> arguments) const {
  if (binding.kind == Source::Kind::input_value) return arguments[binding.input].integer;
  const at::Tensor& bound = *tensor(arguments, binding.input);
  switch (binding.kind) {
    case Source::Kind::input_size: return bound.unsafeGetTensorImpl()->sizes()[binding.dim];
    case Source::Kind::input_stride: return bound.unsafeGetTensorImpl()->strides()[binding.dim];
    case Source::Kind::input_offset: return bound.storage_offset();
    default: return item_of(bound);
  }
}

void EntryChecks::bind(std::span<const Argument> arguments, std::span<int64_t> symbols) const {
  for (const Binding& binding : bindings_) symbols[binding.symbol] = read(binding, arguments);
}

// Kind, dtype, rank, device: what must hold before a size may be read at all.
template <class Report>
bool EntryChecks::check_tensor(const InputCheck& check, const at::Tensor* tensor, std::span<const int64_t> table,
                               const Report& report) const {
  const auto number = static_cast<uint32_t>(&check - inputs_.data());
  const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
  const auto sizes = impl.sizes();
  for (size_t d = 0; d < check.rank; ++d) {
    const DimCheck& size = dims_[check.sizes + d];
    if (!dim_holds(size, sizes[d], table)) {
      return report(number, "size", "", static_cast<int64_t>(d), size.kind == DimCheck::Kind::constant ? size.value : table[size.slot]);
    }
  }
  if (check.contiguous) return impl.is_contiguous() || report(number, "layout", "contiguous", 0, 0);
  const auto strides = impl.strides();
  for (size_t d = 0; impl.numel() != 0 && d < check.rank; ++d) {
    const DimCheck& stride = dims_[check.strides + d];
    if (sizes[d] != 1 && !dim_holds(stride, strides[d], table)) {
      return report(number, "stride", "", static_cast<int64_t>(d),
                    stride.kind == DimCheck::Kind::constant ? stride.value : table[stride.slot]);
    }
  }
  const std::span order(orders_.data() + check.order, check.order_size);
  if (order.empty()) return !impl.is_contiguous() || report(number, "layout", "not contiguous", 0, 0);
  return order_holds(impl, order) || report(number, "layout", "the order of strides seen when recorded", 0, 0);
}

template <class Report>
bool EntryChecks::check(std::span<const Argument> arguments, std::span<int64_t> table, const Report& report) const {
  if (!present(arguments)) return report(0, "arguments", "the kinds of arguments seen when recorded", 0, 0);
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].kind != InputCheck::Kind::tensor) continue;
    const c10::TensorImpl& impl = *tensor(arguments, i)->unsafeGetTensorImpl();
    if (!is_plain(impl)) return report(i, "kind", "a plain CPU tensor", 0, 0);
    if (impl.dtype() != inputs_[i].dtype) return report(i, "dtype", "", 0, 0);
    if (impl.sizes().size() != inputs_[i].rank) return report(i, "rank", "", 0, inputs_[i].rank);
  }
  for (const Binding& binding : bindings_) table[binding.symbol] = read(binding, arguments);
  shapes_.initialise(table);
  shapes_.evaluate(0, table);
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    const InputCheck& input = inputs_[i];
    if (input.kind == InputCheck::Kind::tensor) {
      if (!check_tensor(input, tensor(arguments, i), table, report)) return false;
    } else if (input.kind == InputCheck::Kind::integer && !dim_holds(dims_[input.sizes], arguments[i].integer, table)) {
      return report(i, "value", "", 0, 0);
    }
  }
  for (const GuardCheck& guard : guards_) {
    if (!holds(guard.kind, table[guard.left], table[guard.right])) return report(guard.number, "guard", "", 0, 0);
  }
  for (const Overlap& pair : overlaps_) {
    if (overlap(bytes_of(*tensor(arguments, pair.written)), bytes_of(*tensor(arguments, pair.other)))) {
      return report(pair.written, "memory", "shared with no other argument", pair.other, 0);
    }
  }
  return true;
}

bool EntryChecks::fits(std::span<const Argument> arguments) const {
  try {
    if (shapes_.table_size() <= kSmallTable) {
      int64_t table[kSmallTable];
      return check(arguments, std::span(table, shapes_.table_size()), Silent());
    }
    std::vector<int64_t> table(shapes_.table_size());
    return check(arguments, table, Silent());
  } catch (const UserError&) {
    return false;  // sizes whose arithmetic overflows: eager says what it thinks of them
  }
}

Miss EntryChecks::explain(std::span<const Argument> arguments) const {
  Miss miss;
  std::vector<int64_t> table(shapes_.table_size());
  const auto report = [&](uint32_t number, std::string_view what, std::string_view expected, int64_t dim, int64_t wanted) {
    if (what == "guard") {
      const GuardMiss seen = escapement::explain(trace_, trace_.guards[number], std::span(table).first(shapes_.symbol_count()));
      miss = {seen.source, seen.expected, seen.seen};
      return false;
    }
    miss.source = what == "arguments" ? "the call" : names_[number] + "." + std::string(what);
    miss.expected = expected;
    miss.seen = "another";
    if (what == "arguments") {
      miss.seen = std::to_string(arguments.size()) + " arguments, or others";
      return false;
    }
    if (what == "value") {
      miss.seen = std::to_string(arguments[number].integer);
      return false;
    }
    const at::Tensor& seen = *tensor(arguments, number);
    if (what == "size" || what == "stride") {
      miss.source += "[" + std::to_string(dim) + "]";
      miss.expected = std::to_string(wanted);
      miss.seen = std::to_string(what == "size" ? seen.size(dim) : seen.stride(dim));
    } else if (what == "dtype") {
      miss.expected = name_of(trace_.type(trace_.inputs[number].value).dtype);
      miss.seen = c10::toString(seen.scalar_type());
    } else if (what == "rank") {
      miss.expected = std::to_string(wanted);
      miss.seen = std::to_string(seen.dim());
    } else if (what == "kind") {
      miss.seen = c10::toString(seen.key_set());
    } else if (what == "memory") {
      miss.seen = "shared with " + names_[dim];
    }
    return false;
  };
  try {
    check(arguments, table, report);
  } catch (const UserError& error) {
    miss = {"sizes", "sizes whose arithmetic fits 64 bits", error.what()};
  }
  return miss;
}

}  // namespace escapement
