// Traces through passes and plans: see checks.h.
#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>

#include "fuzz/ir/checks.h"
#include "fuzz/ir/plan_executor.h"
#include "fuzz/ir/shrink.h"
#include "fuzz/ir/trace_case.h"
#include "fuzz/ir/trace_generator.h"
#include "kernels/distribute_cat.h"
#include "specialize/channels_last.h"
#include "specialize/epilogue.h"
#include "specialize/passes.h"
#include "specialize/side_trace.h"
#include "support/error.h"
#include "trace/expand.h"
#include "trace/verifier.h"

namespace escapement::fuzz {
namespace {

// A call of the trace, with what the reference evaluator says of it.
struct Case {
  std::vector<int64_t> symbols;
  std::vector<HostInput> inputs;
  Result expected;
};

std::optional<Case> make_case(const Trace& trace, std::optional<std::vector<int64_t>> symbols, Random& random, Counts& counts) {
  if (!symbols) return {};
  Case made;
  made.symbols = std::move(*symbols);
  try {
    made.inputs = make_inputs(trace, made.symbols, random);
    made.expected = evaluated(trace, made.inputs);
  } catch (const UserError&) {  // a size beyond 64 bits, a negative one
    ++counts.refused;
    return {};
  }
  if (made.expected.refused) {
    ++counts.refused;
    return {};
  }
  return made;
}

std::vector<Case> make_cases(const Trace& trace, size_t wanted, size_t large_one_in, Random& random, Counts& counts) {
  std::vector<Case> cases;
  if (auto hinted = make_case(trace, hinted_sizes(trace), random, counts)) cases.push_back(std::move(*hinted));
  if (random.one_in(large_one_in))
    if (auto large = make_case(trace, large_sizes(trace, random), random, counts)) cases.push_back(std::move(*large));
  for (size_t attempt = 0; attempt < 3 * wanted && cases.size() < wanted; ++attempt)
    if (auto more = make_case(trace, random_sizes(trace, random), random, counts)) cases.push_back(std::move(*more));
  return cases;
}

struct Difference {
  std::string what;
};

void compare(const Case& c, const Result& got, const std::string& what, Counts& counts) {
  ++counts.cases;
  if (c.expected.failed_guard) ++counts.refused;
  const std::string text = difference(c.expected, got);
  if (text.empty()) return;
  std::string sizes;
  for (const int64_t s : c.symbols) sizes += " " + std::to_string(s);
  throw Difference{what + ": " + text + "\nsymbols:" + sizes};
}

void compare_text(const Trace& trace, Counts& counts) {
  verify_text(trace);
  ++counts.cases;
}

// --- passes

using Pass = Trace (*)(const Trace&);
struct NamedPass {
  std::string_view name;
  Pass run;
};
constexpr NamedPass kPasses[] = {{"dce", remove_dead_code}, {"early", check_early}, {"expand", expand_composites}, {"identities", remove_identities},
                                 {"cse", share_common_values}, {"channels_last", make_channels_last}, {"epilogue", mark_epilogues},
                                 {"dce_late", remove_dead_code}, {"cat", [](const Trace& trace) { return distribute_cat(trace); }}};

// The rows of support/stages.def from trace to trace, in their order: a new one is missed here, and this does not compile.
constexpr bool is_complete() {
  constexpr std::string_view trace = "trace";
  size_t next = 0;
#define STAGE(stage, leaves, wanted, what) \
  if (#leaves == trace && #stage != std::string_view("record") && (next == std::size(kPasses) || kPasses[next++].name != #stage)) return false;
#include "support/stages.def"
#undef STAGE
  return next == std::size(kPasses);
}
static_assert(is_complete());

void compare_pass(const Trace& after, std::string_view name, const std::vector<Case>& cases, Counts& counts) {
  verify(after);
  compare_text(after, counts);
  for (const Case& c : cases) compare(c, evaluated(after, c.inputs), "after " + std::string(name), counts);
}

// Each by itself, then in the pipeline's order. Returns what the pipeline would plan.
Trace check_passes(const Trace& trace, const std::vector<Case>& cases, Counts& counts) {
  for (const NamedPass& pass : {kPasses[0], kPasses[2], kPasses[3]}) compare_pass(pass.run(trace), pass.name, cases, counts);
  Trace now = trace;
  for (const NamedPass& pass : kPasses) {
    now = pass.run(now);
    compare_pass(now, pass.name, cases, counts);
  }
  return now;
}

// --- snapshots: what runs before one and what runs behind it are the whole

void check_cut(const Trace& trace, const std::vector<Case>& cases, Random& random, Counts& counts) {
  const Snapshot at = snapshot_of_all(trace, static_cast<uint32_t>(random.between(0, static_cast<int64_t>(trace.instrs.size()))));
  const Trace before = trace_before(trace, at), side = side_trace(trace, at);
  verify(before);
  verify(side);
  compare_text(side, counts);
  for (const Case& c : cases) {
    if (c.expected.failed_guard) continue;
    compare(c, evaluated_in_parts(before, side, c.inputs), "cut before instruction " + std::to_string(at.instrs), counts);
  }
}

// --- plans

void check_kernels(const LaunchPlan& plan, Counts& counts) {
  for (const Kernel& kernel : plan.kernels) {
    const LoopNest again = parse_loop_nest(print(kernel.nest));
    ++counts.cases;
    const bool same = structurally_equal(again, kernel.nest) && structural_hash(again) == structural_hash(kernel.nest);
    if (!same) throw Difference{"a loop nest reads back as another:\n" + print(kernel.nest)};
  }
}

void check_plan(const Trace& trace, const FusionLimits& limits, const std::string& name, const std::vector<Case>& cases, CodeMaker code, Counts& counts) {
  const LaunchPlan plan = make_plan(trace, limits);
  verify(plan);
  check_kernels(plan, counts);
  PlanExecutor executor(plan, code(plan.kernels));
  for (const Case& c : cases)
    for (const int threads : {1, 4}) {
      const std::string what = name + ", " + std::to_string(threads) + " threads";
      try {
        compare(c, executor.run(c.inputs, c.symbols, threads), what, counts);
      } catch (const InternalError& error) {
        throw Difference{what + ": " + error.what()};
      }
    }
}

// Expanded, and nothing else: what fusion must cope with if no pass has cleaned up.
void check_plans(const Trace& trace, const Trace& passed, const std::vector<Case>& cases, Random& random, Counts& counts) {
  check_plan(passed, {}, "fused", cases, interpreted, counts);
  check_plan(passed, {false, 1}, "apart", cases, interpreted, counts);
  if (random.one_in(2)) check_plan(passed, {true, static_cast<int>(random.between(2, 5))}, "in small kernels", cases, interpreted, counts);
  if (random.one_in(2)) check_plan(expand_composites(trace), {}, "fused without passes", cases, interpreted, counts);
}

// --- the whole of it, and what fails of it

std::string failure_of(const Trace& trace, const std::function<void(const Trace&)>& check) {
  try {
    check(trace);
  } catch (const Difference& difference) {
    return difference.what;
  } catch (const InternalError& error) {
    return std::string("internal error: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
  return "";
}

void run_checks(const Trace& trace, uint64_t seed, Counts& counts) {
  Random random(seed ^ 0x5eed);
  verify(trace);
  compare_text(trace, counts);
  const std::vector<Case> cases = make_cases(trace, 3, 100, random, counts);
  if (cases.empty()) return;
  check_cut(trace, cases, random, counts);
  const Trace passed = check_passes(trace, cases, counts);
  check_plans(trace, passed, cases, random, counts);
}

void run_code_checks(const Trace& trace, uint64_t seed, CodeMaker code, Counts& counts) {
  Random random(seed ^ 0x5eed);
  const std::vector<Case> cases = make_cases(trace, 40, 6, random, counts);
  if (cases.empty()) return;
  Trace passed = trace;
  for (const NamedPass& pass : kPasses) passed = pass.run(passed);
  check_plan(passed, {random.one_in(4) ? false : true, 512}, "machine code", cases, code, counts);
}

// What kind of failure it is: its text without numbers. A smaller trace must fail in the same way.
std::string kind_of(const std::string& failure) {
  std::string kind = failure.substr(0, failure.find('\n'));
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind.substr(0, std::min(kind.find(" is "), size_t{90}));
}

using Check = std::function<void(const Trace&, uint64_t seed)>;

// Other inputs are drawn for a smaller trace: it may take several seeds until they fail again.
std::string failure_of(const Trace& trace, const Check& check, uint64_t seed, const std::string& kind) {
  constexpr uint64_t kTries = 8;
  for (uint64_t i = 0; i < kTries; ++i) {
    const std::string failure = failure_of(trace, [&](const Trace& t) { check(t, seed + i); });
    if (!failure.empty() && (kind.empty() || kind_of(failure) == kind)) return failure;
    if (kind.empty()) return "";
  }
  return "";
}

std::optional<Finding> finding_of(const Trace& trace, const Check& check, uint64_t seed) {
  const std::string failure = failure_of(trace, check, seed, "");
  if (failure.empty()) return {};
  const std::string kind = kind_of(failure);
  const Trace small = shrink(trace, [&](const Trace& t) { return !failure_of(t, check, seed, kind).empty(); });
  return Finding{failure_of(small, check, seed, kind), print(small)};
}

}  // namespace

std::optional<Finding> check_trace(uint64_t seed, Counts& counts) {
  Random random(seed);
  TraceLimits limits;
  limits.steps = 4 + random.below(24);
  ++counts.made;
  return finding_of(random_trace(random, limits), [&](const Trace& t, uint64_t s) { run_checks(t, s, counts); }, seed);
}

std::optional<Finding> check_trace_code(uint64_t seed, CodeMaker code, Counts& counts) {
  Random random(seed);
  TraceLimits limits;
  limits.steps = 6 + random.below(18);
  ++counts.made;
  const Trace trace = random_trace(random, limits);
  text_in_hand = print(trace);
  return finding_of(trace, [&](const Trace& t, uint64_t s) { run_code_checks(t, s, code, counts); }, seed);
}

std::string check_text(const std::string& text, uint64_t seed, CodeMaker code) {
  const Trace trace = parse_trace(text);
  Counts counts;
  return failure_of(trace, [&](const Trace& t) {
    run_checks(t, seed, counts);
    if (code != nullptr) run_code_checks(t, seed, code, counts);
  });
}

}  // namespace escapement::fuzz
