// A LibTorch function, compiled once for all sizes: prints how often it was recorded and where it looked at a size.
#include <ATen/ATen.h>
#include <escapement/jit.h>

#include <cstdio>

int main() {
  auto scores = escapement::jit([](at::Tensor x, at::Tensor w) {
    if (escapement::sym_size(x, 0) > 1000) x = x / 1000;
    return at::softmax(at::matmul(x, w), -1);
  });
  for (const int64_t rows : {4, 1, 7, 500}) std::printf("%.3f\n", scores(at::randn({rows, 8}), at::randn({8, 3})).sum().item<double>());
  for (const auto& escape : scores.escapes()) std::printf("%s at %s\n", escape.relation.c_str(), escape.where.c_str());
  std::printf("recordings: %ld\n", static_cast<long>(escapement::counter("recordings")));
}
