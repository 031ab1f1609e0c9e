// See symbolizer.h.
#include "jit/llvm/symbolizer.h"

#include <dlfcn.h>
#include <link.h>

#include <llvm/DebugInfo/DIContext.h>
#include <llvm/DebugInfo/Symbolize/Symbolize.h>
#include <llvm/Demangle/Demangle.h>

#include <filesystem>
#include <mutex>

namespace escapement {
namespace {

// Where an address lies: the file, and the address as that file counts.
struct Place {
  std::string file;
  uint64_t offset = 0;
};

Place place_of(const void* address) {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  // The program itself has no name, and what it was called by may be relative to a directory that it has left.
  std::string file = *map->l_name == 0 ? "/proc/self/exe" : map->l_name;
  return {std::move(file), reinterpret_cast<uint64_t>(address) - static_cast<uint64_t>(map->l_addr)};
}

std::string known(const std::string& text) { return text == llvm::DILineInfo::BadString ? std::string() : text; }

std::string normal(const std::string& file) {
  return file.empty() ? file : std::filesystem::path(file).lexically_normal().string();
}

llvm::symbolize::LLVMSymbolizer& symbolizer() {
  static auto* const one = new llvm::symbolize::LLVMSymbolizer();
  return *one;
}

std::mutex& symbolizer_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

std::vector<SourceFrame> frames_at(const void* address) {
  const Place place = place_of(address);
  if (place.file.empty()) return {};
  const std::lock_guard lock(symbolizer_mutex());
  auto found = symbolizer().symbolizeInlinedCode(place.file, {place.offset, llvm::object::SectionedAddress::UndefSection});
  if (!found) {
    llvm::consumeError(found.takeError());
    return {};
  }
  std::vector<SourceFrame> frames;
  for (uint32_t i = 0; i < found->getNumberOfFrames(); ++i) {
    const llvm::DILineInfo& line = found->getFrame(i);
    // Without a line the file is a guess from the symbol table: what was compiled, not where the code stands.
    std::string file = line.Line == 0 ? std::string() : normal(known(line.FileName));
    frames.push_back({known(line.FunctionName), std::move(file), static_cast<int>(line.Line)});
  }
  return frames;
}

std::string symbol_at(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0) return {};
  const char* const path = info.dli_fname ? info.dli_fname : "";
  const std::string file = std::filesystem::path(path).filename().string();
  const auto distance = [&](const void* from) { return static_cast<const char*>(address) - static_cast<const char*>(from); };
  const std::vector<SourceFrame> frames = frames_at(address);
  const std::string function = !frames.empty() && !frames.back().function.empty() ? frames.back().function
                               : info.dli_sname                                   ? llvm::demangle(info.dli_sname)
                                                                                  : std::string();
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%tx", distance(info.dli_sname ? info.dli_saddr : info.dli_fbase));
  if (function.empty()) return file + offset;
  return info.dli_sname ? function + offset + " in " + file : function + " in " + file + offset;
}

}  // namespace escapement
