// Access by name goes through `visit_field`, generated from the rows, so that no row can be missed.
#include "support/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

#include "support/error.h"
#include "support/fork.h"
#include "support/text.h"

namespace escapement {
namespace {

std::string as_text(bool value) { return value ? "true" : "false"; }
std::string as_text(int64_t value) { return std::to_string(value); }
std::string as_text(const std::string& value) { return value; }

OptionType type_of(bool) { return OptionType::boolean; }
OptionType type_of(int64_t) { return OptionType::integer; }
OptionType type_of(const std::string&) { return OptionType::text; }

[[noreturn]] void refuse_name(std::string_view name) {
  std::vector<std::string_view> names;
  for (const OptionRow& row : option_rows()) names.push_back(row.name);
  std::string message = "unknown option '" + std::string(name) + "'";
  if (std::string_view near = nearest_name(name, names); !near.empty()) message += "; did you mean '" + std::string(near) + "'?";
  throw UserError(message);
}

[[noreturn]] void refuse_value(std::string_view name, OptionType type, std::string_view value) {
  throw UserError("option '" + std::string(name) + "' wants " + std::string(type_name(type)) + ", not '" + std::string(value) + "'");
}

[[noreturn]] void refuse_choice(std::string_view option, std::string_view value, const std::vector<std::string_view>& choices) {
  std::string message = "option '" + std::string(option) + "' does not know '" + std::string(value) + "'";
  const std::string_view near = nearest_name(value, choices);
  message += near.empty() ? "." : "; did you mean '" + std::string(near) + "'?";
  message += " It takes " + join(choices, ", ", [](std::string_view choice) { return std::string(choice); });
  throw UserError(message);
}

void check_one_of(std::string_view option, std::string_view value, const std::vector<std::string_view>& choices) {
  if (std::find(choices.begin(), choices.end(), value) == choices.end()) refuse_choice(option, value, choices);
}

const std::vector<std::string_view>& stage_names() {
  static const std::vector<std::string_view> names{
#define STAGE(name, leaves, wanted, what) #name,
#include "support/stages.def"
#undef STAGE
  };
  return names;
}

// Texts that are names of something.
void check_choice(std::string_view name, std::string_view value) {
  if (name == "compile") return check_one_of(name, value, {"block", "background"});
  if (name != "dump") return;
  for (const std::string_view stage : names_in(value)) check_one_of(name, stage, stage_names());
}

// Calls visit(field) on the field of that name; throws if there is none.
template <class AnyOptions, class Visitor>
void visit_field(AnyOptions& options, std::string_view wanted, Visitor visit) {
#define OPTION(name, type, default_value, doc) \
  if (wanted == #name) return visit(options.name);
#include "support/options.def"
#undef OPTION
  refuse_name(wanted);
}

bool parse_into(bool& field, std::string_view value) {
  const bool yes = value == "true" || value == "1" || value == "on" || value == "True";
  const bool no = value == "false" || value == "0" || value == "off" || value == "False";
  if (yes || no) field = yes;
  return yes || no;
}

bool parse_into(int64_t& field, std::string_view value) {
  int64_t parsed = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
  if (error != std::errc() || end != value.data() + value.size() || parsed < 0 || parsed > INT32_MAX) return false;
  field = parsed;
  return true;
}

bool parse_into(std::string& field, std::string_view value) {
  field = value;
  return true;
}

std::string environment_name(std::string_view name) {
  std::string result = "ESCAPEMENT_";
  for (char c : name) result += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return result;
}

Options from_environment() {
  Options options;
  for (const OptionRow& row : option_rows())
    if (const char* value = std::getenv(row.environment.c_str())) set_option(options, row.name, value);
  return options;
}

struct Defaults {
  ForkMutex mutex;
  Options options = from_environment();
};

Defaults& defaults() {
  static Defaults* const instance = new Defaults;
  return *instance;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view type_name(OptionType type) {
  switch (type) {
    case OptionType::boolean: return "bool";
    case OptionType::integer: return "int";
    case OptionType::text: return "str";
  }
  return "";
}

std::vector<OptionRow> option_rows() {
  const Options standard;
  return {
#define OPTION(name, type, default_value, doc) \
  OptionRow{#name, type_of(standard.name), as_text(standard.name), doc, environment_name(#name)},
#include "support/options.def"
#undef OPTION
  };
}

void set_option(Options& options, std::string_view name, std::string_view value) {
  visit_field(options, name, [&](auto& field) {
    auto parsed = field;   // what is refused changes nothing
    if (!parse_into(parsed, value)) refuse_value(name, type_of(field), value);
    check_choice(name, value);
    field = std::move(parsed);
  });
}

void set_option(Options& options, std::string_view name, bool value) {
  visit_field(options, name, [&](auto& field) {
    if (type_of(field) != OptionType::boolean) refuse_value(name, type_of(field), as_text(value));
    parse_into(field, as_text(value));
  });
}

void set_option(Options& options, std::string_view name, int64_t value) {
  visit_field(options, name, [&](auto& field) {
    if (type_of(field) != OptionType::integer || !parse_into(field, as_text(value)))
      refuse_value(name, type_of(field), as_text(value));
  });
}

std::string get_option(const Options& options, std::string_view name) {
  std::string result;
  visit_field(options, name, [&](const auto& field) { result = as_text(field); });
  return result;
}

Options default_options() {
  Defaults& d = defaults();
  std::lock_guard lock(d.mutex);
  return d.options;
}

void set_default_option(std::string_view name, std::string_view value) {
  Defaults& d = defaults();
  std::lock_guard lock(d.mutex);
  set_option(d.options, name, value);
}

std::string options_table() {
  std::string result;
  for (const OptionRow& row : option_rows()) {
    std::string line(row.name);
    line.resize(std::max<size_t>(line.size() + 1, 20), ' ');
    line += std::string(type_name(row.type));
    line.resize(std::max<size_t>(line.size() + 1, 26), ' ');
    line += row.type == OptionType::text ? '"' + row.default_value + '"' : row.default_value;
    line.resize(std::max<size_t>(line.size() + 1, 36), ' ');
    result += line + std::string(row.doc) + '\n';
  }
  return result;
}

std::string_view nearest_name(std::string_view name, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;  // farther is another word, not a misspelling
  for (std::string_view candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

}  // namespace escapement
