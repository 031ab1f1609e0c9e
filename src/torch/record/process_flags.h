// The flags of the process: what at::Context holds. In one process a state of them is told from another by a number, asked at every call;
// another process knows it by names and values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace escapement {

inline constexpr uint32_t kNoFlags = UINT32_MAX;   // the number of no state

// The same for the same flags, within this process.
uint32_t flags_number();

// Each flag by its name in at::Context, with its value: one number, the elements of an array, or nothing for an optional without a value.
using NamedFlags = std::vector<std::pair<std::string, std::vector<int64_t>>>;

// Nothing if something is set that has no name here.
std::optional<NamedFlags> named_flags(uint32_t number);
// The number that this process has for such flags, which need not be those of now. Nothing if these are not its flags, each once.
std::optional<uint32_t> number_of(const NamedFlags& flags);

}  // namespace escapement
