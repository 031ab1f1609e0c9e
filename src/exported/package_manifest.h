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

  struct Version {
    std::vector<Captured> captured;
    int64_t default_dtype;                                   // of the process that it is for; torch.export's number
    std::vector<std::pair<std::string, std::vector<int64_t>>> flags;   // likewise: torch's, by name
  };

  std::string escapement, torch;                             // the versions that wrote it
  std::vector<PackageTensor> weights;
  std::vector<Version> versions;
  std::vector<std::pair<std::string, std::string>> code;     // key, digest
};

PackageManifest read_manifest(std::string_view package_json);   // UserError

}  // namespace escapement
