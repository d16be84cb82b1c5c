// Bodies of runtime/backtrace.hpp.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>

#include "fxx/error.hpp"
#include "fxx/runtime/backtrace.hpp"
#include "fxx/runtime/detail/elf.hpp"
#include "fxx/runtime/detail/function_names.hpp"
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

/// An address in a file, and the frames it is for.
struct Query {
  std::uintptr_t address = 0;
  std::vector<Frame*> frames = {};
};

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

/// Reads what `addr2line -afi` prints: an address; then, innermost first, the name and the place of each function that
/// was inlined there, and of the one that they were inlined into. The frame gets the first that is not of a library:
/// the line of the model, not that of the operator's inline wrapper.
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
      if (found_users && (name.starts_with("_Z") || is_library_name(frame->symbol))) frame->symbol = name;
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
    if (!std::all_of(merged.begin(), merged.end(), named)) {
      std::vector<std::uintptr_t> unnamed;
      for (const detail::Query& query : merged) unnamed.push_back(query.address);
      const std::vector<std::string> symbols = file.functions_at(unnamed);
      for (std::size_t i = 0; i < merged.size(); ++i)
        for (Frame* frame : merged[i].frames)
          if (frame->symbol.empty()) frame->symbol = symbols[i];
    }
    const bool asked =
        lines == SourceLines::all || (lines == SourceLines::of_user && !detail::is_library_object(object->name));
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

FXX_INLINE std::vector<std::vector<Frame>> user_frames(std::span<const Backtrace* const> backtraces,
                                                       SourceLines lines) {
  std::vector<void*> addresses;
  for (const Backtrace* backtrace : backtraces)
    addresses.insert(addresses.end(), backtrace->addresses().begin(), backtrace->addresses().end());
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  const std::vector<Frame> known = symbolise(addresses, lines);
  std::vector<std::vector<Frame>> out(backtraces.size());
  for (std::size_t i = 0; i < backtraces.size(); ++i)
    for (void* const address : backtraces[i]->addresses()) {
      const auto at = std::lower_bound(addresses.begin(), addresses.end(), address) - addresses.begin();
      if (const Frame& frame = known[static_cast<std::size_t>(at)]; is_user_frame(frame)) out[i].push_back(frame);
    }
  return out;
}

FXX_INLINE std::string format_frame(const Frame& frame) {
  std::string out = detail::short_function(frame.function);
  if (out.empty()) {
    char digits[16];
    const auto end = std::to_chars(digits, digits + sizeof digits, frame.offset, 16).ptr;
    out = std::string(frame.object.empty() ? "unknown" : detail::file_name(frame.object)) + "+0x" +
          std::string(digits, end);
  }
  if (!frame.file.empty()) ((out += " at ") += detail::file_name(frame.file)) += ":" + std::to_string(frame.line);
  return out;
}

FXX_INLINE std::string user_stack(const Backtrace& backtrace) { return user_stack(user_frames(backtrace)); }

FXX_INLINE std::string user_stack(std::span<const Frame> frames) {
  std::string out;
  for (std::size_t i = frames.size(); i-- > 0;) {
    if (!out.empty()) out += '\n';
    out += format_frame(frames[i]);
  }
  return out;
}

}  // namespace fxx::inline FXX_ABI
