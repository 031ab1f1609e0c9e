// Turns what a front end says of its inputs (InputSpec) into Dims of one recording. A symbol is made when it is first met, with the value seen
// there as its hint; what was said and does not hold for this call is taken for unknown.
#pragma once

#include <ATen/core/ivalue.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "support/size_spec.h"
#include "torch/record/recorder.h"

namespace escapement {

struct InputSpec {
  enum class Kind : uint8_t { tensor, integer, other } kind = Kind::tensor;
  std::string name;
  std::vector<SizeSpec> sizes;   // tensor: one per dim, or empty (all unknown: a new symbol each)
  SizeSpec size;                 // integer: which symbol it binds, or what it equals
  bool parameter = false;
};

class SymbolBinder {
 public:
  SymbolBinder(Recorder& recorder, const std::vector<InputSpec>& inputs) : recorder_(recorder), inputs_(inputs) {}

  // What the program is run on: wrappers and symbols in place of tensors and integers. Once.
  std::vector<c10::IValue> wrapped(std::span<const c10::IValue> arguments);

 private:
  void bind_sizes(std::span<const c10::IValue> arguments);
  void bind_sizes_of(uint32_t position, const at::Tensor& tensor);
  bool is_integer(const SizeSpec& symbol) const;
  Dim integer(const InputSpec& spec, int64_t value);
  std::vector<Dim> sizes(const at::Tensor& tensor, uint32_t position);
  Dim size(const SizeSpec& spec, int64_t seen, const Source& source);
  Dim size_of_symbol(const SizeSpec& spec, int64_t seen, const Source& source);
  Dim expression(const SizeSpec& spec);
  DimTable& dims() { return recorder_.dims(); }

  Recorder& recorder_;
  const std::vector<InputSpec>& inputs_;
  std::map<int64_t, Dim> symbols_;
};

}  // namespace escapement
