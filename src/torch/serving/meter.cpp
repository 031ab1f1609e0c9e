// See meter.h and include/escapement/metrics.h. The text is Prometheus's exposition format 0.0.4.
#include "torch/serving/meter.h"

#include <algorithm>

#include "support/text.h"

namespace escapement {

void Meter::answered(const Region::Answer& answer, int64_t nanoseconds) {
  using How = Region::Answer::How;
  if (answer.how == How::version) hits_.fetch_add(1, std::memory_order_relaxed);
  if (answer.how == How::recording) recordings_.fetch_add(1, std::memory_order_relaxed);
  if (answer.how == How::eager) {
    const std::lock_guard lock(mutex_);
    ++eager_[std::string(reason_name(answer.why))];
  }
  const size_t bucket = static_cast<size_t>(std::lower_bound(kBounds.begin(), kBounds.end(), nanoseconds) - kBounds.begin());
  latency_[bucket].fetch_add(1, std::memory_order_relaxed);
  latency_ns_.fetch_add(nanoseconds, std::memory_order_relaxed);
}

void Meter::failed(ErrorCode code) {
  const std::lock_guard lock(mutex_);
  ++errors_[to_string(code)];
}

void Meter::heard(const RegionEvent& event) {
  const auto nanoseconds = static_cast<int64_t>(event.milliseconds * 1e6);
  if (event.kind == RegionEvent::Kind::recorded) record_ns_.fetch_add(nanoseconds, std::memory_order_relaxed);
  if (event.kind == RegionEvent::Kind::compiled) compile_ns_.fetch_add(nanoseconds, std::memory_order_relaxed);
}

Metrics Meter::read() const {
  Metrics metrics;
  metrics.hits = hits_.load(std::memory_order_relaxed);
  metrics.recordings = recordings_.load(std::memory_order_relaxed);
  metrics.weight_swaps = swaps_.load(std::memory_order_relaxed);
  metrics.record_seconds = static_cast<double>(record_ns_.load(std::memory_order_relaxed)) * 1e-9;
  metrics.compile_seconds = static_cast<double>(compile_ns_.load(std::memory_order_relaxed)) * 1e-9;
  metrics.latency.sum = static_cast<double>(latency_ns_.load(std::memory_order_relaxed)) * 1e-9;
  for (const int64_t bound : kBounds) metrics.latency.bounds.push_back(static_cast<double>(bound) / 1e9);
  for (const auto& count : latency_) metrics.latency.counts.push_back(count.load(std::memory_order_relaxed));
  {
    const std::lock_guard lock(mutex_);
    metrics.eager_by_reason = eager_;
    metrics.errors_by_code = errors_;
  }
  metrics.calls = metrics.hits + metrics.recordings + metrics.eager_calls();
  return metrics;
}

int64_t Metrics::eager_calls() const {
  int64_t sum = 0;
  for (const auto& [reason, times] : eager_by_reason) sum += times;
  return sum;
}

// --- Prometheus

namespace {

using Modules = std::vector<std::pair<std::string, Metrics>>;

std::string label_value(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\n')
      escaped += "\\n";
    else if (c == '"' || c == '\\')
      (escaped += '\\') += c;
    else
      escaped += c;
  }
  return escaped;
}

std::string number(double value) {
  std::string text = real_to_text(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

class PrometheusWriter {
 public:
  void family(const char* name, const char* type, const char* help) {
    text_ += std::string("# HELP escapement_") + name + " " + help + "\n# TYPE escapement_" + name + " " + type + "\n";
  }
  void sample(const std::string& name, const std::string& module, const std::string& value, const std::string& more = "") {
    text_ += "escapement_" + name + "{module=\"" + label_value(module) + "\"" + more + "} " + value + "\n";
  }
  std::string take() && { return std::move(text_); }

 private:
  std::string text_;
};

struct PlainMetric {
  const char *name, *type, *help;
  double (*value)(const Metrics&);
};

constexpr PlainMetric kPlain[] = {
    {"calls_total", "counter", "Calls answered with results.",
     [](const Metrics& m) { return static_cast<double>(m.calls); }},
    {"hits_total", "counter", "Calls answered by compiled code.",
     [](const Metrics& m) { return static_cast<double>(m.hits); }},
    {"recordings_total", "counter", "Calls that recorded a version.",
     [](const Metrics& m) { return static_cast<double>(m.recordings); }},
    {"record_seconds_total", "counter", "Time spent recording.", [](const Metrics& m) { return m.record_seconds; }},
    {"compile_seconds_total", "counter", "Time spent compiling.", [](const Metrics& m) { return m.compile_seconds; }},
    {"weight_swaps_total", "counter", "Times that weights were replaced.",
     [](const Metrics& m) { return static_cast<double>(m.weight_swaps); }},
    {"versions", "gauge", "Compiled versions.", [](const Metrics& m) { return static_cast<double>(m.versions); }},
    {"weight_bytes", "gauge", "Memory of the weights.",
     [](const Metrics& m) { return static_cast<double>(m.weight_bytes); }},
    {"in_flight", "gauge", "Calls that run now.", [](const Metrics& m) { return static_cast<double>(m.in_flight); }},
};

void write_labelled(PrometheusWriter& out, const Modules& modules, const char* name, const char* label, const char* help,
                    std::map<std::string, int64_t> Metrics::* field) {
  out.family(name, "counter", help);
  for (const auto& [module, metrics] : modules) {
    for (const auto& [value, times] : metrics.*field)
      out.sample(name, module, std::to_string(times), std::string(",") + label + "=\"" + label_value(value) + "\"");
  }
}

void write_latency(PrometheusWriter& out, const std::string& module, const Metrics& metrics) {
  int64_t sum = 0;
  for (size_t i = 0; i < metrics.latency.counts.size(); ++i) {
    sum += metrics.latency.counts[i];
    const std::string bound = i < metrics.latency.bounds.size() ? number(metrics.latency.bounds[i]) : "+Inf";
    out.sample("call_seconds_bucket", module, std::to_string(sum), ",le=\"" + bound + "\"");
  }
  out.sample("call_seconds_sum", module, number(metrics.latency.sum));
  out.sample("call_seconds_count", module, std::to_string(sum));
}

}  // namespace

}  // namespace escapement

namespace escapement::inline ESCAPEMENT_ABI {

std::string prometheus_text(const std::vector<std::pair<std::string, Metrics>>& modules) {
  PrometheusWriter out;
  for (const PlainMetric& metric : kPlain) {
    out.family(metric.name, metric.type, metric.help);
    for (const auto& [module, metrics] : modules) out.sample(metric.name, module, number(metric.value(metrics)));
  }
  write_labelled(out, modules, "eager_calls_total", "reason", "Calls that ran without compiled code.",
                 &Metrics::eager_by_reason);
  write_labelled(out, modules, "errors_total", "code", "Calls that ended with an error.", &Metrics::errors_by_code);
  out.family("call_seconds", "histogram", "Duration of answered calls.");
  for (const auto& [module, metrics] : modules) write_latency(out, module, metrics);
  return std::move(out).take();
}

}  // namespace escapement
