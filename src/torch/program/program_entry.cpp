// See program_entry.h. Checking.
#include "torch/program/program_entry.h"

#include <algorithm>

#include "support/error.h"
#include "torch/record/device.h"
#include "torch/record/program_metadata.h"

namespace escapement {
namespace {

constexpr size_t kSmallTable = 96;  // slots kept on the stack

// Kind, dtype and rank: what must hold before a size may be read.
template <class Form>
[[gnu::always_inline]] inline uint64_t form_differs(const Form& form, const c10::TensorImpl& impl, size_t rank) {
  const uint64_t keys = (impl.key_set().raw_repr() & form.keys_mask) ^ form.keys;
  const auto dtype = static_cast<uint16_t>((bits_of(impl.dtype()) ^ form.dtype) & form.dtype_mask);
  return keys | dtype | ((rank ^ form.rank) & form.rank_mask);
}

}  // namespace

// All rows of a run. One function for each rank, kind of sizes and place of the tensors: what a run shares is known inside.
template <int kRank, EntryChecks::Sizes kSizes, bool kCaptured>
[[gnu::flatten]]
bool EntryChecks::run_holds(const EntryChecks& checks, const Run& run, const Argument* arguments, int64_t* table) {
  const at::Tensor* const captured = checks.captured_.data();
  const Slot* slot = run.slots.data();
  const int64_t* constant = run.constants.data();
  const int64_t* mask = run.masks.data();
  const uint16_t dtype = run.form.dtype;
  for (const uint32_t *input = run.inputs.data(), *end = input + run.inputs.size(); input != end; ++input) {
    const at::Tensor* const tensor = kCaptured ? captured + *input : arguments[*input].tensor;
    if (tensor == nullptr) [[unlikely]] return false;
    const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
    const c10::IntArrayRef sizes = impl.sizes();
    const uint64_t keys = (impl.key_set().raw_repr() & ~kIrrelevantKeys.raw_repr()) ^ kPlainKeys.raw_repr();
    if ((keys | static_cast<uint64_t>(bits_of(impl.dtype()) ^ dtype) | (sizes.size() ^ kRank)) != 0) [[unlikely]] return false;
    int64_t differ = 0;
#pragma GCC unroll 5
    for (int d = 0; d < kRank; ++d) {
      const int64_t size = sizes.data()[d];
      if constexpr (kSizes == Sizes::bind) {
        table[slot[d]] = size;
        differ |= (size ^ constant[d]) & mask[d];
      } else {
        differ |= size ^ ((kSizes == Sizes::symbols ? 0 : constant[d]) + (kSizes == Sizes::constants ? 0 : table[slot[d]]));
      }
    }
    if (differ != 0 || !impl.is_contiguous()) [[unlikely]] return false;
    slot += kRank, constant += kRank, mask += kRank;
  }
  return true;
}

template <EntryChecks::Sizes kSizes, bool kCaptured>
EntryChecks::Run::Check EntryChecks::check_of_rank(size_t rank) {
  static constexpr Run::Check kChecks[kMaxRunRank + 1] = {run_holds<0, kSizes, kCaptured>, run_holds<1, kSizes, kCaptured>,
                                                          run_holds<2, kSizes, kCaptured>, run_holds<3, kSizes, kCaptured>,
                                                          run_holds<4, kSizes, kCaptured>, run_holds<5, kSizes, kCaptured>};
  return kChecks[rank];
}

template <EntryChecks::Sizes kSizes>
EntryChecks::Run::Check EntryChecks::check_of_sizes(const Run& run) {
  return run.captured ? check_of_rank<kSizes, true>(run.form.rank) : check_of_rank<kSizes, false>(run.form.rank);
}

EntryChecks::Run::Check EntryChecks::check_of(const Run& run) {
  switch (run.sizes) {
    case Sizes::bind: return check_of_sizes<Sizes::bind>(run);
    case Sizes::constants: return check_of_sizes<Sizes::constants>(run);
    case Sizes::symbols: return check_of_sizes<Sizes::symbols>(run);
    case Sizes::sums: return check_of_sizes<Sizes::sums>(run);
  }
  throw InternalError("a run of tensors has no kind of sizes");
}

bool EntryChecks::check_row(const Row& row, const at::Tensor* tensor, const int64_t* table) const {
  if (tensor == nullptr) return false;
  const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
  const c10::IntArrayRef sizes = impl.sizes();
  if (form_differs(row.form, impl, sizes.size()) != 0) return false;
  if (row.on_device && (impl.device() != device_ || is_under_autocast(device_))) return false;
  int64_t differ = row.layout == Layout::contiguous && !impl.is_contiguous();
  for (const Compare *c = compares_.data() + row.sizes, *end = compares_.data() + row.strides; c != end; ++c) {
    differ |= sizes.data()[c->axis] ^ (table[c->slot] + c->plus);
  }
  return differ == 0 && (row.layout != Layout::strided || check_strides(row, *tensor, table));
}

bool EntryChecks::check_strides(const Row& row, const at::Tensor& tensor, const int64_t* table) const {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  for (uint32_t i = row.strides; i < row.end; ++i) {
    const Compare& compare = compares_[i];
    if (!stride_holds(impl, compare.axis, table[compare.slot] + compare.plus)) return false;
  }
  if (row.irregular && impl.is_contiguous()) return false;
  return order_holds(impl, std::span(orders_.data() + row.order, row.order_size));
}

bool EntryChecks::check_integers(std::span<const Argument> arguments, int64_t* table) const {
  for (const Integer& integer : integers_) {
    const Argument& seen = arguments[integer.input];
    if (integer.checked && (seen.tensor != nullptr || seen.other)) return false;
    table[integer.slot] = seen.integer;
  }
  return true;
}

int64_t EntryChecks::read(const Binding& binding, std::span<const Argument> arguments) const {
  if (binding.kind == Source::Kind::input_value) return arguments[binding.input].integer;
  const at::Tensor& bound = *tensor(arguments, binding.input);
  switch (binding.kind) {
    case Source::Kind::input_size: return bound.unsafeGetTensorImpl()->sizes()[binding.axis];
    case Source::Kind::input_stride: return bound.unsafeGetTensorImpl()->strides()[binding.axis];
    case Source::Kind::input_offset: return bound.storage_offset();
    default: return item_of(bound);
  }
}

void EntryChecks::bind(std::span<const Argument> arguments, std::span<int64_t> symbols) const {
  for (const Binding& binding : relations_.bindings) symbols.data()[binding.symbol.index] = read(binding, arguments);
}

// Kind, dtype and rank of the tensors that bind symbols, which makes it safe to read them; then their values.
bool EntryChecks::bind_others(std::span<const Argument> arguments, int64_t* table) const {
  for (const auto& [input, form] : binding_rows_) {
    const at::Tensor* const bound = tensor(arguments, input);
    if (bound == nullptr) return false;
    const c10::TensorImpl& impl = *bound->unsafeGetTensorImpl();
    if (form_differs(form, impl, impl.sizes().size()) != 0) return false;
  }
  for (const uint32_t input : items_) {
    if (tensor(arguments, input)->numel() != 1) return false;
  }
  for (const Binding& binding : others_) table[binding.symbol.index] = read(binding, arguments);
  return true;
}

bool EntryChecks::check(std::span<const Argument> arguments, int64_t* table) const {
  table[zero_] = 0;
  for (const Run& run : binding_runs_) {
    if (!run.check(*this, run, arguments.data(), table)) return false;
  }
  if (!integers_.empty() && !check_integers(arguments, table)) return false;
  if (!others_.empty() && !bind_others(arguments, table)) return false;
  if (!program_.holds(table)) return false;
  for (const Run& run : runs_) {
    if (!run.check(*this, run, arguments.data(), table)) return false;
  }
  for (const Row& row : rows_) {
    if (!check_row(row, tensor(arguments, row.input), table)) return false;
  }
  return apart_.empty() || check_apart(arguments);
}

bool EntryChecks::fits(std::span<const Argument> arguments) const {
  if (arguments.size() != argument_count_) return false;
  const size_t size = program_.table_size();
  if (size <= kSmallTable) {
    int64_t table[kSmallTable];
    return check(arguments, table);
  }
  static thread_local std::vector<int64_t> large;
  if (large.size() < size) large.resize(size);
  return check(arguments, large.data());
}

// --- memory

bool EntryChecks::apart(std::span<const Argument> arguments, uint32_t input) const {
  const Bytes own = bytes_of(*tensor(arguments, input));
  for (uint32_t i = 0; i < trace_.inputs.size(); ++i) {
    if (trace_.inputs[i].kind != Input::Kind::tensor || !trace_.inputs[i].value || type(i).storage == type(input).storage) continue;
    if (overlap(own, bytes_of(*tensor(arguments, i)))) return false;
  }
  return true;
}

// With few written inputs every pair is looked at. With many, one pass over all address ranges in ascending order shows that none of
// them overlaps, which is the ordinary case; only if some do are the pairs looked at.
bool EntryChecks::check_apart(std::span<const Argument> arguments) const {
  const auto all_pairs = [&] {
    return std::all_of(apart_.begin(), apart_.end(), [&](uint32_t input) { return apart(arguments, input); });
  };
  if (apart_.size() <= 2) return all_pairs();
  std::vector<Bytes> ranges;
  ranges.reserve(trace_.inputs.size());
  for (uint32_t i = 0; i < trace_.inputs.size(); ++i) {
    if (trace_.inputs[i].kind == Input::Kind::tensor && trace_.inputs[i].value) ranges.push_back(bytes_of(*tensor(arguments, i)));
  }
  return none_overlaps(ranges) || all_pairs();
}

}  // namespace escapement
