// Which signature jit.h reads from a callable or a module, and what it says where it cannot carry a type: one error of the compiler's, which
// names the parameter and the type. Users of jit.h never see it.
#pragma once

#include "escapement/jit_types.h"

namespace escapement::inline ESCAPEMENT_ABI::detail {

template <class F>
struct SignatureOf {};   // generic, overloaded, or nothing that is called
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

// A pointer to a function, or what holds one (std::function).
template <class F>
inline constexpr bool may_be_empty = std::is_pointer_v<F> || requires { &F::operator bool; };

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

// --- types that a call cannot carry

struct Nothing {};

enum class Side : uint8_t { argument, result };

template <class T>
concept Leaf = std::same_as<T, at::Tensor> || std::same_as<T, c10::SymInt> || std::integral<T> || std::floating_point<T> || Enumeration<T> ||
               std::same_as<T, std::string>;

// The innermost type of T that cannot be carried, or Nothing.
template <class T, Side side>
struct Misfit {
  static constexpr bool fits = Leaf<T> || (side == Side::argument && std::same_as<T, c10::SymFloat>);
  using type = std::conditional_t<fits, Nothing, T>;
};
template <Side side, class... Ts>
struct FirstMisfit {
  using type = Nothing;
};
template <Side side, class T, class... Ts>
struct FirstMisfit<side, T, Ts...> {
  using first = typename Misfit<T, side>::type;
  using type = std::conditional_t<std::same_as<first, Nothing>, typename FirstMisfit<side, Ts...>::type, first>;
};
template <class T, Side side>
struct Misfit<std::optional<T>, side> : Misfit<T, side> {};
template <class T, Side side>
struct Misfit<std::vector<T>, side> : Misfit<T, side> {};
template <class T, size_t n, Side side>
struct Misfit<std::array<T, n>, side> : Misfit<T, side> {};
template <class... Ts, Side side>
struct Misfit<std::tuple<Ts...>, side> : FirstMisfit<side, Ts...> {};
template <class A, class B, Side side>
struct Misfit<std::pair<A, B>, side> : FirstMisfit<side, A, B> {};

// A struct is carried by its members, so they must be all of it: what else it holds would be lost on the way.
template <class T, class... Members>
concept MadeOf = std::is_aggregate_v<T> && requires { T{std::declval<Members>()...}; } && !requires { T{std::declval<Members>()..., {}}; };

template <class T, Side side>
  requires is_struct<T>
struct Misfit<T, side> {
  static constexpr auto found = hana::unpack(PartTypes<T>::value, [](auto... members) {
    if constexpr (MadeOf<T, typename decltype(members)::type...>) return hana::type_c<typename FirstMisfit<side, typename decltype(members)::type...>::type>;
    else return hana::type_c<T>;
  });
  using type = typename decltype(found)::type;
};

// What a parameter itself may be beyond that: a view of what its caller keeps, if it is not bound anew.
template <class T>
struct MisfitOfView : Misfit<T, Side::argument> {};
template <class T>
struct MisfitOfView<c10::ArrayRef<T>> : Misfit<T, Side::argument> {};
template <>
struct MisfitOfView<std::string_view> {
  using type = Nothing;
};

// What points to characters or to a row of values points to as many as nobody says.
template <class T, class... Ts>
inline constexpr bool is_one_of = (std::same_as<T, Ts> || ...);
template <class P>
inline constexpr bool is_buffer = std::is_array_v<std::remove_reference_t<P>> || std::is_same_v<std::remove_cv_t<value_of<P>>, void> ||
                                  std::is_function_v<value_of<P>> || (std::is_pointer_v<std::decay_t<P>> && is_one_of<value_of<P>, char, signed char, unsigned char>);
template <class P>
struct MisfitOfParameter {
  using value = value_of<P>;
  using as_argument = typename std::conditional_t<is_in_out<P>, Misfit<value, Side::argument>, MisfitOfView<value>>::type;
  using as_result = typename std::conditional_t<is_in_out<P>, Misfit<value, Side::result>, Misfit<bool, Side::result>>::type;
  using type = std::conditional_t<is_buffer<P>, P, std::conditional_t<std::same_as<as_argument, Nothing>, as_result, as_argument>>;
};

// `number` counts from 1. The error of the compiler's names all three.
template <size_t number, class Parameter, class Unsupported>
struct CheckParameter {
  static_assert(std::is_same_v<Unsupported, Nothing>,
                "escapement::jit: this parameter cannot be carried (its number, its type and the type in it that is not supported stand in the "
                "template arguments). Supported are at::Tensor, c10::SymInt, c10::SymFloat, numbers, bool, enums, std::string(_view); vector, "
                "ArrayRef, tuple, pair, array, optional and Hana structs (aggregates, all members adapted) of those; references and pointers to "
                "them. See docs/cpp.md");
  static constexpr bool value = std::same_as<Unsupported, Nothing>;
};
template <class Result, class Unsupported>
struct CheckResult {
  static_assert(std::is_same_v<Unsupported, Nothing>,
                "escapement::jit: this result cannot be carried (its type and the type in it that is not supported stand in the template "
                "arguments). Supported are at::Tensor, c10::SymInt, numbers, bool, enums, std::string(_view); vector, tuple, pair, array, optional "
                "and Hana structs (aggregates, all members adapted) of those. See docs/cpp.md");
  static constexpr bool value = std::same_as<Unsupported, Nothing>;
};

// A reference comes back as its value, and so does a view of characters.
template <class R>
using result_of = std::conditional_t<std::same_as<std::decay_t<R>, std::string_view>, std::string, std::decay_t<R>>;
template <class R>
using misfit_of_result = typename std::conditional_t<std::is_void_v<R>, Misfit<bool, Side::result>, Misfit<result_of<R>, Side::result>>::type;

template <class Signature>
struct CheckSignature;
template <class R, class... As>
struct CheckSignature<R(As...)> {
  template <size_t... I>
  static constexpr bool check(std::index_sequence<I...>) {
    return (CheckResult<R, misfit_of_result<R>>::value & ... & CheckParameter<I + 1, As, typename MisfitOfParameter<As>::type>::value);
  }
  static constexpr bool value = check(std::index_sequence_for<As...>());
};

}  // namespace escapement::detail
