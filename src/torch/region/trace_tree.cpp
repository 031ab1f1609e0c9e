// See trace_tree.h.
#include "torch/region/trace_tree.h"

#include <algorithm>

#include "support/error.h"
#include "support/limits.h"
#include "torch/program/cpp_location.h"
#include "torch/program/program_info.h"
#include "torch/region/call_arguments.h"
#include "torch/region/version.h"

namespace escapement {
namespace {

using Values = Body::Values;

// The arguments of a side trace: the caller's, the tensors captured so far, and what was handed on.
class SideArguments {
 public:
  SideArguments(std::span<const Argument> given, std::span<const at::Tensor> captured, const Values& live) {
    list_.append(given.begin(), given.end());
    for (const at::Tensor& tensor : captured) list_.push_back({&tensor});
    for (const c10::IValue& value : live) {
      if (value.isTensor()) list_.push_back({&value.toTensor()});
      else list_.push_back({nullptr, value.toInt()});
    }
  }
  std::span<const Argument> span() const { return list_; }

 private:
  c10::SmallVector<Argument, 24> list_;
};

int64_t read(const Source& source, std::span<const Argument> arguments) {
  const Argument& from = arguments[source.input];
  switch (source.kind) {
    case Source::Kind::input_size: return from.tensor->size(source.dim);
    case Source::Kind::input_stride: return from.tensor->stride(source.dim);
    case Source::Kind::input_offset: return from.tensor->storage_offset();
    case Source::Kind::input_value: return from.integer;
    default: return 0;   // a number that nothing tells: nothing that is known at the exit is made of it
  }
}

// The first that fits, each asked with the tensors that its own recording had captured. Null: none does.
const SideTrace* run_side(const ExitNode& exit, std::span<const Argument> arguments, const Values& live, Values& outputs) {
  for (const auto& side : exit.sides.list()) {
    const SideArguments list(arguments, side->captured, live);
    if (!side->program.fits(list.span())) continue;
    const Program::Outcome outcome = side->program.run(list.span(), outputs, {}, true);
    ESCAPEMENT_CHECK(outcome == Program::Outcome::done, "a check failed after an effect");
    if (side->hits.fetch_add(1, std::memory_order_relaxed) + 1 == limits::hits_to_be_hot) side->program.compile_guards();
    return side.get();
  }
  return nullptr;
}

// Side traces say again what the trace before them has asked.
void append_new(std::vector<Escape>& found, Escape escape) {
  const auto same = [&](const Escape& other) { return other.relation == escape.relation && other.where == escape.where; };
  if (std::none_of(found.begin(), found.end(), same)) found.push_back(std::move(escape));
}

void write_side(Json& json, const SideTrace& side) {
  json.open_object().field("hits", side.hits.load());
  write_program(json, side.program);
  if (side.exit) json.key("exit"), side.exit->write(json);
  json.close();
}

}  // namespace

ExitNode::ExitNode(const Recording& recording, size_t at, std::span<const at::Tensor> tensors)
    : exit(recording.exits[at]), script(recording.script), inference(recording.inference), everywhere(recording.exits_everywhere),
      number(at), captured(tensors.begin(), tensors.end()) {}

bool ExitNode::wants_tape() const {
  const auto& all = sides.list();
  return std::any_of(all.begin(), all.end(), [](const auto& side) {
    return escapement::wants_tape(side->captured) || (side->exit && side->exit->wants_tape());
  });
}

bool ExitNode::is_met_by(const Recording& recording) const {
  if (number >= recording.exits.size()) return false;
  const Exit& other = recording.exits[number];
  const Trace &a = *exit.before, &b = *other.before;
  if (other.at.instrs != exit.at.instrs || other.steps != exit.steps || a.inputs.size() != b.inputs.size()) return false;
  if (a.values.size() != b.values.size() || a.dims.symbol_count() != b.dims.symbol_count()) return false;
  for (uint32_t i = 0; i < exit.at.instrs; ++i) {
    if (to_string(a, InstrId(i)) != to_string(b, InstrId(i))) return false;
  }
  return true;
}

void ExitNode::append_escapes(std::vector<Escape>& found) const {
  for (const auto& side : sides.list()) {
    std::vector<Escape> own;
    escapement::append_escapes(own, side->program.compiled()->plan.trace);
    for (Escape& escape : own) append_new(found, std::move(escape));
    if (side->exit) side->exit->append_escapes(found);
  }
}

void ExitNode::write(Json& json) const {
  json.open_object();
  json.field("because", exit.because).field("departures", departures.load());
  json.field("handed_on", static_cast<int64_t>(exit.at.live.size() + exit.at.born.size()));
  const Trace& before = *exit.before;
  if (exit.location.index < before.locations.size()) json.field("location", readable_place(before.locations[exit.location.index]));
  json.key("sides").open_array();
  for (const auto& side : sides.list()) write_side(json, *side);
  json.close().close();
}

bool Departed::follow(std::span<const Argument> arguments, Values& outputs, ForcedExits& forced_exits) {
  while (exit != nullptr) {
    forced = forced_exits.next();
    if (forced) [[unlikely]] return false;
    Values next;
    const SideTrace* const side = run_side(*exit, arguments, live, next);
    if (side == nullptr) return false;
    exit = side->exit.get();
    live = std::move(next);
  }
  for (c10::IValue& value : live) outputs.push_back(std::move(value));
  return true;
}

Departure Departed::departure(std::span<const Argument> arguments) const {
  const Trace& before = *exit->exit.before;
  const Snapshot& at = exit->exit.at;
  const SideArguments list(arguments, exit->captured, live);
  Departure from{exit->script, exit->exit.before, at, exit->exit.steps, {}, {}, {}, version->program.device()};
  for (size_t i = 0; i < before.inputs.size(); ++i) from.inputs.push_back(list.span()[i].tensor ? *list.span()[i].tensor : at::Tensor());
  for (uint32_t s = 0; s < before.dims.symbol_count(); ++s) from.symbols.push_back(read(before.dims.info(Symbol(s)).source, list.span()));
  const size_t tensors = at.live.size();
  for (size_t i = 0; i < tensors; ++i) from.live.push_back(live[i].toTensor());
  for (size_t i = 0; i < at.born.size(); ++i) from.symbols[at.born[i].index] = live[tensors + i].toInt();
  return from;
}

}  // namespace escapement
