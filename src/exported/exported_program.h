// ExportedProgram: the graph of models/NAME.json in a torch.export archive (schema 8), checked, with its names resolved to
// slots.
//
// Every value is defined once, before it is used, so a program that has been read has no cycles and nothing is undefined.
// What this reader does not know is a UserError at reading and never a guess.
//
// Blocks under a mode (no_grad, autocast) are read in place: their nodes become nodes like others, those of an autocast block between two
// nodes that no file can name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exported/size_contract.h"
#include "exported/size_guards.h"

namespace escapement {

class JsonValue;

// An argument: a value of the graph, or a constant. Numbers of enumerations (dtype, ...) are those of the schema.
struct ExportedValue {
  enum class Kind : uint8_t { none, slot, integer, real, boolean, text, dtype, layout, memory_format, device,
      list } kind = Kind::none;
  uint32_t slot = 0;
  bool is_number = false;  // slot: an integer, real or truth value, and no tensor
  int64_t integer = 0;     // also boolean, dtype, layout, memory_format
  double real = 0;
  std::string text;        // also device, "cpu" or "cuda:1"
  std::vector<ExportedValue> items;
};

struct ExportedNode {
  std::string name, target;                                     // "torch.ops.aten.add.Tensor", "_operator.mul"
  std::vector<std::pair<std::string, ExportedValue>> inputs;    // by the name of the schema's argument
  std::vector<ExportedValue> outputs;                           // slots, none, or lists of them
};

// The nodes around an autocast block. Enter: device, dtype, enabled, cache; its output is what was before, which leave takes.
inline constexpr std::string_view kOwnTargets = "escapement.";
inline constexpr std::string_view kEnterAutocast = "escapement.enter_autocast", kLeaveAutocast = "escapement.leave_autocast";

struct ExportedTensor {
  int64_t dtype = 0;
  std::string device;
  int64_t layout = 0;
  std::vector<SizeSpec> sizes;
  std::vector<int64_t> strides;    // empty unless all of them are numbers
  int64_t offset = 0;
};

struct ExportedInput {
  enum class Kind : uint8_t { tensor, integer, parameter, buffer, constant } kind = Kind::tensor;
  std::string name;                // in the graph; of parameters, buffers and constants their name in the module
  uint32_t slot = 0;
  ExportedTensor tensor;           // of tensors
  SizeSpec size;                   // of integers
  bool is_user() const { return kind <= Kind::integer; }
};

struct ExportedOutput {
  bool is_write = false;           // else a result
  uint32_t destination = 0;        // write: the slot of the input that the value is copied to
  ExportedValue value;
  // --- results that are tensors: what the program says of them. A size that is no arithmetic on symbols is unknown.
  std::string name;
  bool is_tensor = false;
  int64_t dtype = 0;
  std::vector<SizeSpec> sizes;     // symbols are numbered by ExportedProgram::result_symbols
};

struct ExportedProgram {
  std::vector<ExportedInput> inputs;
  std::vector<ExportedOutput> outputs;
  std::vector<ExportedNode> nodes;
  uint32_t slots = 0;
  SizeSymbols symbols;
  SizeSymbols result_symbols;      // those of the inputs, with the same numbers, and those that appear in results only
  std::map<std::string, SizeRange> ranges;
  SizeGuards guards;               // of the user's inputs, numbered in order

  SizeContract contract() const;   // of the user's inputs, in order
};

// A parameter, buffer or constant: the archive's entry with its bytes, and how the tensor lies in them.
struct ExportedWeight {
  std::string file;
  ExportedTensor tensor;
};

ExportedProgram read_program(std::string_view model_json);
std::map<std::string, ExportedWeight> read_weights(std::string_view config_json);

}  // namespace escapement
