// See program_source.h.
#include "torch/serving/program_source.h"

#include "torch/exported/archive.h"
#include "torch/serving/package.h"

namespace escapement {

namespace {

ProgramSource read_zip(std::unique_ptr<const ZipFile> zip, bool trusted) {
  if (is_package(*zip)) return read_package(*zip, trusted);
  const ExportArchive archive(std::move(zip));
  return {archive.program(), archive.json(), archive.weights(), {}, {}};
}

}  // namespace

ProgramSource read_source(const std::string& path, bool trusted) { return read_zip(std::make_unique<const ZipFile>(path), trusted); }

ProgramSource read_source(std::span<const std::byte> bytes, const std::string& shown, bool trusted) {
  return read_zip(std::make_unique<const ZipFile>(bytes, shown), trusted);
}

}  // namespace escapement
