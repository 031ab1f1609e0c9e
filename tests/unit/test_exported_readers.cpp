// The readers of exported programs: zip, JSON, declared sizes and the graph, on good text and on damaged: a damaged file is
// one UserError and nothing else.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "exported/exported_program.h"
#include "exported/json_reader.h"
#include "exported/safetensors.h"
#include "exported/zip.h"
#include "exported/zip_writer.h"
#include "support/error.h"

#include "fuzz/seeds.h"
#include "message_of.h"
#include "zip_maker.h"

namespace escapement {
namespace {

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// --- zip

class Zip : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string& file(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return path_;
  }
  // Reads all of it; what it says if it refuses.
  std::string error_of(const std::string& bytes) {
    return message_of([&] {
      const ZipFile zip(file(bytes));
      for (const ZipFile::Entry& entry : zip.entries()) zip.read_text(entry, 1000);
    });
  }
  std::string error_of(ZipMaker::Part part) { return error_of(ZipMaker{{std::move(part)}}.bytes()); }

  const std::string path_ = (std::filesystem::temp_directory_path() / ("escapement_zip_" + std::to_string(::getpid()))).string();
};

ZipMaker two_parts() { return {{{"m/a", "first"}, {"m/b", ""}}}; }

TEST_F(Zip, EntriesAreFoundAndRead) {
  for (const bool wide : {false, true}) {
    ZipMaker maker = two_parts();
    maker.parts[0].wide = maker.wide_end = wide;
    const ZipFile zip(file(maker.bytes()));
    ASSERT_EQ(zip.entries().size(), 2u);
    EXPECT_EQ(zip.read_text(*zip.find("m/a"), 5), "first");
    EXPECT_EQ(zip.read_text(*zip.find("m/b"), 5), "");
    EXPECT_EQ(zip.find("m/c"), nullptr);
    EXPECT_TRUE(contains(message_of([&] { zip.read_text(*zip.find("m/a"), 4); }), "more than 4 bytes"));
  }
}

TEST_F(Zip, ChecksumIsTheStandardOne) {
  const auto bytes = std::as_bytes(std::span("123456789", 9));
  EXPECT_EQ(crc32(bytes), 0xCBF43926u);
  EXPECT_EQ(crc32(bytes.subspan(4), crc32(bytes.first(4))), 0xCBF43926u);
}

// Large entries are read in blocks.
TEST_F(Zip, ALargeEntryIsReadWholeAndChecked) {
  std::string data(1'000'003, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  ZipMaker maker{{{"a", data}}};
  {
    const ZipFile zip(file(maker.bytes()));
    EXPECT_TRUE(zip.read_text(*zip.find("a"), 2'000'000) == data);
  }
  std::string damaged = maker.bytes();
  damaged[900'000] ^= 1;
  const ZipFile zip(file(damaged));
  EXPECT_TRUE(contains(message_of([&] { zip.read_text(*zip.find("a"), 2'000'000); }), "checksum of \"a\""));
}

TEST_F(Zip, EveryTruncationIsAnError) {
  const std::string bytes = two_parts().bytes();
  for (size_t length = 0; length < bytes.size(); ++length) EXPECT_NE(error_of(bytes.substr(0, length)), "no error") << length;
}

TEST_F(Zip, EveryFlippedBitIsAnErrorOrHarmless) {
  for (const bool wide : {false, true}) {
    ZipMaker maker = two_parts();
    maker.parts[0].wide = maker.wide_end = wide;
    const std::string bytes = maker.bytes();
    int errors = 0;
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string damaged = bytes;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      const std::string said = message_of([&] {
        const ZipFile zip(file(damaged));
        const ZipFile::Entry* entry = zip.find("m/a");
        if (entry) { EXPECT_EQ(zip.read_text(*entry, 1000), "first"); }  // never other data
      });
      errors += said != "no error";
    }
    EXPECT_GT(errors, 500);
  }
}

TEST_F(Zip, LiesAreErrors) {
  EXPECT_TRUE(contains(error_of({"a", "x", 8}), "compressed entry, \"a\" (method 8)"));
  EXPECT_TRUE(contains(error_of({"a", "x", 0, 1}), "encrypted"));
  EXPECT_TRUE(contains(error_of({"a", "x", 0, 0, 7u}), "checksum of \"a\""));
  EXPECT_TRUE(contains(error_of({"a", "x", 0, 0, {}, 0x7FFFFFFFu}), "lies outside"));
  EXPECT_TRUE(contains(error_of({"a", "x", 0, 0, {}, {}, 0xFFFFFFF0u}), "lies outside"));
  EXPECT_TRUE(contains(error_of({"a", "x", 0, 0, {}, 0xFFFFFFFFu}), "64-bit sizes of \"a\" are missing"));
  EXPECT_TRUE(contains(error_of(ZipMaker{{{"a", "x"}, {"a", "y"}}}.bytes()), "two entries \"a\""));
  EXPECT_TRUE(contains(error_of(ZipMaker{{{"a", "xxxx"}, {"a", "y", 0, 0, {}, {}, 0u}}}.bytes()), "overlap"));
  EXPECT_TRUE(contains(error_of("no archive at all, but as long as an end record"), "no zip archive"));
}

TEST_F(Zip, WideLengthsAreCheckedWithoutOverflow) {
  ZipMaker maker = two_parts();
  maker.parts[0].wide = true;
  const std::string bytes = maker.bytes();
  const std::string size("\x05\0\0\0\0\0\0\0", 8);
  const size_t at = bytes.find(std::string("\x01\0\x18\0", 4)) + 4;
  ASSERT_EQ(bytes.substr(at, 8), size);
  for (const uint64_t lie : {~uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} - 40}) {
    std::string damaged = bytes;
    for (size_t field = 0; field < 2; ++field) std::memcpy(damaged.data() + at + 8 * field, &lie, 8);
    EXPECT_TRUE(contains(error_of(damaged), "lies outside")) << lie;
    damaged = bytes;
    std::memcpy(damaged.data() + at + 16, &lie, 8);
    EXPECT_TRUE(contains(error_of(damaged), "lies outside")) << lie;
  }
}

TEST_F(Zip, WhatIsNoFileIsAnError) {
  EXPECT_TRUE(contains(message_of([] { ZipFile("/nonexistent/model.pt2"); }), "cannot be opened"));
  EXPECT_TRUE(contains(message_of([] { ZipFile(std::filesystem::temp_directory_path().string()); }), "not a regular file"));
}

// --- JSON

std::string json_error(const std::string& text) {
  return message_of([&] { JsonValue::parse(text); });
}

TEST(JsonReader, ReadsEveryKind) {
  const JsonValue v = JsonValue::parse(R"( {"b": [1, -2, 9223372036854775807, 1.5e3, "NaN"], "a": {"t": true, "n": null}, "s": "\u00e9\ud83d\ude00\n\"é"} )");
  EXPECT_EQ(v["b"].array()[1].integer(), -2);
  EXPECT_EQ(v["b"].array()[2].integer(), INT64_MAX);
  EXPECT_EQ(v["b"].array()[3].real(), 1500);
  EXPECT_NE(v["b"].array()[4].real(), v["b"].array()[4].real());
  EXPECT_TRUE(v["a"]["t"].boolean());
  EXPECT_EQ(v["a"].find("n"), nullptr);
  EXPECT_EQ(v["s"].string(), "\xc3\xa9\xf0\x9f\x98\x80\n\"\xc3\xa9");
}

TEST(JsonReader, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "[1 2]", "01", "1.", "1e", "-", "+1", "tru", "nul", "'a'", "\"a", "\"\\x\"", "\"\\ud800\"",
                           "\"\\ude00\"", "\"\\u12g4\"", "\"\x01\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xc3",
                           "9223372036854775808", "1e999", "[] []", "{\"a\":1,\"a\":2}", "NaN", "// x"})
    EXPECT_NE(json_error(text), "no error") << text;
}

TEST(JsonReader, NestingIsLimited) {
  EXPECT_EQ(json_error(std::string(60, '[') + std::string(60, ']')), "no error");
  EXPECT_TRUE(contains(json_error(std::string(1'000'000, '[')), "nested more than 64 deep"));
}

TEST(JsonReader, NumberOfValuesIsLimited) {
  std::string text = "[0";
  for (int64_t i = 0; i < kMaxJsonValues; ++i) text += ",0";
  EXPECT_TRUE(contains(json_error(text + "]"), "more than 8000000 values"));
}

TEST(JsonReader, WhatIsMissingOrOfAnotherKindIsNamed) {
  const JsonValue v = JsonValue::parse(R"({"a": 1})");
  EXPECT_EQ(message_of([&] { v["b"]; }), "\"b\" is missing");
  EXPECT_EQ(message_of([&] { v["a"].string(); }), "expected a string, found an integer");
  EXPECT_EQ(message_of([&] { v["a"]["x"]; }), "expected an object, found an integer");
}

// --- sizes

TEST(SizeText, IsArithmetic) {
  SizeSymbols symbols;
  const auto text = [&](const char* source) { return size_to_text(parse_size(source, symbols), symbols); };
  EXPECT_EQ(text("Symbol('s0', positive=True, integer=True)"), "s0");
  EXPECT_EQ(text("Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))"), "((2*s0) + -1)");
  EXPECT_EQ(text("Mod(Max(Symbol('s1'), Integer(3)), FloorDiv(Symbol('s0'), Integer(2)))"), "(max(s1, 3) % (s0//2))");
}

TEST(SizeText, IsNeverRun) {
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "Add(";
  for (const std::string& source : {std::string("__import__('os').system('true')"), std::string(""), std::string("Symbol('s"), std::string("Integer(x)"),
                                    std::string("Integer(99999999999999999999)"), std::string("Mod(Integer(1))"), std::string("Integer(1) "),
                                    std::string("Pow(Symbol('s'), Integer(2))"), std::string("Symbol('s', f(x))"), deep}) {
    SizeSymbols symbols;
    EXPECT_TRUE(contains(message_of([&] { parse_size(source, symbols); }), "is not understood")) << source;
  }
}

class Contract : public ::testing::Test {
 protected:
  SizeSpec size(const char* text) { return parse_size(text, symbols_); }
  SizeContract make(std::vector<DeclaredInput> inputs) { return SizeContract(std::move(inputs), symbols_, ranges_); }
  static std::string error(const SizeContract& contract, const std::vector<std::vector<int64_t>>& seen) {
    const std::vector<std::span<const int64_t>> spans(seen.begin(), seen.end());
    return message_of([&] { contract.check(spans); });
  }
  SizeSymbols symbols_;
  std::map<std::string, SizeRange> ranges_{{"s0", {2, 64}}, {"s1", {5, INT64_MAX}}};
};

TEST_F(Contract, ConstantsRangesAndEqualSizes) {
  const SizeContract contract = make({{"x", false, {size("Symbol('s0')"), size("Integer(4)")}}, {"y", false, {size("Symbol('s0')")}},
                                      {"n", true, {size("Symbol('s1')")}}});
  EXPECT_EQ(error(contract, {{3, 4}, {3}, {5}}), "no error");
  EXPECT_EQ(error(contract, {{64, 4}, {64}, {INT64_MAX}}), "no error");
  EXPECT_EQ(error(contract, {{0, 4}, {0}, {5}}), "no error");   // 0 and 1 are admitted by a lower bound of 2
  EXPECT_TRUE(contains(error(contract, {{65, 4}, {65}, {5}}), "dim 0 of the input 'x' is 65, expected s0 with s0 in 0..64"));
  EXPECT_TRUE(contains(error(contract, {{3, 5}, {3}, {5}}), "dim 1 of the input 'x' is 5, expected 4"));
  EXPECT_TRUE(contains(error(contract, {{3, 4}, {7}, {5}}), "dim 0 of the input 'y' is 7, expected s0 = 3"));
  EXPECT_TRUE(contains(error(contract, {{3, 4}, {3}, {4}}), "the integer input 'n' is 4, expected s1 with s1 at least 5"));
  EXPECT_TRUE(contains(error(contract, {{3}, {3}, {5}}), "the input 'x' has 1 dims; the exported program takes 2 (s0, 4)"));
}

TEST_F(Contract, ArithmeticIsSolvedOrCompared) {
  const SizeContract contract = make({{"x", false, {size("Add(Mul(Integer(3), Symbol('s0')), Integer(1))"), size("FloorDiv(Symbol('s0'), Integer(2))")}}});
  EXPECT_EQ(error(contract, {{22, 3}}), "no error");
  EXPECT_TRUE(contains(error(contract, {{23, 3}}), "dim 0 of the input 'x' is 23"));
  EXPECT_TRUE(contains(error(contract, {{22, 4}}), "expected (s0//2) = 3"));
  EXPECT_TRUE(contains(error(contract, {{3 * 65 + 1, 32}}), "in 0..64"));
  EXPECT_NE(error(contract, {{INT64_MIN, 0}}), "no error");
}

TEST_F(Contract, OverflowIsAMismatchAndAnUnknownSymbolAnError) {
  const SizeContract contract = make({{"x", false, {size("Symbol('s1')"), size("Mul(Symbol('s1'), Symbol('s1'))")}}});
  EXPECT_EQ(error(contract, {{9, 81}}), "no error");
  EXPECT_TRUE(contains(error(contract, {{INT64_MAX, 1}}), "which overflows"));
  EXPECT_TRUE(contains(message_of([&] { make({{"x", false, {size("Mod(Symbol('s2'), Integer(2))")}}}); }), "no input has s2 as its size"));
}

// --- the graph

const std::string kProgram = seed_file("small_program.json");

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ExportedProgramReader, ReadsAGraph) {
  const ExportedProgram program = read_program(kProgram);
  ASSERT_EQ(program.inputs.size(), 2u);
  EXPECT_EQ(program.inputs[0].kind, ExportedInput::Kind::buffer);
  EXPECT_EQ(program.inputs[0].name, "c");
  ASSERT_EQ(program.nodes.size(), 1u);
  EXPECT_EQ(program.nodes[0].inputs[1].second.slot, program.inputs[0].slot);
  EXPECT_TRUE(program.outputs[0].is_write);
  EXPECT_EQ(program.outputs[0].destination, program.inputs[0].slot);
  EXPECT_EQ(program.slots, 3u);
  EXPECT_EQ(program.ranges.at("s0").least, 2);
}

TEST(ExportedProgramReader, NamesWhatIsWrong) {
  const auto error = [](const char* from, const char* to) { return message_of([&] { read_program(replaced(kProgram, from, to)); }); };
  EXPECT_TRUE(contains(error("\"major\": 8", "\"major\": 9"), "schema has version 9"));
  EXPECT_TRUE(contains(error("{\"as_tensor\": {\"name\": \"b\"}}, \"kind\"", "{\"as_tensor\": {\"name\": \"y\"}}, \"kind\""), "used before it is computed"));
  EXPECT_TRUE(contains(error("\"outputs\": [{\"as_tensor\": {\"name\": \"y\"}}], \"name\"", "\"outputs\": [{\"as_tensor\": {\"name\": \"x\"}}], \"name\""),
                       "defined twice"));
  EXPECT_TRUE(contains(error("{\"as_tensor\": {\"name\": \"b\"}}, \"kind\"", "{\"as_graph\": {\"name\": \"b\"}}, \"kind\""), "graph inside"));
  EXPECT_TRUE(contains(error("{\"as_tensor\": {\"name\": \"b\"}}, \"kind\"", "{\"as_tomato\": 1}, \"kind\""), "\"as_tomato\" is not supported"));
  EXPECT_TRUE(contains(error("\"buffer_name\": \"c\"}}, {\"user_output", "\"buffer_name\": \"d\"}}, {\"user_output"), "\"d\", is no input"));
  EXPECT_TRUE(contains(error("\"strides\": [{\"as_int\": 1}]", "\"strides\": []"), "as many strides as sizes"));
}

TEST(ExportedProgramReader, DamagedTextIsAUserErrorOrAProgram) {
  for (size_t length = 0; length < kProgram.size(); ++length)
    EXPECT_NE(message_of([&] { read_program(kProgram.substr(0, length)); }), "no error") << length;
  for (size_t bit = 0; bit < 8 * kProgram.size(); ++bit) {
    std::string damaged = kProgram;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    message_of([&] { read_program(damaged).contract(); });   // any exception but a UserError ends the test
  }
}

TEST(ExportedWeights, ReadsTheirPlaceAndRefusesPickles) {
  const std::string config = seed_file("weights.json");
  const auto weights = read_weights(config);
  EXPECT_EQ(weights.at("w").file, "weight_0");
  EXPECT_EQ(weights.at("w").tensor.offset, 3);
  EXPECT_EQ(weights.at("w").tensor.strides, (std::vector<int64_t>{4, 1}));
  EXPECT_TRUE(contains(message_of([&] { read_weights(replaced(config, "\"use_pickle\": false", "\"use_pickle\": true")); }), "never opened"));
}

// --- safetensors and the zip writer

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text.data(), text.size())); }

std::string safetensors_of(const std::string& header, const std::string& data) {
  std::string text;
  append(text, header.size(), 8);
  return text + header + data;
}

TEST(SafeTensors, ReadsWhatItWrites) {
  const std::vector<SafeTensor> tensors{{"a", "F32", {2, 3}, 0, 24}, {"b \"q\"", "BOOL", {}, 24, 25}, {"empty", "I64", {0, 4}, 25, 25}};
  const std::string header = safetensors_header(tensors);
  EXPECT_EQ(header.size() % 64, 0u);
  const SafeTensors read = read_safetensors(bytes_of(header + std::string(25, 'x')));
  EXPECT_EQ(read.data, header.size());
  ASSERT_EQ(read.tensors.size(), 3u);
  for (const SafeTensor& tensor : tensors) {
    const SafeTensor* found = read.find(tensor.name);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->dtype, tensor.dtype);
    EXPECT_EQ(found->shape, tensor.shape);
    EXPECT_EQ(std::pair(found->begin, found->end), std::pair(tensor.begin, tensor.end));
  }
  EXPECT_EQ(read.find("c"), nullptr);
}

TEST(SafeTensors, RefusesWhatLies) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "its shape and its bytes differ"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "leaves a hole"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "overlaps"},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "do not cover the data"},
      {R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})", "do not cover the data"},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "no tensor's"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}})", "no tensor's"},
      {R"({"a":{"dtype":"F99","shape":[2],"data_offsets":[0,8]}})", "\"F99\" is unknown"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", "negative"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", "two offsets"},
      {R"({"a":3})", ""}, {R"([])", ""}, {R"({)", ""}, {"", ""}};
  for (const auto& [header, message] : cases) {
    const std::string text = safetensors_of(header, "12345678");
    const std::string said = message_of([&] { read_safetensors(bytes_of(text)); });
    EXPECT_TRUE(said != "no error" && contains(said, message)) << header << ": " << said;
  }
  for (const std::string& text : {std::string(), std::string("1234567"), std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}", 10)})
    EXPECT_NE(message_of([&] { read_safetensors(bytes_of(text)); }), "no error");
}

TEST(ZipWriter, WritesWhatTheReaderReads) {
  const std::string path = std::filesystem::temp_directory_path() / ("escapement-zip-" + std::to_string(::getpid()));
  const std::string big(100'000, 'z'), end = "!";
  {
    ZipWriter zip(path);
    zip.add("first", "hello");
    zip.add("empty", "");
    const std::span<const std::byte> parts[] = {bytes_of(big), bytes_of(end)};
    zip.add("folder/parts", parts);
    EXPECT_FALSE(std::filesystem::exists(path));   // not before all is there
    zip.finish();
  }
  const ZipFile read(path);
  ASSERT_EQ(read.entries().size(), 3u);
  for (const ZipFile::Entry& entry : read.entries()) EXPECT_EQ(entry.offset % ZipWriter::kAlignment, 0u) << entry.name;
  EXPECT_EQ(read.read_text(*read.find("first"), 100), "hello");
  EXPECT_EQ(read.read_text(*read.find("empty"), 100), "");
  EXPECT_EQ(read.read_text(*read.find("folder/parts"), 200'000), big + "!");
  const auto mapped = read.map(*read.find("folder/parts"));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(mapped->bytes().data()), mapped->bytes().size()), big + "!");
  mapped->bytes()[0] = std::byte{'y'};             // a copy of the page: the file stays as it is
  EXPECT_EQ(read.read_text(*read.find("folder/parts"), 200'000), big + "!");
  EXPECT_TRUE(read.map(*read.find("empty"))->bytes().empty());
  std::filesystem::remove(path);
}

TEST(ZipWriter, LeavesNothingWhereItFails) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / ("escapement-zip-d" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  { ZipWriter(folder / "a").add("x", "y"); }       // not finished
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_TRUE(contains(message_of([&] { ZipWriter(folder / "none" / "a"); }), "cannot be created"));
  std::filesystem::create_directory(folder / "taken");
  EXPECT_TRUE(contains(message_of([&] { ZipWriter(folder / "taken").finish(); }), "cannot be put in place"));
  std::filesystem::remove(folder / "taken");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace escapement
