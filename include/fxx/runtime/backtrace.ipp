// Bodies of runtime/backtrace.hpp.
#pragma once

#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>

#include "fxx/error.hpp"
#include "fxx/runtime/backtrace.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/process.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

// --- capturing -------------------------------------------------------------------------------------------------------

FXX_INLINE _Unwind_Reason_Code keep_address(_Unwind_Context* context, void* state) {
  auto& unwinding = *static_cast<Unwinding*>(state);
  if (unwinding.skip-- > 0) return _URC_NO_REASON;
  const auto address = _Unwind_GetIP(context);
  if (address == 0 || unwinding.size == unwinding.capacity) return _URC_END_OF_STACK;
  unwinding.out[unwinding.size++] = reinterpret_cast<void*>(address);
  return _URC_NO_REASON;
}

// --- what is mapped where --------------------------------------------------------------------------------------------

struct MappedObject {
  std::string name;     // for people
  std::string content;  // path to read; that of the running program holds even when its file was replaced
  std::uintptr_t bias;  // added to the addresses in the file
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> ranges;
};

FXX_INLINE int keep_object(dl_phdr_info* info, std::size_t, void* state) {
  auto& objects = *static_cast<std::vector<MappedObject>*>(state);
  MappedObject object{info->dlpi_name ? info->dlpi_name : "", {}, info->dlpi_addr, {}};
  object.content = object.name;
  if (object.name.empty()) {  // the program itself
    char path[4096];
    object.content = "/proc/" + std::to_string(::getpid()) + "/exe";
    const ssize_t size = ::readlink(object.content.c_str(), path, sizeof path);
    object.name = size > 0 ? std::string(path, static_cast<std::size_t>(size)) : "program";
  }
  for (int i = 0; i < info->dlpi_phnum; ++i)
    if (const auto& part = info->dlpi_phdr[i]; part.p_type == PT_LOAD)
      object.ranges.emplace_back(object.bias + part.p_vaddr, object.bias + part.p_vaddr + part.p_memsz);
  objects.push_back(std::move(object));
  return 0;
}

FXX_INLINE std::vector<MappedObject> mapped_objects() {
  std::vector<MappedObject> objects;
  ::dl_iterate_phdr(keep_object, &objects);
  return objects;
}

// --- symbol tables ---------------------------------------------------------------------------------------------------

/// An address in a file, and the frames it is for.
struct Query {
  std::uintptr_t address = 0;
  std::vector<Frame*> frames = {};
};

/// Sections of an ELF file of this machine's kind. The file may be anything: nothing is read beyond its size, and no
/// number in it is believed before it is compared with that.
class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (!file_ || ::fstat(file_.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
    size_ = static_cast<std::uint64_t>(status.st_size);
    read_sections();
  }

  bool has_source_lines() const {
    return std::any_of(sections_.begin(), sections_.end(), [&](const Section& section) {
      const std::string_view name = text_at(names_, section.sh_name);
      return section.sh_size > 0 && (name == ".debug_line" || name == ".zdebug_line");
    });
  }

  /// Names the functions that hold the addresses, which are sorted. The fuller table goes first.
  void name_functions(std::span<Query> queries) const {
    for (const auto wanted : {SHT_SYMTAB, SHT_DYNSYM})
      for (const Section& section : sections_)
        if (section.sh_type == static_cast<std::uint32_t>(wanted)) name_from(section, queries);
  }

 private:
  using Header = ElfW(Ehdr);
  using Section = ElfW(Shdr);
  using Symbol = ElfW(Sym);
  static constexpr std::uint64_t largest_table = std::uint64_t{1} << 30;

  bool read(std::uint64_t offset, void* to, std::uint64_t bytes) const {
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
  std::string read_text(const Section& section) const {
    std::string text;
    if (section.sh_type == SHT_NOBITS || section.sh_size > std::min(size_, largest_table)) return text;
    text.resize(section.sh_size);
    if (!read(section.sh_offset, text.data(), text.size())) text.clear();
    return text;
  }
  static std::string_view text_at(const std::string& table, std::uint64_t offset) {
    if (offset >= table.size()) return {};
    const std::string_view rest = std::string_view(table).substr(offset);
    const std::size_t end = rest.find('\0');
    return end == rest.npos ? std::string_view{} : rest.substr(0, end);
  }

  void read_sections() {
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

  void name_from(const Section& section, std::span<Query> queries) const {
    if (section.sh_entsize != sizeof(Symbol) || section.sh_link >= sections_.size() || section.sh_size > size_) return;
    const auto unnamed = [](const Query& query) { return query.frames[0]->symbol.empty(); };
    if (std::none_of(queries.begin(), queries.end(), unnamed)) return;
    const std::string texts = read_text(sections_[section.sh_link]);
    constexpr std::uint64_t piece = 4096;
    std::vector<Symbol> symbols(piece);
    for (std::uint64_t at = 0, count = section.sh_size / sizeof(Symbol); at < count; at += piece) {
      const std::uint64_t here = std::min(piece, count - at);
      if (!read(section.sh_offset + at * sizeof(Symbol), symbols.data(), here * sizeof(Symbol))) return;
      for (const Symbol& symbol : std::span(symbols).first(here)) {
        const int type = symbol.st_info & 15;
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF || symbol.st_size == 0) continue;
        auto query = std::lower_bound(queries.begin(), queries.end(), symbol.st_value,
                                      [](const Query& q, std::uint64_t value) { return q.address < value; });
        for (; query != queries.end() && query->address - symbol.st_value < symbol.st_size; ++query)
          if (unnamed(*query))
            for (Frame* frame : query->frames) frame->symbol = text_at(texts, symbol.st_name);
      }
    }
  }

  files::Descriptor file_;
  std::uint64_t size_ = 0;
  std::vector<Section> sections_;
  std::string names_;
};

FXX_INLINE std::string demangled(const std::string& symbol) {
  int status = 0;
  char* text = symbol.starts_with("_Z") ? abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status) : nullptr;
  if (!text) return symbol;
  const std::string out(text);
  ::free(text);
  return out;
}

// --- whose frame -----------------------------------------------------------------------------------------------------

/// The outermost namespace or class in a mangled name, or the function itself: "at" of _ZN2at6Tensor3addEv. The mangled
/// name tells it plainly, where the demangled one may begin with a return type. After the Itanium C++ ABI, 5.1.
FXX_INLINE std::string_view outermost_name(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return symbol;
  symbol.remove_prefix(2);
  const auto skip_offset = [&] {  // "n16_" of a thunk
    const std::size_t end = symbol.find('_');
    symbol.remove_prefix(end == symbol.npos ? symbol.size() : end + 1);
  };
  if (symbol.starts_with("Th")) {
    skip_offset();
  } else if (symbol.starts_with("Tv")) {
    skip_offset();
    skip_offset();
  }
  // Z: inside a function; N: nested; then qualifiers of a member; L: internal linkage.
  while (symbol.starts_with('Z')) symbol.remove_prefix(1);
  if (symbol.starts_with('N')) {
    symbol.remove_prefix(1);
    symbol.remove_prefix(std::min(symbol.find_first_not_of("rVKRO"), symbol.size()));
  }
  if (symbol.starts_with('L')) symbol.remove_prefix(1);
  if (symbol.starts_with('S')) return "std";  // all abbreviations possible here are of std
  std::size_t size = 0;
  while (!symbol.empty() && symbol[0] >= '0' && symbol[0] <= '9' && size < 100000) {
    size = 10 * size + static_cast<std::size_t>(symbol[0] - '0');
    symbol.remove_prefix(1);
  }
  return symbol.substr(0, size);
}

/// Of LibTorch, this library or the standard library.
FXX_INLINE bool is_library_name(std::string_view symbol) {
  const std::string_view outermost = outermost_name(symbol);
  for (std::string_view space : {"at", "c10", "torch", "fxx", "std", "__gnu_cxx", "__cxxabiv1"})
    if (outermost == space && symbol != space) return true;
  return false;
}

FXX_INLINE std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// The same of a header. Functions of C that are inlined from one have no namespace to tell.
FXX_INLINE bool is_library_header(std::string_view file) {
  if (file.starts_with("/usr/include/") || file.starts_with("/usr/lib/")) return true;
  for (std::string_view folder : {"/include/c++/", "/include/ATen/", "/include/c10/", "/include/torch/", "/include/fxx/"})
    if (file.find(folder) != file.npos) return true;
  return false;
}
FXX_INLINE bool is_library_object(std::string_view path) {
  const std::string_view object = file_name(path);
  for (std::string_view library : {"libtorch", "libc10", "libc.so", "libc-", "libm.so", "libpthread", "libdl.so", "libgcc_s",
                                   "libstdc++", "libc++", "libgomp", "libomp", "libiomp", "ld-", "ld.so", "linux-vdso"})
    if (object.starts_with(library)) return true;
  return false;
}

/// "void f<int>(int, float) const" -> "f<int>(...) const".
FXX_INLINE std::string short_function(std::string_view function) {
  function = function.substr(0, function.find(" [clone"));
  std::string out;
  std::size_t depth = 0, group = 0;  // of brackets; where the outermost one began
  bool seen_parameters = false, seen_operator = false;
  for (std::size_t i = 0; i < function.size(); ++i) {
    const char c = function[i];
    if (depth == 0 && function.substr(i).starts_with("operator") && (i == 0 || function[i - 1] == ':' || function[i - 1] == ' ')) {
      // The symbols that follow are no brackets, and the words of a conversion no return type.
      std::size_t end = i + 8;
      if (function.substr(end).starts_with("()")) end += 2;
      while (end < function.size() && function[end] != '(' && std::string_view("<>=!+-*/%^&|~,[]").find(function[end]) != function.npos) ++end;
      out += function.substr(i, end - i);
      i = end - 1;
      seen_operator = true;
      continue;
    }
    if (c == '(' || c == '<' || c == '{') {
      if (depth++ == 0) group = out.size();
    }
    if (c == ' ' && depth == 0 && !seen_parameters && !seen_operator) {
      out.clear();  // what stood before was the return type
      continue;
    }
    out += c;
    if ((c == ')' || c == '>' || c == '}') && depth > 0 && --depth == 0 && c == ')') {
      const std::string_view inside = std::string_view(out).substr(group);
      if (inside == "(anonymous namespace)") continue;
      seen_parameters = true;
      if (inside != "()") out.replace(group, out.npos, "(...)");
    }
  }
  return out;
}

// --- source lines ----------------------------------------------------------------------------------------------------

/// "/path/model.cpp:41 (discriminator 2)". False for anything else, the name of a function say.
FXX_INLINE bool parse_place(std::string_view text, std::string_view& file, int& line) {
  text = text.substr(0, text.find(" (discriminator"));
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return false;
  file = text.substr(0, colon);
  line = 0;
  if (text.substr(colon) == ":?") return true;
  const char* last = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data() + colon + 1, last, line);
  return status == std::errc{} && stop == last;
}

/// Reads what `addr2line -afi` prints: an address; then, innermost first, the name and the place of each function that was
/// inlined there, and of the one that they were inlined into. The frame gets the first that is not of a library: the line
/// of the model, not that of the operator's inline wrapper.
FXX_INLINE void read_lines(std::string_view text, const std::map<std::uintptr_t, const Query*>& queries) {
  const Query* current = nullptr;
  std::string_view function;
  bool found_users = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("0x")) {
      std::uintptr_t address = 0;
      const char* last = line.data() + line.size();
      const auto [stop, status] = std::from_chars(line.data() + 2, last, address, 16);
      const auto found = queries.find(address);
      current = status == std::errc{} && stop == last && found != queries.end() ? found->second : nullptr;
      found_users = false;
      function = {};
      continue;
    }
    std::string_view file;
    int number = 0;
    if (!parse_place(line, file, number)) {
      function = line;
      continue;
    }
    const std::string_view name = std::exchange(function, {});
    if (!current || found_users || number <= 0 || file == "??") continue;
    found_users = !is_library_name(name) && !is_library_header(file);
    for (Frame* frame : current->frames) {
      frame->file = file;
      frame->line = number;
      if (name.starts_with("_Z") || (found_users && is_library_name(frame->symbol))) frame->symbol = name;
    }
  }
}

FXX_INLINE void find_lines(const std::string& content, std::span<const Query> queries) {
  constexpr std::size_t at_once = 2000;  // a command line has its limit
  std::optional<std::string> program = find_program("addr2line");
  if (!program) program = find_program("llvm-addr2line");
  if (!program) return;
  for (; !queries.empty(); queries = queries.subspan(std::min(at_once, queries.size()))) {
    std::vector<std::string> argv = {*program, "-a", "-f", "-i", "-e", content};
    std::map<std::uintptr_t, const Query*> by_address;
    for (const Query& query : queries.first(std::min(at_once, queries.size()))) {
      char digits[16];
      const auto end = std::to_chars(digits, digits + sizeof digits, query.address, 16).ptr;
      argv.push_back("0x" + std::string(digits, end));
      by_address[query.address] = &query;
    }
    try {
      const ProcessResult result = run_process(argv, {.timeout_seconds = 10, .output_limit = std::size_t{16} << 20});
      read_lines(result.output, by_address);
      if (result.timed_out) return;
    } catch (const Error&) {
      return;  // lines are a courtesy
    }
  }
}

}  // namespace detail

FXX_INLINE std::vector<Frame> symbolise(std::span<void* const> addresses, SourceLines lines) {
  std::vector<Frame> frames(addresses.size());
  const std::vector<detail::MappedObject> objects = detail::mapped_objects();
  std::map<const detail::MappedObject*, std::vector<detail::Query>> by_object;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    Frame& frame = frames[i];
    frame.address = addresses[i];
    // One byte back is inside the call; the address itself may belong to the next function already.
    const auto call = reinterpret_cast<std::uintptr_t>(addresses[i]) - 1;
    for (const detail::MappedObject& object : objects)
      for (const auto& [first, last] : object.ranges)
        if (first <= call && call < last) {
          frame.object = object.name;
          frame.offset = call - object.bias;
          Dl_info info{};
          if (::dladdr(reinterpret_cast<void*>(call), &info) && info.dli_sname) frame.symbol = info.dli_sname;
          by_object[&object].push_back({frame.offset, {&frame}});
          break;
        }
  }
  for (auto& [object, queries] : by_object) {
    // One query an address, sorted.
    std::sort(queries.begin(), queries.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
    std::vector<detail::Query> merged;
    for (detail::Query& query : queries) {
      if (!merged.empty() && merged.back().address == query.address) merged.back().frames.push_back(query.frames[0]);
      else merged.push_back(std::move(query));
    }
    const auto named = [](const detail::Query& query) { return !query.frames[0]->symbol.empty(); };
    if (std::all_of(merged.begin(), merged.end(), named) && lines == SourceLines::none) continue;
    const detail::ElfFile file(object->content);
    file.name_functions(merged);
    const bool asked = lines == SourceLines::all || (lines == SourceLines::of_user && !detail::is_library_object(object->name));
    if (asked && file.has_source_lines()) detail::find_lines(object->content, merged);
  }
  for (Frame& frame : frames) frame.function = detail::demangled(frame.symbol);
  return frames;
}

FXX_INLINE bool is_user_frame(const Frame& frame) {
  return !frame.object.empty() && frame.symbol != "_start" && !detail::is_library_object(frame.object) &&
         !detail::is_library_name(frame.symbol);
}

FXX_INLINE std::vector<Frame> user_frames(const Backtrace& backtrace, SourceLines lines) {
  std::vector<Frame> frames = symbolise(backtrace, lines);
  std::erase_if(frames, [](const Frame& frame) { return !is_user_frame(frame); });
  return frames;
}

FXX_INLINE std::string format_frame(const Frame& frame) {
  std::string out = detail::short_function(frame.function);
  if (out.empty()) {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, frame.offset, 16).ptr;
    out = std::string(frame.object.empty() ? "unknown" : detail::file_name(frame.object)) + "+0x" + std::string(digits, end);
  }
  if (!frame.file.empty()) ((out += " at ") += detail::file_name(frame.file)) += ":" + std::to_string(frame.line);
  return out;
}

FXX_INLINE std::string user_stack(const Backtrace& backtrace) {
  const std::vector<Frame> frames = user_frames(backtrace);
  std::string out;
  for (std::size_t i = frames.size(); i-- > 0;) {
    if (!out.empty()) out += '\n';
    out += format_frame(frames[i]);
  }
  return out;
}

}  // namespace fxx::inline FXX_ABI
