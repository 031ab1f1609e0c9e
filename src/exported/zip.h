// ZipFile: the entries of a zip archive whose entries are stored, not compressed, as torch.export writes them.
//
// The file is hostile until proven otherwise: every offset and length is checked against the file's size without overflow,
// entries may not overlap, names are unique, and each entry's checksum is compared when it is read. Any breach is a
// UserError that names the file. Entries are read into memory of the caller's, where a file that shrinks later is an error and not a bus
// fault; `map` is for packages, which say that they must be replaced and never changed in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace escapement {

class ZipFile {
 public:
  struct Entry {
    std::string name;
    uint64_t offset = 0;   // of the data, from the start of the file
    uint64_t size = 0;
    uint32_t checksum = 0;
  };

  explicit ZipFile(std::string path);
  ZipFile(std::span<const std::byte> bytes, std::string shown);      // an archive in memory, which must stay; `shown`: in errors
  ~ZipFile();
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;

  const std::vector<Entry>& entries() const { return entries_; }     // sorted by name
  const Entry* find(std::string_view name) const;                    // null: there is none
  void read(const Entry& entry, std::span<std::byte> into) const;    // `into` has the entry's size
  std::string read_text(const Entry& entry, uint64_t most) const;    // an entry of at most so many bytes

  // An entry's bytes as memory: pages of the file, copied where they are written to. Its checksum is compared.
  class Mapping {
   public:
    Mapping(void* start, size_t length, size_t skipped) : start_(start), length_(length), skipped_(skipped) {}
    ~Mapping();
    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;
    std::span<std::byte> bytes() const { return {static_cast<std::byte*>(start_) + skipped_, length_ - skipped_}; }

   private:
    void* start_;
    size_t length_, skipped_;      // from the page's start to the entry
  };
  std::shared_ptr<const Mapping> map(const Entry& entry) const;      // of an archive in memory a copy

  [[noreturn]] void fail(const std::string& cause) const;

 private:
  struct Directory;
  void close_file() noexcept;
  void read_at(uint64_t offset, std::span<std::byte> into) const;
  void need(uint64_t offset, uint64_t size, const char* what) const;  // lies inside the file
  Directory find_directory() const;
  void widen(Directory& directory, uint64_t end_record) const;
  void read_directory(const Directory& directory);
  void locate(Entry& entry, uint64_t header, uint64_t directory_start) const;
  void check_layout();

  std::string shown_;                // in errors: the path between quotes
  int file_ = -1;                    // or
  const std::byte* bytes_ = nullptr;
  uint64_t size_ = 0;
  std::vector<Entry> entries_;
};

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace escapement
