// See undo_log.h.
#include "torch/record/undo_log.h"

#include <algorithm>
#include <cstring>

namespace escapement {
namespace {

constexpr size_t kUndoBytes = size_t{1} << 28;

bool is_plain(const at::Tensor& real) {
  return real.has_storage() && real.is_cpu() && real.layout() == at::kStrided && !real.requires_grad();
}

// Which counter it is: nothing else in torch tells whether two tensors have one.
const void* identity_of(const c10::VariableVersion& counter) {
  static_assert(sizeof counter == sizeof(const void*));
  const void* identity = nullptr;
  std::memcpy(&identity, &counter, sizeof identity);
  return identity;
}

template <class T>
bool is_of(const c10::weak_intrusive_ptr<T>& known, const T* wanted) {
  return known._unsafe_get_target() == wanted;
}

}  // namespace

void UndoLog::give_up() {
  *this = UndoLog();
  gave_up_ = true;
}

void UndoLog::keep(const at::Tensor& real) {
  if (gave_up_) return;
  if (!is_plain(real) || !keep_bytes(real) || !keep_count(real)) return give_up();
  keep_layout(real);
  running_.push_back(real.storage().unsafeGetStorageImpl());
}

bool UndoLog::keep_bytes(const at::Tensor& real) {
  const c10::StorageImpl* const storage = real.storage().unsafeGetStorageImpl();
  for (const Copy& copy : copies_)
    if (is_of(copy.storage, storage)) return copy.bytes.size() == storage->nbytes();
  if (storage->nbytes() == 0) return true;
  bytes_ += storage->nbytes();
  const auto* const data = static_cast<const std::byte*>(storage->data());
  if (bytes_ > kUndoBytes || data == nullptr) return false;   // null: of a tensor that only says what it would be
  copies_.push_back({real.storage().getWeakStorageImpl(), {data, data + storage->nbytes()}});
  return true;
}

bool UndoLog::keep_count(const at::Tensor& real) {
  if (real.is_inference()) return true;   // counts nothing
  const c10::VariableVersion& counter = real.unsafeGetTensorImpl()->version_counter();
  const uint32_t now = counter.current_version();
  for (const Count& count : counts_)
    if (identity_of(count.counter) == identity_of(counter)) return count.last == now;
  counts_.push_back({counter, real.storage().unsafeGetStorageImpl(), now, now});
  return true;
}

void UndoLog::keep_layout(const at::Tensor& real) {
  const c10::TensorImpl* const tensor = real.unsafeGetTensorImpl();
  if (std::any_of(written_.begin(), written_.end(), [&](const Written& w) { return is_of(w.tensor, tensor); })) return;
  written_.push_back({c10::weak_intrusive_ptr<c10::TensorImpl>(real.getIntrusivePtr()), real.storage().getWeakStorageImpl(), real.sizes().vec(),
                      real.strides().vec(), real.storage_offset()});
}

void UndoLog::settle() {
  for (Count& count : counts_)
    if (std::find(running_.begin(), running_.end(), count.storage) != running_.end()) count.last = count.counter.current_version();
  running_.clear();
}

bool UndoLog::possible() const {
  const auto as_it_was = [](const Written& w) {
    const auto tensor = w.tensor.lock();
    return !tensor || (is_of<c10::StorageImpl>(w.storage, tensor->storage().unsafeGetStorageImpl()) && tensor->sizes() == w.sizes &&
                       tensor->strides() == w.strides && tensor->storage_offset() == w.offset);
  };
  const auto as_large = [](const Copy& copy) {
    const auto storage = copy.storage.lock();
    return !storage || storage->nbytes() == copy.bytes.size();
  };
  const auto as_counted = [](const Count& count) { return count.counter.current_version() == count.last; };
  return !gave_up_ && std::all_of(written_.begin(), written_.end(), as_it_was) && std::all_of(copies_.begin(), copies_.end(), as_large) &&
         std::all_of(counts_.begin(), counts_.end(), as_counted);
}

std::optional<uint32_t> UndoLog::count_before(const at::Tensor& tensor) const {
  const void* const wanted = tensor.is_inference() ? nullptr : identity_of(tensor.unsafeGetTensorImpl()->version_counter());
  for (const Count& count : counts_)
    if (identity_of(count.counter) == wanted) return count.before;
  return std::nullopt;
}

void UndoLog::restore() {
  for (const Copy& copy : copies_)
    if (const auto storage = copy.storage.lock()) std::memcpy(storage->mutable_data(), copy.bytes.data(), copy.bytes.size());
  for (Count& count : counts_) count.counter.set_version(count.before);
  give_up();
}

}  // namespace escapement
