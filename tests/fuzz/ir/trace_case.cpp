// See trace_case.h.
#include "fuzz/ir/trace_case.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "fuzz/ir/library.h"
#include "support/error.h"
#include "trace/guard_relation.h"
#include "trace/scalar.h"

namespace escapement::fuzz {
namespace {

struct Budget {
  int64_t elements, all;   // of one tensor, and of all together: the reference takes about 100 ns for each
};
constexpr Budget kUsual{6000, 60000}, kLarge{400000, 1500000};

using Symbols = std::vector<int64_t>;

std::optional<int64_t> value_of(const Trace& trace, Dim dim, const Symbols& symbols) {
  try {
    return trace.dims.evaluate(dim, symbols);
  } catch (const UserError&) {
    return {};
  }
}

bool fits(const Trace& trace, const Symbols& symbols, Budget most = kUsual) {
  int64_t total = 0;
  for (const Value& value : trace.values) {
    int64_t count = 1;
    for (const Dim size : value.type.sizes) {
      const auto known = value_of(trace, size, symbols);
      if (!known || *known > most.elements) return false;
      count *= std::max<int64_t>(*known, 1);
      if (count > most.elements) return false;
    }
    total += count;
  }
  return total <= most.all;
}

// Sets a lone symbol so that the relation holds.
void repair(const Trace& trace, const Guard& guard, Symbols& symbols) {
  const auto left = value_of(trace, guard.left, symbols), right = value_of(trace, guard.right, symbols);
  if (!left || !right || holds(guard.kind, *left, *right)) return;
  const auto lone = [&](Dim d) -> std::optional<Symbol> {
    const std::vector<Symbol> found = trace.dims.symbols(d);
    if (found.size() == 1 && trace.dims.to_string(d) == trace.dims.to_string(found[0])) return found[0];
    return {};
  };
  const int64_t apart = guard.kind == Guard::Kind::less || guard.kind == Guard::Kind::not_equal ? 1 : 0;
  if (const auto s = lone(guard.left)) symbols[s->index] = *right - apart;
  else if (const auto t = lone(guard.right)) symbols[t->index] = *left + apart;
}

int64_t random_value(const SymbolInfo& info, Random& random) {
  if (info.kind == SymbolKind::integer) return random.between(-3, 9);
  if (info.kind == SymbolKind::born) return 3;
  if (info.kind == SymbolKind::stride) return 0;  // chosen with the layout
  return random_size(random);
}

bool is_entry_size(const SymbolInfo& info) { return info.kind == SymbolKind::size || info.kind == SymbolKind::integer; }

}  // namespace

std::optional<Symbols> hinted_sizes(const Trace& trace) {
  Symbols symbols(trace.dims.symbol_count());
  for (uint32_t s = 0; s < symbols.size(); ++s) symbols[s] = trace.dims.info(Symbol(s)).hint.value_or(2);
  if (!fits(trace, symbols)) return {};
  return symbols;
}

namespace {

std::optional<Symbols> accepted(const Trace& trace, Symbols symbols, Budget most) {
  for (int round = 0; round < 3; ++round)
    for (const Guard& guard : trace.guards) repair(trace, guard, symbols);
  for (uint32_t s = 0; s < symbols.size(); ++s) {
    const SymbolInfo& info = trace.dims.info(Symbol(s));
    if (is_entry_size(info) && (symbols[s] < info.range.low || symbols[s] > info.range.high)) return {};
  }
  if (!fits(trace, symbols, most)) return {};
  return symbols;
}

}  // namespace

std::optional<Symbols> random_sizes(const Trace& trace, Random& random) {
  Symbols symbols(trace.dims.symbol_count());
  for (uint32_t s = 0; s < symbols.size(); ++s) symbols[s] = random_value(trace.dims.info(Symbol(s)), random);
  return accepted(trace, std::move(symbols), kUsual);
}

std::optional<Symbols> large_sizes(const Trace& trace, Random& random) {
  Symbols symbols(trace.dims.symbol_count());
  std::vector<uint32_t> sizes;
  for (uint32_t s = 0; s < symbols.size(); ++s) {
    const SymbolInfo& info = trace.dims.info(Symbol(s));
    symbols[s] = info.kind == SymbolKind::size ? random.between(1, 2) : random_value(info, random);
    if (info.kind == SymbolKind::size) sizes.push_back(s);
  }
  if (sizes.empty()) return {};
  symbols[random.pick(sizes)] = random.pick<int64_t>({99991, 100352, 100353, 131072 + 5});
  return accepted(trace, std::move(symbols), kLarge);
}

// --- inputs

namespace {

// The stride of each axis: what the type says, or a random place among the others.
class Layout {
 public:
  Layout(const Trace& trace, const TensorType& type, bool written, Symbols& symbols, Random& random)
      : trace_(trace), type_(type), written_(written), symbols_(symbols), random_(random) {
    for (const Dim size : type.sizes) sizes.push_back(trace.dims.evaluate(size, symbols));
    strides.assign(sizes.size(), 0);
  }

  void choose() {
    std::vector<size_t> open;
    int64_t next = 1;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (open_symbol(d)) open.push_back(d);
      else strides[d] = trace_.dims.evaluate(type_.strides[d], symbols_), next = std::max(next, strides[d] * std::max<int64_t>(sizes[d], 1));
    }
    if (random_.one_in(3)) random_.shuffle(open);
    for (size_t i = open.size(); i-- > 0;) {
      const size_t d = open[i];
      const bool repeated = !written_ && random_.one_in(8);
      strides[d] = repeated ? 0 : next * (random_.one_in(4) ? random_.between(1, 3) : 1) + (random_.one_in(4) ? random_.between(0, 3) : 0);
      if (!repeated) next = strides[d] * std::max<int64_t>(sizes[d], 1);
      symbols_[open_symbol(d)->index] = strides[d];
    }
  }

  std::vector<int64_t> sizes, strides;

 private:
  std::optional<Symbol> open_symbol(size_t d) const {
    const std::vector<Symbol> found = trace_.dims.symbols(type_.strides[d]);
    if (found.size() == 1 && trace_.dims.info(found[0]).kind == SymbolKind::stride) return found[0];
    return {};
  }

  const Trace& trace_;
  const TensorType& type_;
  bool written_;
  Symbols& symbols_;
  Random& random_;
};

uint64_t random_bits(DType type, bool wild, Random& random) {
  if (!is_float(type)) return to_bits(type == DType::b8 ? static_cast<int64_t>(random.below(2)) : wild && random.one_in(4)
                                          ? static_cast<int64_t>(random.bits()) : random.between(-2, 6), type);
  if (!wild || random.one_in(2)) return to_bits(static_cast<double>(random.between(-2000, 2000)) / 500, compute_type(type));
  static const std::vector<double> special{0.0, -0.0, 1.0, -1.0, 0.5, 65520.0, 3e38, 1e-40, 1e-7, -1e-40, INFINITY, -INFINITY, NAN, 1e20};
  return to_bits(random.pick(special), compute_type(type));
}

int64_t last_place(const HostTensor& t) {
  int64_t last = t.offset;
  for (size_t d = 0; d < t.sizes.size(); ++d) last += std::max<int64_t>(t.sizes[d] - 1, 0) * t.strides[d];
  return last;
}

bool is_written(const Trace& trace, Storage storage) {
  for (const Instr& instr : trace.instrs)
    for (const uint32_t operand : instr.writes)
      if (trace.type(instr.operands[operand]).storage == storage) return true;
  return false;
}

}  // namespace

std::vector<HostInput> make_inputs(const Trace& trace, Symbols& symbols, Random& random) {
  std::vector<HostInput> inputs;
  std::map<uint32_t, HostTensor> of_storage;
  for (const Input& input : trace.inputs) {
    if (input.kind == Input::Kind::integer) {
      inputs.emplace_back(symbols[trace.dims.as_symbol(input.dim)->index]);
      continue;
    }
    const TensorType& type = trace.type(input.value);
    Layout layout(trace, type, is_written(trace, type.storage), symbols, random);
    layout.choose();
    HostTensor t;
    t.dtype = type.dtype;
    t.sizes = layout.sizes;
    t.strides = layout.strides;
    t.offset = random.one_in(4) ? random.between(1, 5) : 0;
    const auto known = of_storage.find(type.storage.index);
    const bool shared = known != of_storage.end() && !random.one_in(3);
    if (shared) t.storage = known->second.storage, t.offset = random.one_in(2) ? known->second.offset : t.offset;
    else t.storage = std::make_shared<std::vector<std::byte>>();
    const auto bytes = static_cast<size_t>((last_place(t) + 1) * size_of(t.dtype));
    if (t.storage->size() < bytes) t.storage->resize(bytes);
    const bool wild = random.one_in(3);
    for (const int64_t place : t.places()) t.store(place, random_bits(t.dtype, wild, random));
    of_storage.emplace(type.storage.index, t);
    inputs.emplace_back(std::move(t));
  }
  return inputs;
}

std::vector<HostInput> deep_copy(const std::vector<HostInput>& inputs) {
  std::map<const void*, std::shared_ptr<std::vector<std::byte>>> copies;
  std::vector<HostInput> result = inputs;
  for (HostInput& input : result) {
    auto* tensor = std::get_if<HostTensor>(&input);
    if (tensor == nullptr) continue;
    auto& copy = copies[tensor->storage.get()];
    if (!copy) copy = std::make_shared<std::vector<std::byte>>(*tensor->storage);
    tensor->storage = copy;
  }
  return result;
}

namespace {

std::vector<HostInput> handed_on(const std::vector<HostInput>& given, const std::vector<HostOutput>& more) {
  std::vector<HostInput> inputs = given;
  for (const HostOutput& output : more) {
    if (const auto* const tensor = std::get_if<HostTensor>(&output)) inputs.emplace_back(*tensor);
    else inputs.emplace_back(std::get<int64_t>(output));
  }
  return inputs;
}

Result evaluated_one_by_one(std::span<const Trace* const> parts, const std::vector<HostInput>& inputs) {
  Result result;
  result.inputs = deep_copy(inputs);
  Library library;
  EvaluatorHooks hooks;
  hooks.call = [&](const Trace& t, const Instr& instr, std::span<const HostTensor> operands) { return library.call(t, instr, operands); };
  try {
    for (const Trace* const part : parts) {
      Evaluation done = evaluate(*part, handed_on(result.inputs, result.outputs), hooks);
      result.outputs = std::move(done.outputs);
      result.failed_guard = done.failed_guard;
      if (result.failed_guard) break;
    }
  } catch (const UserError&) {
    result.refused = true;
  }
  return result;
}

}  // namespace

Result evaluated(const Trace& trace, const std::vector<HostInput>& inputs) {
  const Trace* const parts[] = {&trace};
  return evaluated_one_by_one(parts, inputs);
}

Result evaluated_in_parts(const Trace& before, const Trace& side, const std::vector<HostInput>& inputs) {
  const Trace* const parts[] = {&before, &side};
  return evaluated_one_by_one(parts, inputs);
}

// --- comparing

namespace {

bool same_element(DType type, uint64_t a, uint64_t b) {
  if (a == b) return true;
  return is_float(type) && std::isnan(double_from_bits(a, compute_type(type))) && std::isnan(double_from_bits(b, compute_type(type)));
}

bool same_strides(const HostTensor& a, const HostTensor& b) {
  if (a.count() == 0) return true;
  for (size_t d = 0; d < a.sizes.size(); ++d)
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}

std::string show(const std::vector<int64_t>& list) {
  std::string text = "[";
  for (const int64_t value : list) text += std::to_string(value) + " ";
  return text + "]";
}

std::string show(DType type, uint64_t bits) {
  return is_float(type) ? std::to_string(double_from_bits(bits, compute_type(type))) : std::to_string(int_from_bits(bits, type));
}

std::string difference(const HostTensor& a, const HostTensor& b) {
  if (a.dtype != b.dtype) return "dtypes differ";
  if (a.sizes != b.sizes) return "sizes " + show(a.sizes) + " and " + show(b.sizes);
  if (!same_strides(a, b)) return "strides " + show(a.strides) + " and " + show(b.strides) + " of sizes " + show(a.sizes);
  const std::vector<int64_t> left = a.places(), right = b.places();
  for (size_t i = 0; i < left.size(); ++i) {
    const uint64_t x = a.load(left[i]), y = b.load(right[i]);
    if (!same_element(a.dtype, x, y)) return "element " + std::to_string(i) + " of " + show(a.sizes) + " is " + show(a.dtype, x) + ", not " + show(a.dtype, y);
  }
  return "";
}

std::string difference(const HostOutput& a, const HostOutput& b) {
  if (a.index() != b.index()) return "kinds differ";
  if (const auto* tensor = std::get_if<HostTensor>(&a)) return difference(*tensor, std::get<HostTensor>(b));
  if (const auto* integer = std::get_if<int64_t>(&a)) return *integer == std::get<int64_t>(b) ? "" : "integers differ";
  if (const auto* truth = std::get_if<bool>(&a)) return *truth == std::get<bool>(b) ? "" : "truth values differ";
  return "";
}

// Per tensor: the first tensor whose memory it shares, and from which element.
std::vector<std::pair<size_t, int64_t>> sharing(const Result& result) {
  std::vector<const HostTensor*> tensors;
  for (const HostInput& input : result.inputs)
    if (const auto* t = std::get_if<HostTensor>(&input)) tensors.push_back(t);
  for (const HostOutput& output : result.outputs)
    if (const auto* t = std::get_if<HostTensor>(&output)) tensors.push_back(t);
  std::vector<std::pair<size_t, int64_t>> groups;
  for (const HostTensor* t : tensors) {
    const auto first = std::find_if(tensors.begin(), tensors.end(), [&](const HostTensor* o) { return o->storage == t->storage; });
    groups.emplace_back(first - tensors.begin(), t->count() == 0 ? 0 : t->offset);
  }
  return groups;
}

std::string difference_of_memory(const HostTensor& a, const HostTensor& b) {
  return *a.storage == *b.storage ? "" : difference(a, b);
}

}  // namespace

std::string difference(const Result& expected, const Result& got) {
  if (expected.failed_guard.has_value() != got.failed_guard.has_value()) return "one of them refuses these sizes";
  if (expected.failed_guard) return "";
  if (got.refused) return "it refuses what the other accepts";
  if (expected.outputs.size() != got.outputs.size()) return "numbers of outputs differ";
  for (size_t i = 0; i < expected.outputs.size(); ++i)
    if (const std::string text = difference(expected.outputs[i], got.outputs[i]); !text.empty()) return "output " + std::to_string(i) + ": " + text;
  for (size_t i = 0; i < expected.inputs.size(); ++i) {
    const auto* tensor = std::get_if<HostTensor>(&expected.inputs[i]);
    if (tensor == nullptr) continue;
    const std::string text = difference_of_memory(*tensor, std::get<HostTensor>(got.inputs[i]));
    if (!text.empty()) return "input " + std::to_string(i) + " afterwards: " + text;
  }
  return sharing(expected) == sharing(got) ? "" : "they share memory in other ways";
}

}  // namespace escapement::fuzz
