// fuzz_functions [--seconds N | --programs N] [--seed S] [--without NAMES]: random functions through eager, call mode and replay mode. Programs
// run in children, so that one which ends its process is a finding like any other. What fails is made small, and printed with its seed.
// Exit status 1 if anything failed; the last line says how many programs ran and how they were served.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ATen/Parallel.h>
#include <escapement/escapement.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>

#include "functions.h"

namespace functions {
namespace {

constexpr int kProgramsOfAChild = 40;
constexpr unsigned kSecondsOfAProgram = 90;
constexpr size_t kMostShrunk = 25;
constexpr const char* kModes[] = {"call", "replay"};
constexpr const char* kCounters[] = {"recordings", "hits", "eager_calls", "launches", "library_calls", "budget_used"};

struct Case {
  Program program;
  std::vector<Call> calls;
  std::string mode;
};

Case case_of(uint64_t seed, const char* mode) {
  Random random(seed);
  Case made;
  made.program = generate(random);
  made.calls = calls(random);
  made.mode = mode;
  return made;
}

// --- a program as numbers, from the child that made it

std::string packed(const Case& of) {
  std::ostringstream out;
  out << of.mode << ' ' << of.program.steps.size();
  for (const Step& step : of.program.steps) {
    out << ' ' << step.op << ' ' << step.inputs.size();
    for (const size_t input : step.inputs) out << ' ' << input;
    out << ' ' << step.numbers[0] << ' ' << step.numbers[1];
  }
  out << ' ' << of.program.results.size();
  for (const size_t result : of.program.results) out << ' ' << result;
  out << ' ' << of.calls.size();
  for (const Call& call : of.calls) out << ' ' << call.rows << ' ' << call.columns << ' ' << call.seed << ' ' << call.layout;
  return out.str();
}

template <class T>
std::vector<T> read_list(std::istream& in);

void read(std::istream& in, size_t& number) { in >> number; }
void read(std::istream& in, Call& call) { in >> call.rows >> call.columns >> call.seed >> call.layout; }
void read(std::istream& in, Step& step) {
  in >> step.op;
  step.inputs = read_list<size_t>(in);
  in >> step.numbers[0] >> step.numbers[1];
}

template <class T>
std::vector<T> read_list(std::istream& in) {
  size_t count = 0;
  in >> count;
  std::vector<T> list(count);
  for (T& each : list) read(in, each);
  return list;
}

Case unpacked(const std::string& text) {
  std::istringstream in(text);
  Case made;
  in >> made.mode;
  made.program.steps = read_list<Step>(in);
  made.program.results = read_list<size_t>(in);
  made.calls = read_list<Call>(in);
  return made;
}

// --- children

// What the child wrote, and how it ended: empty if as it should.
template <class Work>
std::pair<std::string, std::string> in_child(const Work& work) {
  int ends[2];
  if (pipe(ends) != 0) std::perror("pipe"), std::exit(2);
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
    FILE* const out = fdopen(ends[1], "w");
    work(out);
    std::fflush(out);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return {text, WTERMSIG(status) == SIGALRM ? "hangs" : "ends the process: " + std::string(strsignal(WTERMSIG(status)))};
  return {text, WEXITSTATUS(status) == 0 ? "" : "ends the process"};
}

std::string checked(const Case& of) {
  alarm(kSecondsOfAProgram);
  try {
    return difference(of.program, of.calls, of.mode);
  } catch (const std::exception& error) {
    return std::string("raises: ") + error.what();
  }
}

std::string checked_apart(const Case& of) {
  const auto [text, end] = in_child([&](FILE* out) { std::fputs(checked(of).c_str(), out); });
  return end.empty() ? text : end;
}

// --- making a failing program small

// Kinds of findings, so that shrinking does not wander off to another one.
std::string kind_of(const std::string& finding) {
  const size_t comma = finding.find("), ");
  std::string kind = comma == std::string::npos ? finding : finding.substr(comma + 3);
  for (char& c : kind) c = std::isdigit(static_cast<unsigned char>(c)) ? '#' : c;
  return kind.substr(0, kind.find(" of ")).substr(0, 40);
}

Case without_step(Case of, size_t gone) {
  const size_t value = gone + kArguments;
  const size_t instead = of.program.steps[gone].inputs[0];
  const auto renamed = [&](size_t v) { return v == value ? instead : v > value ? v - 1 : v; };
  of.program.steps.erase(of.program.steps.begin() + static_cast<std::ptrdiff_t>(gone));
  for (Step& step : of.program.steps)
    for (size_t& input : step.inputs) input = renamed(input);
  for (size_t& result : of.program.results) result = renamed(result);
  return of;
}

std::vector<Case> smaller(const Case& of) {
  std::vector<Case> all;
  for (size_t i = of.program.steps.size(); i-- > 0;) all.push_back(without_step(of, i));
  for (size_t i = 0; i < of.program.results.size() && of.program.results.size() > 1; ++i) {
    all.push_back(of);
    all.back().program.results.erase(all.back().program.results.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (size_t i = 0; i < of.calls.size() && of.calls.size() > 1; ++i) {
    all.push_back(of);
    all.back().calls.erase(all.back().calls.begin() + static_cast<std::ptrdiff_t>(i));
  }
  for (size_t i = 0; i < of.calls.size(); ++i) {
    if (of.calls[i].layout == 0) continue;
    all.push_back(of);
    all.back().calls[i].layout = 0;
  }
  return all;
}

Case shrunk(Case of, const std::string& kind) {
  for (bool shrinks = true; shrinks;) {
    shrinks = false;
    for (const Case& candidate : smaller(of)) {
      if (!decides_exactly(candidate.program) || kind_of(checked_apart(candidate)) != kind) continue;
      of = candidate;
      shrinks = true;
      break;
    }
  }
  return of;
}

// --- the run

struct Run {
  uint64_t seed = 1;
  double seconds = 0;
  int64_t programs = 0;
  int64_t done = 0, failed = 0;
  std::map<std::string, int64_t> kinds, counters;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  bool over() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    return seconds > 0 ? passed.count() > seconds : done >= programs;
  }

  // Programs from this seed on, in a child, until one fails.
  void batch() {
    const uint64_t first = seed + static_cast<uint64_t>(done);
    const int count = seconds > 0 ? kProgramsOfAChild : static_cast<int>(std::min<int64_t>(kProgramsOfAChild, programs - done));
    const auto [text, end] = in_child([&](FILE* out) { run_programs(out, first, count); });
    std::istringstream lines(text);
    std::string current, finding;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("P ")) current = line.substr(2);
      if (line.starts_with("S ")) done = std::max<int64_t>(done, std::atoll(line.c_str() + 2) - static_cast<int64_t>(seed) + 1);
      if (line.starts_with("F ")) finding = line.substr(2);
      if (line.starts_with("C ")) take_counters(line.substr(2));
    }
    if (!end.empty()) finding = end;
    if (!finding.empty()) found(current, finding);
  }

  static void run_programs(FILE* out, uint64_t first, int count) {
    at::set_num_threads(1);
    for (int i = 0; i < count; ++i) {
      std::fprintf(out, "S %llu\n", static_cast<unsigned long long>(first + static_cast<uint64_t>(i)));
      for (const char* mode : kModes) {
        const Case one = case_of(first + static_cast<uint64_t>(i), mode);
        std::fprintf(out, "P %s\n", packed(one).c_str());
        std::fflush(out);
        const std::string finding = checked(one);
        if (finding.empty()) continue;
        std::fprintf(out, "F %s\n", finding.substr(0, finding.find('\n')).c_str());
        return report_counters(out);
      }
    }
    report_counters(out);
  }

  static void report_counters(FILE* out) {
    std::fprintf(out, "C");
    for (const char* name : kCounters) std::fprintf(out, " %lld", static_cast<long long>(escapement::counter(name)));
    std::fprintf(out, "\n");
  }

  void take_counters(const std::string& line) {
    std::istringstream in(line);
    for (const char* name : kCounters) {
      int64_t value = 0;
      in >> value;
      counters[name] += value;
    }
  }

  void found(const std::string& text, const std::string& finding) {
    ++failed;
    const std::string kind = kind_of(finding);
    if (++kinds[kind] > 3 || failed > static_cast<int64_t>(kMostShrunk)) return;
    const Case small = shrunk(unpacked(text), kind);
    std::printf("\n--- %s mode: %s\n%s\n", small.mode.c_str(), checked_apart(small).c_str(), functions::text(small.program).c_str());
    for (const Call& call : small.calls) std::printf("  %s\n", functions::text(call).c_str());
    std::printf("  --case '%s'\n", packed(small).c_str());
    std::fflush(stdout);
  }

  int report() const {
    std::printf("%lld programs, %lld failed", static_cast<long long>(done), static_cast<long long>(failed));
    for (const auto& [name, value] : counters) std::printf(", %s %lld", name.c_str(), static_cast<long long>(value));
    std::printf("\n");
    for (const auto& [kind, times] : kinds) std::printf("  %lld x %s\n", static_cast<long long>(times), kind.c_str());
    return failed == 0 ? 0 : 1;
  }
};

}  // namespace
}  // namespace functions

int main(int count, char** words) {
  functions::Run run;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string option = words[i];
    if (option == "--seconds") run.seconds = std::atof(words[i + 1]);
    if (option == "--programs") run.programs = std::atoll(words[i + 1]);
    if (option == "--seed") run.seed = std::strtoull(words[i + 1], nullptr, 10);
    if (option == "--without") functions::leave_out(words[i + 1]);
    if (option == "--case") return std::puts(functions::checked(functions::unpacked(words[i + 1])).c_str()), 0;
  }
  if (run.seconds == 0 && run.programs == 0) run.programs = 200;
  while (!run.over()) run.batch();
  return run.report();
}
