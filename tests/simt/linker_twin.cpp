// The twin of nvJitLink: what it "links" is the PTX itself, which the twin driver loads. It refuses what is no PTX for the machine that it was asked for.
#include <cstdint>
#include <cstring>
#include <string>

namespace {

struct Link {
  std::string machine, ptx, log;
};
int live = 0;

}  // namespace

#define TWIN extern "C" __attribute__((visibility("default")))

TWIN int escapement_linker_live() { return live; }

TWIN int __nvJitLinkCreate_12_0(Link** link, uint32_t options, const char** texts) {
  if (options == 0 || std::string(texts[0]).find("-arch=sm_") != 0) return 1;
  *link = new Link{std::string(texts[0]).substr(9), "", ""};
  ++live;
  return 0;
}

TWIN int __nvJitLinkDestroy_12_0(Link** link) {
  delete *link;
  *link = nullptr;
  --live;
  return 0;
}

TWIN int __nvJitLinkAddData_12_0(Link* link, int kind, const void* data, size_t bytes, const char*) {
  link->ptx.assign(static_cast<const char*>(data), bytes);
  const bool ended = bytes > 0 && link->ptx.back() == 0;
  if (kind == 2 && ended && link->ptx.find(".target sm_") != std::string::npos) return 0;
  link->log = "that is no PTX";
  return 4;
}

TWIN int __nvJitLinkComplete_12_0(Link*) { return 0; }

TWIN int __nvJitLinkGetLinkedCubinSize_12_0(Link* link, size_t* bytes) {
  *bytes = link->ptx.size();
  return 0;
}

TWIN int __nvJitLinkGetLinkedCubin_12_0(Link* link, void* cubin) {
  std::memcpy(cubin, link->ptx.data(), link->ptx.size());
  return 0;
}

TWIN int __nvJitLinkGetErrorLogSize_12_0(Link* link, size_t* bytes) {
  *bytes = link->log.size() + 1;
  return 0;
}

TWIN int __nvJitLinkGetErrorLog_12_0(Link* link, char* log) {
  std::strcpy(log, link->log.c_str());
  return 0;
}
