// A C++ program that serves an exported program, as a user writes it: public headers only, no Python in the process.
//
//   embedding MODEL.pt2 ROWS...
//
// For each number of rows one line, the sum of the result; then what was recorded, and what four threads that call at once got.
// tests/python/exported/test_exported.py compares with eager.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <escapement/load.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

at::Tensor input(int64_t rows) { return at::arange(rows * 4).reshape({rows, 4}).to(at::kFloat).div(7); }

bool same_from_threads(const escapement::Module& model, const std::vector<int64_t>& rows) {
  std::vector<char> good(4, 1);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < good.size(); ++i)
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round)
        for (const int64_t n : rows) good[i] = good[i] && at::equal(model({input(n)})[0], model({input(n)})[0]);
    });
  for (std::thread& thread : threads) thread.join();
  return good == std::vector<char>(4, 1);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  try {
    const escapement::Module model = escapement::load(arguments[1], {{"strict", "true"}});
    std::vector<int64_t> rows;
    for (int i = 2; i < count; ++i) rows.push_back(std::atol(arguments[i]));
    for (const int64_t n : rows) std::printf("%.9g\n", model({input(n)})[0].sum().item<double>());
    std::printf("%s\nthreads %s\n", model.explain().c_str(), same_from_threads(model, rows) ? "agree" : "differ");
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
