// ExportArchive: a torch.export archive (.pt2) opened: its program, and the tensors that the program holds.
// Nothing in the file is executed and nothing pickled is opened; entries that this reader does not need are not read.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exported/exported_program.h"
#include "exported/zip.h"

namespace escapement {

class ExportArchive {
 public:
  explicit ExportArchive(std::unique_ptr<const ZipFile> zip);

  const ExportedProgram& program() const { return program_; }
  const std::string& json() const { return json_; }         // that the program was read from
  // One tensor for each input that is not the user's, in order, without gradients. Weights that share an entry share memory.
  std::vector<at::Tensor> weights() const;

  [[noreturn]] void fail(const std::string& cause) const;   // names the file, unless the cause does

 private:
  using Weights = std::map<std::string, ExportedWeight>;
  void find_root();
  void expect_text(const char* name, std::string_view value) const;
  std::string find_model() const;
  std::string read_json(const std::string& name) const;
  Weights read_config(const std::string& name) const;
  // An entry's bytes, and the tensors that lie in them: weights that are the same are one tensor.
  struct Loaded {
    at::Tensor bytes;
    std::vector<at::Tensor> tensors;
  };
  at::Tensor read_bytes(const std::string& file) const;
  at::Tensor weight(const std::string& name, std::map<std::string, Loaded>& loaded) const;
  template <class Read>
  auto reading(const std::string& name, Read read) const;

  std::unique_ptr<const ZipFile> zip_;
  std::string root_;       // "model/"
  std::string json_;
  ExportedProgram program_;
  Weights weights_, constants_;
};

// The tensor that `meta` describes, in the storage of `data`, checked to lie inside. UserError.
at::Tensor tensor_on(const at::Tensor& data, const ExportedTensor& meta);

}  // namespace escapement
