// Bodies of runtime/detail/elf.hpp.
#pragma once

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "fxx/runtime/detail/elf.hpp"

namespace fxx::inline FXX_ABI::detail {

FXX_INLINE ElfFile::ElfFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  size_ = static_cast<std::uint64_t>(status.st_size);
  read_sections();
}

FXX_INLINE bool ElfFile::has_source_lines() const {
  return std::any_of(sections_.begin(), sections_.end(), [&](const Section& section) {
    const std::string_view name = text_at(names_, section.sh_name);
    return section.sh_size > 0 && (name == ".debug_line" || name == ".zdebug_line");
  });
}

FXX_INLINE std::vector<std::string> ElfFile::functions_at(std::span<const std::uintptr_t> addresses) const {
  std::vector<std::string> names(addresses.size());
  for (const std::uint32_t wanted : {SHT_SYMTAB, SHT_DYNSYM})  // the fuller table goes first
    for (const Section& section : sections_)
      if (section.sh_type == wanted) name_from(section, addresses, names);
  return names;
}

FXX_INLINE bool ElfFile::read(std::uint64_t offset, void* to, std::uint64_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) return false;
  for (char* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = ::pread(file_.get(), at, bytes, static_cast<off_t>(offset));
    if (got <= 0) return false;
    at += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

FXX_INLINE std::string ElfFile::read_text(const Section& section) const {
  std::string text;
  if (section.sh_type == SHT_NOBITS || section.sh_size > std::min(size_, largest_table)) return text;
  text.resize(section.sh_size);
  if (!read(section.sh_offset, text.data(), text.size())) text.clear();
  return text;
}

FXX_INLINE std::string_view ElfFile::text_at(const std::string& table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const std::string_view rest = std::string_view(table).substr(offset);
  const std::size_t end = rest.find('\0');
  return end == rest.npos ? std::string_view{} : rest.substr(0, end);
}

FXX_INLINE void ElfFile::read_sections() {
  Header header{};
  const std::uint16_t probe = 1;
  const unsigned char order = *reinterpret_cast<const unsigned char*>(&probe) ? ELFDATA2LSB : ELFDATA2MSB;
  if (!read(0, &header, sizeof header) || ::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) || header.e_ident[EI_DATA] != order ||
      header.e_shoff == 0 || header.e_shentsize != sizeof(Section))
    return;
  // Counts that do not fit into the header stand in the first section.
  Section first{};
  if (!read(header.e_shoff, &first, sizeof first)) return;
  const std::uint64_t count = header.e_shnum ? header.e_shnum : first.sh_size;
  const std::uint64_t names = header.e_shstrndx == SHN_XINDEX ? first.sh_link : header.e_shstrndx;
  if (count > size_ / sizeof(Section) || names >= count) return;
  sections_.resize(count);
  if (!read(header.e_shoff, sections_.data(), count * sizeof(Section))) return sections_.clear();
  names_ = read_text(sections_[names]);
}

FXX_INLINE void ElfFile::name_from(const Section& section, std::span<const std::uintptr_t> addresses,
                                   std::vector<std::string>& names) const {
  if (section.sh_entsize != sizeof(Symbol) || section.sh_link >= sections_.size() || section.sh_size > size_) return;
  if (std::none_of(names.begin(), names.end(), [](const std::string& name) { return name.empty(); })) return;
  const std::string texts = read_text(sections_[section.sh_link]);
  constexpr std::uint64_t piece = 4096;  // symbols read at once
  std::vector<Symbol> symbols(piece);
  for (std::uint64_t at = 0, count = section.sh_size / sizeof(Symbol); at < count; at += piece) {
    const std::uint64_t here = std::min(piece, count - at);
    if (!read(section.sh_offset + at * sizeof(Symbol), symbols.data(), here * sizeof(Symbol))) return;
    for (const Symbol& symbol : std::span(symbols).first(here)) {
      const int type = symbol.st_info & 15;
      if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF) continue;
      auto address = std::lower_bound(addresses.begin(), addresses.end(), symbol.st_value);
      for (; address != addresses.end() && *address - symbol.st_value < symbol.st_size; ++address) {
        std::string& name = names[static_cast<std::size_t>(address - addresses.begin())];
        if (name.empty()) name = text_at(texts, symbol.st_name);
      }
    }
  }
}

}  // namespace fxx::inline FXX_ABI::detail
