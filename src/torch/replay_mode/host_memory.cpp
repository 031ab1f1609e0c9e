// See host_memory.h.
#include "torch/replay_mode/host_memory.h"

#include <algorithm>
#include <vector>

namespace escapement {
namespace {

// Held weakly: the memory goes when the program lets go of it, and no other storage takes its place meanwhile.
using Known = std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>>;
thread_local Known t_known;

}  // namespace

void note_host_memory(const c10::Storage& storage) {
  c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  if (impl == nullptr || is_host_memory(*impl)) return;
  std::erase_if(t_known, [](const auto& known) { return known.expired(); });
  t_known.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(impl));
}

bool is_host_memory(const c10::StorageImpl& storage) {
  return !t_known.empty() && std::any_of(t_known.begin(), t_known.end(), [&](const auto& known) { return known._unsafe_get_target() == &storage; });
}

void forget_host_memory() { t_known.clear(); }

}  // namespace escapement
