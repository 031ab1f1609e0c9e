// Options of what is compiled: as a struct, whose names and types the compiler checks,
//
//   escapement::jit(f, {.mode = escapement::Mode::replay, .strict = true});
//   escapement::load("model.pt2", {.threads = 2, .output_names = {"logits"}});
//
// or as pairs of texts, for options that come from a file or a command line. Both say the same: `python -m escapement options` and
// docs/cpp.md list what each means. What is not said is the process's default, which the environment can change (ESCAPEMENT_STRICT=1).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "escapement/log.h"
#include "escapement/version.h"

namespace escapement::inline ESCAPEMENT_ABI {

// Names and values as text. An unknown name, or a value of another type, is a std::invalid_argument that offers the nearest name.
using OptionList = std::vector<std::pair<std::string, std::string>>;
// The same between braces. (A parameter of its own, since a vector could be made of a struct's initialisers, too.)
using OptionPairs = std::initializer_list<std::pair<std::string, std::string>>;

enum class Mode : uint8_t { call, replay };            // replay: the function itself runs at every call, its operators compiled
enum class Compile : uint8_t { block, background };    // who makes the code: the call that recorded, or a thread beside it

// Designated initialisers stand in this order. (Initialised, so that -Wextra says nothing about those that are left out.)
struct JitOptions {
  Mode mode = Mode::call;
  std::optional<bool> strict = {};
  std::optional<Compile> compile = {};
  std::optional<bool> verify = {};
  std::optional<int64_t> threads = {};
  std::optional<bool> fuse = {};
  std::optional<bool> pack_weights = {};
  std::optional<int64_t> pack_limit = {};
  std::optional<int64_t> hot_launches = {};
  std::optional<int64_t> max_recordings = {};
  std::optional<int64_t> max_ops_per_kernel = {};
  std::optional<std::string> dump = {};
  std::optional<bool> disable = {};
  std::string name = {};   // in reports, log lines and profiles; empty: "function" or "module"
  Log log = {};
};

struct LoadOptions {
  std::optional<bool> strict = {};
  std::optional<Compile> compile = {};
  std::optional<bool> verify = {};
  std::optional<int64_t> threads = {};
  std::optional<bool> fuse = {};
  std::optional<bool> pack_weights = {};
  std::optional<int64_t> pack_limit = {};
  std::optional<int64_t> hot_launches = {};
  std::optional<int64_t> max_recordings = {};
  std::optional<int64_t> max_ops_per_kernel = {};
  std::optional<std::string> dump = {};
  std::optional<bool> trust_package = {};
  std::optional<bool> disable = {};
  std::string name = {};                        // in metrics and log lines; empty: the file's, or "module"
  std::vector<std::string> output_names = {};   // one a result, in order; none: as the program names them
  Log log = {};
};

}  // namespace escapement
