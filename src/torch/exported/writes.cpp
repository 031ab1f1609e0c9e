// See writes.h.
#include "torch/exported/writes.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

namespace {

using Slots = std::set<uint32_t>;

template <class Use>
void for_each_slot(const ExportedValue& value, const Use& use) {
  if (value.kind == ExportedValue::Kind::slot) use(value.slot);
  for (const ExportedValue& item : value.items) for_each_slot(item, use);
}

// "torch.ops.aten.add.Tensor" is aten::add.Tensor. None: arithmetic on sizes, or an operator that is not here.
std::optional<c10::OperatorHandle> operator_of(const std::string& target) {
  static constexpr std::string_view kPrefix = "torch.ops.";
  const size_t overload = target.rfind('.'), name = target.find('.', kPrefix.size());
  if (!target.starts_with(kPrefix) || name == std::string::npos || overload <= name) return {};
  const std::string full = target.substr(kPrefix.size(), name - kPrefix.size()) + "::" + target.substr(name + 1, overload - name - 1);
  const std::string which = target.substr(overload + 1);
  return c10::Dispatcher::singleton().findSchema({full, which == "default" ? "" : which});
}

// Where a schema says nothing of shared memory: an operator made of others may give an argument back (dropout, type_as, atleast_1d) unless it is
// one of these; of others it is so, some apart.
bool gives_new_memory(const c10::OperatorHandle& op) {
  static constexpr std::string_view kNew[] = {
      "aten::linear", "aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::conv_transpose1d", "aten::conv_transpose2d", "aten::conv_transpose3d",
      "aten::matmul", "aten::batch_norm", "aten::layer_norm", "aten::group_norm", "aten::instance_norm", "aten::rms_norm", "aten::softmax",
      "aten::log_softmax", "aten::scaled_dot_product_attention", "aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d", "aten::avg_pool1d",
      "aten::adaptive_avg_pool1d", "aten::adaptive_avg_pool2d", "aten::adaptive_avg_pool3d", "aten::embedding", "aten::one_hot", "aten::cross_entropy_loss"};
  static constexpr std::string_view kSame[] = {"aten::native_dropout", "aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes", "aten::unsafe_chunk"};
  const std::string_view name = op.schema().name();
  if (std::ranges::find(kNew, name) != std::end(kNew)) return true;
  if (std::ranges::find(kSame, name) != std::end(kSame)) return false;
  return !op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// Statistics that are kept in training are written without a word in the schema.
bool writes_silently(const ExportedNode& node, std::string_view argument) {
  if (argument != "running_mean" && argument != "running_var") return false;
  return std::ranges::any_of(node.inputs, [](const auto& input) {
    const bool says = input.first == "training" || input.first == "train" || input.first == "use_input_stats";
    return says && !(input.second.kind == ExportedValue::Kind::boolean && input.second.integer == 0);
  });
}

class Search {
 public:
  explicit Search(const ExportedProgram& program) : shared_(program.slots) {
    for (const ExportedInput& input : program.inputs) shared_[input.slot] = {input.slot};
  }

  void look_at(const ExportedNode& node) {
    const auto op = operator_of(node.target);
    if (!op) return;
    Slots reached;
    for (const auto& [name, value] : node.inputs) {
      const auto index = op->schema().argumentIndexWithName(name);
      const c10::AliasInfo* const alias = index ? op->schema().arguments()[static_cast<size_t>(*index)].alias_info() : nullptr;
      if ((alias && alias->isWrite()) || writes_silently(node, name)) note(value, written);
      if (alias || !gives_new_memory(*op)) note(value, reached);
    }
    for (const ExportedValue& output : node.outputs) for_each_slot(output, [&](uint32_t slot) { shared_[slot] = reached; });
  }

  Slots written;

 private:
  void note(const ExportedValue& value, Slots& into) const {
    for_each_slot(value, [&](uint32_t slot) { into.insert(shared_[slot].begin(), shared_[slot].end()); });
  }

  std::vector<Slots> shared_;   // by slot: the inputs that the value may share memory with
};

}  // namespace

Slots written_inputs(const ExportedProgram& program) {
  Search search(program);
  for (const ExportedNode& node : program.nodes) search.look_at(node);
  for (const ExportedOutput& output : program.outputs)
    if (output.is_write) search.written.insert(output.destination);
  return search.written;
}

}  // namespace escapement
