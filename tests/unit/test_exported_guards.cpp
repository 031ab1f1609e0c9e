// The conditions of an exported program: Python's arithmetic as torch prints it, on calls that meet them and on others; text that is
// something else is one UserError.
#include <gtest/gtest.h>

#include "exported/exported_program.h"
#include "exported/input_paths.h"
#include "exported/json_reader.h"
#include "support/error.h"

#include "fuzz/seeds.h"
#include "message_of.h"

namespace escapement {
namespace {

constexpr std::optional<uint32_t> kNoInput;
constexpr const char* kLeaf = R"({"type": null, "context": null, "children_spec": []})";

std::string tree(const std::string& type, const std::string& context, const std::vector<std::string>& children) {
  std::string inside;
  for (const std::string& child : children) inside += (inside.empty() ? "" : ", ") + child;
  return R"({"type": ")" + type + R"(", "context": ")" + context + R"(", "children_spec": [)" + inside + "]}";
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) out += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
  return out;
}

InputPaths paths_of(const std::string& arguments, const std::string& keywords, const std::string& names,
                    const std::vector<std::optional<uint32_t>>& leaves) {
  const std::string spec = "[1, " + tree("builtins.tuple", "null", {arguments, keywords}) + "]";
  const std::string text = R"({"in_spec": ")" + escaped(spec) + R"(", "forward_arg_names": )" + names + "}";
  return InputPaths(JsonValue::parse(text), leaves);
}

std::string no_keywords() { return tree("builtins.dict", "[]", {}); }

// forward(self, a, n): a tensor and an integer.
const InputPaths& two_inputs() {
  static const InputPaths paths = paths_of(tree("builtins.tuple", "null", {kLeaf, kLeaf}), no_keywords(), R"(["a", "n"])", {0, 1});
  return paths;
}

// What a call with a.size(0) and n says of the condition.
std::string error(const std::string& condition, int64_t size, int64_t n) {
  SizeGuards guards;
  guards.add(condition, two_inputs());
  std::vector<int64_t> values;
  for (const InputFact& fact : guards.facts()) values.push_back(fact.kind == InputFact::Kind::value ? n : size);
  return message_of([&] { guards.check(values); });
}

bool holds(const std::string& condition, int64_t size, int64_t n) { return error(condition, size, n) == "no error"; }

struct Case {
  const char* condition;
  int64_t size, n;
  bool holds;
};

const Case kCases[] = {
    {"L['a'].size()[0] == 3", 3, 0, true}, {"L['a'].size()[0] != 3", 3, 0, false}, {"L['a'].size()[0] < 3", 3, 0, false},
    {"L['a'].size()[0] <= 3", 3, 0, true}, {"L['a'].size()[0] > 3", 4, 0, true}, {"L['a'].size()[0] >= 4", 3, 0, false},
    {"(L['a'].size()[0] % 2) != 0", 7, 0, true}, {"(L['a'].size()[0] % 2) != 0", 0, 0, false},
    {"L['n'] % 3 == 2", 0, -1, true}, {"L['n'] // 2 == -2", 0, -3, true}, {"L['n'] % 0 == 0", 0, 1, false}, {"L['n'] // 0 == 0", 0, 1, false},
    {"L['n'] % 7 == 6", 0, INT64_MIN, true}, {"L['n'] % -1 == 0", 0, INT64_MIN, true}, {"L['n'] // -1 > 0", 0, INT64_MIN, false},
    {"L['a'].size()[0] + (-1)*((1 + L['a'].size()[0]) // 2) >= 2", 4, 0, true},
    {"L['a'].size()[0] + (-1)*((1 + L['a'].size()[0]) // 2) >= 2", 3, 0, false},
    {"1 - 2 - 3 == -4", 0, 0, true}, {"2 + 3*4 == 14", 0, 0, true}, {"(2 + 3)*4 == 20", 0, 0, true}, {"100 // 7 // 2 == 7", 0, 0, true},
    {"-2 ** 2 == -4", 0, 0, true}, {"2 ** 3 ** 2 == 512", 0, 0, true}, {"2 ** -1 == 0.5", 0, 0, true}, {"0 ** -1 == 0", 0, 0, false},
    {"L['n'] ** 2 == 49", 0, -7, true}, {"L['n']*L['n'] >= 0", 0, INT64_MAX, false}, {"3 ** 60 > 0", 0, 0, false},
    {"not (L['n'] == 1)", 0, 2, true}, {"not L['n'] == 1 and L['n'] > 1", 0, 2, true}, {"L['n'] == 1 or L['n'] == 2", 0, 2, true},
    {"L['n'] == 1 or L['n'] == 2 and L['a'].size()[0] == 5", 4, 1, true}, {"L['n'] != 0 and 6 % L['n'] == 0", 0, 0, false},
    {"L['n'] == 0 or 6 % L['n'] == 0", 0, 0, true}, {"max(L['n'], 3, L['a'].size()[0]) == 9", 9, 5, true}, {"min(3, L['n']) == 2", 0, 2, true},
    {"abs(L['n']) == 4", 0, -4, true}, {"abs(L['n']) > 0", 0, INT64_MIN, false}, {"L['n'] / 2 == 1.5", 0, 3, true},
    {"math.floor(0.5*torch.sym_float(L['n'])) == 3", 0, 7, true}, {"math.ceil(L['n'] / 2) == 4", 0, 7, true},
    {"math.trunc(-0.5*torch.sym_float(L['n'])) == -3", 0, 7, true}, {"torch._sym_sqrt(L['n']) == 3", 0, 9, true},
    {"torch._sym_sqrt(L['n']) >= 0", 0, -1, false}, {"L['n'] <= math.inf", 0, 9, true}, {"1.5e1 == 15", 0, 0, true},
    {"(L['n'] & 6 | 1 ^ 3) == 6", 0, 4, true}, {"True", 0, 0, true}, {"False", 0, 0, false}, {"L['n'] + L['a'].size()[0] >= 0", 2, 1, true},
};

TEST(SizeGuards, AreAsPythonHasThem) {
  for (const Case& c : kCases) EXPECT_EQ(holds(c.condition, c.size, c.n), c.holds) << c.condition << " at " << c.size << ", " << c.n;
}

TEST(SizeGuards, NameTheConditionAndWhatWasSeen) {
  EXPECT_EQ(error("(L['a'].size()[0] % 2) == L['n']", 4, 7),
            "escapement: the program was exported for calls with (L['a'].size()[0] % 2) == L['n'], and L['a'].size()[0] is 4, L['n'] is 7; "
            "export the program again if such a call is meant");
}

TEST(SizeGuards, ReadSizesStridesOffsetsAndWhatAViewIsOf) {
  SizeGuards guards;
  guards.add("L['a'].stride()[1] == L['a'].storage_offset() + L['a']._base.size()[2] + L['a'].stride()[1]", two_inputs());
  using Kind = InputFact::Kind;
  const std::vector<InputFact> expected{{Kind::stride, false, 0, 1}, {Kind::offset, false, 0, 0}, {Kind::size, true, 0, 2}};
  EXPECT_EQ(guards.facts(), expected);
}

TEST(SizeGuards, AreNeverRun) {
  const std::string many(10000, '('), minus(10000, '-');
  for (const std::string& text : {std::string("__import__('os').system('true')"), std::string(""), many, minus, std::string("L['a']._base"),
                                  std::string("L['b'] == 1"), std::string("L['a'].size()[0"), std::string("L['a'].size() == 1"), std::string("1 <"),
                                  std::string("1 < 2 < 3"), std::string("max(1)"), std::string("abs(1, 2)"), std::string("99999999999999999999 > 0"),
                                  std::string("L['a"), std::string("1 2"), std::string("L['a'].size()[-1] == 1"), std::string("0x10 == 16")}) {
    SizeGuards guards;
    const std::string said = message_of([&] { guards.add(text, two_inputs()); });
    EXPECT_NE(said.find("is not understood"), std::string::npos) << text.substr(0, 40) << ": " << said;
  }
}

// --- what they call the inputs

TEST(InputPaths, FollowTheArgumentsTree) {
  const std::string dict = tree("builtins.dict", R"([\"x\", 3])", {kLeaf, kLeaf});
  const std::string arguments = tree("builtins.tuple", "null", {kLeaf, tree("builtins.list", "null", {kLeaf, dict}), kLeaf});
  const InputPaths paths = paths_of(arguments, tree("builtins.dict", R"([\"k\"])", {kLeaf}), R"(["a", "pair", "args_0", "k"])",
                                    {0, 1, kNoInput, 2, 3, 4});
  EXPECT_EQ(paths.find("['a']"), 0u);
  EXPECT_EQ(paths.find("['pair'][0]"), 1u);
  EXPECT_EQ(paths.find("['pair'][1]['x']"), kNoInput);   // a constant
  EXPECT_EQ(paths.find("['pair'][1][3]"), 2u);
  EXPECT_EQ(paths.find("['args_0']"), 3u);
  EXPECT_EQ(paths.find("['args'][0]"), 3u);
  EXPECT_EQ(paths.find("['k']"), 4u);
  EXPECT_EQ(paths.find("['kwargs']['k']"), 4u);
  EXPECT_EQ(paths.find("['pair']['k']"), kNoInput);      // a parameter is not what **kwargs took
  EXPECT_EQ(paths.find("['flat_args'][5]"), 4u);
  EXPECT_EQ(paths.find("['b']"), kNoInput);
  EXPECT_EQ(paths.find("['pair'][1]"), kNoInput);
}

TEST(InputPaths, AContainerThatIsNotKnownHasNoNamesInside) {
  const InputPaths paths = paths_of(tree("builtins.tuple", "null", {tree("somebody.Record", "null", {kLeaf, kLeaf}), kLeaf}), no_keywords(),
                                    R"(["a", "n"])", {0, 1, 2});
  EXPECT_EQ(paths.find("['a'][0]"), kNoInput);
  EXPECT_EQ(paths.find("['a']['n']"), kNoInput);
  EXPECT_EQ(paths.find("['n']"), 2u);
}

TEST(ExportedProgramReader, ReadsConditions) {
  std::string text = seed_file("small_program.json");
  const std::string condition = R"("guards_code": ["L['x'].size()[0] >= 2"], "graph_module": {"module_call_graph": [{"signature": )" +
                                std::string(R"({"in_spec": ")") +
                                escaped("[1, " + tree("builtins.tuple", "null", {tree("builtins.tuple", "null", {kLeaf}), no_keywords()}) + "]") +
                                R"(", "forward_arg_names": ["x"]}}], )";
  const std::string place = R"("graph_module": {)";
  text.replace(text.find(place), place.size(), condition);
  const ExportedProgram program = read_program(text);
  ASSERT_EQ(program.guards.facts().size(), 1u);
  EXPECT_EQ(program.guards.facts()[0], (InputFact{InputFact::Kind::size, false, 0, 0}));
  text.replace(text.find(".size()[0] >="), 9, "         ");
  EXPECT_NE(message_of([&] { read_program(text); }).find("guards_code"), std::string::npos);
}

}  // namespace
}  // namespace escapement
