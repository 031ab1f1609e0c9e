// Whether a call names one variable twice. Users of jit.h never see it.
#pragma once

#include "escapement/jit_types.h"

namespace escapement::inline ESCAPEMENT_ABI::detail {

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

}  // namespace escapement::detail
