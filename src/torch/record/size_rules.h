// Sizes of the results of families of library calls, for the table in lower_sizes.cpp. Each takes what the program called; empty: no rule for these
// arguments. An axis without a Dim is one that the rule does not know.
#pragma once

#include <vector>

#include "torch/record/lower.h"

namespace escapement::size_rules {

using Sizes = std::vector<std::vector<Dim>>;

// --- gradients and norms (size_rules_networks.cpp)
Sizes convolution_gradients(OpCall& call);       // of input, weight and bias
Sizes group_norm(OpCall& call);                  // result, mean and 1 / deviation of each group
Sizes group_norm_gradients(OpCall& call);
Sizes batch_norm(OpCall& call);                  // result, what was saved, running statistics
Sizes batch_norm_gradients(OpCall& call);
Sizes weight_norm(OpCall& call);                 // (v, g), or their gradients
Sizes sampling_gradients(OpCall& call);          // of image and grid
Sizes padded(OpCall& call);                      // padding or pad: pairs, the last axis first
Sizes nll_loss(OpCall& call);                    // loss and total weight
Sizes pair_loss(OpCall& call);                   // of an input and its target, element by element
Sizes embedding_bags(OpCall& call);
Sizes bag_gradients(OpCall& call);
Sizes pixel_unshuffle(OpCall& call);
Sizes folded(OpCall& call);                      // col2im
Sizes unpooled(OpCall& call);                    // self with the last axes of output_size
Sizes integer_product(OpCall& call);             // [m, k] by mat2: [k, n], or [n, k] packed

// --- matrices and transforms (size_rules_linalg.cpp)
Sizes same_matrix(OpCall& call);                 // the argument's, then what there is of each matrix
Sizes eigen(OpCall& call);                       // values, then vectors
Sizes determinant(OpCall& call);                 // of each matrix; then its factors
Sizes solution(OpCall& call);                    // A or LU, and B; then the factors of A
Sizes svd(OpCall& call);
Sizes qr(OpCall& call);
Sizes real_transform(OpCall& call);              // _fft_r2c
Sizes inverse_transform(OpCall& call);           // _fft_c2r
Sizes product(OpCall& call);                     // matrices of the first two arguments
Sizes real_view(OpCall& call);                   // of complex numbers: their parts are the last axis
Sizes complex_view(OpCall& call);
Sizes reduced(OpCall& call);                     // dim: one, several, or none, which is all; keepdim
Sizes as_index(OpCall& call);
Sizes broadcast_pair(OpCall& call);              // of the first two arguments

}  // namespace escapement::size_rules
