// See check.h.
#include "guards/check.h"

namespace escapement {
namespace {

std::string sources_of(const Trace& trace, const Guard& guard) {
  std::string text;
  for (const Dim side : {guard.left, guard.right}) {
    for (const Symbol symbol : trace.dims.symbols(side)) {
      const std::string source = to_string(trace.dims.info(symbol).source);
      if (text.find(source) != std::string::npos) continue;
      text += (text.empty() ? "" : ", ") + source;
    }
  }
  return text;
}

}  // namespace

std::string to_string(const Trace& trace, const Guard& guard) {
  return trace.dims.to_string(guard.left) + " " + std::string(relation_text(guard.kind)) + " " +
         trace.dims.to_string(guard.right);
}

GuardMiss explain(const Trace& trace, const Guard& guard, std::span<const int64_t> symbol_values) {
  GuardMiss miss;
  miss.source = sources_of(trace, guard);
  miss.expected = to_string(trace, guard) + ", asked by: " + guard.because;
  if (guard.location.index < trace.locations.size()) miss.expected += " at " + trace.locations[guard.location.index];
  miss.seen = std::to_string(trace.dims.evaluate(guard.left, symbol_values)) + " and " +
              std::to_string(trace.dims.evaluate(guard.right, symbol_values));
  return miss;
}

bool testable_at_entry(const Trace& trace, const Guard& guard) {
  for (const Dim side : {guard.left, guard.right}) {
    for (const Symbol symbol : trace.dims.symbols(side)) {
      if (trace.dims.info(symbol).source.value) return false;
    }
  }
  return true;
}

}  // namespace escapement
