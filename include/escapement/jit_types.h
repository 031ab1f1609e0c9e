// What jit.h makes of types: what a parameter is, what is kept of its argument, what it is passed as, and what a struct or a tuple is made of.
// Users of jit.h never see it.
#pragma once

#include <boost/hana/accessors.hpp>
#include <boost/hana/concept/struct.hpp>
#include <boost/hana/ext/std/array.hpp>
#include <boost/hana/ext/std/tuple.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/range.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/transform.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/unpack.hpp>

#include <array>
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "escapement/jit_core.h"

namespace escapement::inline ESCAPEMENT_ABI::detail {

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
// A struct whose members Boost.Hana knows: BOOST_HANA_ADAPT_STRUCT, BOOST_HANA_DEFINE_STRUCT.
template <class T>
inline constexpr bool is_struct = hana::Struct<T>::value;
template <class T>
inline constexpr bool is_parts = is_a<std::tuple, T> || is_a<std::pair, T> || is_array<T> || is_struct<T>;
template <class T>
concept Whole = std::integral<T> && !std::same_as<T, bool>;
template <class T>
concept Enumeration = std::is_enum_v<T>;
template <class T>
concept Text = std::same_as<T, std::string> || std::same_as<T, std::string_view>;

// f on each part of a tuple, pair, array or struct, in order.
template <class Parts, class F>
void for_each_part(Parts& parts, const F& f) {
  using T = std::remove_const_t<Parts>;
  if constexpr (is_a<std::pair, T>) {
    f(parts.first);
    f(parts.second);
  } else if constexpr (is_struct<T>) {
    hana::for_each(hana::accessors<T>(), [&](const auto& member) { f(hana::second(member)(parts)); });
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
template <>
struct Kept<std::string_view> {
  using type = std::string;
};
// Others only as a parameter itself: elsewhere nothing would keep what they refer to.
template <class T>
inline constexpr bool owns = !is_a<c10::ArrayRef, T> && !std::same_as<T, std::string_view>;
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
  else return kept<P>(value);
}

// As what it is passed on where nothing is recorded: the caller's variable, or of what is passed by value a copy.
template <class P>
decltype(auto) pass_on(std::remove_reference_t<accepted<P>>& value) {
  if constexpr (is_pointer_like<P>) return std::decay_t<P>(value);
  else if constexpr (is_in_out<P> || std::same_as<passed<P>, const std::decay_t<P>&>) return (value);
  else return keep<P>(value);
}

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
template <class T>
  requires is_struct<T>
struct PartTypes<T> {
  static constexpr auto value = hana::transform(hana::accessors<T>(), [](auto member) {
    return hana::type_c<std::remove_cvref_t<decltype(hana::second(member)(std::declval<T&>()))>>;
  });
};

}  // namespace escapement::detail
