// See driver_twin.h.
#include "simt/driver_twin.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <string>

#include "jit/cuda/driver.h"
#include "simt/simt.h"

namespace escapement::testing {
namespace {

using cuda::Address;

enum Status : int { kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidContext = 201, kInvalidPtx = 218,
                    kInvalidHandle = 400, kNotFound = 500, kIllegalAddress = 700 };
constexpr int kCompute = 90;

struct TwinContext {
  int device = 0, retained = 0, broken = 0;
};

struct TwinStream {
  int device = 0;
  uint64_t done = 0, next = 0;                   // numbers of its work
  std::deque<std::function<void()>> work;
};

struct TwinFunction {
  int device = 0;
  TwinKernel kernel;
  size_t argument_bytes = 0;
  unsigned most_threads = 256;    // of a kernel that names no other number: each may have all registers
};

struct TwinModule {
  int device = 0;
  std::string ptx;
  std::vector<std::unique_ptr<TwinFunction>> functions;
};

// Where all devices' memory lies. It is open while a kernel or a copy runs, so that what reaches into it from the host otherwise does not go unnoticed.
class DeviceRange {
 public:
  static DeviceRange& instance() {
    static DeviceRange* range = new DeviceRange;
    return *range;
  }
  char* take(size_t bytes) {
    char* const taken = begin_ + used_;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (used_ > kBytes) return nullptr;
    return taken;
  }
  void forget() {
    madvise(begin_, used_, MADV_DONTNEED);
    used_ = 0;
  }
  void open() {
    if (opened_++ == 0) mprotect(begin_, kBytes, PROT_READ | PROT_WRITE);
  }
  void close() {
    if (--opened_ == 0) mprotect(begin_, kBytes, PROT_NONE);
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 32, kAlignment = 512;
  DeviceRange() : begin_(static_cast<char*>(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {}

  char* begin_;
  size_t used_ = 0;
  int opened_ = 0;
};

class Opened {
 public:
  Opened() { DeviceRange::instance().open(); }
  ~Opened() { DeviceRange::instance().close(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

struct TwinMemory {
  int device = 0;
  char* begin = nullptr;
  size_t bytes = 0;
  bool freed = false;
  struct Use {
    TwinStream* stream = nullptr;
    uint64_t number = 0;
  };
  Use written;
  std::vector<Use> read;
};

struct World {
  std::vector<TwinContext> contexts;
  std::vector<TwinContext*> current;
  std::set<TwinModule*> modules;
  std::set<TwinStream*> streams;
  std::map<Address, std::unique_ptr<TwinMemory>> memories;   // freed ones, too
  std::map<std::string, TwinKernel> kernels;
  TwinStream nobody;             // the stream without a handle
  std::string complaints;
  int fail_at = 0, fail_status = 0, calls = 0, version = 12080;
  std::mt19937_64 random;
};

World& world() {
  static World* world = new World;
  return *world;
}

int complain(const std::string& text, int status = kInvalidValue) {
  world().complaints += text + "\n";
  return status;
}

// --- memory

TwinMemory* memory_at(Address address) {
  auto found = world().memories.upper_bound(address);
  if (found == world().memories.begin()) return nullptr;
  --found;
  return address < found->first + std::max<size_t>(found->second->bytes, 1) ? found->second.get() : nullptr;
}

bool is_past(const TwinMemory::Use& use, const TwinStream& stream) {
  return !use.stream || use.stream == &stream || !world().streams.contains(use.stream) || use.number <= use.stream->done;
}

// A use of memory by work that is put into a stream now.
void note_use(TwinMemory& memory, TwinStream& stream, bool writes, const std::string& who) {
  bool ordered = is_past(memory.written, stream);
  if (writes) ordered = ordered && std::all_of(memory.read.begin(), memory.read.end(), [&](const auto& use) { return is_past(use, stream); });
  if (!ordered) complain(who + " uses memory that work in another stream may still use");
  const TwinMemory::Use use{&stream, stream.next + 1};
  if (!writes) return memory.read.push_back(use);
  memory.written = use;
  memory.read.clear();
}

int check_memory(Address address, size_t bytes, TwinStream& stream, bool writes, const std::string& who) {
  TwinMemory* memory = memory_at(address);
  if (!memory) return complain(who + " uses an address of no memory");
  if (memory->freed) return complain(who + " uses memory that was given back");
  if (memory->device != stream.device) return complain(who + " uses a pointer of another device");
  if (reinterpret_cast<char*>(address) + bytes > memory->begin + memory->bytes) return complain(who + " reaches past its memory");
  note_use(*memory, stream, writes, who);
  return kSuccess;
}

// --- streams

void put(TwinStream& stream, std::function<void()> work) {
  ++stream.next;
  stream.work.push_back(std::move(work));
}

void run_one(TwinStream& stream) {
  const auto work = std::move(stream.work.front());
  stream.work.pop_front();
  work();
  ++stream.done;
}

// Others may run meanwhile.
void drain(TwinStream& stream) {
  while (!stream.work.empty()) {
    for (TwinStream* other : world().streams)
      if (!other->work.empty() && world().random() % 2 == 0 && other != &stream) run_one(*other);
    run_one(stream);
  }
}

void drain_all() {
  for (TwinStream* stream : world().streams) drain(*stream);
}

// The stream without a handle belongs to the device whose context is current.
TwinStream& stream_of(cuda::Stream handle) {
  if (handle) return *reinterpret_cast<TwinStream*>(handle);
  drain_all();
  world().nobody.device = world().current.back()->device;
  world().streams.insert(&world().nobody);
  return world().nobody;
}

int check_stream(cuda::Stream handle, const char* who) {
  if (world().current.empty()) return complain(std::string(who) + " without a current context", kInvalidContext);
  if (!handle) return kSuccess;
  auto* stream = reinterpret_cast<TwinStream*>(handle);
  if (!world().streams.contains(stream)) return complain(std::string(who) + " on a stream that there is not", kInvalidHandle);
  if (stream->device != world().current.back()->device) return complain(std::string(who) + " on a stream of another device", kInvalidHandle);
  return kSuccess;
}

// --- kernels

void run_kernel(const TwinFunction& function, Grid grid, std::vector<uint64_t> words) {
  TwinContext& context = world().contexts[static_cast<size_t>(function.device)];
  if (context.broken) return;
  SimtMachine machine(world().random());
  const Address failure = words[words.size() - 2], scratch = words[words.size() - 1];
  std::set<TwinMemory*> given{memory_at(failure), memory_at(scratch)};
  for (unsigned p = 0; p < function.kernel.params; ++p) given.insert(memory_at(words[p]));
  for (TwinMemory* memory : given)
    if (memory) machine.allow(memory->begin, memory->bytes, 1, memory == memory_at(failure));
  const Opened opened;
  const std::string fault = machine.run(function.kernel.thread, function.kernel.shared_bytes, grid, words.data());
  if (fault.empty()) return;
  context.broken = kIllegalAddress;
  complain(std::string(function.kernel.name) + ": " + fault);
}

bool parse_entry(const std::string& ptx, const std::string& name, TwinFunction& function) {
  std::smatch found;
  if (!std::regex_search(ptx, found, std::regex("\\.entry " + name + "\\(\\s*\\.param \\.align 8 \\.b8 \\w+\\[(\\d+)\\]\\s*\\)\\s*(\\.maxntid (\\d+))?"))) return false;
  function.argument_bytes = std::stoul(found[1]);
  if (found[3].matched) function.most_threads = static_cast<unsigned>(std::stoul(found[3]));
  return true;
}

int check_addresses(const TwinFunction& function, const std::vector<uint64_t>& words, TwinStream& stream) {
  const std::string who = std::string("a launch of ") + function.kernel.name;
  for (unsigned p = 0; p < function.kernel.params; ++p)
    if (int status = check_memory(words[p], 0, stream, function.kernel.written >> p & 1, who)) return status;
  for (const size_t own : {words.size() - 2, words.size() - 1})
    if (words[own] != 0)
      if (int status = check_memory(words[own], 0, stream, true, who)) return status;
  return kSuccess;
}

// Whether this call is the one that fails; a device that has ended answers every call alike.
bool is_refused(int& status) {
  World& w = world();
  if (++w.calls == w.fail_at) status = w.fail_status;
  else if (!w.current.empty() && w.current.back()->broken) status = w.current.back()->broken;
  else return false;
  return true;
}
#define TWIN_CALL                       \
  if (int refused = 0; is_refused(refused)) return refused

// --- control

void reset(int devices, uint64_t seed) {
  World& w = world();
  for (TwinModule* module : w.modules) delete module;
  for (TwinStream* stream : w.streams)
    if (stream != &w.nobody) delete stream;
  w = World{};
  DeviceRange::instance().forget();
  w.contexts.resize(static_cast<size_t>(devices));
  for (int d = 0; d < devices; ++d) w.contexts[static_cast<size_t>(d)].device = d;
  w.random.seed(seed);
}

void offer(TwinKernel kernel) { world().kernels[kernel.name] = kernel; }
void fail_at(int call, int status) { world().calls = 0, world().fail_at = call, world().fail_status = status; }
int calls() { return world().calls; }
const char* complaints() { return world().complaints.c_str(); }
void set_version(int version) { world().version = version; }

int queued(const void* stream) {
  const TwinStream& found = stream ? *static_cast<const TwinStream*>(stream) : world().nobody;
  return static_cast<int>(found.work.size());
}

void let_host_in(int on) {
  if (on) DeviceRange::instance().open();
  else DeviceRange::instance().close();
}

int live() {
  World& w = world();
  int count = static_cast<int>(w.modules.size() + w.streams.size() - w.streams.count(&w.nobody));
  for (const TwinContext& context : w.contexts) count += context.retained;
  for (const auto& [address, memory] : w.memories) count += !memory->freed;
  return count + static_cast<int>(w.current.size());
}

}  // namespace
}  // namespace escapement::testing

using namespace escapement::testing;   // the API's functions are C's

extern "C" {

__attribute__((visibility("default"))) const TwinControl* escapement_twin_control() {
  static constexpr TwinControl kControl{reset, offer, fail_at, calls, complaints, live, set_version, queued, let_host_in};
  return &kControl;
}

// What a caller offers that knows the driver as one that may have it.
__attribute__((visibility("default"))) void escapement_twin_offer(const char* name, void* thread, unsigned shared_bytes, unsigned params, uint64_t written) {
  offer({name, reinterpret_cast<escapement::DeviceThread>(thread), shared_bytes, params, written});
}

#define TWIN __attribute__((visibility("default"))) int
using escapement::cuda::Address;
using escapement::cuda::Context;
using escapement::cuda::Function;
using escapement::cuda::Module;
using escapement::cuda::Stream;

TWIN cuInit(unsigned flags) {
  TWIN_CALL;
  return flags == 0 ? kSuccess : kInvalidValue;
}

TWIN cuDriverGetVersion(int* version) {
  TWIN_CALL;
  *version = world().version;
  return kSuccess;
}

TWIN cuGetErrorName(int status, const char** name) {
  static const std::map<int, const char*> kNames{{1, "CUDA_ERROR_INVALID_VALUE"},    {2, "CUDA_ERROR_OUT_OF_MEMORY"},  {101, "CUDA_ERROR_INVALID_DEVICE"},
                                                 {218, "CUDA_ERROR_INVALID_PTX"},    {201, "CUDA_ERROR_INVALID_CONTEXT"}, {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                 {500, "CUDA_ERROR_NOT_FOUND"},      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}};
  const auto found = kNames.find(status);
  if (found == kNames.end()) return kInvalidValue;
  *name = found->second;
  return kSuccess;
}

TWIN cuDeviceGetCount(int* count) {
  TWIN_CALL;
  *count = static_cast<int>(world().contexts.size());
  return kSuccess;
}

TWIN cuDeviceGet(int* device, int ordinal) {
  TWIN_CALL;
  if (ordinal < 0 || ordinal >= static_cast<int>(world().contexts.size())) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

TWIN cuDeviceGetName(char* name, int bytes, int) {
  TWIN_CALL;
  std::strncpy(name, "the twin driver", static_cast<size_t>(bytes));
  return kSuccess;
}

TWIN cuDeviceGetAttribute(int* value, int attribute, int) {
  TWIN_CALL;
  static const std::map<int, int> kValues{{16, 4}, {39, 2048}, {75, kCompute / 10}, {76, kCompute % 10}};
  const auto found = kValues.find(attribute);
  if (found == kValues.end()) return complain("an attribute that the twin does not know");
  *value = found->second;
  return kSuccess;
}

TWIN cuDevicePrimaryCtxRetain(Context* context, int device) {
  TWIN_CALL;
  TwinContext& found = world().contexts[static_cast<size_t>(device)];
  ++found.retained;
  *context = reinterpret_cast<Context>(&found);
  return kSuccess;
}

TWIN cuDevicePrimaryCtxRelease_v2(int device) {
  TWIN_CALL;
  if (--world().contexts[static_cast<size_t>(device)].retained < 0) return complain("a context is released once too often", kInvalidContext);
  return kSuccess;
}

TWIN cuCtxPushCurrent_v2(Context context) {
  auto* pushed = reinterpret_cast<TwinContext*>(context);
  if (++world().calls == world().fail_at) return world().fail_status;
  if (pushed->retained == 0) return complain("a context that nobody holds becomes current", kInvalidContext);
  world().current.push_back(pushed);
  return kSuccess;
}

// Succeeds always: an error would leave the context current for good.
TWIN cuCtxPopCurrent_v2(Context* context) {
  if (world().current.empty()) return complain("no context is current", kInvalidContext);
  *context = reinterpret_cast<Context>(world().current.back());
  world().current.pop_back();
  return kSuccess;
}

TWIN cuModuleLoadDataEx(Module* module, const void* image, unsigned options, int* names, void** values) {
  TWIN_CALL;
  if (world().current.empty()) return complain("a module without a current context", kInvalidContext);
  auto loaded = std::make_unique<TwinModule>();
  loaded->device = world().current.back()->device;
  loaded->ptx = static_cast<const char*>(image);
  std::smatch target;
  if (!std::regex_search(loaded->ptx, target, std::regex("\\.target sm_(\\d+)")) || std::stoi(target[1]) > kCompute) {
    for (unsigned i = 0; i < options; ++i)
      if (names[i] == 5) std::strcpy(static_cast<char*>(values[i]), "no PTX for this device");
    return kInvalidPtx;
  }
  world().modules.insert(loaded.get());
  *module = reinterpret_cast<Module>(loaded.release());
  return kSuccess;
}

TWIN cuModuleUnload(Module handle) {
  TWIN_CALL;
  auto* module = reinterpret_cast<TwinModule*>(handle);
  if (!world().modules.contains(module)) return complain("a module is unloaded that there is not", kInvalidHandle);
  drain_all();
  world().modules.erase(module);
  delete module;
  return kSuccess;
}

TWIN cuModuleGetFunction(Function* function, Module handle, const char* name) {
  TWIN_CALL;
  auto* module = reinterpret_cast<TwinModule*>(handle);
  if (!world().modules.contains(module)) return complain("a function of a module that there is not", kInvalidHandle);
  auto found = std::make_unique<TwinFunction>();
  found->device = module->device;
  if (!parse_entry(module->ptx, name, *found)) return kNotFound;
  if (!world().kernels.contains(name)) return complain(std::string("nobody offers a twin of ") + name, kNotFound);
  found->kernel = world().kernels[name];
  *function = reinterpret_cast<Function>(found.get());
  module->functions.push_back(std::move(found));
  return kSuccess;
}

TWIN cuLaunchKernel(Function handle, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz, unsigned shared, Stream stream,
                    void** parameters, void** extra) {
  TWIN_CALL;
  auto* const function = reinterpret_cast<TwinFunction*>(handle);
  const auto is_known = [&](const TwinModule* module) {
    return std::any_of(module->functions.begin(), module->functions.end(), [&](const auto& f) { return f.get() == function; });
  };
  if (std::none_of(world().modules.begin(), world().modules.end(), is_known)) return complain("a kernel of a module that there is not", kInvalidHandle);
  if (int status = check_stream(stream, "a launch")) return status;
  if (function->device != world().current.back()->device) return complain("a kernel of another device", kInvalidContext);
  if (by != 1 || bz != 1 || ty != 1 || tz != 1 || shared != 0 || parameters || !extra) return complain("a launch of a kind that no kernel of ours has");
  if (tx > function->most_threads) return complain("a block of more threads than the kernel was made for");
  const auto is = [&](int place, uintptr_t value) { return reinterpret_cast<uintptr_t>(extra[place]) == value; };
  if (!is(0, 1) || !is(2, 2) || !is(4, 0)) return complain("arguments of a launch that are no block with its size");
  if (*static_cast<const size_t*>(extra[3]) != function->argument_bytes) return complain("an argument block of another size than the kernel's");
  const auto* block = static_cast<const uint64_t*>(extra[1]);
  TwinStream& queue = stream_of(stream);
  const std::vector<uint64_t> copy(block, block + function->argument_bytes / 8);
  if (int status = check_addresses(*function, copy, queue)) return status;
  put(queue, [function, bx, tx, copy] { run_kernel(*function, {bx, tx}, copy); });
  return kSuccess;
}

TWIN cuStreamCreate(Stream* stream, unsigned) {
  TWIN_CALL;
  if (world().current.empty()) return complain("a stream without a current context", kInvalidContext);
  auto* created = new TwinStream;
  created->device = world().current.back()->device;
  world().streams.insert(created);
  *stream = reinterpret_cast<Stream>(created);
  return kSuccess;
}

TWIN cuStreamSynchronize(Stream stream) {
  TWIN_CALL;
  if (int status = check_stream(stream, "a wait")) return status;
  drain(stream_of(stream));
  return world().current.back()->broken;
}

TWIN cuStreamDestroy_v2(Stream handle) {
  TWIN_CALL;
  if (int status = check_stream(handle, "an end")) return status;
  auto* stream = reinterpret_cast<TwinStream*>(handle);
  drain(*stream);
  world().streams.erase(stream);
  delete stream;
  return kSuccess;
}

TWIN cuMemAlloc_v2(Address* address, size_t bytes) {
  TWIN_CALL;
  if (world().current.empty()) return complain("memory without a current context", kInvalidContext);
  if (bytes == 0) return kInvalidValue;
  auto memory = std::make_unique<TwinMemory>();
  memory->device = world().current.back()->device;
  memory->bytes = bytes;
  memory->begin = DeviceRange::instance().take(bytes);
  if (!memory->begin) return kOutOfMemory;
  const Opened opened;
  std::memset(memory->begin, 0xee, bytes);
  *address = reinterpret_cast<Address>(memory->begin);
  world().memories[*address] = std::move(memory);
  return kSuccess;
}

TWIN cuMemFree_v2(Address address) {
  TWIN_CALL;
  const auto found = world().memories.find(address);
  if (found == world().memories.end() || found->second->freed) return complain("memory is given back that nobody has");
  drain_all();
  found->second->freed = true;
  return kSuccess;
}

TWIN cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream stream) {
  TWIN_CALL;
  if (int status = check_stream(stream, "a copy")) return status;
  TwinStream& queue = stream_of(stream);
  if (int status = check_memory(to, bytes, queue, true, "a copy")) return status;
  const std::vector<char> copy(static_cast<const char*>(from), static_cast<const char*>(from) + bytes);
  put(queue, [to, copy] { const Opened opened; std::memcpy(reinterpret_cast<void*>(to), copy.data(), copy.size()); });
  return kSuccess;
}

TWIN cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream stream) {
  TWIN_CALL;
  if (int status = check_stream(stream, "a copy")) return status;
  TwinStream& queue = stream_of(stream);
  if (int status = check_memory(from, bytes, queue, false, "a copy")) return status;
  put(queue, [to, from, bytes] { const Opened opened; std::memcpy(to, reinterpret_cast<const void*>(from), bytes); });
  return kSuccess;
}

}  // extern "C"
