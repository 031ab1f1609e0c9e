// Which line of the user's C++ code is being run: asked at every op and guard while a function is recorded, never
// afterwards.
//
// While recording only return addresses are taken: those of the innermost frames that lie neither in this library nor in
// torch nor in the C and C++ libraries. What they mean is looked up when a report is made (readable_place): reading debug
// information takes tens of milliseconds.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "support/fork.h"

namespace escapement {

class CppLocations {
 public:
  int here();                        // number of the place that runs now; -1: none
  std::string text(int number) const;  // for Trace::locations; readable_place understands it

 private:
  static constexpr size_t kCandidates = 8;  // inlined or not, some of them are torch's headers and ours
  using Place = std::array<const void*, kCandidates>;
  int number_of(Place place, std::string named);
  mutable ForkMutex mutex_;
  std::map<std::pair<Place, std::string>, int> numbers_;
  std::vector<std::pair<Place, std::string>> places_;
};

// While it lives, this thread runs code of another language, whose place `text` says: a TorchScript program's line.
class NamedPlace {
 public:
  explicit NamedPlace(std::function<std::string()> text);
  ~NamedPlace();
  NamedPlace(const NamedPlace&) = delete;
  NamedPlace& operator=(const NamedPlace&) = delete;

 private:
  std::function<std::string()> text_;
  const NamedPlace* before_;
  friend class CppLocations;
};

// Torch's, ours, or of the C and C++ libraries.
bool is_library_code(uintptr_t address);

// `text` with what CppLocations wrote in it replaced by "file:line" of the first frame that is the user's.
std::string readable_place(const std::string& text);
void make_readable(std::vector<std::string>& locations);   // of a trace that is printed while it is compiled

}  // namespace escapement
