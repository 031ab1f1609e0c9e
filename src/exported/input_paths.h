// InputPaths: what torch.export's conditions call the inputs, "['pair'][1]['x']" for `pair[1]["x"]` of forward(self, pair).
//
// Read from the tree of the arguments that the program was exported with and the names of forward's parameters. What lies in a container
// of another class than tuple, list and dict has no name here.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace escapement {

class JsonValue;

class InputPaths {
 public:
  InputPaths() = default;

  // `leaves`: of the arguments, in order, each its number among the inputs of a call, or none (a constant of the program).
  InputPaths(const JsonValue& call_signature, std::span<const std::optional<uint32_t>> leaves);

  // Nothing: no input is called so. What a program took as **kwargs is found without the name of those.
  std::optional<uint32_t> find(std::string_view path) const;

 private:
  using Leaves = std::span<const std::optional<uint32_t>>;
  void name_tree(const JsonValue& tree, const std::string& path, Leaves& leaves, int depth);
  void name_parameter(const JsonValue& tree, const std::string& name, Leaves& leaves);
  bool is_parameter(std::string_view first) const;

  std::map<std::string, std::optional<uint32_t>, std::less<>> numbers_;
};

}  // namespace escapement
