// What a C++ user's first program needs of the installed package: headers that compile, a library that loads, right results.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <escapement/escapement.h>
#include <escapement/serving.h>

#include <cstdio>

int main() {
  const escapement::Function twice_plus_one(
      [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> { return {in[0].mul(2).add(1)}; });
  for (const int64_t rows : {3, 5, 0, 1}) {
    const at::Tensor x = at::ones({rows, 2});
    if (!at::equal(twice_plus_one({x})[0], x.mul(2).add(1))) return 1;
  }
  try {
    escapement::Engine().load("/nonexistent.pt2");
    return 1;
  } catch (const escapement::ServingError& error) {   // a type that both sides of the library know
    if (error.code() != escapement::ErrorCode::bad_file) return 1;
  }
  std::printf("consumer: escapement %s\n", escapement::version());
}
