// The pipeline, from a generic trace to machine code: this file is the table of contents, and the only place that knows the
// order. One runner names, times, verifies and dumps each step; a step neither prints nor times itself.
#include "jit/pipeline.h"

#include <chrono>
#include <cstdio>
#include <functional>

#include "jit/kernel_cache.h"
#include "jit/llvm/compile.h"
#include "specialize/epilogue.h"
#include "specialize/passes.h"
#include "support/error.h"
#include "support/float_mode.h"
#include "trace/expand.h"

namespace escapement {
namespace {

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options) {}

  template <class Function>
  auto step(const char* name, Function function) {
    const auto start = std::chrono::steady_clock::now();
    auto result = function();
    times_.push_back({name, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count()});
    return result;
  }

  Trace pass(const char* name, const Trace& trace, Trace (*function)(const Trace&)) {
    Trace result = step(name, [&] { return function(trace); });
    if (options_.verify) verify(result);
    dump(name, [&] { return print(result); });
    return result;
  }

  void dump(const char* name, const std::function<std::string()>& text) const {
    if (options_.dump.find(name) == std::string::npos) return;
    std::fprintf(stderr, "--- after %s\n%s\n", name, text().c_str());
  }

  std::vector<StepTime> times() && { return std::move(times_); }

 private:
  const Options& options_;
  std::vector<StepTime> times_;
};

}  // namespace

std::shared_ptr<const Compiled> compile(const Trace& generic, const Options& options, const ObjectCode* objects) {
  const FloatModeGuard plain(kPlainFloatMode);   // the code serves callers that flush denormals and those that do not
  Runner runner(options);
  if (options.verify) verify(generic);
  runner.dump("record", [&] { return print(generic); });

  // Dead code first: what nobody needs should not be expanded.
  Trace trace = runner.pass("dce", generic, remove_dead_code);
  // Composites become primitives before sharing, so that two norms of one tensor share their mean.
  trace = runner.pass("expand", trace, expand_composites);
  trace = runner.pass("cse", trace, share_common_values);
  // Linear layers take their activation and residual while these are still instructions of their own.
  if (options.pack_weights) trace = runner.pass("epilogue", trace, mark_epilogues);
  trace = runner.pass("dce_late", trace, remove_dead_code);

  const FusionLimits limits{options.fuse, static_cast<int>(options.max_ops_per_kernel)};
  auto compiled = std::make_shared<Compiled>();
  compiled->plan = runner.step("plan", [&] { return make_plan(std::move(trace), limits); });
  if (options.verify) verify(compiled->plan);
  runner.dump("plan", [&] { return print(compiled->plan); });
  compiled->code = runner.step("codegen", [&] { return code_for(compiled->plan.kernels, objects); });
  compiled->guards = compile_guards;
  compiled->times = std::move(runner).times();
  return compiled;
}

ObjectCode object_code(const Compiled& compiled) {
  ObjectCode objects;
  for (size_t i = 0; i < compiled.code.size(); ++i) add_objects(compiled.plan.kernels[i], *compiled.code[i], objects);
  return objects;
}

}  // namespace escapement
