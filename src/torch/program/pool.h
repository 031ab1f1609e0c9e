// Memory of large outputs: torch's CPU allocator gives large blocks back to the system at every free, and the page faults of the
// next allocation then cost more than the kernel that fills it. This c10::Allocator keeps freed blocks, up to a limit and a while.
// Storages made with it are ordinary CPU storages: resizable, and freed by whoever drops the last reference, on any thread.
#pragma once

#include <c10/core/Allocator.h>

namespace escapement {

inline constexpr size_t kPooledBytes = size_t{1} << 20;      // outputs from here on come from the pool
inline constexpr size_t kPoolLimit = size_t{256} << 20;      // bytes kept while nobody uses them

inline constexpr size_t kSmallBytes = 4096;                  // outputs up to here come from lists that each thread keeps

c10::Allocator* output_allocator(size_t bytes);              // the one for an output of so many bytes
c10::Allocator* small_pool();                                // both live as long as the process
c10::Allocator* output_pool();
bool is_small_memory(const c10::DataPtr& memory);            // of the small pool
bool is_allocated_memory(const c10::DataPtr& memory);        // made by one of these, or by torch's allocator: not lent by anybody
size_t pooled_idle_bytes();                                  // for tests and stats
void trim_output_pool();                                     // frees what is idle

}  // namespace escapement
