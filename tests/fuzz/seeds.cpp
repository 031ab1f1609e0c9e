// See seeds.h.
#include "seeds.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "exported/safetensors.h"
#include "unit/zip_maker.h"

namespace escapement {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("the seed " + path.string() + " cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

// The input of a golden file: what stands between its first line and `# expect`.
std::string input_of(const std::string& golden) {
  const size_t start = golden.find('\n') + 1;
  return golden.substr(start, golden.find("# expect") - start);
}

}  // namespace

std::string seed_file(const std::string& name) {
  std::string text = contents(std::filesystem::path(ESCAPEMENT_TESTS) / "fuzz/seeds" / name);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::vector<std::string> zip_seeds() {
  ZipMaker plain{{{"m/a", "first"}, {"m/b", ""}}};
  ZipMaker wide = plain;
  wide.parts[0].wide = wide.wide_end = true;
  return {plain.bytes(), wide.bytes(), ZipMaker{}.bytes()};
}

std::vector<std::string> json_seeds() {
  return {R"( {"b": [1, -2, 9223372036854775807, 1.5e3, "NaN"], "a": {"t": true, "n": null}, "s": "\u00e9\ud83d\ude00\n\"\u0000"} )",
          seed_file("small_program.json")};
}

std::vector<std::string> program_seeds() { return {seed_file("small_program.json"), seed_file("program.json")}; }

std::vector<std::string> weights_seeds() { return {seed_file("weights.json")}; }

std::vector<std::string> package_seeds() {
  return {R"({"escapement": "0.1", "torch": "2.13", "versions": [{"captured": [0, {"tensor": "t0", "dtype": 7, "sizes": [2], )"
          R"("strides": [1], "offset": 0}]}, {"captured": []}], "weights": [{"tensor": "w0", "dtype": 7, "sizes": [2, 3], )"
          R"("strides": [3, 1], "offset": 4}], "code": {"k1": "00ff", "k2": "11ee"}})",
          R"({"escapement": "", "torch": "", "versions": [], "weights": [], "code": {}})"};
}

std::vector<std::string> safetensors_seeds() {
  const std::vector<SafeTensor> tensors{{"a", "F32", {2, 3}, 0, 24}, {"b", "U8", {1}, 24, 25}, {"c", "I64", {0, 7}, 25, 25}};
  return {safetensors_header(tensors) + std::string(25, 'x'), safetensors_header({})};
}

std::vector<std::string> size_seeds() {
  return {"Symbol('s0', positive=True, integer=True)", "Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))",
          "Mod(Max(Symbol('s0'), Integer(3)), FloorDiv(Symbol('s0'), Integer(2)))"};
}

std::vector<std::string> guard_seeds() {
  return {"(L['a'].size()[0] % 2) != 0 and not (L['n'] ** 2 >= 7 or -L['pair'][0]._base.stride()[1] // 3 == 1)",
          "math.floor(0.5*torch.sym_float(L['a'].size()[1])) <= max(L['n'], abs(L['a'].storage_offset()), 3) & 12"};
}

std::vector<std::string> trace_seeds() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(ESCAPEMENT_TESTS) / "golden")) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  std::transform(paths.begin(), paths.end(), std::back_inserter(seeds), [](const auto& path) { return input_of(contents(path)); });
  return seeds;
}

}  // namespace escapement
