// Containers whose accesses are checked in every build, also where NDEBUG and _GLIBCXX_ASSERTIONS are not set: an index that is out of
// range is an InternalError, which ends one compile and leaves the program to run eagerly. An assertion of the library would end the
// process instead, and no assertion would read somebody else's memory. So what a pass indexes by an id stands in one of these; plain
// vectors are for what is walked from end to end, and for the tables of a running call (jit/run), whose indices were checked when
// the call was compiled.
#pragma once

#include <string>
#include <vector>

#include "support/error.h"

namespace escapement {

[[noreturn, gnu::cold, gnu::noinline]] inline void bad_index(size_t index, size_t size) {
  throw InternalError("entry " + std::to_string(index) + " of a table of " + std::to_string(size));
}

inline size_t checked_index(size_t index, size_t size) {
  if (index >= size) [[unlikely]] bad_index(index, size);
  return index;
}

// A vector, by position.
template <class T>
class CheckedVector : public std::vector<T> {
 public:
  using Base = std::vector<T>;
  using Base::Base;
  CheckedVector() = default;
  CheckedVector(Base entries) : Base(std::move(entries)) {}  // NOLINT: what a vector was made for

  decltype(auto) operator[](size_t i) { return Base::operator[](checked_index(i, this->size())); }
  decltype(auto) operator[](size_t i) const { return Base::operator[](checked_index(i, this->size())); }
  decltype(auto) at(size_t i) { return (*this)[i]; }
  decltype(auto) at(size_t i) const { return (*this)[i]; }
  decltype(auto) front() { return (*this)[0]; }
  decltype(auto) front() const { return (*this)[0]; }
  decltype(auto) back() { return (*this)[this->size() - 1]; }
  decltype(auto) back() const { return (*this)[this->size() - 1]; }
};

// What is known of each id of one table: indexed by that kind of id and nothing else, so that an id of another table, or a number of
// another meaning, does not compile. `none`, and an id that the table had not when the map was made, are errors like any other.
template <class Key, class T>
class IdMap {
 public:
  IdMap() = default;
  explicit IdMap(size_t size, const T& value = T()) : entries_(size, value) {}

  decltype(auto) operator[](Key id) { return entries_[id.index]; }
  decltype(auto) operator[](Key id) const { return entries_[id.index]; }
  bool contains(Key id) const { return id.index < entries_.size(); }
  size_t size() const { return entries_.size(); }
  void assign(size_t size, const T& value) { entries_.assign(size, value); }
  void grow(size_t size, const T& value = T()) {
    if (size > entries_.size()) entries_.resize(size, value);
  }

 private:
  CheckedVector<T> entries_;
};

}  // namespace escapement
