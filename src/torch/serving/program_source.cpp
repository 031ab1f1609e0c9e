// See program_source.h.
#include "torch/serving/program_source.h"

#include "torch/exported/archive.h"
#include "torch/serving/package.h"

namespace escapement {

ProgramSource read_source(const std::string& path, bool trusted) {
  {
    const ZipFile zip(path);
    if (is_package(zip)) return read_package(zip, trusted);
  }
  const ExportArchive archive(path);
  return {archive.program(), archive.json(), archive.weights(), {}, {}};
}

}  // namespace escapement
