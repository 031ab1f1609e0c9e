// See perf_map.h.
#include "jit/llvm/perf_map.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

namespace escapement {

namespace {

namespace jitlink = llvm::jitlink;
namespace orc = llvm::orc;

// What LLVM 19 and later ones call a symbol.
[[maybe_unused]] std::string_view text(llvm::StringRef name) { return name; }
[[maybe_unused]] std::string_view text(const orc::SymbolStringPtr& name) { return *name; }

std::string lines_of(jitlink::LinkGraph& graph) {
  std::ostringstream lines;
  lines << std::hex;
  for (const jitlink::Symbol* symbol : graph.defined_symbols()) {
    if (symbol->hasName() && symbol->isCallable())
      lines << symbol->getAddress().getValue() << ' ' << symbol->getSize() << " escapement::" << text(symbol->getName()) << '\n';
  }
  return lines.str();
}

// In one write, as other threads and other compilers of this process append to the file too. A file that cannot be written is no reason to
// fail; one behind somebody else's link is not followed.
void append(const std::string& lines) {
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (file < 0) return;
  [[maybe_unused]] const ssize_t written = write(file, lines.data(), lines.size());
  close(file);
}

class PerfMap final : public orc::ObjectLinkingLayer::Plugin {
 public:
  void modifyPassConfig(orc::MaterializationResponsibility&, jitlink::LinkGraph&, jitlink::PassConfiguration& passes) override {
    passes.PostFixupPasses.emplace_back([](jitlink::LinkGraph& graph) {
      append(lines_of(graph));
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(orc::MaterializationResponsibility&) override { return llvm::Error::success(); }
  llvm::Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override { return llvm::Error::success(); }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey, orc::ResourceKey) override {}
};

}  // namespace

std::shared_ptr<orc::ObjectLinkingLayer::Plugin> perf_map() {
  const char* const asked = std::getenv("ESCAPEMENT_PERF_MAP");
  if (asked == nullptr || std::string_view(asked) != "1") return nullptr;
  return std::make_shared<PerfMap>();
}

}  // namespace escapement
