// Packed weights of convolutions: oneDNN lays a weight out for a convolution of given sizes, on a given number of threads. In the
// layout for other sizes it may compute ten times slower; but there are few layouts, and most sizes share one. So each use is asked once for its
// layout, a weight is kept in each that came up, and what is valid is decided as for linear layers (pack.h): at every call. The bits of a result do
// not depend on who packed the weight, or whether.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "torch/program/pack.h"

namespace escapement {

// How a convolution's kernel moves, along each axis of an image.
struct ConvolutionWindow {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
};

// What one caller used last; saves it the look into what is shared.
struct HeldConvolution {
  WeightMark mark;
  std::vector<int64_t> use;
  at::Tensor packed;
  bool has_no_room = false;   // for this use
};

// The weight, packed for images like `x` (a line: as an image of one row). Packings are shared by all programs of the process. Undefined: all of them
// together would be larger than so many bytes (0: no limit).
at::Tensor packed_for(const at::Tensor& x, const at::Tensor& weight, const ConvolutionWindow& window, HeldConvolution& held, size_t limit);
size_t packed_convolution_bytes();

bool can_pack_convolutions();   // does this torch have what it takes?

}  // namespace escapement
