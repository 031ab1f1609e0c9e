// How jit.h takes arguments and results apart into leaves, and puts them together again. Users of jit.h never see it.
#pragma once

#include "escapement/jit_types.h"

namespace escapement::inline ESCAPEMENT_ABI::detail {

// --- arguments

// Enumerators are part of the key.
template <Enumeration T>
inline constexpr int bits_of = 8 * int{sizeof(T)};
template <Enumeration T>
uint64_t number_of(T value) {
  const auto number = static_cast<uint64_t>(static_cast<std::underlying_type_t<T>>(value));
  return bits_of<T> == 64 ? number : number & ((uint64_t{1} << (bits_of<T> % 64)) - 1);
}

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
  } else if constexpr (Enumeration<T>) {
    leaves.bits(number_of(value), bits_of<T>);
  } else if constexpr (Text<T>) {
    leaves.text(value);
  } else if constexpr (is_a<std::optional, T>) {
    leaves.bits(value.has_value(), 1);
    if (value) take_apart(leaves, *value);
  } else if constexpr (is_list<T>) {
    leaves.bits(value.size(), 32);
    for (size_t i = 0; i < value.size(); ++i) take_apart<typename T::value_type>(leaves, value[i]);
  } else {
    for_each_part(value, [&](const auto& part) { take_apart(leaves, part); });
  }
}

template <class T>
kept_value<T> put_together(LeafReader& reader);

template <class Parts>
Parts put_parts_together(LeafReader& reader) {
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
  } else if constexpr (Enumeration<T>) {
    return static_cast<T>(reader.bits(bits_of<T>));
  } else if constexpr (Text<T>) {
    return reader.text();
  } else if constexpr (is_a<std::optional, T>) {
    if (!reader.bits(1)) return std::nullopt;
    return put_together<typename T::value_type>(reader);
  } else if constexpr (is_list<T>) {
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
  } else if constexpr (std::same_as<T, bool> || Whole<T> || Enumeration<T>) {
    results.emplace_back(static_cast<int64_t>(value));
  } else if constexpr (Text<T>) {
    results.emplace_back(static_cast<int64_t>(value.size()));
    for (size_t at = 0; at < value.size(); at += 8) results.emplace_back(static_cast<int64_t>(word_of_text(value, at)));
  } else if constexpr (std::floating_point<T>) {
    give_real(results, static_cast<double>(value));
  } else if constexpr (is_a<std::optional, T>) {
    results.emplace_back(static_cast<int64_t>(value.has_value()));
    if (value) give(results, std::move(*value));
  } else if constexpr (is_a<std::vector, T>) {
    results.emplace_back(static_cast<int64_t>(value.size()));
    for (size_t i = 0; i < value.size(); ++i) give<typename T::value_type>(results, std::move(value[i]));
  } else {
    for_each_part(value, [&](auto& part) { give(results, std::move(part)); });
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
  } else if constexpr (Whole<T> || Enumeration<T>) {
    return static_cast<T>((next++)->toInt());
  } else if constexpr (Text<T>) {
    const auto size = static_cast<size_t>((next++)->toInt());
    return text_of_words(size, [&] { return static_cast<uint64_t>((next++)->toInt()); });
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

}  // namespace escapement::detail
