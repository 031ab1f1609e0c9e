// See targets.h.
#include "targets.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "exported/exported_program.h"
#include "exported/input_paths.h"
#include "exported/json_reader.h"
#include "exported/package_manifest.h"
#include "exported/safetensors.h"
#include "exported/size_contract.h"
#include "exported/zip.h"
#include "seeds.h"
#include "support/error.h"
#include "support/text.h"
#include "trace/trace.h"

namespace escapement {
namespace {

template <class Action>
void run_reader(Action action) {
  try {
    action();
  } catch (const UserError&) {
  }
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz target: %s\n", what);
  std::abort();
}

// A file in memory with a path of its own.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(::memfd_create("fuzz", 0)) {
    require(file_ >= 0 && ::write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "no memory file");
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

void read_zip(std::string_view bytes) {
  const MemoryFile file(bytes);
  run_reader([&] {
    const ZipFile zip(file.path());
    for (const ZipFile::Entry& entry : zip.entries()) {
      run_reader([&] { require(zip.read_text(entry, 1 << 20).size() == entry.size, "an entry of another size"); });
    }
  });
}

// Every value once, in the way that its kind asks for and in one that it refuses.
void visit(const JsonValue& value) {
  run_reader([&] { value.real(); });
  run_reader([&] { value.integer(); });
  run_reader([&] { value["name"]; });
  if (value.kind() == JsonValue::Kind::array) std::for_each(value.array().begin(), value.array().end(), visit);
  if (value.kind() != JsonValue::Kind::object) return;
  for (const JsonValue::Member& member : value.members()) visit(member.value);
}

void read_json(std::string_view bytes) {
  run_reader([&] { visit(JsonValue::parse(bytes)); });
}

// The contract of a program against calls with the right ranks and odd sizes.
void check_calls(const SizeContract& contract) {
  for (const int64_t size : {int64_t{0}, int64_t{1}, int64_t{7}, INT64_MAX, INT64_MIN}) {
    std::vector<std::vector<int64_t>> sizes;
    for (const DeclaredInput& input : contract.inputs()) sizes.emplace_back(input.sizes.size(), size);
    const std::vector<std::span<const int64_t>> spans(sizes.begin(), sizes.end());
    run_reader([&] { contract.check(spans); });
  }
}

void read_graph(std::string_view bytes) {
  run_reader([&] { check_calls(read_program(bytes).contract()); });
}

void read_weight_table(std::string_view bytes) {
  run_reader([&] { read_weights(bytes); });
}

void read_package(std::string_view bytes) {
  run_reader([&] {
    const PackageManifest manifest = read_manifest(bytes);
    for (const PackageTensor& tensor : manifest.weights)
      for (const SizeSpec& size : tensor.meta.sizes) require(size.op == SizeOp::constant, "a size that is no number");
  });
}

void read_tensors(std::string_view bytes) {
  run_reader([&] {
    const SafeTensors found = read_safetensors(std::as_bytes(std::span(bytes.data(), bytes.size())));
    for (const SafeTensor& tensor : found.tensors)
      require(tensor.begin <= tensor.end && tensor.end <= bytes.size() - found.data, "a tensor outside the file");
  });
}

void read_size(std::string_view bytes) {
  run_reader([&] {
    SizeSymbols symbols;
    const SizeSpec size = parse_size(bytes, symbols);
    size_to_text(size, symbols);
    check_calls(SizeContract({{"x", false, {size}}, {"n", true, {size}}}, symbols, {}));
  });
}

// A condition over two tensors and an integer, at odd values.
void read_guard(std::string_view bytes) {
  static const InputPaths paths = [] {
    const std::optional<uint32_t> leaves[] = {0, 1, 2};
    return InputPaths(JsonValue::parse(seed_file("guard_signature.json")), leaves);
  }();
  run_reader([&] {
    SizeGuards guards;
    guards.add(bytes, paths);
    for (const int64_t value : {int64_t{0}, int64_t{1}, int64_t{7}, INT64_MAX, INT64_MIN}) {
      run_reader([&] { guards.check(std::vector<int64_t>(guards.facts().size(), value)); });
    }
  });
}

// What is read must print, and read back equal; that it is a well-formed program is the verifier's question.
void read_trace(std::string_view bytes) {
  run_reader([&] {
    const Trace trace = parse_trace(bytes);
    const std::string text = print(trace);
    const Trace again = parse_trace(text);
    require(equal(trace, again) && print(again) == text, "a trace that does not read back equal");
    try {
      verify(trace);
    } catch (const InternalError&) {
    }
  });
}

const std::array kTargets{
    FuzzTarget{"zip", read_zip, zip_seeds},
    FuzzTarget{"json", read_json, json_seeds},
    FuzzTarget{"program", read_graph, program_seeds},
    FuzzTarget{"weights", read_weight_table, weights_seeds},
    FuzzTarget{"package", read_package, package_seeds},
    FuzzTarget{"safetensors", read_tensors, safetensors_seeds},
    FuzzTarget{"size", read_size, size_seeds},
    FuzzTarget{"guard", read_guard, guard_seeds},
    FuzzTarget{"trace", read_trace, trace_seeds},
};

}  // namespace

std::span<const FuzzTarget> fuzz_targets() { return kTargets; }

const FuzzTarget& fuzz_target(std::string_view name) {
  const auto found = std::find_if(kTargets.begin(), kTargets.end(), [&](const FuzzTarget& t) { return name == t.name; });
  require(found != kTargets.end(), "no such target");
  return *found;
}

}  // namespace escapement
