// Mathematical functions against the C library in a wider type, and their values at the edges. tests/python/operators/test_math_accuracy.py
// compares with torch.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "trace/scalar_math.h"

namespace escapement {
namespace {

using scalar::Expr;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = std::numeric_limits<double>::quiet_NaN();

struct Function {
  const char* name;
  Expr (*make)(Expr);
  long double (*reference)(long double);
  double limit;  // ulp
};

long double sigmoid_reference(long double x) { return 1 / (1 + expl(-x)); }

const Function kFunctions[] = {
    {"exp", scalar::exp, expl, 1.02},       {"exp2", scalar::exp2, exp2l, 1.02},    {"expm1", scalar::expm1, expm1l, 1.5},
    {"log", scalar::log, logl, 1.02},       {"log2", scalar::log2, log2l, 1.02},    {"log10", scalar::log10, log10l, 1.02},
    {"log1p", scalar::log1p, log1pl, 1.02}, {"sin", scalar::sin, sinl, 1.02},       {"cos", scalar::cos, cosl, 1.02},
    {"tanh", scalar::tanh, tanhl, 1.1},     {"erf", scalar::erf, erfl, 1.02},       {"sigmoid", scalar::sigmoid, sigmoid_reference, 2.6},
};

struct Compiled {
  ScalarProgram program;
  Reg result;
};

Compiled compile(Expr (*make)(Expr), DType type) {
  Compiled c;
  c.result = make({&c.program, c.program.input(0, type)}).reg;
  return c;
}

double call(const Compiled& c, double x, DType type) {
  const uint64_t in[] = {to_bits(x, type)};
  std::vector<uint64_t> values;
  c.program.run(in, {}, values);
  return double_from_bits(values[c.result], type);
}

double call(Expr (*make)(Expr), double x, DType type) { return call(compile(make, type), x, type); }

// In units of the last place of `wanted` in the type; 0 if both are the same infinity or NaN.
double ulp_error(double got, long double wanted, DType type) {
  const bool single = type == DType::f32;
  const double rounded = single ? static_cast<float>(wanted) : static_cast<double>(wanted);
  if (std::isnan(rounded) || std::isinf(rounded)) return std::isnan(rounded) ? !std::isnan(got) * 1e30 : (got != rounded) * 1e30;
  const int exponent = std::max(wanted == 0 ? -100000 : ilogbl(wanted), single ? -126 : -1022);
  return static_cast<double>(fabsl(got - wanted) / ldexpl(1, exponent - (single ? 23 : 52)));
}

// Uniform over exponents and signs, then over the ordinary range.
std::vector<double> samples(DType type, size_t count) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> usual(0, 4);
  std::vector<double> result{0.0, -0.0, 1, -1, 0.5, -0.5, 0.75, 0.875, 3.95, 88.7, -87.4, -103.9, 709.7, -745, kInf, -kInf, kNan, 1e-45, 5e-324};
  while (result.size() < count) {
    const uint64_t pattern = random();
    result.push_back(type == DType::f32 ? std::bit_cast<float>(static_cast<uint32_t>(pattern)) : std::bit_cast<double>(pattern));
    result.push_back(usual(random));
    result.push_back(1 + 0.1 * usual(random));
  }
  for (double& x : result)
    if (type == DType::f32) x = static_cast<float>(x);
  return result;
}

class Accuracy : public testing::TestWithParam<std::tuple<Function, DType>> {};

TEST_P(Accuracy, IsWithinTheLimit) {
  const auto& [function, type] = GetParam();
  const Compiled compiled = compile(function.make, type);
  const std::vector<double> xs = samples(type, 60000);
  std::vector<uint64_t> in, values;
  for (double x : xs) in.push_back(to_bits(x, type));
  const uint64_t* inputs[] = {in.data()};
  compiled.program.run_block(inputs, {}, in.size(), values);
  for (size_t i = 0; i < xs.size(); ++i) {
    if (std::string(function.name) == "sigmoid" && xs[i] < -87) continue;  // overflows to zero early, as eager's formula
    const double got = double_from_bits(values[compiled.result * in.size() + i], type);
    ASSERT_LE(ulp_error(got, function.reference(xs[i]), type), function.limit) << function.name << "(" << xs[i] << ") = " << got;
  }
}

INSTANTIATE_TEST_SUITE_P(Math, Accuracy,
                         testing::Combine(testing::ValuesIn(kFunctions), testing::Values(DType::f32, DType::f64)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::string(name_of(std::get<1>(info.param)));
                         });

TEST(Math, KeepsTheSignOfZero) {
  for (DType type : {DType::f32, DType::f64})
    for (auto make : {scalar::sin, scalar::tanh, scalar::erf, scalar::expm1, scalar::log1p})
      for (double zero : {0.0, -0.0}) EXPECT_EQ(std::signbit(call(make, zero, type)), std::signbit(zero));
}

TEST(Math, HugeAngles) {
  // The f64 number whose distance to a multiple of pi/2 is least.
  const double worst = 6381956970095103.0 * 0x1p797;
  EXPECT_EQ(call(scalar::cos, worst, DType::f64), -4.6871659242546276e-19);
  EXPECT_LE(ulp_error(call(scalar::sin, 1.5065028e23f, DType::f32), sinl(1.5065028e23f), DType::f32), 0.6);
  EXPECT_TRUE(std::isnan(call(scalar::sin, kInf, DType::f32)));
}

// --- pow

double power(double x, double y, DType type) {
  ScalarProgram p;
  const Expr r = scalar::pow({&p, p.input(0, type)}, {&p, p.input(1, type)});
  const uint64_t in[] = {to_bits(x, type), to_bits(y, type)};
  std::vector<uint64_t> values;
  p.run(in, {}, values);
  return double_from_bits(values[r.reg], type);
}

TEST(Math, PowAtTheEdges) {
  const double edges[] = {0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, kInf, -kInf, kNan};
  for (DType type : {DType::f32, DType::f64})
    for (double x : edges)
      for (double y : edges) {
        const double got = power(x, y, type), wanted = std::pow(x, y);
        if (std::isnan(wanted)) {
          EXPECT_TRUE(std::isnan(got)) << x << "^" << y;
        } else {
          EXPECT_LE(ulp_error(got, wanted, type), 1) << x << "^" << y << " = " << got;
        }
        if (wanted == 0) {
          EXPECT_EQ(std::signbit(got), std::signbit(wanted)) << x << "^" << y;
        }
      }
}

TEST(Math, PowIsAccurate) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 2000; ++i) {
    const double x = std::exp(normal(random) * 3), y = normal(random) * 200 / std::abs(std::log(x));
    ASSERT_LE(ulp_error(power(x, y, DType::f64), powl(x, y), DType::f64), 1.1) << x << "^" << y;
    const auto a = static_cast<float>(x), b = static_cast<float>(y / 3);
    ASSERT_LE(ulp_error(power(a, b, DType::f32), powl(a, b), DType::f32), 0.6) << a << "^" << b;
  }
}

TEST(Math, PowOfIntegers) {
  for (int64_t x = -5; x <= 5; ++x)
    for (int64_t y = 0; y <= 10; ++y) EXPECT_EQ(power(double(x), double(y), DType::i64), std::pow(x, y)) << x << "^" << y;
  EXPECT_EQ(power(-1, -3, DType::i32), -1);
  EXPECT_EQ(power(2, -1, DType::i32), 0);
  EXPECT_EQ(power(0, -1, DType::i64), 0);
  EXPECT_EQ(power(3, 5, DType::u8), 243);
}

// To 13 bits as far as the exact value is no smaller than 1e-7 beside x; further out it is less than that.
TEST(Math, GeluForHalfTypes) {
  for (int upper = -8192; upper <= 8192; ++upper) {
    const float x = static_cast<float>(upper) / 1024;
    const long double wanted = x * erfcl(-x / sqrtl(2)) / 2, got = call(scalar::gelu_for_half, x, DType::f32);
    if (x >= -5.6f) ASSERT_LE(fabsl(got - wanted), 9e-5L * fabsl(wanted)) << x;
    else ASSERT_LE(fabsl(got - wanted), 1e-7L) << x;
  }
  EXPECT_EQ(call(scalar::gelu_for_half, INFINITY, DType::f32), INFINITY);
  EXPECT_EQ(call(scalar::gelu_for_half, 3e38f, DType::f32), 3e38f);
  EXPECT_EQ(call(scalar::gelu_for_half, -3e38f, DType::f32), 0);
  EXPECT_TRUE(std::isnan(call(scalar::gelu_for_half, NAN, DType::f32)));
}

// Beside x no further off than eager's, which is 2^-21.4; exact where the distribution function is 0 or 1 in f32.
Expr gelu(Expr x) { return x * scalar::normal_distribution(x); }

TEST(Math, GeluOfSingles) {
  for (int upper = -40000; upper <= 40000; ++upper) {
    const float x = static_cast<float>(upper) / 4096;
    const long double wanted = x * erfcl(-x / sqrtl(2)) / 2, got = call(gelu, x, DType::f32);
    ASSERT_LE(fabsl(got - wanted), 0x1p-22L * fabsl(x)) << x;
    ASSERT_GE(got * x, 0) << x;
  }
  for (const float x : {5.55f, 8.f, 100.f, 3e38f, INFINITY}) EXPECT_EQ(call(gelu, x, DType::f32), x);
  for (const float x : {-5.55f, -8.f, -100.f, -3e38f}) EXPECT_EQ(call(gelu, x, DType::f32), 0);
  for (const float x : {-INFINITY, NAN}) EXPECT_TRUE(std::isnan(call(gelu, x, DType::f32)));
}

// The instruction count is the speed. Inputs, constants and bitcasts cost nothing.
TEST(Math, StaysShort) {
  const std::pair<Expr (*)(Expr), int> limits[] = {{scalar::exp, 19}, {scalar::tanh, 34}, {scalar::erf, 38}, {scalar::log, 36},
                                                   {scalar::sin, 36}, {scalar::sigmoid, 24}, {scalar::gelu_for_half, 33}, {gelu, 24}};
  for (auto [make, limit] : limits) {
    const Compiled c = compile(make, DType::f32);
    int count = 0;
    for (const ScalarNode& n : c.program.nodes())
      count += n.op != ScalarOp::input && n.op != ScalarOp::constant && n.op != ScalarOp::bitcast;
    EXPECT_LE(count, limit) << c.program.to_string();
  }
}

}  // namespace
}  // namespace escapement
