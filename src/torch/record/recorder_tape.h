// Tape: the state of one recording, shared by the recorder, its wrapper tensors and its symbolic integers. They may outlive the
// recording (a module attribute may keep one), so all of them own the tape by reference count; `closed` then says that the trace
// has been handed over, and everything answers with the concrete value it was recorded with.
//
// Nothing here runs an op; recorder_fallback.cpp does. A tape belongs to the thread that records.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "torch/record/captures.h"
#include "torch/record/choices.h"
#include "torch/record/exits.h"
#include "torch/record/lent_memory.h"
#include "torch/record/recorder.h"
#include "torch/record/symnode_hooks.h"
#include "torch/record/written_memory.h"
#include "trace/builder.h"

namespace escapement {

class Forward;
class Wrapper;

inline constexpr const char* kDeclared = "declared";   // of guards: by the front end, not by the program
inline constexpr c10::DispatchKey kRecorderKey = c10::DispatchKey::DeferredInit;

struct Tape : std::enable_shared_from_this<Tape> {
  explicit Tape(std::string name) { recording.trace.name = std::move(name); }

  Recording recording;
  Builder builder{recording.trace};
  bool closed = false;                      // the trace has been moved out
  std::thread::id thread = std::this_thread::get_id();
  std::function<int()> location_hook;
  std::shared_ptr<WorldWatch> world;        // null where operators are handed to the recorder one by one (replay mode)
  std::unique_ptr<ExitNotes> exits;         // null in replay mode
  std::shared_ptr<Forward> forward;         // the program runs once more, from where a compiled trace left it
  // Replay mode: the host runs at every call and may look at any result, also where nothing is recorded of it. So an input's strides are
  // claimed for all axes, and whether eager shares memory or copies is decided at the operator itself.
  bool host_looks = false;
  bool odd_strides_of_nothing = false;      // a library call got an operand whose strides are not eager's at run time, where they address nothing

  Trace& trace() { return recording.trace; }
  DimTable& dims() { return recording.trace.dims; }
  // True while guards and instructions still go somewhere.
  bool live() const { return !closed && !recording.refused; }
  // Whether a tensor lies where the recording's do; any other ends it.
  bool is_home(const at::Tensor& real) const { return real.device() == recording.device; }
  bool on_device() const { return !recording.device.is_cpu(); }
  void refuse(Reason why, std::string detail);

  // --- values
  // The value of a program tensor: a wrapper's, or that of an unknown tensor, which thereby becomes a captured input.
  ValueId value_of(const at::Tensor& tensor);
  ValueId capture(const at::Tensor& real);
  ValueId capture_lifted(const at::Tensor& real);   // a literal that the program gets a copy of
  ValueId own_literal(const at::Tensor& copy);   // a captured input that is the recording's own
  void judge_captures(std::span<const c10::IValue> outputs);   // once nothing is left of the program but these
  LentMemory lent;
  WrittenMemory written;
  const at::Tensor& given(ValueId input) const;   // the real tensor of an input
  bool is_given(const at::Tensor& real) const;  // the very tensor of an argument, or one from outside
  // Adds `real` as an input row; empty `sizes` means constants.
  ValueId add_input(const at::Tensor& real, std::vector<Dim> sizes, const std::string& name, bool parameter);
  Dim storage_offset(ValueId root);         // the same as a size: of an input a symbol, since each call may bring another one
  bool starts_its_memory(ValueId root) const;
  int64_t root_offset(ValueId root) const;  // storage offset, seen at recording, of the value's first element
  std::vector<Dim> irregular_strides(const at::Tensor& real, uint32_t position, bool parameter);
  void assume_order(const std::vector<Dim>& strides, const std::vector<int32_t>& order);
  void note_root(ValueId root, const at::Tensor& real);
  Dim offset_in_root(const at::Tensor& real, ValueId root);

  // A 0-d constant; equal ones are shared.
  ValueId scalar(const Number& number, DType dtype);
  void forget(uint32_t first_value);           // instructions were taken back: nothing may name the values from here on

  // --- symbols
  c10::SymInt symint(Dim dim, int64_t hint);
  Dim dim_of(const c10::SymInt& value);     // a node of another tape is guarded by its owner and becomes a constant
  Dim born(Source source, int64_t hint);
  // Evaluates the relation's outcome seen at recording into a guard, unless it is provable; also tells the DimTable.
  void guard(Guard::Kind kind, Dim left, Dim right, std::string because);
  void guard_relation(Guard::Kind kind, Dim left, Dim right, bool holds, const std::string& because);
  // An exact read: the value is pinned, counted in Recording::specialised.
  void pin(Dim dim, int64_t value, const std::string& because);
  // The value of a 0-d integer or boolean as an integer symbol, read at this point of the program.
  Dim item(ValueId value, int64_t hint);

  // --- what the host asks for (recorder_asked.cpp)
  std::optional<uint32_t> input_of(ValueId value) const;   // the input that the value is
  int64_t stride_seen(ValueId input, int axis) const;        // of an input, while recording
  Dim input_stride(uint32_t input, int axis, int64_t hint);  // read from the input at each call, also where it addresses nothing
  // For an answer that is no expression of sizes: it holds for what the inputs brought, and nothing else.
  void pin_everything(const std::string& because);
  // A number that is an expression only under conditions, which `settle` guards: when somebody looks at it, not before.
  c10::SymInt unsure(int64_t hint, std::function<Dim()> settle);
  Dim settled(Dim dim);                     // without such numbers
  // C++'s `contiguous()` asks the tensor, is told no and calls the operator, which is right for every size; a program that asks the same
  // wants an answer. So the guard of a no waits for what comes next: the operator on that tensor, or anything else.
  void begin_question(ValueId asked);
  void hold(std::function<void()> guard);   // of the question begun last
  void end_question(ValueId made_contiguous = {});  // an operator begins, and is `contiguous` of this; or the program ends
  void guard_float_value(ValueId value, double seen);   // a float the host looked at
  void guard_truth(ValueId truth, const char* because);  // a 0-d boolean that holds

  Location here();                          // asks the hook

  std::set<ValueId> roomy;                  // whose memory has more bytes in eager than the elements need: losses before their mean
  Choices choices{*this};                   // where eager makes a view at some sizes and a copy at others
  void note_write(ValueId destination);     // every in-place change, also one that only renames

 private:
  struct Unsure {
    Dim is;
    std::function<Dim()> settle;             // null once it is settled
  };
  Dim settled_symbol(Symbol symbol);
  ValueId asked_;
  std::function<void()> held_;
  InstrId bound_after(Dim left, Dim right) const;
  ValueId add_captured(const at::Tensor& real);
  struct Captured {
    ValueId value;
    size_t number = 0;
  };
  std::unordered_map<const c10::TensorImpl*, Captured> captured_;
  Captures captures_;
  std::unordered_map<const c10::StorageImpl*, Storage> storages_;
  std::unordered_map<uint32_t, int64_t> root_offsets_;
  std::unordered_map<uint32_t, Dim> storage_offsets_;
  std::unordered_map<std::string, ValueId> scalars_;
  std::map<std::pair<uint32_t, int>, Dim> input_strides_;
  std::unordered_map<uint32_t, Unsure> unsure_;  // by symbol
  std::vector<at::Tensor> inputs_;          // keeps storages_ keys alive
  std::vector<ValueId> input_values_;
  std::unordered_map<int, Location> lines_;
};
using TapePtr = std::shared_ptr<Tape>;

// The tape that records on this thread; null outside.
Tape* current_tape();
void set_current_tape(TapePtr tape);
const TapePtr& current_tape_ptr();

// Can a trace name it? Strided memory, and nothing else that an operator would have to know of: no conjugate or negative bit, no
// quantiser, no dispatch to Python, no transform around it.
bool is_plain(const at::Tensor& tensor);
bool is_lazy(const at::Tensor& tensor);   // conjugated or negated by such a bit, and plain but for it (lazy_bits.h)

DType dtype_of(c10::ScalarType type);
c10::ScalarType scalar_type_of(DType type);   // `other` has none: InternalError
std::optional<c10::ScalarType> dtype_of_input(const Trace& trace, uint32_t input);   // nothing: the trace does not say which other
std::optional<int> axis_in(int64_t axis, int64_t rank);  // non-negative, or empty if out of range

}  // namespace escapement
