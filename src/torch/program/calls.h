// Library calls: a call or contract instruction as a prepared ATen call. Everything that does not change between calls (operator
// handle, constant arguments, which arguments are tensors or sizes) is made once; per call only those are patched.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

#include "torch/program/host.h"
#include "torch/program/pack.h"
#include "torch/program/pack_convolution.h"

namespace escapement {

struct CallRecipe {
  struct Argument {
    enum class Kind : uint8_t { constant, tensor, tensors, optional_tensors, integer, real, scalar_tensor, integers } kind = Kind::constant;
    c10::IValue constant;
    std::vector<int32_t> tensors;    // recipes; -1: absent
    std::vector<Slot> slots;         // integer, real, scalar_tensor: one; integers: all
  };
  struct Result {
    uint32_t recipe = 0;             // of the result's value
    bool wanted = false;             // the value has memory of its own, which this call brings
    bool planned = false;            // ... in the layout of an output or temporary buffer
    std::vector<bool> checked_sizes;   // per dim: its size must be the plan's
    std::vector<bool> checked_strides;
    bool may_alias = false;          // the trace says that it shares an operand's memory
  };
  enum class Form : uint8_t { boxed, out, linear, convolution } form = Form::boxed;

  bool may_copy_onto_itself = false;   // aten::copy_ of one layout

  std::optional<c10::OperatorHandle> op;
  std::optional<c10::ScalarType> autocast;   // it runs under autocast to this dtype (library_target.h)
  std::vector<Argument> arguments;
  std::vector<Result> results;
  std::vector<uint32_t> written_inputs;   // inputs whose version counter the call must move
  std::vector<uint32_t> dead_before, dead_after;   // buffers
  std::vector<uint32_t> operands;         // recipes of all operands
  bool effect = false;
  // --- linear, convolution: x, weight, bias (or -1), and what follows it
  int32_t x = -1, weight = -1, bias = -1;
  std::string epilogue;
  bool may_pack = false;
  size_t pack_limit = 0;           // bytes of all packings; 0: none
  ConvolutionWindow window;
  bool only_single = false;        // convolution: of one image or volume, since several are ATen's to compute as fast
};

// Which forms an operator may be called in besides its own. Packed weights, out= and flattened linear layers suit this processor's library.
enum class CallForms : uint8_t { own, planned, packed };

CallRecipe make_call(const LaunchPlan& plan, const CallStep& step, TensorRecipes& tensors, Executable& executable,
                     const std::vector<c10::IValue>& host_objects, CallForms forms, size_t pack_limit = 0);
void settle_call(CallRecipe& recipe, uint32_t step, const TensorRecipes& tensors, const Executable& executable);
std::string describe(const CallRecipe& recipe);

// What a context keeps per call step.
struct CallState {
  torch::jit::Stack stack;
  PackedWeight packed;
  HeldConvolution convolution;
};

// Runs a call. False: a result does not have the layout that the plan relies on.
bool run_call(const CallRecipe& recipe, CallState& state, TensorTable& tensors, const Context& context,
              const std::vector<TensorRecipe>& recipes);

}  // namespace escapement
