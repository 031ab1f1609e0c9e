// See zip.h. The format: PKWARE's APPNOTE.TXT, 4.3 (records) and 4.5.3 (64-bit sizes).
#include "exported/zip.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "support/error.h"
#include "support/text.h"

namespace escapement {

namespace {

constexpr uint64_t kMaxDirectory = uint64_t{256} << 20;
constexpr uint64_t kBlock = uint64_t{256} << 10;
constexpr uint64_t kEndRecord = 22, kLocator = 20, kWideEndRecord = 56, kCentralHeader = 46, kLocalHeader = 30;
constexpr uint16_t kNarrow16 = 0xFFFF;        // "see the 64-bit record"
constexpr uint32_t kNarrow32 = 0xFFFFFFFF;

// Little-endian numbers of a record whose length has been checked.
struct Record {
  const std::byte* data;
  template <class T>
  T get(size_t at) const {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i)
      value = static_cast<T>(value | (static_cast<T>(std::to_integer<uint8_t>(data[at + i])) << (8 * i)));
    return value;
  }
  uint16_t u16(size_t at) const { return get<uint16_t>(at); }
  uint32_t u32(size_t at) const { return get<uint32_t>(at); }
  uint64_t u64(size_t at) const { return get<uint64_t>(at); }
};

using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables make_crc_tables() {
  CrcTables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0xEDB88320u : 0);
    t[0][i] = c;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = (t[k - 1][i] >> 8) ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}
constexpr CrcTables kCrc = make_crc_tables();

// Names of a damaged archive may be any bytes; messages are text.
std::string quoted(std::string_view name) {
  std::string text(name.substr(0, 200));
  std::replace_if(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) < ' '; }, '?');
  return quote(text);
}

}  // namespace

static_assert(std::endian::native == std::endian::little, "weights are stored in little-endian order");

// Eight bytes a step: weights are read at the speed of the disk.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t c = ~before;
  const std::byte* p = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    word ^= c;
    c = kCrc[7][word & 0xFF] ^ kCrc[6][(word >> 8) & 0xFF] ^ kCrc[5][(word >> 16) & 0xFF] ^ kCrc[4][(word >> 24) & 0xFF] ^
        kCrc[3][(word >> 32) & 0xFF] ^ kCrc[2][(word >> 40) & 0xFF] ^ kCrc[1][(word >> 48) & 0xFF] ^ kCrc[0][word >> 56];
  }
  for (; left > 0; --left, ++p) c = (c >> 8) ^ kCrc[0][(c ^ std::to_integer<uint32_t>(*p)) & 0xFF];
  return ~c;
}

struct ZipFile::Directory {
  uint64_t count = 0, offset = 0, size = 0;
};

ZipFile::ZipFile(std::string path) : shown_("'" + path + "'") {
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0) fail(std::string("cannot be opened: ") + std::strerror(errno));
  try {
    struct stat facts {};
    if (::fstat(file_, &facts) != 0 || !S_ISREG(facts.st_mode)) fail("is not a regular file");
    size_ = static_cast<uint64_t>(facts.st_size);
    read_directory(find_directory());
    check_layout();
  } catch (...) {
    close_file();
    throw;
  }
}

ZipFile::ZipFile(std::span<const std::byte> bytes, std::string shown) : shown_(std::move(shown)), bytes_(bytes.data()), size_(bytes.size()) {
  read_directory(find_directory());
  check_layout();
}

ZipFile::~ZipFile() { close_file(); }

void ZipFile::close_file() noexcept {
  if (file_ >= 0) ::close(file_);
  file_ = -1;
}

void ZipFile::fail(const std::string& cause) const {
  throw UserError("escapement: " + shown_ + " " + cause + "; expected an archive written by torch.export.save, or a package");
}

void ZipFile::need(uint64_t offset, uint64_t size, const char* what) const {
  if (offset > size_ || size > size_ - offset)
    fail(std::string("is truncated or corrupt: ") + what + " lies outside the file");
}

void ZipFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  if (file_ < 0) {
    need(offset, into.size(), "what is read");
    std::copy_n(bytes_ + offset, into.size(), into.begin());
    return;
  }
  while (!into.empty()) {
    const ssize_t got = ::pread(file_, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::string("cannot be read: ") + std::strerror(errno));
    if (got == 0) fail("became shorter while it was read");
    offset += static_cast<uint64_t>(got);
    into = into.subspan(static_cast<size_t>(got));
  }
}

// The end record stands last, but for a comment of at most 65535 bytes.
ZipFile::Directory ZipFile::find_directory() const {
  if (size_ < kEndRecord) fail("is no zip archive");
  const uint64_t tail = std::min<uint64_t>(size_, kEndRecord + 0xFFFF);
  std::vector<std::byte> bytes(tail);
  read_at(size_ - tail, bytes);
  for (uint64_t at = tail - kEndRecord + 1; at-- > 0;) {
    const Record record{bytes.data() + at};
    if (record.u32(0) != 0x06054b50 || record.u16(20) != tail - at - kEndRecord) continue;
    if (record.u16(4) != 0 && record.u16(4) != kNarrow16) fail("is one part of an archive in several files");
    Directory directory{record.u16(10), record.u32(16), record.u32(12)};
    if (directory.count == kNarrow16 || directory.offset == kNarrow32 || directory.size == kNarrow32)
      widen(directory, size_ - tail + at);
    return directory;
  }
  fail("is no zip archive, or is truncated (it has no end record)");
}

// The 64-bit end record, whose locator stands before the ordinary one.
void ZipFile::widen(Directory& directory, uint64_t end_record) const {
  if (end_record < kLocator) fail("is corrupt: the 64-bit end record is missing");
  std::array<std::byte, kLocator> locator;
  read_at(end_record - kLocator, locator);
  if (Record{locator.data()}.u32(0) != 0x07064b50) return;  // exactly 65535 entries, or as large as that: not wide
  const uint64_t at = Record{locator.data()}.u64(8);
  need(at, kWideEndRecord, "the 64-bit end record");
  std::array<std::byte, kWideEndRecord> wide;
  read_at(at, wide);
  const Record record{wide.data()};
  if (record.u32(0) != 0x06064b50) fail("is corrupt: the 64-bit end record is missing");
  directory = {record.u64(32), record.u64(48), record.u64(40)};
}

namespace {

// Sizes and offset of a central header, from its 64-bit extra field where the ordinary fields say so.
struct Place {
  uint64_t size, packed, header;
};

bool widen_place(Place& place, std::span<const std::byte> extra) {
  uint64_t* const fields[] = {&place.size, &place.packed, &place.header};
  while (extra.size() >= 4) {
    const Record record{extra.data()};
    const size_t length = record.u16(2);
    if (length > extra.size() - 4) return false;
    if (record.u16(0) == 1) {
      size_t at = 0;
      for (uint64_t* field : fields) {
        if (*field != kNarrow32) continue;
        if (at + 8 > length) return false;
        *field = record.u64(4 + at);
        at += 8;
      }
      return true;
    }
    extra = extra.subspan(4 + length);
  }
  return false;
}

}  // namespace

void ZipFile::read_directory(const Directory& directory) {
  if (directory.size > kMaxDirectory) fail("is corrupt: its directory is larger than 256 MiB");
  need(directory.offset, directory.size, "the directory");
  if (directory.count > directory.size / kCentralHeader) fail("is corrupt: its directory is too short for its entries");
  std::vector<std::byte> bytes(directory.size);
  read_at(directory.offset, bytes);
  std::span<const std::byte> rest(bytes);
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < kCentralHeader) fail("is corrupt: its directory ends early");
    const Record record{rest.data()};
    const size_t name = record.u16(28), extra = record.u16(30), comment = record.u16(32);
    const size_t whole = kCentralHeader + name + extra + comment;
    if (record.u32(0) != 0x02014b50 || whole > rest.size())
      fail("is corrupt: entry " + std::to_string(i) + " of its directory");
    Entry entry;
    entry.name.assign(reinterpret_cast<const char*>(rest.data() + kCentralHeader), name);
    entry.checksum = record.u32(16);
    if (record.u16(8) & 1) fail("has an encrypted entry, " + quoted(entry.name));
    if (record.u16(10) != 0)
      fail("has a compressed entry, " + quoted(entry.name) + " (method " + std::to_string(record.u16(10)) +
          "): only stored ones are read");
    Place place{record.u32(24), record.u32(20), record.u32(42)};
    const bool wide = place.size == kNarrow32 || place.packed == kNarrow32 || place.header == kNarrow32;
    if (wide && !widen_place(place, rest.subspan(kCentralHeader + name, extra)))
      fail("is corrupt: the 64-bit sizes of " + quoted(entry.name) + " are missing");
    if (place.size != place.packed) fail("is corrupt: " + quoted(entry.name) + " is stored with two sizes");
    entry.size = place.size;
    locate(entry, place.header, directory.offset);
    entries_.push_back(std::move(entry));
    rest = rest.subspan(whole);
  }
}

// The data stand after a local header, which must name the same entry.
void ZipFile::locate(Entry& entry, uint64_t header, uint64_t directory_start) const {
  need(header, kLocalHeader + entry.name.size(), "an entry");
  std::vector<std::byte> bytes(kLocalHeader + entry.name.size());
  read_at(header, bytes);
  const Record record{bytes.data()};
  if (record.u32(0) != 0x04034b50 || record.u16(26) != entry.name.size() ||
      std::memcmp(bytes.data() + kLocalHeader, entry.name.data(), entry.name.size()) != 0)
    fail("is corrupt: the header of " + quoted(entry.name) + " does not stand where the directory says");
  entry.offset = header + kLocalHeader + entry.name.size() + record.u16(28);
  if (entry.offset > directory_start || entry.size > directory_start - entry.offset)
    fail("is truncated or corrupt: " + quoted(entry.name) + " lies outside the file");
}

void ZipFile::check_layout() {
  const auto by_offset = [](const Entry& a, const Entry& b) { return a.offset < b.offset; };
  const auto by_name = [](const Entry& a, const Entry& b) { return a.name < b.name; };
  std::sort(entries_.begin(), entries_.end(), by_offset);
  for (size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i - 1].offset + entries_[i - 1].size > entries_[i].offset)
      fail("is corrupt: " + quoted(entries_[i - 1].name) + " and " + quoted(entries_[i].name) + " overlap");
  }
  std::sort(entries_.begin(), entries_.end(), by_name);
  for (size_t i = 1; i < entries_.size(); ++i) {
    if (entries_[i - 1].name == entries_[i].name) fail("is corrupt: it has two entries " + quoted(entries_[i].name));
  }
}

const ZipFile::Entry* ZipFile::find(std::string_view name) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
      [](const Entry& e, std::string_view n) { return e.name < n; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

void ZipFile::read(const Entry& entry, std::span<std::byte> into) const {
  ESCAPEMENT_CHECK(into.size() == entry.size, "memory for an entry");
  uint32_t checksum = 0;
  for (uint64_t at = 0; at < entry.size; at += kBlock) {
    const std::span<std::byte> block = into.subspan(at, std::min(kBlock, entry.size - at));
    read_at(entry.offset + at, block);
    checksum = crc32(block, checksum);   // while it is in the cache
  }
  if (checksum != entry.checksum) fail("is corrupt: the checksum of " + quoted(entry.name) + " is wrong");
}

std::string ZipFile::read_text(const Entry& entry, uint64_t most) const {
  if (entry.size > most) fail("is not read: " + quoted(entry.name) + " has more than " + std::to_string(most) + " bytes");
  std::string text(entry.size, '\0');
  read(entry, std::as_writable_bytes(std::span(text)));
  return text;
}

ZipFile::Mapping::~Mapping() {
  if (length_ != 0) ::munmap(start_, length_);
}

std::shared_ptr<const ZipFile::Mapping> ZipFile::map(const Entry& entry) const {
  if (entry.size == 0) return std::make_shared<const Mapping>(nullptr, 0, 0);
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)), skipped = entry.offset % page;
  const size_t length = entry.size + skipped;
  const bool copied = file_ < 0;
  void* const start = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | (copied ? MAP_ANONYMOUS : 0), file_,
                             copied ? 0 : static_cast<off_t>(entry.offset - skipped));
  if (start == MAP_FAILED) fail(std::string("cannot be mapped: ") + std::strerror(errno));
  auto mapping = std::make_shared<const Mapping>(start, length, skipped);
  if (copied) read_at(entry.offset, mapping->bytes());
  if (crc32(mapping->bytes()) != entry.checksum) fail("is corrupt: the checksum of " + quoted(entry.name) + " is wrong");
  return mapping;
}

}  // namespace escapement
