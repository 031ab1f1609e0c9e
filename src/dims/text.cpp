// Text, values and steps of expressions as written. Nothing here knows facts or changes the table, except `parse`.
#include <algorithm>

#include "dims/impl.h"
#include "support/text.h"

namespace escapement {
namespace {

constexpr char kSymbolPrefix[] = {'s', 'u', 'i', 't'};

}  // namespace

std::string to_string(const Source& source) {
  const std::string input = "arg" + std::to_string(source.input), value = "%" + std::to_string(source.value.index);
  const std::string at = "[" + std::to_string(source.dim) + "]";
  switch (source.kind) {
    case Source::Kind::none: return "none";
    case Source::Kind::input_size: return input + ".size" + at;
    case Source::Kind::input_stride: return input + ".stride" + at;
    case Source::Kind::input_offset: return input + ".offset";
    case Source::Kind::input_value: return input;
    case Source::Kind::value_size: return value + ".size" + at;
    case Source::Kind::value_stride: return value + ".stride" + at;
    case Source::Kind::item: return "item(" + value + ")";
  }
  return {};
}

// --- printing

std::string DimTable::Impl::text_of_symbol(Symbol s) const {
  const SymbolInfo& info = symbols[s.index];
  return kSymbolPrefix[static_cast<size_t>(info.kind)] + std::to_string(info.number);
}

std::string DimTable::Impl::text_of_variable(Var v) const {
  const Variable& variable = variables[v];
  if (!variable.is_atom) return text_of_symbol(variable.symbol);
  const std::string first = std::string(name_of(variable.op)) + "(" + text_of_operand(variable.op, variable.a);
  return first + (is_unary(variable.op) ? ")" : ", " + text_of_operand(variable.op, variable.b) + ")");
}

std::string DimTable::Impl::text_of_operand(SizeOp op, Dim a) const {
  const auto bits = takes_real(op) ? literal(a) : std::nullopt;
  return bits ? real_to_text(real_of(*bits)) : text(a);
}

// Without the sign, which the sum prints.
std::string DimTable::Impl::text(const Term& term) const {
  const std::string digits = std::to_string(term.coefficient);
  const std::string magnitude = term.coefficient < 0 ? digits.substr(1) : digits;
  if (term.monomial == 0) return magnitude;
  const std::string product = join(vars(term), "*", [&](Var v) { return text_of_variable(v); });
  return magnitude == "1" ? product : magnitude + "*" + product;
}

// In normal order, except that a positive term comes first if there is one: "s1 - s0".
std::string DimTable::Impl::text(Dim a) const {
  const Terms terms = poly(a);
  if (terms.empty()) return "0";
  const auto positive = std::find_if(terms.begin(), terms.end(), [](const Term& term) { return term.coefficient > 0; });
  const size_t first = positive == terms.end() ? 0 : static_cast<size_t>(positive - terms.begin());
  std::string result = (terms[first].coefficient < 0 ? "-" : "") + text(terms[first]);
  for (size_t i = 0; i < terms.size(); ++i)
    if (i != first) result += (terms[i].coefficient < 0 ? " - " : " + ") + text(terms[i]);
  return result;
}

std::string DimTable::to_string(Dim a) const { return a ? impl_->text(a) : "none"; }
std::string DimTable::to_string(Symbol s) const { return impl_->text_of_symbol(s); }

// --- parsing, on one line: sum := product (('+' | '-') product)*; product := factor ('*' factor)*; factor := number | symbol | -factor |
// (sum) | function(sum, sum). Functions of floats take numbers such as 0.7, too.

namespace {

class Parser {
 public:
  Parser(DimTable& dims, Tokenizer& tokens) : dims_(dims), tokens_(tokens) {}

  Dim sum() {
    Dim result = product();
    while (!tokens_.at_line_start() && (tokens_.at("+") || tokens_.at("-"))) {
      const bool plus = tokens_.next().text == "+";
      result = dims_.add(result, plus ? product() : product_from(negative()));
    }
    return result;
  }

 private:
  Dim product() { return product_from(factor()); }

  Dim product_from(Dim result) {
    while (tokens_.accept("*")) result = dims_.mul(result, factor());
    return result;
  }

  Dim factor() {
    if (tokens_.accept("-")) return negative();
    if (tokens_.accept("(")) {
      const Dim inner = sum();
      tokens_.expect(")");
      return inner;
    }
    if (tokens_.at_kind(Token::Kind::integer)) return dims_.constant(tokens_.integer("a number"));
    return named();
  }

  Dim negative() {  // the smallest integer has no positive counterpart, so the sign belongs to the number
    if (!tokens_.at_kind(Token::Kind::integer)) return dims_.neg(factor());
    const std::string digits = "-" + std::string(tokens_.next().text);
    Tokenizer both(digits);
    return dims_.constant(both.integer("a number"));
  }

  Dim named() {
    const Token token = tokens_.peek();
    const std::string_view name = tokens_.name("a size");
    if (tokens_.accept("(")) return function(token, name);
    for (uint32_t i = 0; i < dims_.symbol_count(); ++i)
      if (name[0] == kSymbolPrefix[static_cast<size_t>(dims_.info(Symbol(i)).kind)] && dims_.to_string(Symbol(i)) == name)
        return dims_.of(Symbol(i));
    Tokenizer::fail_at(token.line, token.column, "unknown symbol '" + std::string(name) + "'");
  }

  Dim function(const Token& token, std::string_view name) {
    const auto op = size_op(name);
    if (!op) Tokenizer::fail_at(token.line, token.column, "unknown function '" + std::string(name) + "'");
    const Dim a = operand(*op);
    if (!is_unary(*op)) tokens_.expect(",");
    const Dim b = is_unary(*op) ? dims_.constant(0) : operand(*op);
    tokens_.expect(")");
    return dims_.apply(*op, a, b);  // what is wide is over the cap again, so the same atom
  }

  Dim operand(SizeOp op) {
    const bool number = takes_real(op) && (tokens_.at("-") || tokens_.at_kind(Token::Kind::integer) || tokens_.at_kind(Token::Kind::real));
    if (!number) return sum();
    const bool negative = tokens_.accept("-");
    const double value = tokens_.real("a number");
    return dims_.real(negative ? -value : value);
  }

  DimTable& dims_;
  Tokenizer& tokens_;
};

}  // namespace

Dim DimTable::parse(Tokenizer& tokens) {
  const Token start = tokens.peek();
  try {
    return Parser(*this, tokens).sum();
  } catch (const DimOverflow& error) {
    Tokenizer::fail_at(start.line, start.column, error.what());
  }
}

Dim DimTable::parse(std::string_view text) {
  Tokenizer tokens(text);
  const Dim result = parse(tokens);
  if (!tokens.at_end()) tokens.fail("unexpected " + tokens.describe() + " after a size");
  return result;
}

// --- values

int64_t DimTable::Impl::value_of(Var v, std::span<const int64_t> symbol_values,
                                 std::unordered_map<Var, int64_t>& atoms) const {
  const Variable& variable = variables[v];
  if (!variable.is_atom) return symbol_values[variable.symbol.index];
  if (const auto found = atoms.find(v); found != atoms.end()) return found->second;
  const int64_t a = value(variable.a, symbol_values, atoms), b = value(variable.b, symbol_values, atoms);
  return atoms[v] = checked(variable.op, a, b);
}

int64_t DimTable::Impl::value(Dim a, std::span<const int64_t> symbol_values, std::unordered_map<Var, int64_t>& atoms) const {
  int64_t sum = 0;
  for (const Term& term : poly(a)) {
    int64_t product = term.coefficient;
    for (Var v : vars(term)) product = checked_mul(product, value_of(v, symbol_values, atoms));
    sum = checked_add(sum, product);
  }
  return sum;
}

int64_t DimTable::evaluate(Dim a, std::span<const int64_t> symbol_values) const {
  try {
    std::unordered_map<Var, int64_t> atoms;
    return impl_->value(a, symbol_values, atoms);
  } catch (const UserError& error) {
    throw UserError("size " + to_string(a) + ": " + error.what());
  }
}

// A missing hint, a zero divisor or an overflow: there was no such size when recording.
std::optional<int64_t> DimTable::Impl::hint_of(Var v) {
  const Variable variable = variables[v];
  if (!variable.is_atom) return symbols[variable.symbol.index].hint;
  const auto a = hint(variable.a), b = hint(variable.b);
  if (!a || !b) return std::nullopt;
  return checked(variable.op, *a, *b);
}

std::optional<int64_t> DimTable::Impl::hint(Dim a) {
  if (hints.size() < polys.size()) hints.resize(polys.size());
  if (hints[a.index].known) return hints[a.index].value;
  std::optional<int64_t> sum = 0;
  try {
    for (const Term& term : poly(a)) {
      int64_t product = term.coefficient;
      for (const Var v : vars(term)) {
        const auto factor = hint_of(v);
        if (!factor) sum.reset();
        else product = checked_mul(product, *factor);
      }
      if (!sum) break;
      sum = checked_add(*sum, product);
    }
  } catch (const UserError&) {
    sum.reset();
  }
  hints[a.index] = {true, sum};
  return sum;
}

std::optional<int64_t> DimTable::hint(Dim a) const { return impl_->hint(a); }

std::vector<Symbol> DimTable::symbols(Dim a) const {
  std::vector<bool> seen;
  std::vector<Symbol> found = new_symbols(a, seen);
  if (!std::is_sorted(found.begin(), found.end())) std::sort(found.begin(), found.end());
  return found;
}

std::vector<Symbol> DimTable::new_symbols(Dim a, std::vector<bool>& seen) const {
  seen.resize(impl_->variables.size(), false);
  std::vector<Dim> todo{a};
  std::vector<Symbol> found;
  while (!todo.empty()) {
    const Dim dim = todo.back();
    todo.pop_back();
    for (const Term& term : impl_->poly(dim)) {
      for (Var v : impl_->vars(term)) {
        if (seen[v]) continue;
        seen[v] = true;
        const Variable& variable = impl_->variables[v];
        if (variable.is_atom) todo.insert(todo.end(), {variable.a, variable.b});
        else found.push_back(variable.symbol);
      }
    }
  }
  return found;
}

// --- steps

namespace {

using Step = DimTable::Step;

template <class Impl>
void append_steps(const Impl& impl, Dim a, bool outer, std::vector<Step>& steps) {
  auto push_constant = [&](int64_t value) { steps.push_back(Step{SizeOp::constant, value, {}, {}}); };
  auto apply = [&](SizeOp op) { steps.push_back(Step{op, 0, {}, {}}); };
  auto operand = [&](Dim dim) {
    if (outer) steps.push_back(Step{SizeOp::dim, 0, {}, dim});
    else append_steps(impl, dim, outer, steps);
  };
  bool first_term = true;
  for (const Term& term : impl.poly(a)) {
    bool first_factor = true;
    if (term.coefficient != 1 || term.monomial == 0) push_constant(term.coefficient), first_factor = false;
    for (Var v : impl.vars(term)) {
      const Variable& variable = impl.variables[v];
      if (variable.is_atom) {
        operand(variable.a);
        operand(variable.b);
        apply(variable.op);
      } else {
        steps.push_back(Step{SizeOp::symbol, 0, variable.symbol, {}});
      }
      if (!first_factor) apply(SizeOp::mul);
      first_factor = false;
    }
    if (!first_term) apply(SizeOp::add);
    first_term = false;
  }
  if (first_term) push_constant(0);
}

}  // namespace

std::vector<Step> DimTable::steps(Dim a) const {
  std::vector<Step> result;
  append_steps(*impl_, a, false, result);
  return result;
}

std::vector<Step> DimTable::outer_steps(Dim a) const {
  std::vector<Step> result;
  append_steps(*impl_, a, true, result);
  return result;
}

}  // namespace escapement
