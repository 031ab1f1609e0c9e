// Runs one pointwise op's scalar program over raw binary operands: what tests/python compares with torch, bit for bit.
//
//   scalar_eval OP DTYPES RESULT [VALUE [VALUE2]] < operands > results
//   scalar_eval --size OP DTYPES RESULT [VALUE [VALUE2]]       prints the number of nodes, constants left out
//   scalar_eval --program ...                                  prints the program
//
// DTYPES has one name per operand, joined by commas; the operands stand one after the other in stdin, all of the same number of
// elements. VALUE is attrs.value: `_` for none, a number with a point for a float, else an integer.
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "support/error.h"
#include "support/text.h"
#include "trace/scalar_ops.h"

namespace {

using escapement::DType;

constexpr size_t kBlock = 256;

DType dtype_of(std::string_view name) {
  auto type = escapement::dtype_from_name(name);
  if (!type) throw escapement::UserError("no such dtype: " + std::string(name));
  return *type;
}

std::vector<DType> dtypes_of(std::string_view names) {
  std::vector<DType> types;
  for (const std::string_view name : escapement::names_in(names)) types.push_back(dtype_of(name));
  if (types.empty()) throw escapement::UserError("no dtype of an operand");
  return types;
}

escapement::Number number_of(const std::string& text) {
  escapement::Number number;
  if (text == "_") return number;
  bool real = text.find_first_of(".en") != text.npos;
  number.kind = real ? escapement::Number::Kind::real : escapement::Number::Kind::integer;
  if (real) number.real = std::stod(text);
  else number.integer = std::stoll(text);
  return number;
}

struct Job {
  std::vector<DType> operands;
  DType result;
  escapement::PointwiseProgram made;
};

Job job_of(std::span<char*> args) {
  if (args.size() < 3) throw escapement::UserError("usage: scalar_eval OP DTYPES RESULT [VALUE [VALUE2]]");
  auto op = escapement::op_from_name(args[0]);
  if (!op) throw escapement::UserError(std::string("no such op: ") + args[0]);
  escapement::Attrs attrs;
  if (args.size() > 3) attrs.value = number_of(args[3]);
  if (args.size() > 4) attrs.value2 = number_of(args[4]);
  Job job{dtypes_of(args[1]), dtype_of(args[2]), {}};
  std::vector<escapement::TensorType> types(job.operands.size());
  std::vector<const escapement::TensorType*> pointers;
  for (size_t i = 0; i < types.size(); ++i) {
    types[i].dtype = job.operands[i];
    types[i].sizes.resize(1);  // any tensor but a 0-d one, which would promote differently
    pointers.push_back(&types[i]);
  }
  job.made = escapement::pointwise_program(*op, pointers, job.result, attrs);
  return job;
}

// Elements at .. at + count of every operand, to results.
void run_block(const Job& job, const std::vector<const char*>& data, size_t at, size_t count, char* out) {
  static std::vector<uint64_t> results;
  std::vector<std::vector<uint64_t>> loaded(data.size(), std::vector<uint64_t>(count));
  std::vector<const uint64_t*> inputs;
  for (size_t k = 0; k < data.size(); ++k) {
    size_t size = static_cast<size_t>(escapement::size_of(job.operands[k]));
    for (size_t i = 0; i < count; ++i) loaded[k][i] = escapement::load_bits(data[k] + (at + i) * size, job.operands[k]);
    inputs.push_back(loaded[k].data());
  }
  job.made.program.run_block(inputs, {}, count, results);
  size_t size = static_cast<size_t>(escapement::size_of(job.result));
  for (size_t i = 0; i < count; ++i)
    escapement::store_bits(out + (at + i) * size, job.result, results[job.made.result * count + i]);
}

void run(const Job& job) {
  std::string input{std::istreambuf_iterator<char>(std::cin), {}};
  size_t row = 0, before = 0;
  for (DType type : job.operands) row += static_cast<size_t>(escapement::size_of(type));
  size_t count = input.size() / row;
  std::vector<const char*> data;
  for (DType type : job.operands) {
    data.push_back(input.data() + before);
    before += count * static_cast<size_t>(escapement::size_of(type));
  }
  std::string output(count * static_cast<size_t>(escapement::size_of(job.result)), '\0');
  for (size_t at = 0; at < count; at += kBlock) run_block(job, data, at, std::min(kBlock, count - at), output.data());
  std::cout.write(output.data(), static_cast<std::streamsize>(output.size()));
}

void print_size(const Job& job) {
  auto nodes = job.made.program.nodes();
  std::cout << std::count_if(nodes.begin(), nodes.end(), [](const auto& n) {
    return n.op != escapement::ScalarOp::constant && n.op != escapement::ScalarOp::input && n.op != escapement::ScalarOp::bitcast;
  }) << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::ios::sync_with_stdio(false);
    std::span<char*> args(argv + 1, static_cast<size_t>(argc - 1));
    std::string_view mode = args.empty() ? "" : args[0];
    bool option = mode.starts_with("--");
    Job job = job_of(option ? args.subspan(1) : args);
    if (mode == "--size") print_size(job);
    else if (mode == "--program") std::cout << job.made.program.to_string();
    else run(job);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "scalar_eval: %s\n", error.what());
    return 2;
  }
}
