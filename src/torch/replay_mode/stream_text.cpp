// The tree of streams as text and as JSON.
#include <map>

#include "support/json.h"
#include "torch/record/lower.h"
#include "torch/replay_mode/launch.h"
#include "torch/replay_mode/stream.h"

namespace escapement {
namespace {

std::string constant_text(const c10::IValue& v) {
  if (v.isString()) return "'" + v.toStringRef() + "'";
  std::ostringstream out;
  out << v;
  return out.str();
}

std::string text_of(const Pattern& p) {
  const std::string index = std::to_string(p.index);
  switch (p.kind) {
    case Pattern::Kind::absent: return "None";
    case Pattern::Kind::constant:
    case Pattern::Kind::number: return constant_text(p.value);
    case Pattern::Kind::any_number: return (p.integer ? "n" : "r") + index;
    case Pattern::Kind::any_real: return "r" + index;
    case Pattern::Kind::integer: return "n" + index;
    case Pattern::Kind::negative: return "-n" + index;
    case Pattern::Kind::produced: return "v" + index;
    case Pattern::Kind::known:
    case Pattern::Kind::fresh: return "x" + index;
    case Pattern::Kind::list: break;
  }
  std::string list;
  for (const Pattern& item : p.items) list += (list.empty() ? "" : ", ") + text_of(item);
  return "[" + list + "]";
}

std::string text_of(const Handed& handed, const StreamNode& node) {
  switch (handed.kind) {
    case Handed::Kind::none: return "None";
    case Handed::Kind::argument: return text_of(node.arguments[handed.index]);
    case Handed::Kind::produced: return "v" + std::to_string(handed.index);
    case Handed::Kind::list: break;
  }
  std::string list;
  for (const Handed& item : handed.items) list += (list.empty() ? "" : ", ") + text_of(item, node);
  return "[" + list + "]";
}

std::string operator_line(const StreamNode& node) {
  std::string arguments, results;
  size_t last = node.arguments.size();   // absent ones at the end say nothing
  while (last > 0 && node.arguments[last - 1].kind == Pattern::Kind::absent) --last;
  for (size_t i = 0; i < last; ++i) arguments += (i ? ", " : "") + text_of(node.arguments[i]);
  for (const Handed& handed : node.results) results += (results.empty() ? "" : ", ") + text_of(handed, node);
  const c10::FunctionSchema& schema = node.op.schema();
  const std::string name = schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
  std::string line = results + " = " + name + "(" + arguments + ")";
  std::string relations;
  const auto relate = [&](const std::string& text) { relations += (relations.empty() ? " where " : ", ") + text; };
  for (const Check& check : node.checks) relate(check.text());
  for (const NumberCheck& check : node.number_checks) relate(check.text());
  line += relations;
  return node.ends ? line + "; ends: " + node.why_ends : line;
}

std::string results_text(const Slots& slots) {
  std::string text;
  for (const uint32_t slot : slots) text += (text.empty() ? "v" : ", v") + std::to_string(slot);
  return text.empty() ? "nothing" : text;
}

// What tells several recordings of one place from one another: what they leave, and the relations that only some of them need.
std::string distinction(const SegmentLaunch& launch, const SegmentLaunch* first) {
  if (first->next.load() == nullptr) return {};
  std::map<std::string, int> needed;
  int recordings = 0;
  for (const SegmentLaunch* other = first; other != nullptr; other = other->next.load(), ++recordings)
    for (const std::string& relation : other->relations()) ++needed[relation];
  std::string text = " for " + results_text(launch.results());
  for (const std::string& relation : launch.relations())
    if (needed[relation] < recordings) text += (text.find(" where ") == text.npos ? " where " : ", ") + relation;
  return text;
}

std::string launch_lines(const SegmentLaunch& launch, const SegmentLaunch* first, const std::string& indent) {
  const std::string head = indent + "launch of " + std::to_string(launch.operators()) + " operators: ";
  if (launch.failed()) return head + std::string(reason_name(*launch.failed())) + "\n";
  std::string lines;
  for (const SegmentLaunch::Ready* ready = launch.first(); ready != nullptr; ready = ready->next.load()) {
    lines += head + results_text(ready->results) + " by " + std::to_string(ready->program.compiled()->plan.kernels.size()) +
             " kernels, " + std::to_string(ready->hits.load()) + " times\n";
  }
  const std::string apart = distinction(launch, first);
  if (lines.empty() || !apart.empty()) lines += head + "recorded" + apart + "\n";
  return lines;
}

int64_t count_nodes(const StreamNode& node) {
  int64_t count = 0;
  for (const StreamNode* child = node.child.load(); child != nullptr; child = child->sibling.load())
    count += 1 + count_nodes(*child);
  return count;
}

void write_launches(Json& json, const StreamNode& node) {
  for (const SegmentLaunch* launch = node.launch.load(); launch != nullptr; launch = launch->next.load())
    launch->write(json);
  for (const StreamNode* child = node.child.load(); child != nullptr; child = child->sibling.load())
    write_launches(json, *child);
}

}  // namespace

void StreamTree::write(std::string& out, const StreamNode& node, size_t depth) const {
  const StreamNode* const first = node.child.load();
  const bool branches = first != nullptr && first->sibling.load() != nullptr;
  const std::string indent(2 * (depth + (branches ? 1 : 0)), ' ');
  int number = 0;
  for (const StreamNode* child = first; child != nullptr; child = child->sibling.load()) {
    if (branches) out += std::string(2 * depth, ' ') + "branch " + std::to_string(++number) + ":\n";
    out += indent + operator_line(*child) + "\n";
    for (const SegmentLaunch* launch = child->launch.load(); launch != nullptr; launch = launch->next.load())
      out += launch_lines(*launch, child->launch.load(), indent);
    if (child->one_by_one.load() > 0) out += indent + "one by one: " + std::to_string(child->one_by_one.load()) + " times\n";
    write(out, *child, depth + (branches ? 1 : 0));
  }
}

std::string StreamTree::text() const {
  const std::lock_guard lock(mutex_);
  std::string out = "replay of " + name_ + ": " + std::to_string(calls_.load()) + " calls, " +
                    std::to_string(recordings_.load()) + " recordings\n";
  for (const auto& [state, root] : roots_) write(out, *root, 1);
  for (const auto& [why, times] : reasons_)
    out += std::string(reason_name(why)) + ": " + std::to_string(times) + " (" + std::string(reason_message(why)) + ")\n";
  for (const auto& [name, times] : at_once_) out += "  " + name + ": " + std::to_string(times) + "\n";
  return out;
}

std::string StreamTree::json() const {
  const std::lock_guard lock(mutex_);
  Json json;
  json.open_object().field("name", name_).field("mode", "replay").field("calls", calls_.load());
  json.field("recordings", recordings_.load());
  int64_t operators = 0;
  for (const auto& [state, root] : roots_) operators += count_nodes(*root);
  json.field("operators", operators).key("segments").open_array();
  for (const auto& [state, root] : roots_) write_launches(json, *root);
  json.close().key("at_once").open_object();
  for (const auto& [name, times] : at_once_) json.field(name, times);
  json.close().key("fallbacks").open_object();
  for (const auto& [why, times] : reasons_) json.field(reason_name(why), times);
  json.close().close();
  return json.text();
}

}  // namespace escapement
