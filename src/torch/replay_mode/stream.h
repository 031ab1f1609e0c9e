// The tree of operator streams of one function. A node is one operator with what its arguments must be; its children are
// what came next, one for each way the host went. Every segment begins at the root, so a loop whose body ends in a read is
// one path, however often it turns. Where a segment ended, the node holds what may be launched there.
//
// Operands are named by position: `v3` is the fourth result of the segment, `x1` the second tensor from outside in the order
// of first use, `n5` a slot of the segment's table of integers. So the tree says nothing of any one tensor, and a global
// that changes is simply another x1.
//
// Threads: nodes and launches are only ever added, under the tree's mutex, and published by an atomic pointer; readers take
// no lock.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/fork.h"
#include "support/options.h"
#include "support/reason.h"
#include "torch/replay_mode/formula.h"
#include "torch/replay_mode/number_check.h"
#include "torch/replay_mode/views.h"

namespace escapement {

class SegmentLaunch;

// How a tensor from outside must look for a stream to go on with it. What the compiled code needs beyond this its own checks
// say.
struct TensorForm {
  uint64_t keys = 0;                  // without those that do not matter
  uint16_t dtype = 0;
  uint8_t rank = 0;
  bool contiguous = true;             // with the strides of a new tensor on all axes, whether they address anything or not
  bool shared = false;                // memory that others than torch may write: never read late
  bool dense = true;                  // not contiguous: the axes in `order` lie without gaps
  std::vector<int32_t> order;         // not contiguous: axes from outermost to innermost
  std::vector<bool> broadcast;        // not contiguous: axes of stride 0

  static TensorForm of(const at::Tensor& tensor);
  bool holds(const c10::TensorImpl& impl) const;
  // Slots of the table: sizes, strides if not contiguous, storage offset.
  uint32_t slots() const { return rank + (contiguous ? 0u : rank) + 1; }
  void read(const c10::TensorImpl& impl, int64_t* slots) const;
};

bool is_plain_tensor(const c10::TensorImpl& impl);
// Gradients of either mode are wanted of what is computed from it.
bool wants_gradient(const c10::TensorImpl& impl);

struct Pattern {
  enum class Kind : uint8_t {
    absent,         // None, or an undefined tensor
    constant,       // `value`
    number,         // a number dressed up as a tensor: `value`
    any_number,     // such a number, whatever it is: reals[index] or, if `integer`, table[index]
    any_real,       // a floating-point argument, whatever it is: reals[index]
    integer,        // at least 0: table[index]
    negative,       // below -1: table[index] is its negation
    produced,       // v<index>
    known,          // x<index>, used before
    fresh,          // x<index>, used for the first time; `slot` begins its sizes
    list,           // `items`
  } kind = Kind::absent;
  enum class Number : uint8_t { none, integer, real, truth } number = Number::none;   // what `value` is
  bool integer = false;               // any_number, list: of integers
  bool scalar = false;                // constant, integer, negative: a number among the operator's formal arguments, which may vary
  uint32_t index = 0, slot = 0;
  int64_t bits = 0;                   // of the number
  std::vector<int64_t> integers;      // if `value` is a list of integers
  c10::IValue value;
  TensorForm form;
  std::vector<Pattern> items;

  void hold(const c10::IValue& constant);   // as `value`
};

// What an operator hands back: an argument, a new tensor, nothing, or a list of these.
struct Handed {
  enum class Kind : uint8_t { none, argument, produced, list } kind = Kind::none;
  uint32_t index = 0;
  std::vector<Handed> items;
};

// For which sizes the strides and the offset that a stream says of a tensor are eager's (layouts.h).
enum class LayoutHolds : uint8_t {
  addressed,    // where every axis has two elements or more
  elements,     // where there are elements
  always,
};

// How eager comes to strides that the expressions do not tell (eager_layouts.h).
struct LayoutRule {
  enum class Kind : uint8_t { none, sorted, joined, reshaped, permuted, unsqueezed, expanded, dropped, stepped } kind = Kind::none;
  struct Operand {
    enum class Kind : uint8_t { produced, external, number } kind = Kind::number;
    uint32_t index = 0;
  };
  std::vector<Operand> operands;
  std::vector<int32_t> axes;            // permuted: the operand's; unsqueezed: the new one; dropped: one after the other; stepped: that one
  std::vector<Formula> starts;          // dropped: which element of each axis; stepped: the first and the step
};

// A tensor that a stream produces, before it has memory.
struct Produced {
  c10::DispatchKeySet keys;
  caffe2::TypeMeta dtype;
  uint32_t number = 0;                  // among those of its segment
  LayoutHolds holds = LayoutHolds::addressed;
  LayoutRule rule;
  bool natural = false;                 // its strides are those of a new tensor of its sizes
  bool by_eager = false;                // made by an operator of ATen's, which lays it out
  std::vector<Formula> sizes, strides;
  std::optional<Formula> offset;        // in the root's memory; empty: unknown before the tensor has memory
  std::optional<uint32_t> base_slot;    // and where that begins, if the root is from outside
  bool strides_known = false;
  int view_of = -1;                     // the argument whose memory it is, for the counter of versions
  ViewKind view = ViewKind::none;       // what autograd knows of that

  bool holds_for(c10::IntArrayRef known_sizes) const;
  // All of them; false where the arithmetic overflows, or they are not known.
  bool evaluate(const int64_t* table, c10::SmallVectorImpl<int64_t>& known_sizes) const;
  bool evaluate_layout(const int64_t* table, c10::IntArrayRef known_sizes, c10::SmallVectorImpl<int64_t>& known_strides,
                       int64_t& known_offset) const;
};

// One input of a segment, in the order in which the recording has them.
struct SegmentInput {
  enum class Kind : uint8_t { tensor, integer, real } kind = Kind::tensor;
  uint32_t index = 0;                   // of externals, table or reals
};

// How much of the segment has been used up, after an operator.
struct Extent {
  uint32_t produced = 0, externals = 0, table = 0, reals = 0, operators = 0;
  bool layout_matters = false;          // some operator has `layout_matters`
};

struct StreamNode {
  explicit StreamNode(c10::OperatorHandle handle) : op(std::move(handle)) {}
  ~StreamNode();

  c10::OperatorHandle op;
  StreamNode* parent = nullptr;
  std::vector<Pattern> arguments;
  std::vector<Check> checks;
  std::vector<NumberCheck> number_checks;
  std::vector<Handed> results;
  std::vector<Produced> produced;
  std::vector<SegmentInput> inputs;
  std::vector<uint32_t> bumped;         // arguments that the operator writes
  std::vector<uint32_t> layout_matters;   // produced tensors whose strides decide what the operator does, or whether it raises
  Extent extent;
  bool hands_one = false;               // one tensor, new or an argument
  bool ends = false;                    // the segment ends behind it
  bool asks_values = false;             // ... because of a relation of values
  bool pins_number = false;             // a number that varies was asked to be the same again
  std::string why_ends;

  std::atomic<StreamNode*> child{nullptr}, sibling{nullptr};
  std::atomic<SegmentLaunch*> launch{nullptr};
  std::atomic<int64_t> one_by_one{0};   // segments that ended here and were not launched
};

// An operator, the dtypes and the kinds of numbers that it is given: on these it depends whether a number may be an input.
using NumberUse = std::pair<const c10::FunctionSchema*, std::vector<int64_t>>;

class StreamTree {
 public:

  StreamTree(std::string name, Options options);
  ~StreamTree();

  const std::string& name() const { return name_; }
  const Options& options() const { return options_; }

  // The root for the state of torch that operators depend on: dispatch keys in force, default dtype.
  StreamNode* root(uint64_t included, uint64_t excluded, caffe2::TypeMeta dtype);
  bool may_grow(const StreamNode& parent) const;
  StreamNode* add(StreamNode* parent, std::unique_ptr<StreamNode> node);
  void add(StreamNode* node, std::unique_ptr<SegmentLaunch> launch);

  // Operators that turned out not to be recordable.
  bool is_refused(const c10::OperatorHandle& op) const;
  void refuse(const c10::OperatorHandle& op, Reason why, const std::string& detail);
  // Uses of operators whose numbers are constants in the code.
  bool has_fixed_numbers(const NumberUse& use) const;
  void fix_numbers(const NumberUse& use);
  void note(Reason why, const std::string& what = "");
  void note_recording() { recordings_.fetch_add(1, std::memory_order_relaxed); }
  void note_call() { calls_.fetch_add(1, std::memory_order_relaxed); }

  std::string text() const;
  std::string json() const;

 private:
  void write(std::string& out, const StreamNode& node, size_t depth) const;

  const std::string name_;
  const Options options_;
  mutable ForkMutex mutex_;
  std::map<std::tuple<uint64_t, uint64_t, c10::ScalarType>, std::unique_ptr<StreamNode>> roots_;
  std::set<const c10::FunctionSchema*> refused_;
  std::set<NumberUse> fixed_;
  std::atomic<bool> any_refused_{false};
  std::map<Reason, int64_t> reasons_;
  std::map<std::string, int64_t> at_once_;   // operators that were not deferred
  std::atomic<int64_t> calls_{0}, recordings_{0};
  std::atomic<int> nodes_{0};
};

}  // namespace escapement
