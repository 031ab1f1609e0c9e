// torch::nn modules. See programs.h.
#include <torch/nn/modules.h>

#include "programs.h"

namespace programs {
namespace {

namespace nn = torch::nn;
using at::Tensor;

constexpr int64_t kWidth = 12;

Flat rows_of_width(Shape s) { return {at::randn({s.rows, kWidth})}; }
Flat sequences(Shape s) { return {at::randn({s.rows % 50, s.columns % 20, kWidth})}; }
Flat images(Shape s) { return {at::randn({std::min<int64_t>(s.rows, 5), 3, 8 + std::min<int64_t>(s.columns, 30), 16})}; }
Flat words(Shape s) { return {at::randint(0, 30, {s.rows, s.columns}, at::kLong)}; }

// A module whose call operator is of no use, or its compiled form.
template <class F>
Tensor forward(F& f, const Tensor& x) {
  if constexpr (requires { f->forward(x); }) return f->forward(x);
  else return f(x);
}

PROGRAM(linear, 1, rows_of_width, nn::Linear(kWidth, 7), f(in[0]));
PROGRAM(layer_norm, 1, rows_of_width, nn::LayerNorm(nn::LayerNormOptions({kWidth})), f(in[0]));
PROGRAM(embedding, 1, words, nn::Embedding(30, kWidth), f(in[0]));
PROGRAM(convolution, 1, images, nn::Conv2d(nn::Conv2dOptions(3, 5, 3).padding(1)), f(in[0]));

nn::BatchNorm2d evaluated(nn::BatchNorm2d norm) {
  norm->eval();
  return norm;
}
PROGRAM(batch_norm_evaluated, 1, images, evaluated(nn::BatchNorm2d(3)), f(in[0]));

PROGRAM(sequential, 1, rows_of_width,
        nn::Sequential(nn::Linear(kWidth, 20), nn::GELU(), nn::LayerNorm(nn::LayerNormOptions({20})), nn::Linear(20, 3)),
        forward(f, in[0]));

// The C++ code of these modules looks at sizes as numbers; torch has no debug information, so the line is the caller's.
PROGRAM(lstm, 3, sequences, nn::LSTM(nn::LSTMOptions(kWidth, 9).batch_first(true)), f(MARK(in[0])));

nn::TransformerEncoder encoder() {
  const auto layer = nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(kWidth, 3).dim_feedforward(24).dropout(0));
  nn::TransformerEncoder result(nn::TransformerEncoderOptions(layer, 2));
  result->eval();
  return result;
}
PROGRAM(transformer_encoder, 3, sequences, encoder(), f(MARK(in[0])));

// A module of the user's own, with a branch of its own.
struct Net : nn::Module {
  nn::Linear up{nullptr}, down{nullptr};
  Tensor scale;
  Net() {
    up = register_module("up", nn::Linear(kWidth, 20));
    down = register_module("down", nn::Linear(20, 4));
    scale = register_buffer("scale", at::ones({4}) * 3);
  }
  Tensor forward(Tensor x) {
    if (MARK(escapement::sym_size(x, 0)) == 1) return down(up(x));
    return down(at::relu(up(x))) * scale;
  }
};
PROGRAM(own_module, 2, rows_of_width, std::make_shared<Net>(), forward(f, in[0]));

struct Counter : nn::Module {
  Tensor count;
  Counter() { count = register_buffer("count", at::zeros({1})); }
  Tensor forward(Tensor x) {
    count.add_(1);
    return x + count;
  }
};
PROGRAM(module_that_writes_a_buffer, 1, rows_of_width, std::make_shared<Counter>(), forward(f, in[0]) * 0 + 1);

}  // namespace
}  // namespace programs
