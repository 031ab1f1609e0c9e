// Machine code as bytes that outlive the process: what packages hold, and the key under which it may be used.
//
// A key is the digest of all that the bytes depend on: the LLVM IR after our own passes, the processor and its features,
// LLVM's version and the settings of its code generator. So nothing has to be said about versions of ours: other code, other
// key.
#pragma once

#include <map>
#include <string>

namespace escapement {

struct ObjectBytes {
  std::string digest;  // SHA-256 of the bytes, in hexadecimal; compared before they are linked
  std::string bytes;
};
using ObjectCode = std::map<std::string, ObjectBytes, std::less<>>;  // by key

}  // namespace escapement
