// One thread for work that nobody waits for. It starts with the first piece of work, yields to other threads of the process as far as
// the system allows it, and ends before the process does. A forked child starts with no work and a thread of its own.
#pragma once

#include <functional>

namespace escapement {

void run_in_background(std::function<void()> work);  // exceptions end the piece of work and nothing else

}  // namespace escapement
