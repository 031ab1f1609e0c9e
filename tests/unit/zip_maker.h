// Zip archives as bytes, for tests of their reader: writes what a test wants to be wrong, too.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exported/zip.h"

namespace escapement {

inline void append(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

struct ZipMaker {
  struct Part {
    std::string name, data;
    uint16_t method = 0, flags = 0;
    std::optional<uint32_t> checksum = {}, size = {}, header = {};
    bool wide = false;
  };
  std::vector<Part> parts;
  bool wide_end = false;

  static uint32_t checksum(const Part& part) {
    return part.checksum.value_or(crc32(std::as_bytes(std::span(part.data.data(), part.data.size()))));
  }

  static void local_header(std::string& out, const Part& part) {
    append(out, 0x04034b50, 4), append(out, 20, 2), append(out, part.flags, 2), append(out, part.method, 2), append(out, 0, 4);
    append(out, checksum(part), 4), append(out, part.data.size(), 4), append(out, part.data.size(), 4);
    append(out, part.name.size(), 2), append(out, 0, 2);
    out += part.name;
  }

  static void central_header(std::string& out, const Part& part, uint64_t at) {
    const uint64_t size = part.wide ? 0xFFFFFFFF : part.size.value_or(static_cast<uint32_t>(part.data.size()));
    append(out, 0x02014b50, 4), append(out, 20, 2), append(out, 20, 2), append(out, part.flags, 2), append(out, part.method, 2);
    append(out, 0, 4), append(out, checksum(part), 4), append(out, size, 4), append(out, size, 4);
    append(out, part.name.size(), 2), append(out, part.wide ? 28 : 0, 2), append(out, 0, 2), append(out, 0, 2), append(out, 0, 2);
    append(out, 0, 4), append(out, part.wide ? 0xFFFFFFFF : part.header.value_or(static_cast<uint32_t>(at)), 4);
    out += part.name;
    if (part.wide) append(out, 1, 2), append(out, 24, 2), append(out, part.data.size(), 8), append(out, part.data.size(), 8), append(out, at, 8);
  }

  std::string bytes() const {
    std::string out, directory;
    for (const Part& part : parts) {
      central_header(directory, part, out.size());
      local_header(out, part);
      out += part.data;
    }
    const uint64_t start = out.size();
    out += directory;
    if (wide_end) {
      const uint64_t record = out.size();
      append(out, 0x06064b50, 4), append(out, 44, 8), append(out, 45, 2), append(out, 45, 2), append(out, 0, 4), append(out, 0, 4);
      append(out, parts.size(), 8), append(out, parts.size(), 8), append(out, directory.size(), 8), append(out, start, 8);
      append(out, 0x07064b50, 4), append(out, 0, 4), append(out, record, 8), append(out, 1, 4);
    }
    append(out, 0x06054b50, 4), append(out, 0, 4), append(out, wide_end ? 0xFFFF : parts.size(), 2), append(out, wide_end ? 0xFFFF : parts.size(), 2);
    append(out, wide_end ? 0xFFFFFFFF : directory.size(), 4), append(out, wide_end ? 0xFFFFFFFF : start, 4), append(out, 0, 2);
    return out;
  }
};

}  // namespace escapement
