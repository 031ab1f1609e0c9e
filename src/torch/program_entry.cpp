// See program_entry.h. Compiling and checking; what a relation means one by one, for explain, stands in program_miss.cpp.
#include "torch/program_entry.h"

#include <algorithm>
#include <bit>

#include "guards/check.h"
#include "support/error.h"
#include "support/events.h"
#include "torch/program_metadata.h"
#include "torch/recorder_tape.h"

namespace escapement {
namespace {

constexpr size_t kSmallTable = 96;  // slots kept on the stack

std::vector<uint32_t> inputs_of_values(const LaunchPlan& plan) {
  std::vector<uint32_t> inputs(plan.trace.values.size(), Id<void>::kNone);
  for (size_t value = 0; value < plan.buffer_of.size(); ++value) {
    const uint32_t buffer = plan.buffer_of[value];
    if (buffer != Id<void>::kNone && plan.buffers[buffer].kind == Buffer::Kind::input) inputs[value] = plan.buffers[buffer].input;
  }
  return inputs;
}

void leave_out(std::vector<Relation>& relations, uint32_t number) {
  if (number == 0 || number > relations.size()) return;
  count(Stat::dropped_guards);
  relations.erase(relations.begin() + (number - 1));
}

uint16_t bits_of(caffe2::TypeMeta type) { return std::bit_cast<uint16_t>(type); }

}  // namespace

// --- compiling

EntryChecks::EntryChecks(const LaunchPlan& plan, std::vector<at::Tensor> captured, uint32_t left_out)
    : trace_(plan.trace), captured_(std::move(captured)),
      relations_(entry_relations(plan.trace, plan.entry, inputs_of_values(plan))),
      shapes_(plan.trace.dims, std::vector<uint32_t>(plan.trace.dims.symbol_count(), 0)) {
  ESCAPEMENT_CHECK(trace_.inputs.size() >= captured_.size(), "captured tensors are inputs");
  argument_count_ = trace_.inputs.size() - captured_.size();
  leave_out(relations_.list, left_out);
  zero_ = shapes_.add_constant(0);
  compile();
  shapes_.finish();
  evaluates_ = shapes_.table_size() > shapes_.symbol_count() + 1;
}

void EntryChecks::compile() {
  std::vector<std::vector<Relation>> of_input(trace_.inputs.size());
  for (const Relation& relation : relations_.list) {
    switch (relation.kind) {
      case Relation::Kind::guard: compile_guard(trace_.guards[relation.guard]); break;
      case Relation::Kind::apart: apart_.push_back(relation.input); break;
      case Relation::Kind::integer: values_.push_back({relation.input, false, {}}); break;
      case Relation::Kind::value: values_.push_back({relation.input, true, compare_with(0, relation.expected)}); break;
      default: of_input[relation.input].push_back(relation);
    }
  }
  std::vector<uint8_t> binds(trace_.inputs.size(), 0);
  for (const Binding& binding : relations_.bindings) {
    binds[binding.input] |= binding.kind != Source::Kind::input_value;
    if (binding.kind == Source::Kind::item) items_.push_back(binding.input);
  }
  for (uint32_t i = 0; i < of_input.size(); ++i) {
    if (trace_.inputs[i].kind != Input::Kind::tensor || !trace_.inputs[i].value) continue;
    Row checked = row(i, of_input[i]);
    if (binds[i]) binding_.emplace_back(i, checked.form);
    if (may_join_run(checked)) join_run(checked);
    else rows_.push_back(checked);
  }
}

EntryChecks::Compare EntryChecks::compare_with(uint32_t axis, Dim expected) {
  const std::vector<DimTable::Step> steps = trace_.dims.steps(expected);
  if (steps.size() == 1 && steps[0].op == DimTable::Step::Op::constant) return {axis, zero_, steps[0].constant};
  return {axis, shapes_.add(expected), 0};
}

void EntryChecks::compile_guard(const Guard& guard) {
  guards_.push_back({guard.kind, shapes_.add(guard.left), shapes_.add(guard.right)});
}

EntryChecks::Row EntryChecks::row(uint32_t input, std::span<const Relation> own) {
  Row row;
  row.input = input;
  row.sizes = row.strides = static_cast<uint32_t>(compares_.size());
  for (const Relation& relation : own) compile_row(row, relation);
  row.end = static_cast<uint32_t>(compares_.size());
  note_missing_sizes(row, own);
  return row;
}

// A size without a relation binds a symbol; or a test left its relation out.
void EntryChecks::note_missing_sizes(Row& row, std::span<const Relation> own) {
  const std::vector<Dim>& sizes = type(row.input).sizes;
  for (uint32_t d = 0; d < sizes.size(); ++d) {
    const auto compared = [&](const Relation& r) { return r.kind == Relation::Kind::size && r.axis == d; };
    const auto bound = [&](const Binding& b) { return b.kind == Source::Kind::input_size && b.input == row.input && b.axis == d; };
    row.whole = row.whole && (std::any_of(own.begin(), own.end(), compared) ||
                              std::any_of(relations_.bindings.begin(), relations_.bindings.end(), bound));
  }
}

bool EntryChecks::may_join_run(const Row& row) const {
  const Form& form = row.form;
  return row.layout == Layout::contiguous && row.whole && form.rank_mask != 0 && form.dtype_mask != 0 && form.keys_mask != 0 &&
         form.rank <= kMaxRunRank;
}

void EntryChecks::join_run(const Row& row) {
  const bool captured = row.input >= argument_count_;
  std::vector<Compare> compares;
  for (uint32_t d = 0; d < row.form.rank; ++d) compares.push_back(compare_with(d, type(row.input).sizes[d]));
  const bool constant = std::all_of(compares.begin(), compares.end(), [&](const Compare& c) { return c.slot == zero_; });
  const auto joins = [&](const Run& run) { return run.form == row.form && run.captured == captured && run.constant == constant; };
  auto run = std::find_if(runs_.begin(), runs_.end(), joins);
  if (run == runs_.end()) run = runs_.insert(runs_.end(), Run{row.form, captured, constant, {}, {}});
  run->inputs.push_back(captured ? row.input - static_cast<uint32_t>(argument_count_) : row.input);
  run->compares.insert(run->compares.end(), compares.begin(), compares.end());
}

void EntryChecks::compile_row(Row& row, const Relation& relation) {
  const Input& input = trace_.inputs[relation.input];
  switch (relation.kind) {
    case Relation::Kind::plain:
      row.form.keys = kPlainKeys.raw_repr();
      row.form.keys_mask = ~kIrrelevantKeys.raw_repr();
      break;
    case Relation::Kind::dtype:
      // A dtype without a name of ours is not known here: such a tensor never fits, and the program stays with eager.
      row.form.dtype = row.form.dtype_mask = 0xffff;
      if (type(relation.input).dtype != DType::other) row.form.dtype = bits_of(c10::scalarTypeToTypeMeta(scalar_type_of(type(relation.input).dtype)));
      break;
    case Relation::Kind::rank:
      row.form.rank = static_cast<uint8_t>(type(relation.input).rank());
      row.form.rank_mask = 0xff;
      break;
    case Relation::Kind::size:
      compares_.push_back(compare_with(relation.axis, relation.expected));
      row.strides = static_cast<uint32_t>(compares_.size());
      break;
    case Relation::Kind::contiguous: row.layout = Layout::contiguous; break;
    case Relation::Kind::stride:
      compares_.push_back(compare_with(relation.axis, relation.expected));
      row.layout = Layout::strided;
      break;
    case Relation::Kind::irregular:
      row.layout = Layout::strided;
      row.irregular = true;
      break;
    case Relation::Kind::ordered:
      row.layout = Layout::strided;
      row.order = static_cast<uint32_t>(orders_.size());
      row.order_size = static_cast<uint32_t>(input.stride_order.size());
      orders_.insert(orders_.end(), input.stride_order.begin(), input.stride_order.end());
      break;
    default: break;
  }
}

// --- checking

namespace {

// Kind, dtype and rank: what must hold before a size may be read.
template <class Form>
[[gnu::always_inline]] inline uint64_t form_differs(const Form& form, const c10::TensorImpl& impl, size_t rank) {
  const uint64_t keys = (impl.key_set().raw_repr() & form.keys_mask) ^ form.keys;
  const auto dtype = static_cast<uint16_t>((bits_of(impl.dtype()) ^ form.dtype) & form.dtype_mask);
  return keys | dtype | ((rank ^ form.rank) & form.rank_mask);
}

// All rows of a run: `tensor_of(i)` is the i-th tensor. kConstant: no row needs the table.
template <int kRank, bool kConstant, class Run, class TensorOf>
[[gnu::flatten]]
bool run_holds(const Run& run, const TensorOf& tensor_of, const int64_t* table) {
  const auto* compare = run.compares.data();
  const uint16_t dtype = run.form.dtype;
  for (const uint32_t *input = run.inputs.data(), *end = input + run.inputs.size(); input != end; ++input, compare += kRank) {
    const at::Tensor* const tensor = tensor_of(*input);
    if (tensor == nullptr) [[unlikely]] return false;
    const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
    const c10::IntArrayRef sizes = impl.sizes();
    const uint64_t keys = (impl.key_set().raw_repr() & ~kIrrelevantKeys.raw_repr()) ^ kPlainKeys.raw_repr();
    if ((keys | static_cast<uint64_t>(bits_of(impl.dtype()) ^ dtype) | (sizes.size() ^ kRank)) != 0) [[unlikely]] return false;
    int64_t differ = 0;
#pragma GCC unroll 5
    for (int d = 0; d < kRank; ++d) differ |= sizes.data()[d] ^ (compare[d].plus + (kConstant ? 0 : table[compare[d].slot]));
    if (differ != 0 || !impl.is_contiguous()) [[unlikely]] return false;
  }
  return true;
}

template <int kRank, class Run, class TensorOf>
bool run_of_rank_holds(const Run& run, const TensorOf& tensor_of, const int64_t* table) {
  return run.constant ? run_holds<kRank, true>(run, tensor_of, table) : run_holds<kRank, false>(run, tensor_of, table);
}

template <class Run, class TensorOf>
bool run_holds(const Run& run, const TensorOf& tensor_of, const int64_t* table) {
  switch (run.form.rank) {
    case 0: return run_of_rank_holds<0>(run, tensor_of, table);
    case 1: return run_of_rank_holds<1>(run, tensor_of, table);
    case 2: return run_of_rank_holds<2>(run, tensor_of, table);
    case 3: return run_of_rank_holds<3>(run, tensor_of, table);
    case 4: return run_of_rank_holds<4>(run, tensor_of, table);
    default: return run_of_rank_holds<5>(run, tensor_of, table);
  }
}

}  // namespace

bool EntryChecks::check_run(const Run& run, std::span<const Argument> arguments, const int64_t* table) const {
  const Argument* const given = arguments.data();
  const at::Tensor* const captured = captured_.data();
  if (run.captured) return run_holds(run, [captured](uint32_t i) { return captured + i; }, table);
  return run_holds(run, [given](uint32_t i) { return given[i].tensor; }, table);
}

bool EntryChecks::check_row(const Row& row, const at::Tensor* tensor, const int64_t* table) const {
  if (tensor == nullptr) return false;
  const c10::TensorImpl& impl = *tensor->unsafeGetTensorImpl();
  const c10::IntArrayRef sizes = impl.sizes();
  if (form_differs(row.form, impl, sizes.size()) != 0) return false;
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

bool EntryChecks::check_values(std::span<const Argument> arguments, const int64_t* table) const {
  for (const Value& value : values_) {
    const Argument& seen = arguments[value.input];
    const bool holds = value.compared ? seen.integer == table[value.with.slot] + value.with.plus : seen.tensor == nullptr && !seen.other;
    if (!holds) return false;
  }
  return true;
}

bool EntryChecks::check_guards(const int64_t* table) const {
  for (const GuardCheck& guard : guards_) {
    if (!escapement::holds(guard.kind, table[guard.left], table[guard.right])) return false;
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
bool EntryChecks::bind_checked(std::span<const Argument> arguments, std::span<int64_t> table) const {
  for (const auto& [input, form] : binding_) {
    const at::Tensor* const bound = tensor(arguments, input);
    if (bound == nullptr) return false;
    const c10::TensorImpl& impl = *bound->unsafeGetTensorImpl();
    if (form_differs(form, impl, impl.sizes().size()) != 0) return false;
  }
  for (const uint32_t input : items_) {
    if (tensor(arguments, input)->numel() != 1) return false;
  }
  bind(arguments, table);
  return true;
}

bool EntryChecks::check(std::span<const Argument> arguments, std::span<int64_t> values) const {
  if (!bind_checked(arguments, values)) return false;
  int64_t* const table = values.data();
  table[zero_] = 0;
  if (evaluates_) {
    shapes_.initialise(values);
    shapes_.evaluate(0, values);
  }
  if (!check_guards(table) || !check_values(arguments, table)) return false;
  for (const Run& run : runs_) {
    if (!check_run(run, arguments, table)) return false;
  }
  for (const Row& row : rows_) {
    if (!check_row(row, tensor(arguments, row.input), table)) return false;
  }
  return apart_.empty() || check_apart(arguments);
}

bool EntryChecks::fits(std::span<const Argument> arguments) const {
  if (arguments.size() != argument_count_) return false;
  const size_t size = shapes_.table_size();
  try {
    if (size <= kSmallTable) {
      int64_t table[kSmallTable];
      return check(arguments, std::span(table, size));
    }
    static thread_local std::vector<int64_t> large;
    if (large.size() < size) large.resize(size);
    return check(arguments, std::span(large.data(), size));
  } catch (const UserError&) {
    return false;  // sizes whose arithmetic overflows: eager says what it thinks of them
  }
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
