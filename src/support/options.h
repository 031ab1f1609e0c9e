// The option table of options.def: a plain struct with one field a row, and access by name for Python, the environment and
// the docs page. An unknown name or a value of the wrong type is a UserError that offers the nearest name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "escapement/export.h"

namespace escapement {

enum class OptionType : uint8_t { boolean, integer, text };

namespace option_types {
using boolean = bool;
using integer = int64_t;
using text = std::string;
}  // namespace option_types

struct Options {
#define OPTION(name, type, default_value, doc) option_types::type name = default_value;
#include "support/options.def"
#undef OPTION
  friend bool operator==(const Options&, const Options&) = default;
};

struct OptionRow {
  std::string_view name;
  OptionType type;
  std::string default_value;  // as text
  std::string_view doc;
  std::string environment;    // "ESCAPEMENT_MAX_RECORDINGS"
};

std::vector<OptionRow> option_rows();
std::string_view type_name(OptionType);  // "bool", "int", "str": as Python calls them

// Sets a field from text: booleans are true/false/1/0/on/off, integers decimal and not negative.
ESCAPEMENT_API void set_option(Options& options, std::string_view name, std::string_view value);
inline void set_option(Options& options, std::string_view name, const char* value) {  // else it would become a bool
  set_option(options, name, std::string_view(value));
}
// Sets a field from a value whose type is known, as Python keywords have.
ESCAPEMENT_API void set_option(Options& options, std::string_view name, bool value);
ESCAPEMENT_API void set_option(Options& options, std::string_view name, int64_t value);
std::string get_option(const Options& options, std::string_view name);  // as text

// The process-wide defaults: the table's, then the environment's (read once, at first use), then what set_default_option
// changed. Compiled functions take a copy.
ESCAPEMENT_API Options default_options();
void set_default_option(std::string_view name, std::string_view value);

std::string options_table();  // one line a row: name, type, default, doc; for docs and --help

// The name in `candidates` that differs least from `name`, if it is near enough to be a misspelling; else empty.
std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace escapement
