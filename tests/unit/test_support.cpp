// Reasons, counters, options, lists that only grow, and the tokenizer that every parser shares.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <thread>

#include "support/checked.h"
#include "support/error.h"
#include "support/events.h"
#include "support/grow_only.h"
#include "support/id.h"
#include "support/options.h"
#include "support/size_arithmetic.h"
#include "support/text.h"

#include "message_of.h"

namespace escapement {
namespace {

TEST(Reasons, EveryRowIsFoundByItsName) {
  for (int i = 0; i < reason_count(); ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_EQ(reason_from_name(reason_name(reason)), reason);
    EXPECT_FALSE(reason_message(reason).empty());
  }
  EXPECT_EQ(reason_from_name("whim"), std::nullopt);
}

TEST(SizeArithmetic, DivisionIsExactUpToTheEndsOf64Bits) {
  using Wide = __int128;
  constexpr int64_t low = INT64_MIN, high = INT64_MAX;
  for (const int64_t a : {low, low + 1, int64_t{-7}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{7}, high - 1, high}) {
    for (const int64_t b : {low, low + 1, int64_t{-5}, int64_t{-1}, int64_t{1}, int64_t{5}, int64_t{10}, high - 1, high}) {
      const int64_t rest = floor_remainder(a, b);
      EXPECT_TRUE(rest == 0 || (rest < 0) == (b < 0)) << a << " by " << b;
      EXPECT_LT(rest < 0 ? -Wide(rest) : Wide(rest), b < 0 ? -Wide(b) : Wide(b)) << a << " by " << b;
      EXPECT_EQ(has_quotient(a, b), !(a == low && b == -1));
      if (has_quotient(a, b)) { EXPECT_EQ(Wide(floor_quotient(a, b)) * b + rest, a) << a << " by " << b; }
    }
  }
  EXPECT_FALSE(has_quotient(3, 0));
}

TEST(SizeArithmetic, IsExactOrNothing) {
  constexpr int64_t low = INT64_MIN, high = INT64_MAX;
  EXPECT_EQ(exact_sum(high, low), -1);
  EXPECT_EQ(exact_sum(high, 1), std::nullopt);
  EXPECT_EQ(exact_difference(low, -1), low + 1);
  EXPECT_EQ(exact_difference(0, low), std::nullopt);
  EXPECT_EQ(exact_product(-1, high), -high);
  EXPECT_EQ(exact_product(-1, low), std::nullopt);
  EXPECT_EQ(exact_quotient(-7, 2), -4);
  EXPECT_EQ(exact_quotient(low, -1), std::nullopt);
  EXPECT_EQ(exact_quotient(1, 0), std::nullopt);
  EXPECT_EQ(exact_remainder(-7, 4), 1);
  EXPECT_EQ(exact_remainder(low, -1), 0);
  EXPECT_EQ(exact_remainder(1, 0), std::nullopt);
  EXPECT_EQ(exact_power(-3, 3), -27);
  EXPECT_EQ(exact_power(2, 0), 1);
  EXPECT_EQ(exact_power(-2, 63), low);
  EXPECT_EQ(exact_power(2, 63), std::nullopt);
}

TEST(Checked, AnIndexThatIsOutOfRangeIsAnInternalErrorInEveryBuild) {
  CheckedVector<int> three(3, 7);
  EXPECT_EQ(three[2], 7);
  EXPECT_THROW(three[3], InternalError);
  EXPECT_THROW(three.at(3), InternalError);
  EXPECT_THROW(CheckedVector<int>().front(), InternalError);
  EXPECT_THROW(CheckedVector<int>().back(), InternalError);
  EXPECT_THROW(CheckedVector<bool>(2)[2], InternalError);
}

TEST(Checked, AMapKnowsTheIdsOfItsTableOnly) {
  using Key = Id<struct KeyTag>;
  IdMap<Key, bool> marked(2);
  marked[Key(1)] = true;
  EXPECT_TRUE(marked[Key(1)]);
  EXPECT_FALSE(marked.contains(Key(2)));
  EXPECT_THROW(marked[Key(2)], InternalError);
  EXPECT_THROW(marked[Key()], InternalError);
}

TEST(Counters, CountFromManyThreadsAndAreListedByName) {
  reset_counters();
  EXPECT_TRUE(counters().empty());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int n = 0; n < 1000; ++n) count(Stat::launches), count(Reason::apart_cycle), count("kernel k0");
    });
  for (std::thread& thread : threads) thread.join();
  count(Stat::calls, 7);
  EXPECT_EQ(counters(), (Counters{{"calls", 7}, {"launches", 4000}, {"apart_cycle", 4000}, {"kernel k0", 4000}}));
  EXPECT_EQ(counted("launches"), 4000);
  EXPECT_EQ(counted("apart_cycle"), 4000);
  EXPECT_EQ(counted("kernel k0"), 4000);
  EXPECT_EQ(counted("nothing"), 0);
  reset_counters();
  EXPECT_TRUE(counters().empty());
}

// A thread counts in a tally of its own, which serves another thread once it has ended.
TEST(Counters, CountsOfEndedThreadsStayAndAResetForgetsThemAll) {
  reset_counters();
  for (int round = 1; round <= 3; ++round) {
    std::thread([] { count(Stat::launches, 5), count(Reason::apart_cycle); }).join();
    EXPECT_EQ(counted(Stat::launches), 5 * round);
    EXPECT_EQ(counted(Reason::apart_cycle), round);
  }
  std::thread([] { reset_counters(); }).join();
  EXPECT_TRUE(counters().empty());
  count(Stat::launches);
  EXPECT_EQ(counted(Stat::launches), 1);
}

TEST(Events, TheNewestAreKeptAndNumbered) {
  reset_counters();
  for (size_t i = 0; i < kMaxEvents + 5; ++i) log_event("recompile", std::to_string(i));
  const auto kept = events();
  ASSERT_EQ(kept.size(), kMaxEvents);
  EXPECT_EQ(kept.front().detail, "5");
  EXPECT_EQ(kept.back().number - kept.front().number, kMaxEvents - 1);
}

TEST(Options, RowsAndFieldsAgree) {
  const Options options;
  for (const OptionRow& row : option_rows()) {
    EXPECT_EQ(get_option(options, row.name), row.default_value);
    EXPECT_FALSE(row.doc.empty());
    EXPECT_NE(options_table().find(row.name), std::string::npos);
  }
  EXPECT_EQ(options.max_recordings, 8);
  EXPECT_EQ(options.compile, "block");
}

TEST(Options, AreSetByNameFromTextAndFromTypedValues) {
  Options options;
  set_option(options, "strict", "true");
  set_option(options, "fuse", false);
  set_option(options, "max_recordings", int64_t{3});
  set_option(options, "dump", "expand,plan");
  EXPECT_TRUE(options.strict);
  EXPECT_FALSE(options.fuse);
  EXPECT_EQ(options.max_recordings, 3);
  EXPECT_EQ(options.dump, "expand,plan");
  EXPECT_THROW(set_option(options, "dump", "plan,expnad"), UserError);
  EXPECT_THROW(set_option(options, "dump", "codegen"), UserError);
}

TEST(Options, MistakesNameTheOptionAndTheRemedy) {
  Options options;
  EXPECT_EQ(message_of([&] { set_option(options, "stict", "true"); }), "unknown option 'stict'; did you mean 'strict'?");
  EXPECT_EQ(message_of([&] { set_option(options, "zzzzzzzz", "true"); }), "unknown option 'zzzzzzzz'");
  EXPECT_EQ(message_of([&] { set_option(options, "threads", "many"); }), "option 'threads' wants int, not 'many'");
  EXPECT_EQ(message_of([&] { set_option(options, "threads", "-1"); }), "option 'threads' wants int, not '-1'");
  EXPECT_EQ(message_of([&] { set_option(options, "strict", int64_t{1}); }), "option 'strict' wants bool, not '1'");
  EXPECT_EQ(message_of([&] { set_option(options, "threads", true); }), "option 'threads' wants int, not 'true'");
  EXPECT_EQ(options, Options{});
}

TEST(Options, WhatIsRefusedChangesNothing) {
  Options options;
  for (const auto& [name, value] : {std::pair{"compile", "later"}, {"dump", "plan,expnad"}, {"threads", "many"}, {"strict", "perhaps"}})
    EXPECT_THROW(set_option(options, name, std::string_view(value)), UserError);
  EXPECT_EQ(options, Options());
}

TEST(Options, NearestNameIsAMisspellingAndNotAnotherWord) {
  const std::vector<std::string_view> names{"expand", "fold", "cse"};
  EXPECT_EQ(nearest_name("expnd", names), "expand");
  EXPECT_EQ(nearest_name("fodl", names), "fold");
  EXPECT_EQ(nearest_name("lower", names), "");
}

TEST(Tokenizer, SplitsAndPlacesTokens) {
  Tokenizer tokens("mul %12, -3.5e2  # rest\n  \"a \\\"b\\\"\" <= #4 == x1");
  using Kind = Token::Kind;
  const std::vector<std::pair<Kind, std::string>> expected{
      {Kind::name, "mul"},         {Kind::punctuation, "%"}, {Kind::integer, "12"},         {Kind::punctuation, ","},
      {Kind::punctuation, "-"},    {Kind::real, "3.5e2"},    {Kind::string, "\"a \\\"b\\\"\""}, {Kind::punctuation, "<="},
      {Kind::punctuation, "#"},    {Kind::integer, "4"},     {Kind::punctuation, "=="},     {Kind::name, "x1"}};
  for (const auto& [kind, text] : expected) {
    EXPECT_EQ(tokens.peek().kind, kind);
    EXPECT_EQ(tokens.at_line_start(), text == "mul" || kind == Kind::string);
    EXPECT_EQ(tokens.next().text, text);
  }
  EXPECT_TRUE(tokens.at_end());
}

TEST(Tokenizer, ErrorsCarryLineAndColumn) {
  Tokenizer tokens("a\n  b");
  tokens.next();
  EXPECT_EQ(message_of([&] { tokens.expect("c"); }), "2:3: expected 'c', found 'b'");
  EXPECT_EQ(message_of([&] { tokens.integer("a count"); }), "2:3: expected a count, found 'b'");
  tokens.next();
  EXPECT_EQ(message_of([&] { tokens.name("a name"); }), "2:4: expected a name, found the end of the text");
  EXPECT_EQ(message_of([] { Tokenizer t("x \"y"); t.next(); }), "1:3: this string does not end on its line");
}

TEST(Text, ListsOfNamesAreTakenApartAtCommas) {
  using Names = std::vector<std::string_view>;
  EXPECT_EQ(names_in(""), Names());
  EXPECT_EQ(names_in("plan"), Names({"plan"}));
  EXPECT_EQ(names_in("dce,plan,ir"), Names({"dce", "plan", "ir"}));
  EXPECT_EQ(names_in("dce,plan,"), Names({"dce", "plan"}));
  EXPECT_EQ(names_in(",dce,,plan"), Names({"", "dce", "", "plan"}));
}

TEST(Text, QuotingReadsBack) {
  std::string all;
  for (int c = 0; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(unquote(quote(all)), all);
  EXPECT_EQ(quote("a\"b\n"), "\"a\\\"b\\n\"");
}

TEST(Text, RealsReadBackToTheSameBits) {
  const double values[] = {0.0, -0.0, 1.0, 0.1, -1e-310, 1e308, 123456789.0, std::numeric_limits<double>::infinity(),
                           -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(),
                           std::bit_cast<double>(uint64_t{0xfff8000000000123})};
  for (double value : values) {
    const std::string text = real_to_text(value);
    Tokenizer again(text);
    EXPECT_EQ(std::bit_cast<uint64_t>(again.real("a real")), std::bit_cast<uint64_t>(value)) << text;
    EXPECT_TRUE(again.at_end()) << text;
  }
  EXPECT_EQ(real_to_text(3), "3.0");
  EXPECT_EQ(real_to_text(1e-5), "1e-05");
}

TEST(GrowOnly, AListThatIsBeingWalkedStays) {
  GrowOnly<int> numbers;
  const auto& none = numbers.list();
  const auto& one = numbers.add(7);
  for (int i = 0; i < 100; ++i) numbers.add(i);
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(one, std::vector<int>({7}));
  EXPECT_EQ(numbers.list().size(), 101u);
  EXPECT_EQ(numbers.list().back(), 99);
}

TEST(GrowOnly, ThreadsThatReadSeeWholeLists) {
  GrowOnly<int> numbers;
  std::thread writer([&] { for (int i = 0; i < 200; ++i) numbers.add(i); });
  for (size_t seen = 0; seen < 200;) {
    const auto& list = numbers.list();
    EXPECT_GE(list.size(), seen);
    seen = list.size();
    for (size_t i = 0; i < seen; ++i) EXPECT_EQ(list[i], static_cast<int>(i));
  }
  writer.join();
}

}  // namespace
}  // namespace escapement
