// The boxed fallback on the recorder's dispatch key: what happens at every ATen call of a recording thread.
#pragma once

namespace escapement {

void install_fallback();   // once per process; idempotent

// True while a composite is being recorded through its parts; its name, for storage accesses inside.
const char* composite_in_progress();

}  // namespace escapement
