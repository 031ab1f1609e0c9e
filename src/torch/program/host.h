// The tensors of one call: TensorRecipe says how a value of the trace becomes an at::Tensor, TensorTable makes and keeps them.
//
// Memory: inputs are the caller's; outputs come from torch's allocator (large ones from pool.h) with eager's sizes and strides;
// results of library calls are what the library returned; temporaries lie in the context's arena and become tensors only for
// library calls, one TensorImpl per value and context, re-pointed when shapes or memory change. On a device there are no temporaries: all that
// the plan allocates is made as outputs are, and dropped when it is dead.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "jit/run/executable.h"
#include "torch/program/program_entry.h"
#include "torch/program/stride_walk.h"

namespace escapement {

// A tensor on uninitialised memory of its own, as at::empty_strided would make it; on the CPU without dispatch.
at::Tensor new_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, caffe2::TypeMeta dtype, c10::Device device = c10::DeviceType::CPU);
// Another view of `base`'s storage; `offset` in elements of `dtype` from the start of the storage.
at::Tensor new_view(const at::Tensor& base, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, caffe2::TypeMeta dtype);
// Whether a tensor lies in memory that a context will use again.
bool is_borrowed(const at::Tensor& tensor);

struct TensorRecipe {
  uint32_t buffer = 0;
  Buffer::Kind kind = Buffer::Kind::temporary;
  uint32_t input = 0;
  bool whole = true;                 // the root itself, not a view of it
  bool alike = false;                // the root's elements at their places: its strides are those of axes of size 1, too
  std::vector<uint8_t> dense;        // axes, innermost first, each of which steps over those before it, whatever the sizes; empty: not known to
  caffe2::TypeMeta dtype;            // none for a dtype that has no name of ours: it is the root's
  std::vector<Slot> sizes, strides;
  uint64_t expanded = 0;             // axes whose stride is 0 for all sizes
  bool plain = false;                // new memory, laid out as a new tensor where the walk says no other
  bool natural = false;              // new memory, by the rule of TensorIterator: what is contiguous at a call's sizes has the strides of a new tensor;
  bool natural_of_nothing = false;   // also where it has no elements: not if an operand was broadcast to channels last
  bool natural_image = false;        // and what is an image with channels last that no operand was broadcast for has those of a new one
  struct Sorted {
    uint32_t input;
    std::vector<uint8_t> axes;       // of the input, for each of the tensor's
  };
  std::optional<Sorted> sorted;      // new memory, whose axes are in the order of this input's strides, those of axes of size 1 too
  std::optional<StrideWalk> walk;    // where there are no elements; if it is exact, also where an axis has one
  std::optional<uint32_t> copied;    // new memory, a copy that keeps the strides of this input
  uint64_t new_if_one = 0;           // of these: axes that have the stride of a new axis where they have one element
  Slot offset = 0;                   // elements from the root's first element
  uint32_t level = 0;                // of the shape program: when all of these are known
};

class TensorRecipes {
 public:
  TensorRecipes(const LaunchPlan& plan, Executable& executable) : plan_(plan), executable_(executable), dims_(plan.trace.dims) {}
  uint32_t add(ValueId value);       // index of the value's recipe
  void settle();                     // once the executable is finished
  const TensorRecipe& operator[](uint32_t index) const { return recipes_[index]; }
  std::vector<TensorRecipe> take() && { return std::move(recipes_); }

 private:
  std::vector<uint8_t> stepping_order(const TensorType& type);
  bool is_as_expanded(ValueId value, int32_t axis) const;
  ValueId copied_from(ValueId value) const;
  std::optional<uint32_t> input_of(ValueId value) const;
  std::optional<TensorRecipe::Sorted> sorted_as(ValueId value) const;
  std::optional<StrideWalk> walk_to(ValueId value);
  void note_rule(TensorRecipe& recipe, ValueId value);

  const LaunchPlan& plan_;
  Executable& executable_;
  DimTable dims_;                    // a copy to compute in
  std::vector<TensorRecipe> recipes_;
  std::unordered_map<uint32_t, uint32_t> known_;   // by value
};

class TensorTable {
 public:
  TensorTable(const std::vector<TensorRecipe>& recipes, const EntryChecks& entry, Context& context, size_t buffers)
      : recipes_(recipes), entry_(entry), context_(context), of_buffer_(buffers), cached_(recipes.size()) {}

  void begin(std::span<const Argument> arguments) { arguments_ = arguments; }
  // The call's arguments are its own from now on. Until other threads run Python, which can make another tensor of an object (torch.utils.swap_tensors),
  // they are where the caller has them.
  void hold();
  // Memory that the caller offers for outputs (see Program::run), by number of the output; `output_of_buffer`: which output a buffer is.
  void offer(std::span<const at::Tensor> offers, std::span<const uint32_t> output_of_buffer) {
    offers_ = offers;
    output_of_buffer_ = output_of_buffer;
  }
  void end();                        // drops what belongs to the call

  const at::Tensor& input(uint32_t number) const { return *entry_.tensor(arguments_, number); }
  at::Tensor get(uint32_t recipe);   // the value as an operand of a library call
  void* allocate(uint32_t recipe);   // an output buffer (recipe of its root)
  void adopt(uint32_t buffer, at::Tensor tensor);  // the buffer's memory is this tensor's from now on
  const at::Tensor& owner(uint32_t buffer) const { return of_buffer_[buffer]; }
  void drop(uint32_t buffer) { of_buffer_[buffer].reset(); }
  void* address(uint32_t recipe) const;

  // Sizes or strides of a recipe in the current shapes. Valid until the next call of either.
  c10::IntArrayRef sizes(const TensorRecipe& recipe) { return values(recipe.sizes, sizes_); }
  c10::IntArrayRef strides(const TensorRecipe& recipe);
  void stride_over_nothing(const TensorRecipe& recipe);
  void stride_over_one(const TensorRecipe& recipe);
  bool stride_as_eager(const TensorRecipe& recipe);   // if it has axes of one element, or of none
  bool stride_naturally(const TensorRecipe& recipe);
  bool stride_as_image(const TensorRecipe& recipe);
  bool stride_by_walk(const TensorRecipe& recipe, bool nothing);
  bool walks(const TensorRecipe& recipe) const;   // if it is plain
  bool strides_vary(const TensorRecipe& recipe) const;   // in calls of the same sizes, with those of the arguments
  bool has_axis_below_two(const TensorRecipe& recipe) const;
  bool has_axis_of(int64_t size, const TensorRecipe& recipe) const;
  bool is_empty(const TensorRecipe& recipe) const { return has_axis_of(0, recipe); }
  bool stride_sorted(const TensorRecipe& recipe);
  int64_t offset(const TensorRecipe& recipe) const { return context_.table[recipe.offset]; }

 private:
  struct Cached {
    at::Tensor tensor;
    void* address = nullptr;
    uint64_t epoch = 0;
  };
  const at::Tensor* offered(const TensorRecipe& recipe);
  c10::IntArrayRef values(const std::vector<Slot>& slots, c10::SmallVector<int64_t, 8>& into) const;
  const at::Tensor& temporary(uint32_t recipe);
  void point(Cached& cached, const TensorRecipe& recipe, void* address);

  const std::vector<TensorRecipe>& recipes_;
  const EntryChecks& entry_;
  Context& context_;
  std::span<const Argument> arguments_;
  std::vector<Argument> held_;
  std::vector<at::Tensor> held_tensors_;
  std::span<const at::Tensor> offers_;
  std::span<const uint32_t> output_of_buffer_;
  std::vector<at::Tensor> of_buffer_;  // outputs and results of calls, during a call
  std::vector<Cached> cached_;         // temporaries as tensors, per recipe
  std::vector<std::pair<uint32_t, void*>> displaced_;  // what adopted buffers pointed to before: the arena
  c10::SmallVector<int64_t, 8> sizes_, strides_;
};

}  // namespace escapement
