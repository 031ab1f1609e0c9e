// Numbers out of what the library counts, and out of the JSON that explain() gives.
#pragma once

#include <cstdint>
#include <regex>
#include <string>

#include <escapement/escapement.h>

// How often a counter grows while `body` runs.
template <class Body>
int64_t grown(const char* name, const Body& body) {
  const int64_t before = escapement::counter(name);
  body();
  return escapement::counter(name) - before;
}

// The sum of a field over all objects that have it.
inline int64_t sum_of(const std::string& text, const std::string& field) {
  int64_t sum = 0;
  const std::regex pattern("\"" + field + "\": ?(\\d+)");
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at) sum += std::stol((*at)[1]);
  return sum;
}
