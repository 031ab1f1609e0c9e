// Life of machine code: pages are never writable and executable at once, compiling and freeing from many threads, the shape of IR.
#include <atomic>
#include <fstream>
#include <thread>

#include "nest_harness.h"

namespace escapement::testing {
namespace {

LoopNest chain(DType type, double factor) {  // y = (a + b) * factor
  LoopNest nest;
  nest.axes.resize(2);
  Stage stage;
  stage.inputs = {load_of(0), load_of(1)};
  Reg sum = stage.body.emit(ScalarOp::add, type, stage.body.input(0, type), stage.body.input(1, type));
  stage.stores = {{2, stage.body.emit(ScalarOp::mul, type, sum, stage.body.constant(factor, type))}};
  nest.stages = {stage};
  nest.params = {{type, false, InnerStride::unit}, {type, false, InnerStride::zero}, {type, true, InnerStride::unit}};
  return nest;
}

LoopNest row_sum() {
  LoopNest nest;
  nest.schedule = Schedule::row;
  nest.axes = {{false, false}, {true, false}};
  nest.params = {{DType::f32, false, InnerStride::unit}, {DType::f32, true, InnerStride::zero}};
  nest.row_values = {DType::f32};
  nest.stages.resize(2);
  nest.stages[0].inputs = {load_of(0)};
  nest.stages[0].reductions = {{Op::sum, nest.stages[0].body.input(0, DType::f32), 0}};
  nest.stages[1].kind = Stage::Kind::each_row;
  nest.stages[1].inputs = {row_input(0)};
  nest.stages[1].stores = {{1, nest.stages[1].body.input(0, DType::f32)}};
  return nest;
}

int mappings_with(const std::string& permissions) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(" " + permissions) != std::string::npos;
  return count;
}

TEST(CodeModule, NoPageIsWritableAndExecutable) {
  LoopNest nest = chain(DType::f32, 2.5);
  int before = mappings_with("r-x");
  auto module = CodeGenerator::instance().compile({{&nest, Variant::fast, "k"}});
  EXPECT_NE(module->function(0), nullptr);
  EXPECT_EQ(mappings_with("rwx"), 0);
  EXPECT_GT(mappings_with("r-x"), before);   // so the search above sees code pages at all
  module.reset();
  EXPECT_EQ(mappings_with("r-x"), before);   // freed with its owner
}

void run_once(const CodeModule& module, size_t index, double factor) {
  std::vector<float> a(37, 1.5f), result(37);
  float b = 2.0f;
  void* data[] = {a.data(), &b, result.data()};
  const int64_t extents[] = {1, 37}, strides[] = {0, 4, 0, 0, 0, 0, 0, 4, 0};
  KernelArgs args{data, extents, strides, nullptr, nullptr, nullptr};
  module.function(index)(&args, 0, 1, 0, 37);
  for (float r : result) ASSERT_EQ(r, 3.5f * static_cast<float>(factor));
}

TEST(CodeModule, ThreadsCompileRunAndFree) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 10; ++i) {
        double first = t + 0.5, second = i + 0.25;
        LoopNest x = chain(DType::f32, first), y = chain(DType::f32, second);
        auto module = CodeGenerator::instance().compile({{&x, Variant::fast, "same_name"}, {&y, Variant::general, "other"}});
        run_once(*module, 0, first);
        run_once(*module, 1, second);
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST(CodeModule, ManyKernelsInSeveralModules) {
  std::vector<LoopNest> nests;
  for (int i = 0; i < 12; ++i) nests.push_back(chain(DType::f32, i));
  std::vector<KernelSource> sources;
  for (size_t i = 0; i < nests.size(); ++i) sources.push_back({&nests[i], Variant::fast, "k" + std::to_string(i)});
  auto module = CodeGenerator::instance().compile(sources);
  for (size_t i = 0; i < nests.size(); ++i) run_once(*module, i, static_cast<double>(i));
}

// --- shape of IR

std::string block_of(const std::string& ir, const std::string& label) {
  size_t begin = ir.find("\n" + label + ":"), end = ir.find("\n\n", begin + 1);
  return begin == std::string::npos ? "" : ir.substr(begin, end - begin);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(CodegenIr, MainLoopOfAMapIsVectorsOnly) {
  LoopNest nest = chain(DType::f32, 2.5);
  std::string ir = CodeGenerator::instance().text({{&nest, Variant::fast, "k"}}, CodeText::ir), main = block_of(ir, "main");
  std::string vector = "<" + std::to_string(CodeGenerator::instance().target().vector_bits / 32) + " x float>";
  EXPECT_TRUE(contains(main, "load " + vector)) << ir;
  EXPECT_TRUE(contains(main, "store " + vector)) << ir;
  for (const char* bad : {"div", "rem", "call", "alloca", "insertelement", "load float"}) EXPECT_FALSE(contains(main, bad)) << bad << "\n" << ir;
}

TEST(CodegenIr, NothingIsPromisedThatIsNotProved) {
  LoopNest map = chain(DType::f32, 2.5), row = row_sum();
  for (const LoopNest* nest : {&map, &row})
    for (Variant variant : {Variant::fast, Variant::general}) {
      std::string ir = CodeGenerator::instance().text({{nest, variant, "k"}}, CodeText::ir);
      for (const char* bad : {"noalias", "nsw", "nuw", "inbounds", "fast", "contract", "reassoc"}) EXPECT_FALSE(contains(ir, bad)) << bad << "\n" << ir;
    }
}

TEST(CodegenIr, AccumulatorsOfASumStayInRegisters) {
  LoopNest nest = row_sum();
  std::string main = block_of(CodeGenerator::instance().text({{&nest, Variant::fast, "k"}}, CodeText::ir), "main");
  EXPECT_TRUE(contains(main, "phi <")) << main;
  EXPECT_FALSE(contains(main, "store")) << main;
}

}  // namespace
}  // namespace escapement::testing
