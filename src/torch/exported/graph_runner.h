// GraphRunner: an exported program as steps, each an ATen call through the dispatcher, arithmetic on sizes, or an assertion.
// It runs the same way eagerly and under the recorder, where values are wrappers and symbols.
//
// Every operator, overload and argument is looked up and converted when it is made; what does not exist is a UserError then,
// and a run fails only as eager does. Runs share nothing but the weights, so any number of threads may run it.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "exported/exported_program.h"

namespace escapement {

class GraphRunner {
 public:
  using Values = std::vector<c10::IValue>;
  // `weights`: the tensor of each input that is not the user's, in the order of the program's inputs.
  GraphRunner(const ExportedProgram& program, std::vector<at::Tensor> weights);
  ~GraphRunner();
  GraphRunner(GraphRunner&&) noexcept;
  GraphRunner with_weights(std::vector<at::Tensor> weights) const;   // the same program on other tensors
  const std::vector<at::Tensor>& weights() const { return weights_; }

  // `arguments`: the user's inputs, in order. Appends the program's results.
  void run(const Values& arguments, Values& results) const;

  struct Step;     // one node

 private:
  GraphRunner(const GraphRunner&);
  void place_inputs(const ExportedProgram& program);
  void plan_frees(const ExportedProgram& program);
  void write_back(Values& values) const;

  std::vector<std::shared_ptr<Step>> steps_;   // never changed once made: runners share them
  std::vector<ExportedOutput> outputs_;
  std::vector<uint32_t> argument_slots_, weight_slots_;
  std::vector<at::Tensor> weights_;
  uint32_t slots_;
  bool has_autocast_ = false;                  // blocks, which an error leaves in the middle
};

}  // namespace escapement
