// Memory whose address host code of the running replayed call may have: what was made empty, for the host to fill, and what of this
// call's own results it reached into (`accessor`, `data_ptr`). It may be written at any time, so it is never read late.
#pragma once

#include <c10/core/Storage.h>

namespace escapement {

// All of this thread.
void note_host_memory(const c10::Storage& storage);
bool is_host_memory(const c10::StorageImpl& storage);
void forget_host_memory();       // a call begins

}  // namespace escapement
