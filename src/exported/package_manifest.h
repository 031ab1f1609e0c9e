// The table of contents of a package (docs/package.md), package.json: which tensor lies where, what was recorded, which code
// belongs to it. Read from a file that is not trusted: what it says of tensors is still to be held against their bytes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exported/exported_program.h"

namespace escapement {

// A tensor: the entry of the weights file with its bytes, and how it lies in them. On the CPU, strided.
struct PackageTensor {
  std::string entry;
  ExportedTensor meta;
};

struct PackageManifest {
  // What a recording holds beside its inputs: one of the weights, by a number that is still to be checked, or a tensor of its
  // own.
  using Captured = std::variant<int64_t, PackageTensor>;

  std::string escapement, torch;                             // the versions that wrote it
  std::vector<PackageTensor> weights;
  std::vector<std::vector<Captured>> versions;               // captured tensors of each
  std::vector<std::pair<std::string, std::string>> code;     // key, digest
};

PackageManifest read_manifest(std::string_view package_json);   // UserError

}  // namespace escapement
