// The IR fuzzer: fuzz_ir [--seconds N] [--cases N] [--seed S] [--kinds traces,code,nests,dims,guards] [--seed-only] [--text FILE]
//
// Runs the kinds of checks.h in turn, each for its share of the time, on seeds from S on. A finding is printed as the smallest text that
// shows it, with the seed that makes it again (--kinds K --seed S --seed-only); the status is then 1. A fault ends the run: the seed
// stands in its message.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>

#include "fuzz/ir/checks.h"
#include "fuzz/ir/plan_executor.h"
#if ESCAPEMENT_WITH_LLVM
#include "jit/kernel_cache.h"
#endif

namespace escapement::fuzz {
namespace {

#if ESCAPEMENT_WITH_LLVM
std::vector<std::shared_ptr<KernelCode>> machine_code(const std::vector<Kernel>& kernels) { return code_for(kernels); }
constexpr CodeMaker kCode = machine_code;
#else
constexpr CodeMaker kCode = nullptr;
#endif

struct Kind {
  const char* name;
  std::optional<Finding> (*check)(uint64_t seed, Counts& counts);
  double share;  // of the time
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
    {"traces", check_trace, 3},
    {"dims", check_dims, 1},
    {"guards", check_guards, 0.5},
#if ESCAPEMENT_WITH_LLVM
    {"code", [](uint64_t seed, Counts& counts) { return check_trace_code(seed, kCode, counts); }, 3},
    {"nests", check_nest, 3},
    {"guard_code", check_guard_code, 0.5},
#endif
  };
  return all;
}

struct Settings {
  double seconds = 10;
  uint64_t cases = UINT64_MAX, seed = 1;
  bool one_seed = false;
  std::string wanted, text;
};

// --- faults: the message is written by hand, as nothing else may be called there

char fault_message[256];

void on_fault(int) {
  (void)!write(STDOUT_FILENO, fault_message, std::strlen(fault_message));
  (void)!write(STDOUT_FILENO, text_in_hand.data(), text_in_hand.size());
  _exit(3);
}

void note_case(const char* kind, uint64_t seed) {
  std::snprintf(fault_message, sizeof fault_message, "FAULT: memory outside was touched: --kinds %s --seed %llu --seed-only\n", kind,
                static_cast<unsigned long long>(seed));
}

void catch_faults() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) std::signal(signal, on_fault);
}

// --- running

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

bool is_wanted(const Settings& settings, const Kind& kind) {
  return settings.wanted.empty() || ("," + settings.wanted + ",").find("," + std::string(kind.name) + ",") != std::string::npos;
}

void report(const Kind& kind, uint64_t seed, const Finding& finding) {
  std::printf("FOUND by %s (--kinds %s --seed %llu --seed-only): %s\n%s\n", kind.name, kind.name, static_cast<unsigned long long>(seed), finding.what.c_str(),
              finding.text.c_str());
  std::fflush(stdout);
}

// Findings.
int run_kind(const Kind& kind, const Settings& settings, double seconds, Counts& counts) {
  const double end = now() + seconds;
  int found = 0;
  for (uint64_t seed = settings.seed; counts.cases < settings.cases && found < 5; ++seed) {
    note_case(kind.name, seed);
    text_in_hand.clear();
    if (const auto finding = kind.check(seed, counts)) report(kind, seed, *finding), ++found;
    if (settings.one_seed || now() > end) break;
  }
  return found;
}

int run_all(const Settings& settings) {
  double shares = 0;
  for (const Kind& kind : kinds()) shares += is_wanted(settings, kind) ? kind.share : 0;
  int found = 0;
  uint64_t total = 0;
  for (const Kind& kind : kinds()) {
    if (!is_wanted(settings, kind)) continue;
    Counts counts;
    const double start = now();
    found += run_kind(kind, settings, settings.seconds * kind.share / shares, counts);
    total += counts.cases;
    const double took = now() - start;
    std::printf("%-10s %8llu made %10llu cases %8llu refused %8.0f cases/s\n", kind.name, static_cast<unsigned long long>(counts.made),
                static_cast<unsigned long long>(counts.cases), static_cast<unsigned long long>(counts.refused), static_cast<double>(counts.cases) / took);
    std::fflush(stdout);
  }
  std::printf("%llu cases, %d findings\n", static_cast<unsigned long long>(total), found);
  return found == 0 ? 0 : 1;
}

int run_text(const Settings& settings) {
  std::ifstream file(settings.text);
  std::stringstream content;
  content << file.rdbuf();
  for (uint64_t seed = settings.seed; seed < settings.seed + 20; ++seed) {
    const std::string what = check_text(content.str(), seed, kCode);
    if (what.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
    return 1;
  }
  return 0;
}

int usage() {
  std::fprintf(stderr, "fuzz_ir [--seconds N] [--cases N] [--seed S] [--kinds K,K] [--seed-only] [--text FILE]\nkinds:");
  for (const Kind& kind : kinds()) std::fprintf(stderr, " %s", kind.name);
  std::fprintf(stderr, "\n");
  return 2;
}

int main(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; ++i) {
    const std::string key = arguments[i];
    if (key == "--seed-only") {
      settings.one_seed = true;
      continue;
    }
    if (i + 1 >= count) return usage();
    const char* value = arguments[++i];
    if (key == "--seconds") settings.seconds = std::atof(value);
    else if (key == "--cases") settings.cases = std::strtoull(value, nullptr, 10);
    else if (key == "--seed") settings.seed = std::strtoull(value, nullptr, 10);
    else if (key == "--kinds") settings.wanted = value;
    else if (key == "--text") settings.text = value;
    else return usage();
  }
  catch_faults();
  return settings.text.empty() ? run_all(settings) : run_text(settings);
}

}  // namespace
}  // namespace escapement::fuzz

int main(int count, char** arguments) { return escapement::fuzz::main(count, arguments); }
