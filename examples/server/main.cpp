// An inference server on the KServe v2 protocol, over HTTP.
//
//   server --model FILE | --models FOLDER [--OPTION VALUE] ...         without arguments: the options
//
//   GET  /v2/health/live  /v2/health/ready  /v2/models/NAME/ready      200, or 503 while warming up and draining
//   GET  /v2  /v2/models/NAME[/versions/1]                             metadata
//   POST /v2/models/NAME[/versions/1]/infer                            inference; JSON or the binary extension
//   POST /v2/repository/index                                          the models, and which of them are ready
//   POST /v2/repository/models/NAME/load  /unload                      at the control port, with --repository-control 1
//   GET  /metrics                                                      for Prometheus
//
// It listens at once, and is ready when its models are warm: then no request waits for the compiler, and what no version fits
// runs eagerly. SIGTERM and SIGINT drain: what was accepted is answered, new requests get 503, then the process ends with
// status 0. It ends after --drain-ms, or with a second signal, whatever clients do.
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "service.h"

namespace {

using server::Clock;
using server::Milliseconds;
using server::Service;
using server::Settings;

// Signals reach the thread that waits for them, and no other; a reader of stdout that goes away ends nothing.
sigset_t block_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return signals;
}

// Each connection is a file; some are left for the model, the listeners and the loops.
void fit_connections(Settings& settings) {
  constexpr rlim_t kOthers = 256;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur == RLIM_INFINITY) return;
  const size_t most = files.rlim_cur > 2 * kOthers ? files.rlim_cur - kOthers : files.rlim_cur / 2;
  settings.http.connections = std::min(settings.http.connections, most);
}

bool another_signal(const sigset_t& signals) {
  const timespec at_once{};
  return sigtimedwait(&signals, nullptr, &at_once) > 0;
}

// Whether everything that was accepted is answered.
bool drain(Service& service, Milliseconds time, const sigset_t& signals) {
  service.drain();
  for (const auto end = Clock::now() + time; Clock::now() < end && !another_signal(signals);) {
    if (service.door().empty_within(Milliseconds(20))) return true;
  }
  return service.door().empty_within(Milliseconds(0));
}

void report(const server::Door& door, bool complete) {
  const auto answers = door.answers();
  const auto good = answers.find(200);
  std::printf("%s after %lld answers\n", complete ? "drained" : "cut",
              static_cast<long long>(good == answers.end() ? 0 : good->second));
  std::fflush(nullptr);
}

// The model is loaded on a thread of its own, so that signals are heard meanwhile.
class Loader {
 public:
  explicit Loader(Service& service) : thread_([this, &service] { load(service); }) {}
  bool running() const { return running_; }
  bool failed() const { return failed_; }
  void join() { thread_.join(); }

 private:
  void load(Service& service) {
    try {
      service.load();
      std::printf("ready\n");
      std::fflush(stdout);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "server: %s\n", error.what());
      failed_ = true;
    }
    running_ = false;
    if (failed_) kill(getpid(), SIGTERM);
  }

  std::atomic<bool> running_ = true, failed_ = false;
  std::thread thread_;
};

int serve(const Settings& settings, const sigset_t& signals) {
  Service service(settings);
  const int port = service.bind();
  std::printf("health and metrics on %s:%d\n", settings.host.c_str(), service.control_port());
  std::printf("listening on %s:%d\n", settings.host.c_str(), port);
  std::fflush(stdout);
  service.start();
  Loader loader(service);
  int signal = 0;
  sigwait(&signals, &signal);
  const bool complete = drain(service, settings.drain_time, signals);
  const int status = loader.failed() ? 1 : 0;
  if (!loader.failed()) report(service.door(), complete);
  if (!complete || loader.running() || service.busy()) std::_Exit(status);  // a kernel or a compile that has begun cannot be interrupted
  loader.join();
  service.stop();
  return status;
}

}  // namespace

int main(int count, char** arguments) {
  Settings settings;
  if (!server::read_settings(count, arguments, settings)) return 2;
  const sigset_t signals = block_signals();
  fit_connections(settings);
  try {
    return serve(settings, signals);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "server: %s\n", error.what());
    return 1;
  }
}
