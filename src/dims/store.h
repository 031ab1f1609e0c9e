// Where a DimTable keeps its expressions. Passes copy tables of thousands of expressions, so a copy is cheap: what is written once
// is shared, and what is looked up by hash lies in one piece. Private to dims*.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "support/checked.h"

namespace escapement {

// Sequences by number. They never change and never move: a reference into one stays valid while others are added, and copies of a
// table share the blocks that hold them. A copy writes into blocks of its own.
template <class T>
class Sequences {
 public:
  size_t size() const { return all_.size(); }
  std::span<const T> operator[](size_t i) const { return all_[checked_index(i, all_.size())]; }

  uint32_t push_back(std::span<const T> sequence) {
    const size_t length = sequence.size();
    if (tail_.left < length) start_block(length);
    std::copy(sequence.begin(), sequence.end(), tail_.next);
    all_.emplace_back(tail_.next, length);
    tail_.next += length;
    tail_.left -= length;
    return static_cast<uint32_t>(all_.size() - 1);
  }

 private:
  static constexpr size_t kSmallestBlock = 64, kLargestBlock = 8192;

  struct Tail {  // the free end of the last block; its owner alone writes there
    Tail() = default;
    Tail(const Tail&) {}
    Tail& operator=(const Tail&) { return *this = Tail(); }
    Tail(Tail&& other) noexcept : next(std::exchange(other.next, nullptr)), left(std::exchange(other.left, 0)) {}
    Tail& operator=(Tail&& other) noexcept {
      next = std::exchange(other.next, nullptr);
      left = std::exchange(other.left, 0);
      return *this;
    }
    T* next = nullptr;
    size_t left = 0;
  };

  void start_block(size_t length) {
    const size_t wanted = std::clamp(kSmallestBlock << std::min<size_t>(blocks_.size(), 16), kSmallestBlock, kLargestBlock);
    tail_.left = std::max(length, wanted);
    blocks_.push_back(std::make_shared_for_overwrite<T[]>(tail_.left));
    tail_.next = blocks_.back().get();
  }

  std::vector<std::span<const T>> all_;
  std::vector<std::shared_ptr<T[]>> blocks_;
  Tail tail_;
};

// Numbers by hash: open addressing, at most half full.
class HashIndex {
 public:
  // The number under `hash` that `same` accepts.
  template <class Same>
  std::optional<uint32_t> find(uint64_t hash, Same same) const {
    if (slots_.empty()) return std::nullopt;
    for (size_t i = place(hash); slots_[i].number != kFree; i = next(i))
      if (slots_[i].hash == short_hash(hash) && same(slots_[i].number)) return slots_[i].number;
    return std::nullopt;
  }

  void insert(uint64_t hash, uint32_t number) {
    if (2 * (used_ + 1) > slots_.size()) grow();
    put({short_hash(hash), number});
    ++used_;
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Slot {
    uint32_t hash = 0, number = kFree;
  };

  static uint32_t short_hash(uint64_t hash) { return static_cast<uint32_t>(hash ^ (hash >> 32)); }
  size_t place(uint64_t hash) const { return short_hash(hash) & (slots_.size() - 1); }
  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }

  void put(Slot slot) {
    size_t i = slot.hash & (slots_.size() - 1);
    while (slots_[i].number != kFree) i = next(i);
    slots_[i] = slot;
  }

  void grow() {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(std::max<size_t>(16, 2 * slots_.size())));
    for (const Slot& slot : old)
      if (slot.number != kFree) put(slot);
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

}  // namespace escapement
