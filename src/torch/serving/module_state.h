// What calls of a module run on: the program's facts, which never change, and its state with one set of weights, which
// `swap_weights` replaces as a whole.
#pragma once

#include <string>
#include <vector>

#include "escapement/load.h"
#include "exported/size_contract.h"
#include "exported/size_guards.h"
#include "support/options.h"
#include "torch/exported/graph_runner.h"
#include "torch/region/region.h"
#include "torch/serving/program_source.h"

namespace escapement {

// Everything about an input but its sizes, which are the contract's.
struct InputForm {
  std::string name;
  bool integer = false;
  c10::ScalarType dtype = c10::ScalarType::Float;
  void check(const c10::IValue& value) const;  // UserError names input, expectation and what is seen
};

struct WeightFacts {
  std::string name;
  ExportedInput::Kind kind;
  bool is_written = false;  // by calls
};

struct ModuleFacts {
  ModuleFacts(std::string name, const ExportedProgram& program, std::string json, Options options);
  void check(const Region::Values& inputs) const;  // a call's inputs; UserError

  std::string name;
  std::string json;  // of the program, for packages
  Options options;
  std::vector<InputForm> forms;
  std::vector<std::string> names;  // of the inputs
  std::vector<InputSpec> specs;
  std::vector<WeightFacts> weights;  // in the order of GraphRunner's
  std::vector<std::string> written;  // what calls write beside their results: inputs and weights, by name
  SizeContract contract;
  SizeGuards guards;
  Signature signature;

 private:
  void check_sizes(const Region::Values& inputs) const;
  void check_guards(const Region::Values& inputs) const;
};

struct ModuleState {
  using Listener = std::function<void(const RegionEvent&)>;
  ModuleState(const ModuleFacts& facts, GraphRunner graph, Listener listener);
  ModuleState(const ModuleState&) = delete;
  ModuleState& operator=(const ModuleState&) = delete;

  // Whether memory lies in a weight's: results may be weights, and are handed back to us as outputs.
  bool is_weight_memory(const at::Tensor& tensor) const;

  GraphRunner runner;
  Region region;
};

std::string dtype_name(c10::ScalarType dtype);  // "float32"
Signature signature_of(const ExportedProgram& program);
// Whether two tensors may have a byte in common.
bool may_overlap(const at::Tensor& a, const at::Tensor& b);
int64_t bytes_of(const std::vector<at::Tensor>& tensors);  // memory that several share counts once

}  // namespace escapement
