// What the file beside a model says of it, on top of the command line.
#pragma once

#include <escapement/batcher.h>

#include <filesystem>
#include <string>

#include "settings.h"

namespace server {

struct ModelSettings {
  escapement::LoadOptions load;
  escapement::BatchSettings batch;
  std::string version = "1";
};

// `file`: NAME.json; empty: there is none. std::runtime_error names the file, the member and what is expected.
ModelSettings model_settings(const Settings& settings, const std::filesystem::path& file);

// Nothing where the text is no such word.
std::optional<escapement::Batching> read_batching(std::string_view text);

}  // namespace server
