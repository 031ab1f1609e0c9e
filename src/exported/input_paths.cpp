// See input_paths.h.
#include "exported/input_paths.h"

#include <algorithm>
#include <cctype>

#include "exported/json_reader.h"
#include "support/error.h"

namespace escapement {

namespace {

constexpr int kMaxDepth = 64;

// Python's text of a key, for the keys that it writes without escapes. Empty: another one.
std::string key_text(const JsonValue& key) {
  if (key.kind() == JsonValue::Kind::integer) return "[" + std::to_string(key.integer()) + "]";
  if (key.kind() != JsonValue::Kind::string) return {};
  const std::string& text = key.string();
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~' && c != '\'' && c != '\\' && c != ']'; });
  return plain ? "['" + text + "']" : std::string();
}

bool is_leaf(const JsonValue& tree) { return tree.find("type") == nullptr; }

size_t leaves_of(const JsonValue& tree, int depth = 0) {
  if (depth > kMaxDepth) throw UserError("arguments lie more than " + std::to_string(kMaxDepth) + " containers deep");
  if (is_leaf(tree)) return 1;
  size_t count = 0;
  for (const JsonValue& child : tree["children_spec"].array()) count += leaves_of(child, depth + 1);
  return count;
}

// "args_0", as forward(self, *args) is written in the signature, is args[0] in conditions.
std::string as_element(const std::string& name) {
  const size_t end = name.find_last_not_of("0123456789");
  if (end == std::string::npos || end == 0 || end + 1 == name.size() || name[end] != '_') return {};
  return "['" + name.substr(0, end) + "'][" + name.substr(end + 1) + "]";
}

}  // namespace

InputPaths::InputPaths(const JsonValue& call_signature, Leaves leaves) {
  const JsonValue* names = call_signature.find("forward_arg_names");
  const JsonValue spec = JsonValue::parse(call_signature["in_spec"].string());
  if (names == nullptr || spec.array().size() != 2 || leaves_of(spec.array()[1]) != leaves.size()) return;
  for (size_t i = 0; i < leaves.size(); ++i) numbers_["['flat_args'][" + std::to_string(i) + "]"] = leaves[i];
  size_t parameter = 0;
  for (const JsonValue& half : spec.array()[1]["children_spec"].array()) {   // args, kwargs
    for (const JsonValue& argument : half["children_spec"].array()) {
      if (parameter == names->array().size()) throw UserError("fewer names of forward's parameters than arguments");
      name_parameter(argument, names->array()[parameter++].string(), leaves);
    }
  }
}

void InputPaths::name_parameter(const JsonValue& tree, const std::string& name, Leaves& leaves) {
  const std::string element = as_element(name);
  Leaves again = leaves;
  if (!element.empty()) name_tree(tree, element, again, 0);
  name_tree(tree, "['" + name + "']", leaves, 0);
}

void InputPaths::name_tree(const JsonValue& tree, const std::string& path, Leaves& leaves, int depth) {
  if (depth > kMaxDepth) throw UserError("arguments lie more than " + std::to_string(kMaxDepth) + " containers deep");
  if (is_leaf(tree)) {
    numbers_[path] = leaves.front();
    leaves = leaves.subspan(1);
    return;
  }
  const std::string& type = tree["type"].string();
  const auto& children = tree["children_spec"].array();
  const bool sequence = type == "builtins.tuple" || type == "builtins.list";
  std::vector<std::string> keys(children.size());
  for (size_t i = 0; sequence && i < keys.size(); ++i) keys[i] = "[" + std::to_string(i) + "]";
  if (type == "builtins.dict") {
    const JsonValue names = JsonValue::parse(tree["context"].string());
    for (size_t i = 0; i < std::min(keys.size(), names.array().size()); ++i) keys[i] = key_text(names.array()[i]);
  }
  numbers_[path];   // it is a parameter, whatever is inside
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].empty()) leaves = leaves.subspan(leaves_of(children[i]));
    else name_tree(children[i], path + keys[i], leaves, depth + 1);
  }
}

bool InputPaths::is_parameter(std::string_view first) const {
  const auto at = numbers_.lower_bound(first);
  return at != numbers_.end() && std::string_view(at->first).starts_with(first);
}

std::optional<uint32_t> InputPaths::find(std::string_view path) const {
  const auto found = numbers_.find(path);
  if (found != numbers_.end()) return found->second;
  const size_t first = path.find(']');
  if (first == std::string_view::npos || is_parameter(path.substr(0, first + 1))) return {};
  const auto inside = numbers_.find(path.substr(first + 1));
  return inside == numbers_.end() ? std::nullopt : inside->second;
}

}  // namespace escapement
