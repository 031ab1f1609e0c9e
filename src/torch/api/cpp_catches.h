// Would the C++ program that is being recorded see an exception thrown here? Not its types: whether it has any handler around.
#pragma once

namespace escapement {

// In this thread, inside of the innermost detail::ProgramFrames (jit_core.h); false without one.
bool program_may_catch();

}  // namespace escapement
