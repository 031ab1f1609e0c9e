// LibraryTarget: what a library call of a trace calls, "aten::sort.stable", and how: "aten::einsum under autocast to BFloat16".
//
// An operator without an autocast kernel of its own may call others that have one (einsum a matrix product). Recorded as one call it is
// run as it was recorded: under autocast to the same dtype, whatever is on where the program runs. The casts are made anew each time; those
// that eager keeps are weights', and of the same values.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>

namespace escapement {

struct LibraryTarget {
  std::string name, overload;
  std::optional<c10::ScalarType> autocast;

  static LibraryTarget parse(const std::string& text);
};

// The text for a call that is recorded on this thread now.
std::string library_target(const std::string& op);

// While this lives autocast of this thread is on, to this dtype; nothing: as it is.
class AutocastAgain {
 public:
  explicit AutocastAgain(std::optional<c10::ScalarType> dtype);
  ~AutocastAgain();
  AutocastAgain(const AutocastAgain&) = delete;
  AutocastAgain& operator=(const AutocastAgain&) = delete;

 private:
  const bool changes_;
  bool excluded_ = false, cache_ = false;
  c10::ScalarType dtype_ = c10::ScalarType::Undefined;
};

}  // namespace escapement
