// What the hook of a front end says instead of a line's number (Recorder::set_location_hook).
#pragma once

namespace escapement {

constexpr int kUnknownLine = -1;
constexpr int kNotLooked = -2;   // it was interrupted: what it notes besides, such as a `try` of the program's around the operator, is not noted

}  // namespace escapement
