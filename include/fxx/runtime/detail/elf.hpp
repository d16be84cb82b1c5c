// The symbol table of an ELF file, for names that the dynamic linker does not know. Private to runtime/.
// Main names: ElfFile. Cost: light.
#pragma once

#include <link.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/runtime/files.hpp"

namespace fxx::inline FXX_ABI::detail {

/// A file of this machine's kind; any other has no names. It may hold anything: nothing is read beyond its size, and no
/// number in it is believed before it is compared with that.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path);

  bool has_source_lines() const;
  /// The functions that hold the addresses, which are sorted and count as the file does; empty where there is none.
  /// Linear in the symbol table.
  std::vector<std::string> functions_at(std::span<const std::uintptr_t> addresses) const;

 private:
  using Header = ElfW(Ehdr);
  using Section = ElfW(Shdr);
  using Symbol = ElfW(Sym);
  static constexpr std::uint64_t largest_table = std::uint64_t{1} << 30;  // bytes

  bool read(std::uint64_t offset, void* to, std::uint64_t bytes) const;
  std::string read_text(const Section& section) const;
  static std::string_view text_at(const std::string& table, std::uint64_t offset);
  void read_sections();
  void name_from(const Section& section, std::span<const std::uintptr_t> addresses,
                 std::vector<std::string>& names) const;

  files::Descriptor file_;
  std::uint64_t size_ = 0;
  std::vector<Section> sections_;
  std::string names_;  // of sections
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/detail/elf.ipp"
#endif
