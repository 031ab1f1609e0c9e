// What the hook of a front end (Recorder::set_location_hook) says besides a line's number and -1, unknown.
#pragma once

namespace escapement {

// It was interrupted: what it notes besides, such as a `try` of the program's around the operator, is not noted.
constexpr int kNotLooked = -2;

}  // namespace escapement
