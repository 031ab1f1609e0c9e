// See linker.h.
#include "jit/cuda/linker.h"

#include <dlfcn.h>

namespace escapement::cuda {

namespace {

constexpr int kPtx = 2;   // nvJitLinkInputType
constexpr const char* kNames[] = {"libnvJitLink.so.13", "libnvJitLink.so.12"};
constexpr const char* kVersions[] = {"_13_0", "_12_0"};   // of symbols; later libraries keep the earlier ones

void* open_one(const std::string& path) {
  if (!path.empty()) return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const char* name : kNames)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

// One link; given back whatever happens.
class Link {
 public:
  Link(const LinkerTable& table, const std::string& machine) : table_(table) {
    const char* options[] = {machine.c_str(), "-O3"};
    if (const int status = table_.Create(&handle_, 2, options)) throw LinkError("nvJitLink: no link for " + machine + " (" + std::to_string(status) + ")");
  }
  ~Link() {
    if (handle_) table_.Destroy(&handle_);
  }
  void require(int status) const {
    if (status != 0) throw LinkError("nvJitLink (" + std::to_string(status) + "): " + log());
  }
  LinkerHandle handle() const { return handle_; }

 private:
  std::string log() const {
    size_t bytes = 0;
    if (table_.GetErrorLogSize(handle_, &bytes) != 0 || bytes == 0) return "no more is said";
    std::string text(bytes, '\0');
    table_.GetErrorLog(handle_, text.data());
    return text.c_str();
  }

  const LinkerTable& table_;
  LinkerHandle handle_ = nullptr;
};

}  // namespace

std::unique_ptr<Linker> Linker::open(const std::string& path) {
  void* library = open_one(path);
  if (!library) return nullptr;
  std::unique_ptr<Linker> linker(new Linker(library));
  for (const char* version : kVersions)
    if (linker->find_functions(version)) return linker;
  return nullptr;
}

Linker::~Linker() { dlclose(library_); }

bool Linker::find_functions(const char* version) {
  bool found = true;
  const auto find = [&](const char* name) {
    void* symbol = dlsym(library_, (std::string("__nvJitLink") + name + version).c_str());
    found = found && symbol;
    return symbol;
  };
#define LINKER(name, parameters) table_.name = reinterpret_cast<decltype(table_.name)>(find(#name));
#include "jit/cuda/linker.def"
#undef LINKER
  return found;
}

std::vector<char> Linker::link(const std::string& ptx, int compute) const {
  const Link link(table_, "-arch=sm_" + std::to_string(compute));
  link.require(table_.AddData(link.handle(), kPtx, ptx.c_str(), ptx.size() + 1, "escapement"));   // with the final zero
  link.require(table_.Complete(link.handle()));
  size_t bytes = 0;
  link.require(table_.GetLinkedCubinSize(link.handle(), &bytes));
  std::vector<char> cubin(bytes);
  link.require(table_.GetLinkedCubin(link.handle(), cubin.data()));
  return cubin;
}

}  // namespace escapement::cuda
