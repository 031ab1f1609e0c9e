// Packed weights: oneDNN's own layout of a linear layer's weight, made once and used while the weight is unchanged. fp32 linear of
// torch goes through a library that leaves up to five times on some processors; on others it is at the roof already.
//
// When it is used. Only for weights that are parameters or captured tensors, only without gradients. For each class (K, N, dtype) the
// packed and the plain form are timed once in a process, on the first call of that class; the choice never changes afterwards, so one
// process gives equal bits for equal inputs. When it is valid. A packing belongs to one TensorImpl, at one version counter, storage and data
// pointer; because writes through `.data` move neither, a few elements are compared as well, and all of them where somebody may have written so
// (record/exposed_memory.h). All of this is checked at every call.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <optional>
#include <string>

#include "escapement/export.h"
#include "torch/record/exposed_memory.h"

namespace escapement {

// What a packing was made from.
struct WeightMark {
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;  // keeps the address from being used again
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;                          // likewise: `w.data = ...` twice may end at the same address
  const c10::TensorImpl* impl = nullptr;
  const c10::StorageImpl* memory = nullptr;
  const void* data = nullptr;
  uint32_t version = 0;
  Exposure exposure;
  std::array<uint64_t, 16> samples{};
  uint64_t digest = 0;   // of all bytes

  WeightMark();
  explicit WeightMark(const at::Tensor& weight);
  bool matches(const at::Tensor& weight);
};

struct PackedWeight {
  WeightMark mark;
  at::Tensor packed;
  bool has_no_room = false;   // by pack_limit; the tensor is then used as it is for good, so that equal inputs give equal bits
};

// Whether a weight may be packed at all: a plain, contiguous fp32 or bf16 matrix with a version counter.
bool can_pack(const at::Tensor& x, const at::Tensor& weight);

// Brings `held` up to date with the weight; packings are shared by all programs of the process. False: it stays as it is, since all packings
// together would be larger than so many bytes (0: no limit).
bool refresh_packing(const at::Tensor& weight, PackedWeight& held, size_t limit);

// The one-time choice for the class of this weight, and what it was, if it has been made.
enum class LinearChoice : uint8_t { plain, packed };
std::optional<LinearChoice> chosen_linear(const at::Tensor& weight);
LinearChoice choose_linear(const at::Tensor& weight, const std::function<void()>& plain, const std::function<void()>& packed);

// epilogue: "" or relu, gelu, gelu_tanh, silu, sigmoid, tanh.
at::Tensor packed_linear(const at::Tensor& x, const PackedWeight& weight, const at::Tensor& bias, const std::string& epilogue);

// Of all packings alive: of linear layers here, of convolutions in pack_convolution.h.
ESCAPEMENT_API size_t packed_bytes();
bool has_room(const at::Tensor& weight, size_t limit);   // for a packing beside those; counted where not
}  // namespace escapement
