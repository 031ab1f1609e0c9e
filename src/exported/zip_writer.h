// ZipWriter: a zip archive of stored entries, as ZipFile reads it, with 64-bit sizes where they are needed. The file appears
// under its name when it is complete, and not at all if anything fails: it is written beside, synced and renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

class ZipWriter {
 public:
  static constexpr uint64_t kAlignment = 64;  // of every entry's data in the file

  explicit ZipWriter(std::string path);  // UserError names the file and the cause, here and below
  ~ZipWriter();                          // without `finish`: nothing remains
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  using Parts = std::span<const std::span<const std::byte>>;
  void add(std::string_view name, Parts parts);  // the parts one after the other are the entry's data
  void add(std::string_view name, std::string_view data);
  void finish();

 private:
  struct Entry {
    std::string name;
    uint64_t size, header;
    uint32_t checksum;
  };
  [[noreturn]] void fail(const char* what) const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_directory();

  std::string path_, temporary_;
  int file_ = -1;
  uint64_t position_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace escapement
