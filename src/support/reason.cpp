// Tables over reason.def. Order is the file's order, so a Reason is an index.
#include "support/reason.h"

#include <array>

namespace escapement {
namespace {

struct Row {
  std::string_view name, message;
};

constexpr auto kRows = std::to_array<Row>({
#define REASON(name, message) {#name, message},
#include "support/reason.def"
#undef REASON
});

}  // namespace

std::string_view reason_name(Reason reason) { return kRows[static_cast<size_t>(reason)].name; }
std::string_view reason_message(Reason reason) { return kRows[static_cast<size_t>(reason)].message; }
int reason_count() { return static_cast<int>(kRows.size()); }

std::optional<Reason> reason_from_name(std::string_view name) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].name == name) return static_cast<Reason>(i);
  return std::nullopt;
}

}  // namespace escapement
