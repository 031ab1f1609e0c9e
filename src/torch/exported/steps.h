// The steps of a GraphRunner, made from the nodes of an exported program by the name of their target.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "torch/exported/graph_runner.h"

namespace escapement {

struct GraphRunner::Step {
  explicit Step(const ExportedNode& node) : name(node.name), target(node.target), outputs(node.outputs) {}
  virtual ~Step() = default;
  virtual void run(Values& values) const = 0;

  std::string name, target;
  std::vector<ExportedValue> outputs;
  bool effect = false;             // writes an argument, or draws random numbers
  std::vector<uint32_t> frees;     // slots whose value nobody needs after this step
};

std::unique_ptr<GraphRunner::Step> make_step(const ExportedNode& node);   // UserError: unknown operator, wrong arguments

}  // namespace escapement
