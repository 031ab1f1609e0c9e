// The C++ front end: any callable over tensors, recorded at its first call and compiled for all sizes. docs/cpp.md is the
// contract.
//
//   auto f = escapement::jit([](at::Tensor x, at::Tensor w) { return at::softmax(at::matmul(x, w), -1); });
//   at::Tensor y = f(a, b);             // runs the function and records it
//   y = f(c, d);                        // other sizes: the same code, the function itself does not run
//
// A callable is a function, a lambda, a functor, or a torch::nn module (its holder or shared_ptr, called by `forward`).
// Its parameters and its result are made of: at::Tensor, c10::SymInt, c10::SymFloat (parameters only), integers,
// floating-point numbers, bool; std::vector, c10::ArrayRef (parameters only), std::tuple, std::pair, std::array,
// std::optional of those, nested. Of a callable with several or generic signatures, name one:
// jit<at::Tensor(at::Tensor)>(f).
//
// A parameter through which the function can bind its caller's variable anew (`at::Tensor&`, `std::vector<at::Tensor>&`, `at::Tensor*`,
// std::reference_wrapper) takes the caller's variable, and that is bound to what the function left there.
#pragma once

#include <boost/hana/ext/std/array.hpp>
#include <boost/hana/ext/std/tuple.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/range.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/unpack.hpp>

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "escapement/jit_core.h"

namespace escapement {

// Sizes that stay symbolic while a function is recorded: pass them on to operators (x.view_symint, at::zeros_symint),
// compute with them, and compare them, which guards the outcome and not the value. x.size(0) reads the number: code that
// did is compiled for that number.
inline c10::SymInt sym_size(const at::Tensor& tensor, int64_t dim) { return tensor.sym_size(dim); }
inline c10::SymIntArrayRef sym_sizes(const at::Tensor& tensor) { return tensor.sym_sizes(); }
inline c10::SymInt sym_numel(const at::Tensor& tensor) { return tensor.sym_numel(); }

// Says that objects of a module class of your own may be compared byte by byte, so that a replaced parameter is noticed
// (docs/cpp.md). Needed for classes below the module that is passed to jit(), not for that one itself, nor for those of
// torch.
template <class M>
void watch_module() {
  detail::watch_module(typeid(M), sizeof(M));
}

namespace detail {

namespace hana = boost::hana;

template <template <class...> class Template, class T>
inline constexpr bool is_a = false;
template <template <class...> class Template, class... Ts>
inline constexpr bool is_a<Template, Template<Ts...>> = true;
template <class T>
inline constexpr bool is_array = false;
template <class T, size_t n>
inline constexpr bool is_array<std::array<T, n>> = true;
template <class T>
inline constexpr bool is_list = is_a<std::vector, T> || is_a<c10::ArrayRef, T>;
template <class T>
inline constexpr bool is_parts = is_a<std::tuple, T> || is_a<std::pair, T> || is_array<T>;
template <class T>
concept Whole = std::integral<T> && !std::same_as<T, bool>;
template <class T>
inline constexpr bool unsupported = false;

// f on each part of a tuple, pair or array, in order.
template <class Parts, class F>
void for_each_part(Parts& parts, const F& f) {
  if constexpr (is_a<std::pair, std::remove_const_t<Parts>>) {
    f(parts.first);
    f(parts.second);
  } else {
    hana::for_each(parts, f);
  }
}

// --- parameters: P is a parameter's type as it is declared

// What a parameter refers to: of a pointer there may be nothing.
template <class T>
struct Referred {
  using type = T;
  static constexpr bool may_be_null = false;
};
template <class T>
struct Referred<T*> {
  using type = T;
  static constexpr bool may_be_null = true;
};
template <class T>
struct Referred<std::reference_wrapper<T>> {
  using type = T;
  static constexpr bool may_be_null = false;
};
template <class P>
using referred = Referred<std::decay_t<P>>;
template <class P>
inline constexpr bool is_pointer_like = !std::same_as<typename referred<P>::type, std::decay_t<P>>;
template <class P>
inline constexpr bool may_be_null = referred<P>::may_be_null;
// Of a plain parameter its type without const and reference, else that of what it points to.
template <class P>
using value_of = std::remove_const_t<typename referred<P>::type>;

// May the function bind the caller's variable anew through it?
template <class P>
inline constexpr bool is_in_out = is_pointer_like<P> ? !std::is_const_v<typename referred<P>::type>
                                                     : std::is_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>;
template <class P>
inline constexpr bool refers = is_pointer_like<P> || std::is_reference_v<P>;
// As what a call takes it: anything for a plain parameter, the variable itself for one that may be bound anew.
template <class P>
using accepted = std::conditional_t<is_pointer_like<P>, std::decay_t<P>, std::conditional_t<is_in_out<P>, P, const std::decay_t<P>&>>;

// What is kept of an argument while the function runs on it: the owner of what the parameter may only refer to.
template <class T>
struct Kept {
  using type = T;
};
template <class T>
struct Kept<c10::ArrayRef<T>> {
  using type = std::vector<T>;
};
template <class T>
inline constexpr bool owns = !is_a<c10::ArrayRef, T>;  // ArrayRef only as a parameter itself: elsewhere nothing would keep its elements
template <class T>
using kept_value = typename Kept<T>::type;
template <class P>
using kept = std::conditional_t<may_be_null<P>, std::optional<value_of<P>>, kept_value<value_of<P>>>;

// As what it is passed to the function.
template <class P>
using passed = std::conditional_t<is_pointer_like<P>, std::decay_t<P>,
                                  std::conditional_t<std::is_lvalue_reference_v<P> && std::same_as<kept<P>, std::decay_t<P>>, P, kept<P>&&>>;

template <class P>
passed<P> pass(kept<P>& value) {
  if constexpr (may_be_null<P>) return value ? &*value : nullptr;
  else if constexpr (is_pointer_like<P>) return value;
  else return static_cast<passed<P>>(value);
}

template <class P>
kept<P> keep(const std::decay_t<P>& value) {
  if constexpr (may_be_null<P>) return value ? kept<P>(*value) : std::nullopt;
  else if constexpr (is_a<c10::ArrayRef, std::decay_t<P>>) return value.vec();
  else return value;
}

// As what it is passed on where nothing is recorded: the caller's variable, or of what is passed by value a copy.
template <class P>
decltype(auto) pass_on(std::remove_reference_t<accepted<P>>& value) {
  if constexpr (is_pointer_like<P>) return std::decay_t<P>(value);
  else if constexpr (is_in_out<P> || std::same_as<passed<P>, const std::decay_t<P>&>) return (value);
  else return keep<P>(value);
}

// Where variables lie that parameters refer to, with what they own. If a call names one of them twice, and one of its names may bind it
// anew, the function's names are not independent.
class Places {
 public:
  template <class P>
  void add(const std::decay_t<P>& argument) {
    if constexpr (!refers<P>) return;
    else if constexpr (may_be_null<P>) argument ? add_variable(*argument, is_in_out<P>) : void();
    else if constexpr (is_pointer_like<P>) add_variable(argument.get(), is_in_out<P>);
    else add_variable(argument, is_in_out<P>);
    ++parameter_;
  }
  bool meet() const {
    for (const Place& a : places_) {
      for (const Place& b : places_) {
        if (a.parameter != b.parameter && a.in_out && a.begin < b.end && b.begin < a.end) return true;
      }
    }
    return false;
  }

 private:
  struct Place {
    const void *begin, *end;
    int parameter;
    bool in_out;
  };
  template <class T>
  void add_variable(const T& variable, bool in_out) {
    places_.push_back({&variable, &variable + 1, parameter_, in_out});
    add_owned(variable, in_out);
  }
  template <class T>
  void add_owned(const T& variable, bool in_out) {
    if constexpr (is_a<std::vector, T> && !std::same_as<T, std::vector<bool>>) {
      places_.push_back({variable.data(), variable.data() + variable.size(), parameter_, in_out});
      for (const auto& element : variable) add_owned(element, in_out);
    } else if constexpr (is_a<std::optional, T>) {
      if (variable) add_owned(*variable, in_out);
    } else if constexpr (is_parts<T>) {
      for_each_part(variable, [&](const auto& part) { add_owned(part, in_out); });
    }
  }
  c10::SmallVector<Place, 8> places_;
  int parameter_ = 0;
};

// The types of the parts, as a hana::tuple of hana::type.
template <class T>
struct PartTypes;
template <class... Ts>
struct PartTypes<std::tuple<Ts...>> {
  static constexpr auto value = hana::tuple_t<Ts...>;
};
template <class A, class B>
struct PartTypes<std::pair<A, B>> {
  static constexpr auto value = hana::tuple_t<A, B>;
};
template <class T, size_t n>
struct PartTypes<std::array<T, n>> {
  static constexpr auto value =
      hana::unpack(hana::range_c<size_t, 0, n>,
                   [](auto... each) { return hana::make_tuple((void(each), hana::type_c<T>)...); });
};

// --- arguments

template <class T>
void take_apart(Leaves& leaves, const T& value) {
  if constexpr (std::same_as<T, at::Tensor>) {
    leaves.tensor(value);
  } else if constexpr (std::same_as<T, c10::SymInt>) {
    leaves.integer(value.is_heap_allocated() && recording_here() ? 0 : value.guard_int(__FILE__, __LINE__));
  } else if constexpr (std::same_as<T, c10::SymFloat>) {
    leaves.run_time_real(value.is_symbolic() && recording_here() ? 0 : value.guard_float(__FILE__, __LINE__));
  } else if constexpr (std::same_as<T, bool>) {
    leaves.bits(value, 1);
  } else if constexpr (Whole<T>) {
    leaves.integer(static_cast<int64_t>(value));
  } else if constexpr (std::floating_point<T>) {
    leaves.real(static_cast<double>(value));
  } else if constexpr (is_a<std::optional, T>) {
    leaves.bits(value.has_value(), 1);
    if (value) take_apart(leaves, *value);
  } else if constexpr (is_list<T>) {
    leaves.bits(value.size(), 32);
    for (size_t i = 0; i < value.size(); ++i) take_apart<typename T::value_type>(leaves, value[i]);
  } else if constexpr (is_parts<T>) {
    for_each_part(value, [&](const auto& part) { take_apart(leaves, part); });
  } else {
    static_assert(unsupported<T>, "a parameter must be made of tensors, SymInt, SymFloat, numbers, bool; vector, tuple, pair, array, "
                                  "optional of those; or be a pointer, a reference or a reference_wrapper to such");
  }
}

template <class T>
kept_value<T> put_together(LeafReader& reader);

template <class Parts>
Parts put_parts_together(LeafReader& reader) {
  static_assert(hana::unpack(PartTypes<Parts>::value, [](auto... type) { return (owns<typename decltype(type)::type> && ...); }));
  return hana::unpack(PartTypes<Parts>::value,
                      [&](auto... type) { return Parts{put_together<typename decltype(type)::type>(reader)...}; });
}

template <class T>
kept_value<T> put_together(LeafReader& reader) {
  if constexpr (std::same_as<T, at::Tensor>) {
    return reader.bits(1) ? reader.value().toTensor() : at::Tensor();
  } else if constexpr (std::same_as<T, c10::SymInt>) {
    return reader.value().toSymInt();
  } else if constexpr (std::same_as<T, c10::SymFloat>) {
    return read_real(reader.value());
  } else if constexpr (std::same_as<T, bool>) {
    return reader.bits(1) != 0;
  } else if constexpr (Whole<T>) {
    return static_cast<T>(pinned_integer(reader.value()));
  } else if constexpr (std::floating_point<T>) {
    return static_cast<T>(reader.value().toDouble());
  } else if constexpr (is_a<std::optional, T>) {
    static_assert(owns<typename T::value_type>);
    if (!reader.bits(1)) return std::nullopt;
    return put_together<typename T::value_type>(reader);
  } else if constexpr (is_list<T>) {
    static_assert(owns<typename T::value_type>);
    kept_value<T> list(reader.bits(32));
    for (size_t i = 0; i < list.size(); ++i) list[i] = put_together<typename T::value_type>(reader);
    return list;
  } else {
    return put_parts_together<T>(reader);
  }
}

template <class P>
void take_argument_apart(Leaves& leaves, const std::decay_t<P>& argument) {
  if constexpr (may_be_null<P>) {
    leaves.bits(argument != nullptr, 1);
    if (argument) take_apart<value_of<P>>(leaves, *argument);
  } else {
    take_apart<value_of<P>>(leaves, argument);
  }
}

template <class P>
kept<P> put_argument_together(LeafReader& reader) {
  if constexpr (may_be_null<P>) {
    if (!reader.bits(1)) return std::nullopt;
  }
  return put_together<value_of<P>>(reader);
}

// --- results: lengths and presence travel with them, since versions of one function may differ in these

template <class T>
void give(Values& results, T value) {
  if constexpr (std::same_as<T, at::Tensor>) {
    if (value.defined()) results.emplace_back(std::move(value));
    else results.emplace_back();
  } else if constexpr (std::same_as<T, c10::SymInt>) {
    results.emplace_back(std::move(value));
  } else if constexpr (std::same_as<T, bool> || Whole<T>) {
    results.emplace_back(static_cast<int64_t>(value));
  } else if constexpr (std::floating_point<T>) {
    give_real(results, static_cast<double>(value));
  } else if constexpr (is_a<std::optional, T>) {
    results.emplace_back(static_cast<int64_t>(value.has_value()));
    if (value) give(results, std::move(*value));
  } else if constexpr (is_a<std::vector, T>) {
    results.emplace_back(static_cast<int64_t>(value.size()));
    for (size_t i = 0; i < value.size(); ++i) give<typename T::value_type>(results, std::move(value[i]));
  } else if constexpr (is_parts<T>) {
    for_each_part(value, [&](auto& part) { give(results, std::move(part)); });
  } else {
    static_assert(unsupported<T>, "a result must be made of tensors, SymInt, numbers, bool; "
                                  "vector, tuple, pair, array, optional of those");
  }
}

// What the function left in a variable of its caller.
template <class P>
void give_back(Values& results, kept<P>& argument) {
  if constexpr (!is_in_out<P>) return;
  else if constexpr (!may_be_null<P>) give<value_of<P>>(results, std::move(argument));
  else if (argument) give<value_of<P>>(results, std::move(*argument));
}

using ResultReader = Values::iterator;

template <class T>
T receive(ResultReader& next) {
  if constexpr (std::same_as<T, at::Tensor>) {
    c10::IValue& value = *next++;
    return value.isTensor() ? std::move(value).toTensor() : at::Tensor();
  } else if constexpr (std::same_as<T, c10::SymInt>) {
    return std::move(*next++).toSymInt();
  } else if constexpr (std::same_as<T, bool>) {
    return (next++)->toInt() != 0;
  } else if constexpr (Whole<T>) {
    return static_cast<T>((next++)->toInt());
  } else if constexpr (std::floating_point<T>) {
    next += 2;
    return static_cast<T>(joined_real(next[-2], next[-1]));
  } else if constexpr (is_a<std::optional, T>) {
    if ((next++)->toInt() == 0) return std::nullopt;
    return receive<typename T::value_type>(next);
  } else if constexpr (is_a<std::vector, T>) {
    T list(static_cast<size_t>((next++)->toInt()));
    for (size_t i = 0; i < list.size(); ++i) list[i] = receive<typename T::value_type>(next);
    return list;
  } else {
    return hana::unpack(PartTypes<T>::value,
                        [&](auto... type) { return T{receive<typename decltype(type)::type>(next)...}; });
  }
}

template <class P>
void bind_anew(ResultReader& next, std::remove_reference_t<accepted<P>>& argument) {
  if constexpr (!is_in_out<P>) return;
  else if constexpr (may_be_null<P>) argument ? void(*argument = receive<value_of<P>>(next)) : void();
  else if constexpr (is_pointer_like<P>) argument.get() = receive<value_of<P>>(next);
  else argument = receive<value_of<P>>(next);
}

// --- signatures

template <class F>
struct SignatureOf;
#define ESCAPEMENT_SIGNATURE(...)                      \
  template <class C, class R, class... As>             \
  struct SignatureOf<R (C::*)(As...) __VA_ARGS__> {    \
    using type = R(As...);                             \
  };
ESCAPEMENT_SIGNATURE()
ESCAPEMENT_SIGNATURE(const)
ESCAPEMENT_SIGNATURE(noexcept)
ESCAPEMENT_SIGNATURE(const noexcept)
ESCAPEMENT_SIGNATURE(&)
ESCAPEMENT_SIGNATURE(const&)
ESCAPEMENT_SIGNATURE(& noexcept)
ESCAPEMENT_SIGNATURE(const& noexcept)
#undef ESCAPEMENT_SIGNATURE
template <class R, class... As>
struct SignatureOf<R (*)(As...)> {
  using type = R(As...);
};
template <class R, class... As>
struct SignatureOf<R (*)(As...) noexcept> {
  using type = R(As...);
};
template <class F>
  requires requires { &F::operator(); }
struct SignatureOf<F> : SignatureOf<decltype(&F::operator())> {};

// A module as its shared_ptr or its holder (torch::nn::Linear).
template <class T>
struct ModuleType {};
template <class M>
  requires std::is_base_of_v<torch::nn::Module, M>
struct ModuleType<std::shared_ptr<M>> {
  using type = M;
  static const std::shared_ptr<M>& pointer(const std::shared_ptr<M>& module) { return module; }
};
template <class H>
  requires requires(const H& holder) {
    typename H::ContainedType;
    { holder.ptr() } -> std::convertible_to<std::shared_ptr<typename H::ContainedType>>;
  }
struct ModuleType<H> {
  using type = typename H::ContainedType;
  static const std::shared_ptr<type>& pointer(const H& holder) { return holder.ptr(); }
};
template <class T>
concept ModuleLike = requires { typename ModuleType<T>::type; };

// Of a `forward` that is a template or overloaded: tensor to tensor, as Sequential's default.
template <class M>
struct ForwardSignature {
  using type = at::Tensor(at::Tensor);
};
template <class M>
  requires requires { &M::forward; }
struct ForwardSignature<M> : SignatureOf<decltype(&M::forward)> {};

template <class T>
inline constexpr bool may_be_left_out = std::same_as<T, at::Tensor> || is_a<std::optional, T>;

}  // namespace detail

// The compiled function. Movable; any number of threads may call it.
template <class Signature>
class Jitted;

template <class R, class... As>
class Jitted<R(As...)> {
 public:
  using Result = std::decay_t<R>;

  // `module`: null, or what is compared before each call.
  template <class F>
  Jitted(F fn, std::shared_ptr<torch::nn::Module> module, const OptionList& options, std::string name)
      : run_(std::make_shared<const Run>([fn = std::move(fn)](detail::passed<As>... arguments) -> Result {
          return std::invoke(fn, static_cast<detail::passed<As>>(arguments)...);
        })) {
    core_ = std::make_unique<detail::JitCore>(
        [run = run_](detail::LeafReader& reader, detail::Values& results) { return run_values(*run, reader, results); },
        std::move(module), options, std::move(name));
  }

  Result operator()(detail::accepted<As>... arguments) const {
    if (kMayMeet && meet(arguments...)) {
      if (!detail::recording_here()) core_->note_eager_for_aliases();
      return run_plainly(arguments...);
    }
    detail::Leaves leaves;
    (detail::take_argument_apart<As>(leaves, arguments), ...);
    leaves.seal();
    detail::Results results;
    bool answered = false;
    try {
      answered = core_->call(leaves, results.values);
    } catch (...) {   // what the function bound anew before it failed
      if (kInOut && !results.values.empty() && results.values[0].isString()) {
        auto next = results.values.begin() + 1;
        (detail::bind_anew<As>(next, arguments), ...);
      }
      throw;
    }
    return answered ? receive<Result>(results.values, arguments...) : run_plainly(arguments...);
  }

  // Tensors and optionals at the end may be left out.
  template <class... Given>
    requires(sizeof...(Given) < sizeof...(As))
  Result operator()(Given&&... given) const {
    return complete(std::make_index_sequence<sizeof...(As) - sizeof...(Given)>(), std::forward<Given>(given)...);
  }

  // JSON: escapes with file:line, eager calls by reason, and for each shape of calls versions, kernels, guards, timings.
  std::string explain() const { return core_->explain(); }
  std::vector<Escape> escapes() const { return core_->escapes(); }

 private:
  using Run = std::function<Result(detail::passed<As>...)>;
  static constexpr const char* kBoundOnly = "variables";   // stands before the variables of a function that threw
  static constexpr bool kInOut = (detail::is_in_out<As> || ...);
  static constexpr bool kMayMeet = kInOut && (int{detail::refers<As>} + ... + 0) > 1;

  static bool meet(const std::decay_t<As>&... arguments) {
    detail::Places places;
    (places.add<As>(arguments), ...);
    return places.meet();
  }

  static bool run_values(const Run& run, detail::LeafReader& reader, detail::Values& results) {
    return run_kept(run, results, std::tuple<detail::kept<As>...>{detail::put_argument_together<As>(reader)...}, std::index_sequence_for<As...>());
  }
  template <size_t... I>
  static bool run_kept(const Run& run, detail::Values& results, std::tuple<detail::kept<As>...> arguments, std::index_sequence<I...>) {
    detail::Values before;
    if constexpr (kInOut) {
      auto copy = arguments;
      (detail::give_back<As>(before, std::get<I>(copy)), ...);
    }
    const auto give_back = [&] { (detail::give_back<As>(results, std::get<I>(arguments)), ...); };
    try {
      const detail::ProgramFrames frames;
      if constexpr (std::is_void_v<Result>) run(detail::pass<As>(std::get<I>(arguments))...);
      else detail::give<Result>(results, run(detail::pass<As>(std::get<I>(arguments))...));
    } catch (...) {
      results.assign(1, kBoundOnly);
      give_back();
      throw;
    }
    const size_t first = results.size();
    give_back();
    return detail::bound_anew(before, std::span<const c10::IValue>(results).subspan(first));
  }
  // The call's result, after its variables have been bound.
  template <class T, class... Arguments>
  static T receive(detail::Values& results, Arguments&... arguments) {
    auto next = results.begin();
    if constexpr (std::is_void_v<T>) {
      (detail::bind_anew<As>(next, arguments), ...);
    } else {
      T result = detail::receive<T>(next);
      (detail::bind_anew<As>(next, arguments), ...);
      return result;
    }
  }
  template <class... Arguments>
  Result run_plainly(Arguments&... arguments) const {
    std::tuple<decltype(detail::pass_on<As>(arguments))...> owners{detail::pass_on<As>(arguments)...};
    return std::apply([&](auto&... each) -> Result { return (*run_)(static_cast<detail::passed<As>>(each)...); }, owners);
  }

  template <size_t... kMissing, class... Given>
  Result complete(std::index_sequence<kMissing...>, Given&&... given) const {
    using All = std::tuple<std::decay_t<As>...>;
    static_assert((detail::may_be_left_out<std::tuple_element_t<sizeof...(Given) + kMissing, All>> && ...),
                  "only tensors and optionals at the end of the parameters may be left out");
    return (*this)(std::forward<Given>(given)..., std::tuple_element_t<sizeof...(Given) + kMissing, All>()...);
  }

  std::shared_ptr<const Run> run_;
  std::unique_ptr<detail::JitCore> core_;
};

// The compiled form of `fn`. Options by name, as in the option table ("strict", "threads", ...) and "mode": "call" or
// "replay".
template <class Signature, class F>
  requires std::is_function_v<Signature>
Jitted<Signature> jit(F fn, const OptionList& options = {}, std::string name = "function") {
  if constexpr (detail::ModuleLike<F>) {
    const auto module = detail::ModuleType<F>::pointer(fn);
    auto forward = [module = module.get()]<class... Ts>(Ts&&... arguments) -> decltype(auto) {
      return module->forward(std::forward<Ts>(arguments)...);
    };
    return {std::move(forward), module, options, std::move(name)};
  } else {
    return {std::move(fn), nullptr, options, std::move(name)};
  }
}

template <class F>
  requires(!detail::ModuleLike<F> && !std::is_function_v<F>)
auto jit(F fn, const OptionList& options = {}, std::string name = "function") {
  return jit<typename detail::SignatureOf<F>::type>(std::move(fn), options, std::move(name));
}

template <detail::ModuleLike F>
auto jit(F module, const OptionList& options = {}, std::string name = "module") {
  using M = typename detail::ModuleType<F>::type;
  watch_module<M>();
  return jit<typename detail::ForwardSignature<M>::type>(std::move(module), options, std::move(name));
}

}  // namespace escapement
