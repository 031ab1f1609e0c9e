// See program_entry.h. Making the tables.
#include <algorithm>

#include "support/error.h"
#include "support/events.h"
#include "torch/program/program_entry.h"
#include "torch/record/device.h"
#include "torch/record/program_metadata.h"
#include "torch/record/recorder_tape.h"

namespace escapement {
namespace {

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

// The binding of the size of an axis.
const Binding* find_size(std::span<const Binding> bound, uint32_t axis) {
  const auto binds = [&](const Binding& b) { return b.kind == Source::Kind::input_size && b.axis == axis; };
  const auto found = std::find_if(bound.begin(), bound.end(), binds);
  return found == bound.end() ? nullptr : &*found;
}

}  // namespace

EntryChecks::EntryChecks(const LaunchPlan& plan, std::vector<at::Tensor> captured, uint32_t left_out, c10::Device device)
    : trace_(plan.trace), device_(device), captured_(std::move(captured)),
      relations_(entry_relations(plan.trace, plan.entry, inputs_of_values(plan))), program_(plan.trace.dims) {
  ESCAPEMENT_CHECK(trace_.inputs.size() >= captured_.size(), "captured tensors are inputs");
  argument_count_ = trace_.inputs.size() - captured_.size();
  leave_out(relations_.list, left_out);
  zero_ = program_.input();
  compile();
  program_.finish();
}

void EntryChecks::compile() {
  std::vector<std::vector<Relation>> of_input(trace_.inputs.size());
  for (const Relation& relation : relations_.list) {
    if (relation.kind == Relation::Kind::guard) {
      const Guard& guard = trace_.guards[relation.guard];
      program_.test(guard.kind, program_.value(guard.left), program_.value(guard.right));
    } else if (relation.kind == Relation::Kind::apart) {
      apart_.push_back(relation.input);
    } else {
      of_input[relation.input].push_back(relation);
    }
  }
  std::vector<std::vector<Binding>> bound(trace_.inputs.size());
  for (const Binding& binding : relations_.bindings) bound[binding.input].push_back(binding);
  for (uint32_t i = 0; i < of_input.size(); ++i) {
    if (trace_.inputs[i].kind == Input::Kind::integer) compile_integer(i, of_input[i], bound[i]);
    if (trace_.inputs[i].kind == Input::Kind::tensor && trace_.inputs[i].value) compile_tensor(i, of_input[i], bound[i]);
  }
}

// An integer goes into the slot of the symbol that it binds, or into one of its own, to be compared.
void EntryChecks::compile_integer(uint32_t input, std::span<const Relation> own, std::span<const Binding> bound) {
  if (bound.empty() && own.empty()) return;
  Integer integer{input, bound.empty() ? program_.input() : bound.front().symbol.index, false};
  for (const Relation& relation : own) {
    if (relation.kind == Relation::Kind::integer) integer.checked = true;
    else program_.test(Guard::Kind::equal, integer.slot, program_.value(relation.expected));
  }
  integers_.push_back(integer);
}

void EntryChecks::compile_tensor(uint32_t input, std::span<const Relation> own, std::span<const Binding> bound) {
  const Row checked = row(input, own, bound);
  const auto is_size = [](const Binding& b) { return b.kind == Source::Kind::input_size; };
  if (!bound.empty() && may_join_run(checked) && std::all_of(bound.begin(), bound.end(), is_size)) return join_binding_run(checked, bound);
  if (!bound.empty()) binding_rows_.emplace_back(input, checked.form);
  for (const Binding& binding : bound) {
    others_.push_back(binding);
    if (binding.kind == Source::Kind::item) items_.push_back(input);
  }
  if (may_join_run(checked)) join_run(checked);
  else rows_.push_back(checked);
}

EntryChecks::Compare EntryChecks::compare_with(uint32_t axis, Dim expected) {
  const std::vector<DimTable::Step> steps = trace_.dims.steps(expected);
  if (steps.size() == 1 && steps[0].op == SizeOp::constant) return {axis, zero_, steps[0].constant};
  const Slot slot = program_.value(expected);
  program_.keep(slot);
  return {axis, slot, 0};
}

EntryChecks::Row EntryChecks::row(uint32_t input, std::span<const Relation> own, std::span<const Binding> bound) {
  Row row;
  row.input = input;
  row.sizes = row.strides = static_cast<uint32_t>(compares_.size());
  for (const Relation& relation : own) compile_row(row, relation);
  row.end = static_cast<uint32_t>(compares_.size());
  for (uint32_t d = 0; d < type(input).sizes.size(); ++d) {
    const auto compared = [&](const Relation& r) { return r.kind == Relation::Kind::size && r.axis == d; };
    row.whole = row.whole && (find_size(bound, d) != nullptr || std::any_of(own.begin(), own.end(), compared));
  }
  return row;
}

bool EntryChecks::may_join_run(const Row& row) const {
  const Form& form = row.form;
  return !row.on_device && row.layout == Layout::contiguous && row.whole && form.rank_mask != 0 && form.dtype_mask != 0 && form.keys_mask != 0 &&
         form.rank <= kMaxRunRank;
}

EntryChecks::Run& EntryChecks::run_like(const Form& form, bool captured, Sizes sizes) {
  std::vector<Run>& runs = sizes == Sizes::bind ? binding_runs_ : runs_;
  const auto alike = [&](const Run& run) { return run.form == form && run.captured == captured && run.sizes == sizes; };
  const auto found = std::find_if(runs.begin(), runs.end(), alike);
  if (found != runs.end()) return *found;
  Run& run = runs.emplace_back();
  run.form = form;
  run.captured = captured;
  run.sizes = sizes;
  run.check = check_of(run);
  return run;
}

void EntryChecks::join_run(const Row& row) {
  std::vector<Compare> compares;
  for (uint32_t d = 0; d < row.form.rank; ++d) compares.push_back(compare_with(d, type(row.input).sizes[d]));
  const auto constant = [&](const Compare& c) { return c.slot == zero_; };
  const Sizes sizes = std::all_of(compares.begin(), compares.end(), constant)    ? Sizes::constants
                      : std::none_of(compares.begin(), compares.end(), constant) ? Sizes::symbols
                                                                                 : Sizes::sums;
  const bool captured = row.input >= argument_count_;
  Run& run = run_like(row.form, captured, sizes);
  run.inputs.push_back(captured ? row.input - static_cast<uint32_t>(argument_count_) : row.input);
  for (const Compare& compare : compares) {
    run.slots.push_back(compare.slot);
    run.constants.push_back(compare.plus);
  }
}

// A size goes into the slot of the symbol that it binds, or into one of its own: there a guard compares it with its expression.
void EntryChecks::join_binding_run(const Row& row, std::span<const Binding> bound) {
  const bool captured = row.input >= argument_count_;
  Run& run = run_like(row.form, captured, Sizes::bind);
  run.inputs.push_back(captured ? row.input - static_cast<uint32_t>(argument_count_) : row.input);
  for (uint32_t d = 0; d < row.form.rank; ++d) {
    const Binding* const binding = find_size(bound, d);
    const Slot slot = binding != nullptr ? binding->symbol.index : program_.input();
    const Compare compare = binding != nullptr ? Compare{} : compare_with(d, type(row.input).sizes[d]);
    const bool constant = binding == nullptr && compare.slot == zero_;
    if (binding == nullptr && !constant) program_.test(Guard::Kind::equal, slot, compare.slot);
    run.slots.push_back(slot);
    run.constants.push_back(constant ? compare.plus : 0);
    run.masks.push_back(constant ? -1 : 0);
  }
}

void EntryChecks::compile_row(Row& row, const Relation& relation) {
  const Input& input = trace_.inputs[relation.input];
  switch (relation.kind) {
    case Relation::Kind::plain:
      row.form.keys = plain_keys(device_).raw_repr();
      row.form.keys_mask = ~kIrrelevantKeys.raw_repr();
      row.on_device = !device_.is_cpu();
      break;
    case Relation::Kind::dtype:
      row.form.dtype = row.form.dtype_mask = 0xffff;
      if (const auto dtype = dtype_of_input(trace_, relation.input)) row.form.dtype = bits_of(c10::scalarTypeToTypeMeta(*dtype));
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
    case Relation::Kind::ordered: {
      const std::vector<int32_t> order = order_of(trace_, input);
      row.layout = Layout::strided;
      row.order = static_cast<uint32_t>(orders_.size());
      row.order_size = static_cast<uint32_t>(order.size());
      orders_.insert(orders_.end(), order.begin(), order.end());
      break;
    }
    default: break;
  }
}

}  // namespace escapement
