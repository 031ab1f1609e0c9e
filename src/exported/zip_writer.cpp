// See zip_writer.h. The format: PKWARE's APPNOTE.TXT, 4.3 (records) and 4.5.3 (64-bit sizes).
#include "exported/zip_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "exported/zip.h"
#include "support/error.h"

namespace escapement {

namespace {

constexpr uint64_t kNarrow = 0xFFFFFFFF;
constexpr uint16_t kVersion = 45;                 // 64-bit sizes
constexpr uint64_t kLocalHeader = 30, kWideExtra = 20, kPaddingHeader = 4;

class Bytes {
 public:
  Bytes& put(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  Bytes& put(std::string_view text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> next{0};
  return path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(next++);
}

// Always with 64-bit sizes, and padded so that the data are aligned. The padding's id is one that no tool knows.
std::string local_header(std::string_view name, uint64_t size, uint32_t checksum, uint64_t position) {
  const uint64_t before = position + kLocalHeader + name.size() + kWideExtra + kPaddingHeader;
  const uint64_t padding = (ZipWriter::kAlignment - before % ZipWriter::kAlignment) % ZipWriter::kAlignment;
  Bytes header;
  header.put(0x04034b50, 4).put(kVersion, 2).put(0, 2).put(0, 2).put(0, 2).put(0x21, 2);   // stored; 1980-01-01
  header.put(checksum, 4).put(kNarrow, 4).put(kNarrow, 4);
  header.put(name.size(), 2).put(kWideExtra + kPaddingHeader + padding, 2).put(name);
  header.put(1, 2).put(16, 2).put(size, 8).put(size, 8);
  header.put(0x6E65, 2).put(padding, 2).put(std::string(padding, '\0'));
  return header.text();
}

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

ZipWriter::ZipWriter(std::string path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail("cannot be created");
}

ZipWriter::~ZipWriter() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void ZipWriter::fail(const char* what) const {
  throw UserError("escapement: '" + path_ + "' " + what + ": " + std::strerror(errno));
}

void ZipWriter::write(std::span<const std::byte> bytes) {
  position_ += bytes.size();
  while (!bytes.empty()) {
    const ssize_t put = ::write(file_, bytes.data(), std::min<size_t>(bytes.size(), size_t{1} << 30));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
}

void ZipWriter::write(std::string_view text) { write(as_bytes(text)); }

void ZipWriter::add(std::string_view name, Parts parts) {
  Entry entry{std::string(name), 0, position_, 0};
  for (const auto part : parts) {
    entry.checksum = crc32(part, entry.checksum);
    entry.size += part.size();
  }
  write(local_header(name, entry.size, entry.checksum, position_));
  for (const auto part : parts) write(part);
  entries_.push_back(std::move(entry));
}

void ZipWriter::add(std::string_view name, std::string_view data) {
  const std::span<const std::byte> part = as_bytes(data);
  add(name, Parts(&part, 1));
}

void ZipWriter::write_directory() {
  const uint64_t start = position_;
  for (const Entry& entry : entries_) {
    Bytes header;
    header.put(0x02014b50, 4).put(kVersion, 2).put(kVersion, 2).put(0, 2).put(0, 2).put(0, 2).put(0x21, 2);
    header.put(entry.checksum, 4).put(kNarrow, 4).put(kNarrow, 4).put(entry.name.size(), 2).put(28, 2);
    header.put(0, 2).put(0, 2).put(0, 2).put(0, 4).put(kNarrow, 4).put(entry.name);
    header.put(1, 2).put(24, 2).put(entry.size, 8).put(entry.size, 8).put(entry.header, 8);
    write(header.text());
  }
  const uint64_t end = position_, count = entries_.size();
  Bytes tail;
  tail.put(0x06064b50, 4).put(44, 8).put(kVersion, 2).put(kVersion, 2).put(0, 4).put(0, 4);
  tail.put(count, 8).put(count, 8).put(end - start, 8).put(start, 8);
  tail.put(0x07064b50, 4).put(0, 4).put(end, 8).put(1, 4);
  tail.put(0x06054b50, 4).put(0, 4).put(0xFFFF, 2).put(0xFFFF, 2).put(kNarrow, 4).put(kNarrow, 4).put(0, 2);
  write(tail.text());
}

void ZipWriter::finish() {
  write_directory();
  if (::fsync(file_) != 0) fail("cannot be synced");
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    ::unlink(temporary_.c_str());
    fail("cannot be put in place");
  }
}

}  // namespace escapement
