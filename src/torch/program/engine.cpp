// See engine.h.
#include "torch/program/engine.h"

#include <algorithm>

#include "jit/llvm/compile.h"
#include "support/events.h"
#include "support/options.h"
#include "torch/record/recorder_tape.h"
#include "trace/ops.h"

namespace escapement {
namespace {

const char* kind_text(OpKind kind) {
  switch (kind) {
    case OpKind::pointwise: return "pointwise";
    case OpKind::reduce: return "reduce";
    case OpKind::view: return "view";
    case OpKind::create: return "create";
    case OpKind::index: return "index";
    case OpKind::combine: return "combine";
    case OpKind::composite: return "composite";
    case OpKind::contract: return "contract";
    case OpKind::effect: return "effect";
    case OpKind::call: return "call";
  }
  return "";
}

const char* tier_text(Tier tier) {
  switch (tier) {
    case Tier::exact: return "exact";
    case Tier::stable: return "stable";
    case Tier::contraction: return "contraction";
    case Tier::none: return "";
  }
  return "";
}

}  // namespace

std::vector<OptionFacts> option_facts() {
  std::vector<OptionFacts> facts;
  for (const OptionRow& row : option_rows())
    facts.push_back({std::string(row.name), std::string(type_name(row.type)), row.default_value, std::string(row.doc)});
  return facts;
}

std::vector<OpFacts> op_facts() {
  std::vector<OpFacts> facts;
  for (int i = 0; i < op_count(); ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    facts.push_back({std::string(row.name), kind_text(row.kind), tier_text(row.tier), std::string(row.aten)});
  }
  return facts;
}

std::vector<std::pair<std::string, int64_t>> counter_facts() {
  return counters();
}

bool is_recording() { return current_tape() != nullptr; }

bool has_written() {
  const Tape* const tape = current_tape();
  return tape != nullptr && tape->written.any();
}

void keep_undo() {
  if (Tape* const tape = current_tape()) tape->written.keep_undo();
}

void says_otherwise() {
  if (Tape* const tape = current_tape(); tape && tape->exits) tape->exits->give_up();
}

UndoLog take_undo() {
  if (Tape* const tape = current_tape()) return tape->written.take_undo();
  UndoLog none;
  none.give_up();
  return none;
}

void reset_engine() { reset_counters(); }

std::vector<std::pair<std::string, std::string>> target_facts() {
  const TargetInfo& target = CodeGenerator::instance().target();
  return {{"cpu", target.cpu}, {"vector_bits", std::to_string(target.vector_bits)}};
}

}  // namespace escapement
