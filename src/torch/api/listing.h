// What an object keeps in memory that it only points to, as words: equal words are equal contents. What a word says is an address is kept alive
// where the words are compared later (`keeping`): another tensor at the same address would be taken for it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace escapement {

class Listing {
 public:
  explicit Listing(bool keeping = false) : keeping_(keeping) {}

  void number(uint64_t bits) { words_.push_back(bits); }
  void tensor(const at::Tensor& tensor) { address(tensor.unsafeGetTensorImpl(), [&] { return c10::IValue(tensor); }); }
  void value(const void* at, const c10::IValue& value) { address(at, [&] { return value; }); }
  void module(const std::shared_ptr<const void>& module);
  void text(std::string_view text);
  void never_equal();   // what cannot be compared
  template <class T>
  void numbers(const std::vector<T>& values) {
    number(values.size());
    for (const T value : values) number(bits_of(value));
  }

  // Tensors among the words of an object itself, which keeps them in members.
  void keep_members(std::span<const std::byte> object);
  void keep(const at::Tensor& tensor) { if (keeping_) kept_.emplace_back(tensor); }

  void clear() { words_.clear(); }
  bool names(const void* address) const;
  bool operator==(const Listing& other) const { return words_ == other.words_; }

 private:
  template <class T>
  static uint64_t bits_of(T value) {
    if constexpr (std::is_floating_point_v<T>) return std::bit_cast<uint64_t>(static_cast<double>(value));
    else return static_cast<uint64_t>(value);
  }
  template <class Make>
  void address(const void* at, Make make) {
    number(reinterpret_cast<uintptr_t>(at));
    if (keeping_) kept_.push_back(make());
  }

  bool keeping_;
  std::vector<uint64_t> words_;
  std::vector<c10::IValue> kept_;
  std::vector<std::shared_ptr<const void>> modules_;
};

}  // namespace escapement
