// Addresses of this process to lines of source, by LLVM's reader of debug information. For reports: slow at first use of
// a library, whose line tables it reads. Any thread may call.
#pragma once

#include <string>
#include <vector>

namespace escapement {

struct SourceFrame {
  std::string function;    // as the debug information or the symbol table says it; may be empty
  std::string file;        // empty without debug information
  int line = 0;
};

// The functions that stand at an address, inlined ones first; empty if the address lies in no file.
std::vector<SourceFrame> frames_at(const void* address);

// "function+0x12 in library", or as much of it as is known: for code without debug information.
std::string symbol_at(const void* address);

}  // namespace escapement
