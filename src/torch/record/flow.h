// A higher-order operator (cond, while_loop, map, scan) as one library call. Its bodies are compiled by themselves, once; which side runs,
// and how often, is decided when the call runs. To the recorder it is the operator
//
//   escapement::flow(Capsule flow, Tensor[] tensors, SymInt[] numbers) -> Tensor[]
//
// whose arguments are those of the body in order, tensors and integers apart, and whose integer results are 0-d tensors.
// Results are fresh memory, as torch demands of these operators: where a body hands back one of its arguments, that is copied.
// What a body writes, and whether it draws random numbers, is asked of it after it has run. Of one that has not, the caller's `pure` says
// that its graph does neither, which is checked once it has run (InternalError); unknown counts as both.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dims/dims.h"
#include "escapement/export.h"

namespace escapement {

class OpCall;

struct BodyEffects {
  bool writes_arguments = true;
  bool other = true;         // random numbers, writes to what is no argument
};

class Body {
 public:
  using Values = std::vector<c10::IValue>;
  virtual ~Body() = default;
  virtual void call(const Values& arguments, Values& outputs) = 0;
  virtual std::optional<BodyEffects> effects() const = 0;   // empty: it has never run
  // The sizes of each output as expressions of the arguments' (one list per argument: a tensor's sizes, or the integer), as the newest
  // version sees them; an empty Dim where there is no such expression. A guess: who uses it checks the results.
  virtual std::vector<std::vector<Dim>> output_sizes(DimTable& dims, std::span<const std::vector<Dim>> arguments) const = 0;
};

class Flow final : public torch::CustomClassHolder {
 public:
  using Values = Body::Values;
  enum class Kind : uint8_t {
    branch,   // bodies: true, false. Arguments: predicate, operands
    loop,     // bodies: condition, body. Arguments: `leading` carried values, others
    map,      // body. Arguments: `leading` tensors to be sliced, others
    scan,     // body. Arguments: `leading` carried values, `sliced` tensors, others
  };
  Flow(Kind kind, std::vector<std::shared_ptr<Body>> bodies, size_t leading, size_t sliced, std::vector<bool> is_tensor, bool pure)
      : kind_(kind), bodies_(std::move(bodies)), leading_(leading), sliced_(sliced), is_tensor_(std::move(is_tensor)), pure_(pure) {}

  std::vector<at::Tensor> run(std::span<const at::Tensor> tensors, std::span<const int64_t> numbers) const;
  BodyEffects effects() const;
  std::vector<std::vector<Dim>> result_sizes(DimTable& dims, std::span<const std::vector<Dim>> tensors, std::span<const Dim> numbers) const;

 private:
  Values branch(const Values& arguments) const;
  Values loop(const Values& arguments) const;
  Values steps(const Values& arguments) const;     // map, scan
  size_t first_sliced() const { return kind_ == Kind::scan ? leading_ : 0; }
  size_t sliced() const { return kind_ == Kind::scan ? sliced_ : leading_; }
  size_t carried() const { return kind_ == Kind::map ? 0 : leading_; }
  template <class T>
  std::vector<T> in_order(std::span<const T> tensors, std::span<const T> numbers) const;

  Kind kind_;
  std::vector<std::shared_ptr<Body>> bodies_;
  size_t leading_, sliced_;
  std::vector<bool> is_tensor_;
  bool pure_;
};

void install_flow();                         // registers the operator, once per process
const Flow* flow_of(const OpCall& call);     // null: another operator
std::vector<std::vector<Dim>> flow_sizes(OpCall& call, const Flow& flow);
// Calls the operator on what the program holds: wrappers and symbols, or real ones. A truth value travels as an integer: a comparison of
// sizes stays an expression of them.
ESCAPEMENT_API std::vector<at::Tensor> call_flow(c10::intrusive_ptr<Flow> flow, std::span<const c10::IValue> arguments);

}  // namespace escapement
