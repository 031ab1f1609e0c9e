// See model_settings.h.
#include "model_settings.h"

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "document.h"

namespace server {

namespace {

using escapement::Batching;

struct Word {
  std::string_view text;
  Batching value;
};
constexpr Word kWords[] = {{"automatic", Batching::automatic}, {"none", Batching::none}, {"rows", Batching::rows}, {"lengths", Batching::lengths}};

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

size_t read_count(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 || value.get<uint64_t>() > size_t{1} << 31)
    throw Wrong("a number from 1 to 2147483648");
  return value.get<size_t>();
}

std::string read_text(const Json& value) {
  if (!value.is_string() || value.get<std::string>().empty()) throw Wrong("a text that is not empty");
  return value.get<std::string>();
}

std::vector<std::string> read_names(const Json& value) {
  if (!value.is_array()) throw Wrong("a list of names");
  std::vector<std::string> names;
  for (const Json& name : value) names.push_back(read_text(name));
  return names;
}

// One row for each member: what it sets, and how it is read.
struct Member {
  const char* name;
  void (*set)(ModelSettings&, const Json&);
};
constexpr Member kMembers[] = {
    {"batching",
     [](ModelSettings& s, const Json& v) {
       const auto batching = v.is_string() ? read_batching(v.get<std::string>()) : std::nullopt;
       if (!batching) throw Wrong("automatic, none, rows or lengths");
       s.batch.batching = *batching;
     }},
    {"max_batch", [](ModelSettings& s, const Json& v) { s.batch.max_requests = read_count(v); }},
    {"max_rows", [](ModelSettings& s, const Json& v) { s.batch.max_rows = read_count(v); }},
    {"queue", [](ModelSettings& s, const Json& v) { s.batch.max_queued = read_count(v); }},
    {"version", [](ModelSettings& s, const Json& v) { s.version = read_text(v); }},
    {"output_names", [](ModelSettings& s, const Json& v) { s.load.output_names = read_names(v); }},
    {"strict",
     [](ModelSettings& s, const Json& v) {
       if (!v.is_boolean()) throw Wrong("true or false");
       s.load.strict = v.get<bool>();
     }},
    {"pack_weights",
     [](ModelSettings& s, const Json& v) {
       if (!v.is_boolean()) throw Wrong("true or false");
       s.load.pack_weights = v.get<bool>();
     }},
};

void read_member(ModelSettings& settings, const std::string& name, const Json& value) {
  std::string known;
  for (const Member& member : kMembers) {
    known += std::string(known.empty() ? "" : ", ") + member.name;
    if (name != member.name) continue;
    try {
      return member.set(settings, value);
    } catch (const Wrong& wrong) {
      throw Wrong("'" + name + "' is to be " + wrong.what());
    }
  }
  throw Wrong("there is no '" + name + "'; it may have " + known);
}

void read_file(ModelSettings& settings, const std::filesystem::path& file) {
  constexpr std::streamoff kMost = 64 << 10;
  std::ifstream stream(file, std::ios::binary | std::ios::ate);
  if (!stream || stream.tellg() > kMost) throw Wrong("it cannot be read, or has more than 64 KB");
  stream.seekg(0);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Wrong("it is no JSON object");
  for (const auto& [name, value] : json.items()) read_member(settings, name, value);
}

}  // namespace

std::optional<Batching> read_batching(std::string_view text) {
  for (const Word& word : kWords) {
    if (text == word.text) return word.value;
  }
  return {};
}

ModelSettings model_settings(const Settings& settings, const std::filesystem::path& file) {
  ModelSettings found;
  found.batch = settings.batch;
  if (file.empty()) return found;
  try {
    read_file(found, file);
  } catch (const Wrong& wrong) {
    throw std::runtime_error(file.string() + ": " + wrong.what());
  }
  return found;
}

}  // namespace server
