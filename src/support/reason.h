// The enumerated reasons of reason.def and their messages. support/events.h counts them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace escapement {

enum class Reason : uint8_t {
#define REASON(name, message) name,
#include "support/reason.def"
#undef REASON
};

std::string_view reason_name(Reason);
std::string_view reason_message(Reason);
std::optional<Reason> reason_from_name(std::string_view name);
int reason_count();

}  // namespace escapement
