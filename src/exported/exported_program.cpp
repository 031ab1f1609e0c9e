// See exported_program.h. The schema: torch/_export/serde/schema.py of PyTorch 2.13.
#include "exported/exported_program.h"

#include <algorithm>
#include <optional>
#include <span>

#include "exported/input_paths.h"
#include "exported/json_reader.h"
#include "support/error.h"
#include "support/text.h"

namespace escapement {

namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr std::string_view kGradBlock = "torch.ops.higher_order.wrap_with_set_grad_enabled";
constexpr std::string_view kAutocastBlock = "torch.ops.higher_order.wrap_with_autocast";
constexpr size_t kMostBlocks = 64;   // inside each other
constexpr size_t kMaxNodes = 1'000'000, kMaxRank = 64;

// The only member of a tagged union, {"as_int": 3}.
const JsonValue::Member& only_member(const JsonValue& json) {
  if (json.members().size() != 1) throw UserError("expected an object with one member");
  return json.members()[0];
}

// The name of the member says what is being read.
template <class Read>
auto within(const std::string& where, Read read) {
  try {
    return read();
  } catch (const UserError& error) {
    throw UserError(where + ": " + error.what());
  }
}

std::string device_text(const JsonValue& json) {
  const JsonValue* index = json.find("index");
  return json["type"].string() + (index ? ":" + std::to_string(index->integer()) : "");
}

ExportedTensor tensor_meta(const JsonValue& json, SizeSymbols& symbols) {
  ExportedTensor tensor;
  tensor.dtype = json["dtype"].integer();
  tensor.layout = json["layout"].integer();
  tensor.device = device_text(json["device"]);
  const auto& sizes = json["sizes"].array();
  if (sizes.size() > kMaxRank) throw UserError("more than " + std::to_string(kMaxRank) + " dims");
  for (const JsonValue& size : sizes) {
    const auto& [tag, value] = only_member(size);
    if (tag == "as_expr") {
      tensor.sizes.push_back(parse_size(value["expr_str"].string(), symbols));
    } else {
      SizeSpec constant;
      constant.op = SizeOp::constant;
      constant.number = value.integer();
      tensor.sizes.push_back(constant);
    }
  }
  const auto& strides = json["strides"].array();
  if (strides.size() != sizes.size()) throw UserError("as many strides as sizes are expected");
  for (const JsonValue& stride : strides) {
    const JsonValue* number = stride.find("as_int");
    if (number == nullptr) return tensor.strides.clear(), tensor;
    tensor.strides.push_back(number->integer());
  }
  const JsonValue* offset = json["storage_offset"].find("as_int");
  tensor.offset = offset ? offset->integer() : 0;
  return tensor;
}

class ProgramReader {
 public:
  explicit ProgramReader(const JsonValue& top) : module_(top["graph_module"]), graph_(module_["graph"]), top_(top) {}

  ExportedProgram read() {
    check_version();
    within("range_constraints", [&] { read_ranges(); });
    within("inputs", [&] { read_inputs(); });
    within("guards_code", [&] { read_guards(); });
    const auto& nodes = graph_["nodes"].array();
    if (nodes.size() > kMaxNodes) throw UserError("more than " + std::to_string(kMaxNodes) + " nodes");
    for (size_t i = 0; i < nodes.size(); ++i) within("node " + std::to_string(i), [&] { read_node(nodes[i]); });
    within("outputs", [&] { read_outputs(); });
    return std::move(program_);
  }

 private:
  using Kind = ExportedValue::Kind;

  void check_version() const {
    const int64_t major = top_["schema_version"]["major"].integer();
    if (major != kSchemaMajor)
      throw UserError("its schema has version " + std::to_string(major) + ", and " + std::to_string(kSchemaMajor) +
                      " is what is read: save it again with PyTorch 2.13");
  }

  void read_ranges() {
    for (const auto& [name, range] : top_["range_constraints"].members()) {
      SizeRange& declared = program_.ranges[name];
      if (const JsonValue* least = range.find("min_val")) declared.least = least->integer();
      if (const JsonValue* most = range.find("max_val")) declared.most = most->integer();
    }
  }

  // --- values

  uint32_t define(const std::string& name) {
    const auto [at, fresh] = slots_.try_emplace(name, program_.slots);
    if (!fresh) throw UserError("the value " + quote(name) + " is defined twice");
    return program_.slots++;
  }

  ExportedValue use(const std::string& name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end())
      throw UserError("the value " + quote(name) + " is used before it is computed, or never computed");
    ExportedValue value;
    value.kind = Kind::slot;
    value.slot = found->second;
    return value;
  }

  static ExportedValue constant(Kind kind, int64_t integer) {
    ExportedValue value;
    value.kind = kind;
    value.integer = integer;
    return value;
  }

  static ExportedValue real(double number) {
    ExportedValue value;
    value.kind = Kind::real;
    value.real = number;
    return value;
  }

  static ExportedValue text(Kind kind, std::string text) {
    ExportedValue value;
    value.kind = kind;
    value.text = std::move(text);
    return value;
  }

  template <class Read>
  static ExportedValue list(const JsonValue& json, Read read) {
    ExportedValue value;
    value.kind = Kind::list;
    for (const JsonValue& item : json.array()) value.items.push_back(read(item));
    return value;
  }

  // {"as_name": "s"}, {"as_int": 2}, {"as_none": true}, {"as_tensor": {"name": "x"}}
  ExportedValue element(const JsonValue& json) const {
    const auto& [tag, value] = only_member(json);
    if (tag != "as_name") return argument(json);
    ExportedValue number = use(value.string());
    number.is_number = true;
    return number;
  }

  std::optional<ExportedValue> scalar_argument(const std::string& tag, const JsonValue& json) const {
    if (tag == "as_none") return ExportedValue();
    if (tag == "as_tensor") return use(json["name"].string());
    if (tag == "as_int") return constant(Kind::integer, json.integer());
    if (tag == "as_float") return real(json.real());
    if (tag == "as_bool") return constant(Kind::boolean, json.boolean());
    if (tag == "as_string") return text(Kind::text, json.string());
    if (tag == "as_scalar_type") return constant(Kind::dtype, json.integer());
    if (tag == "as_layout") return constant(Kind::layout, json.integer());
    if (tag == "as_memory_format") return constant(Kind::memory_format, json.integer());
    if (tag == "as_device") return text(Kind::device, device_text(json));
    if (tag == "as_sym_int" || tag == "as_sym_bool" || tag == "as_sym_float" || tag == "as_optional_tensor")
      return element(json);
    return {};
  }

  std::optional<ExportedValue> list_argument(const std::string& tag, const JsonValue& json) const {
    if (tag == "as_tensors") return list(json, [&](const JsonValue& item) { return use(item["name"].string()); });
    if (tag == "as_ints") return list(json, [&](const JsonValue& item) { return constant(Kind::integer, item.integer()); });
    if (tag == "as_floats") return list(json, [&](const JsonValue& item) { return real(item.real()); });
    if (tag == "as_bools") return list(json, [&](const JsonValue& item) { return constant(Kind::boolean, item.boolean()); });
    if (tag == "as_strings") return list(json, [&](const JsonValue& item) { return text(Kind::text, item.string()); });
    if (tag == "as_optional_tensors" || tag == "as_sym_ints" || tag == "as_sym_floats" || tag == "as_sym_bools")
      return list(json, [&](const JsonValue& item) { return element(item); });
    return {};
  }

  ExportedValue argument(const JsonValue& json) const {
    const auto& [tag, value] = only_member(json);
    if (auto found = scalar_argument(tag, value)) return *found;
    if (auto found = list_argument(tag, value)) return *found;
    if (tag == "as_graph")
      throw UserError("an operator with a graph inside (torch.cond, while_loop) is not supported; `ep = ep.run_decompositions({})` before "
                      "torch.export.save replaces those that only group operators, not branches and loops");
    if (tag == "as_custom_obj") throw UserError("script objects are not supported");
    throw UserError("an argument of the kind " + quote(tag) + " is not supported");
  }

  ExportedValue result(const JsonValue& json) {
    const auto& [tag, value] = only_member(json);
    ExportedValue made;
    if (tag == "as_none") return made;
    made.kind = Kind::slot;
    if (tag == "as_tensors") return list(value, [&](const JsonValue& item) { return slot(define(item["name"].string())); });
    if (tag == "as_optional_tensors") return list(value, [&](const JsonValue& item) { return result(item); });
    if (tag == "as_tensor") return slot(define(value["name"].string()));
    if (tag == "as_sym_int" || tag == "as_sym_bool" || tag == "as_sym_float") return slot(define(value["as_name"].string()));
    throw UserError("a result of the kind " + quote(tag) + " is not supported");
  }

  static ExportedValue slot(uint32_t number) {
    ExportedValue value;
    value.kind = Kind::slot;
    value.slot = number;
    return value;
  }

  // --- inputs

  void read_inputs() {
    const auto& specs = module_["signature"]["input_specs"].array();
    if (graph_["inputs"].array().size() != specs.size())
      throw UserError("the graph and its signature have different numbers of inputs");
    for (size_t i = 0; i < specs.size(); ++i) {
      const auto& [role, spec] = only_member(specs[i]);
      within(std::to_string(i), [&] { read_input(role, spec); });
    }
  }

  void read_input(const std::string& role, const JsonValue& spec) {
    ExportedInput input;
    if (role == "parameter") return read_weight(ExportedInput::Kind::parameter, spec, "parameter_name");
    if (role == "buffer") return read_weight(ExportedInput::Kind::buffer, spec, "buffer_name");
    if (role == "tensor_constant") return read_weight(ExportedInput::Kind::constant, spec, "tensor_constant_name");
    if (role == "constant_input") return leaves_.push_back({});  // a Python constant that the program was exported with: no node uses it
    if (role != "user_input") throw UserError("inputs of the kind " + quote(role) + " are not supported");
    const auto& [tag, value] = only_member(spec["arg"]);
    if (tag == "as_tensor") return add_leaf(), read_tensor_input(value["name"].string());
    if (tag == "as_sym_int" && value.find("as_name")) return add_leaf(), read_integer_input(value["as_name"].string());
    if (tag == "as_int" || tag == "as_none" || tag == "as_bool" || tag == "as_float" || tag == "as_string")
      return leaves_.push_back({});
    throw UserError("an input of the kind " + quote(tag) + " is not supported: tensors and integers are");
  }

  void add_leaf() { leaves_.emplace_back(user_inputs_++); }

  void read_weight(ExportedInput::Kind kind, const JsonValue& spec, const char* name) {
    ExportedInput input;
    input.kind = kind;
    input.name = spec[name].string();
    input.slot = define(spec["arg"]["name"].string());
    by_role_[{kind, input.name}] = input.slot;
    program_.inputs.push_back(std::move(input));
  }

  void read_tensor_input(const std::string& name) {
    ExportedInput input;
    input.name = name;
    input.slot = define(name);
    input.tensor = within(quote(name), [&] { return tensor_meta(graph_["tensor_values"][name], program_.symbols); });
    by_role_[{ExportedInput::Kind::tensor, name}] = input.slot;
    program_.inputs.push_back(std::move(input));
  }

  void read_integer_input(const std::string& name) {
    ExportedInput input;
    input.kind = ExportedInput::Kind::integer;
    input.name = name;
    input.slot = define(name);
    const auto& [tag, value] = only_member(graph_["sym_int_values"][name]);
    if (tag == "as_expr") {
      input.size = parse_size(value["expr_str"].string(), program_.symbols);
    } else {
      input.size.op = SizeOp::constant;
      input.size.number = value.integer();
    }
    program_.inputs.push_back(std::move(input));
  }

  // The first entry of the calls is that of the whole module.
  void read_guards() {
    const JsonValue* guards = top_.find("guards_code");
    if (guards == nullptr || guards->array().empty()) return;
    const JsonValue* calls = module_.find("module_call_graph");
    const JsonValue* signature = calls == nullptr || calls->array().empty() ? nullptr : calls->array()[0].find("signature");
    const InputPaths paths = signature ? InputPaths(*signature, leaves_) : InputPaths();
    for (const JsonValue& guard : guards->array()) program_.guards.add(guard.string(), paths);
    for (const InputFact& fact : program_.guards.facts()) require_kind(fact);
  }

  // An integer has a value and nothing else, a tensor all but that.
  void require_kind(const InputFact& fact) const {
    const auto users = [](const ExportedInput& input) { return input.is_user(); };
    auto input = std::find_if(program_.inputs.begin(), program_.inputs.end(), users);
    for (uint32_t i = 0; i < fact.input; ++i) input = std::find_if(std::next(input), program_.inputs.end(), users);
    if ((input->kind == ExportedInput::Kind::integer) != (fact.kind == InputFact::Kind::value))
      throw UserError("a condition asks the input " + quote(input->name) + " for what inputs of its kind do not have");
  }

  // --- nodes

  void read_node(const JsonValue& json) {
    ExportedNode node;
    node.target = json["target"].string();
    if (node.target == kGradBlock) return within(quote(node.target), [&] { read_block(json, 1); });
    if (node.target == kAutocastBlock) return within(quote(node.target), [&] { read_autocast(json); });
    if (node.target.starts_with(kOwnTargets)) throw UserError("the target " + quote(node.target) + " is no operator");
    const JsonValue* name = json.find("name");
    node.name = name ? name->string() : node.target;
    within(quote(node.target), [&] {
      for (const JsonValue& input : json["inputs"].array())
        node.inputs.emplace_back(input["name"].string(), argument(input["arg"]));
      for (const JsonValue& output : json["outputs"].array()) node.outputs.push_back(result(output));
    });
    program_.nodes.push_back(std::move(node));
  }

  // A block under a mode: arguments are what describes the mode (so many), a graph and its inputs. Gradients are computed nowhere, so
  // the nodes of one under torch.no_grad become nodes like others; its names are its own.
  void read_block(const JsonValue& json, size_t modes) {
    const auto& arguments = json["inputs"].array();
    if (arguments.size() <= modes) throw UserError("a mode and a graph are expected");
    const auto& [tag, named] = only_member(arguments[modes]["arg"]);
    if (tag != "as_graph") throw UserError("a graph is expected");
    if (++blocks_ > kMostBlocks) throw UserError("more than " + std::to_string(kMostBlocks) + " blocks inside each other");
    const JsonValue& graph = named["graph"];
    Slots inner = bound_inputs(graph["inputs"].array(), std::span(arguments).subspan(modes + 1));
    std::swap(slots_, inner);
    for (const JsonValue& node : graph["nodes"].array()) read_node(node);
    std::vector<uint32_t> results;
    for (const JsonValue& output : graph["outputs"].array()) results.push_back(slot_of(output));
    std::swap(slots_, inner);
    --blocks_;
    bind_results(json["outputs"].array(), results);
  }

  // The mode: device, dtype, enabled, whether casts of weights are kept.
  void read_autocast(const JsonValue& json) {
    constexpr const char* kNames[] = {"device", "dtype", "enabled", "cache"};
    const auto& arguments = json["inputs"].array();
    if (arguments.size() <= std::size(kNames)) throw UserError("a mode and a graph are expected");
    ExportedNode enter, leave;
    enter.name = leave.name = kAutocastBlock;
    enter.target = kEnterAutocast;
    leave.target = kLeaveAutocast;
    for (size_t i = 0; i < std::size(kNames); ++i) enter.inputs.emplace_back(kNames[i], argument(arguments[i]["arg"]));
    enter.outputs.push_back(slot(program_.slots++));
    leave.inputs.emplace_back("before", enter.outputs[0]);
    program_.nodes.push_back(std::move(enter));
    read_block(json, std::size(kNames));
    program_.nodes.push_back(std::move(leave));
  }

  using Slots = std::map<std::string, uint32_t, std::less<>>;

  Slots bound_inputs(const std::vector<JsonValue>& names, std::span<const JsonValue> arguments) const {
    if (names.size() != arguments.size()) throw UserError("the graph and the call have different numbers of inputs");
    Slots inner;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!inner.try_emplace(value_name(names[i]), slot_of(arguments[i]["arg"])).second)
        throw UserError("the value " + quote(value_name(names[i])) + " is defined twice");
    }
    return inner;
  }

  void bind_results(const std::vector<JsonValue>& names, const std::vector<uint32_t>& results) {
    if (names.size() != results.size()) throw UserError("the graph and the call have different numbers of results");
    for (size_t i = 0; i < names.size(); ++i) {
      if (!slots_.try_emplace(value_name(names[i]), results[i]).second)
        throw UserError("the value " + quote(value_name(names[i])) + " is defined twice");
    }
  }

  static const std::string& value_name(const JsonValue& json) {
    const auto& [tag, value] = only_member(json);
    return value[tag == "as_tensor" ? "name" : "as_name"].string();
  }

  uint32_t slot_of(const JsonValue& json) const {
    const ExportedValue value = argument(json);
    if (value.kind != Kind::slot) throw UserError("a constant as an input or a result of a block is not supported");
    return value.slot;
  }

  // --- outputs

  void read_outputs() {
    const auto& specs = module_["signature"]["output_specs"].array();
    if (graph_["outputs"].array().size() != specs.size())
      throw UserError("the graph and its signature have different numbers of outputs");
    program_.result_symbols = program_.symbols;
    for (const JsonValue& spec : specs) {
      const auto& [role, value] = only_member(spec);
      read_output(role, value);
    }
  }

  void read_output(const std::string& role, const JsonValue& spec) {
    using Input = ExportedInput::Kind;
    ExportedOutput output;
    if (role == "user_output") {
      output.value = argument(spec["arg"]);
      describe_result(spec["arg"], output);
    } else {
      output.is_write = true;
      if (role == "buffer_mutation") output.destination = written(Input::buffer, spec["buffer_name"].string());
      else if (role == "parameter_mutation") output.destination = written(Input::parameter, spec["parameter_name"].string());
      else if (role == "user_input_mutation") output.destination = written(Input::tensor, spec["user_input_name"].string());
      else throw UserError("outputs of the kind " + quote(role) + " are not supported");
      output.value = use(spec["arg"]["name"].string());
    }
    program_.outputs.push_back(std::move(output));
  }

  // For signatures only: what is not understood is left unknown.
  void describe_result(const JsonValue& json, ExportedOutput& output) {
    const auto& [tag, value] = only_member(json);
    const JsonValue* name = tag == "as_tensor" ? value.find("name") : tag.starts_with("as_sym") ? value.find("as_name") : nullptr;
    if (name) output.name = name->string();
    const JsonValue* meta = tag == "as_tensor" ? graph_["tensor_values"].find(output.name) : nullptr;
    if (!meta) return;
    output.is_tensor = true;
    output.dtype = (*meta)["dtype"].integer();
    for (const JsonValue& size : (*meta)["sizes"].array()) output.sizes.push_back(result_size(size));
  }

  SizeSpec result_size(const JsonValue& json) {
    SizeSpec size;
    const auto& [tag, value] = only_member(json);
    if (tag == "as_int") {
      size.op = SizeOp::constant;
      size.number = value.integer();
    } else if (tag == "as_expr") {
      try {
        size = parse_size(value["expr_str"].string(), program_.result_symbols);
      } catch (const UserError&) {
        size = SizeSpec();
      }
    }
    return size;
  }

  uint32_t written(ExportedInput::Kind kind, const std::string& name) const {
    const auto found = by_role_.find({kind, name});
    if (found == by_role_.end()) throw UserError("what is written, " + quote(name) + ", is no input");
    return found->second;
  }

  const JsonValue& module_;
  const JsonValue& graph_;
  const JsonValue& top_;
  ExportedProgram program_;
  Slots slots_;
  std::vector<std::optional<uint32_t>> leaves_;   // of the arguments of the export: which input of a call each is, if it is one
  uint32_t user_inputs_ = 0;
  size_t blocks_ = 0;   // that the node being read lies in
  std::map<std::pair<ExportedInput::Kind, std::string>, uint32_t> by_role_;
};

}  // namespace

SizeContract ExportedProgram::contract() const {
  std::vector<DeclaredInput> declared;
  for (const ExportedInput& input : inputs) {
    if (input.kind == ExportedInput::Kind::tensor) declared.push_back({input.name, false, input.tensor.sizes});
    if (input.kind == ExportedInput::Kind::integer) declared.push_back({input.name, true, {input.size}});
  }
  return SizeContract(std::move(declared), symbols, ranges);
}

ExportedProgram read_program(std::string_view model_json) {
  const JsonValue top = JsonValue::parse(model_json);
  return ProgramReader(top).read();
}

std::map<std::string, ExportedWeight> read_weights(std::string_view config_json) {
  const JsonValue top = JsonValue::parse(config_json);
  std::map<std::string, ExportedWeight> weights;
  for (const auto& [name, json] : top["config"].members()) {
    within(quote(name), [&] {
      if (json["use_pickle"].boolean()) throw UserError("it is stored with pickle, which is never opened");
      SizeSymbols none;
      weights[name] = {json["path_name"].string(), tensor_meta(json["tensor_meta"], none)};
      if (!none.names().empty()) throw UserError("its size is a symbol");
    });
  }
  return weights;
}

}  // namespace escapement
