// Where a call came from: return addresses taken cheaply, names and source lines looked up only when somebody asks.
//
// Names come from the dynamic linker; for functions that it does not know (static ones, those of a program linked
// without -rdynamic) from the symbol table of the file that is mapped, read with every bound checked. Source lines need
// the program addr2line and debug information; without them frames just have no line.
// Main names: Backtrace, Frame, symbolise, user_frames, user_stack. Cost: light.
#pragma once

#include <unwind.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
/// What the unwinder fills.
struct Unwinding {
  void** out;
  std::size_t size, capacity;
  int skip;
};
_Unwind_Reason_Code keep_address(_Unwind_Context* context, void* unwinding);
}  // namespace detail

/// The innermost return addresses of a thread. Copied as it is; 520 bytes.
class Backtrace {
 public:
  static constexpr std::size_t max_frames = 64;

  /// The caller's frame comes first; `skip` leaves out that many from there on. Cost: about 0.2 us a frame.
  [[gnu::noinline]] static Backtrace capture(int skip = 0) noexcept {  // here: g++ 12 refuses noinline and inline apart
    Backtrace out;
    detail::Unwinding unwinding{out.addresses_, 0, max_frames, skip > 0 ? skip + 1 : 1};  // 1: this function
    ::_Unwind_Backtrace(detail::keep_address, &unwinding);
    out.size_ = unwinding.size;
    return out;
  }

  /// Innermost first. Each is the place behind a call.
  std::span<void* const> addresses() const { return {addresses_, size_}; }

 private:
  void* addresses_[max_frames] = {};
  std::size_t size_ = 0;
};

struct Frame {
  void* address = nullptr;    // texts stay empty when they are unknown
  std::string object = {};    // path of the program or library
  std::size_t offset = 0;     // of the call in `object`, as its symbol table counts
  std::string symbol = {};    // as the linker spells it; of the user's function, when one was inlined there
  std::string function = {};  // as C++ spells it: "Net::forward(at::Tensor)"
  std::string file = {};
  int line = 0;
};

/// For which frames to look up source lines; those of the user leave out the libraries that is_user_frame names.
enum class SourceLines { none, of_user, all };

/// A frame for each address, in their order. Never throws but for lack of memory: what is unknown stays empty.
/// Cost: milliseconds for each file whose symbol table is read, 10 ms and more for each asked for lines. Ask for the
/// addresses of many backtraces at once.
std::vector<Frame> symbolise(std::span<void* const> addresses, SourceLines lines = SourceLines::all);
inline std::vector<Frame> symbolise(const Backtrace& backtrace, SourceLines lines = SourceLines::all) {
  return symbolise(backtrace.addresses(), lines);
}

/// Is the function the user's: not in namespace at, c10, torch, fxx, std or __gnu_cxx, nor in a library of LibTorch,
/// the compiler or the system?
bool is_user_frame(const Frame& frame);
/// The user's frames, innermost first.
std::vector<Frame> user_frames(const Backtrace& backtrace, SourceLines lines = SourceLines::of_user);
/// Those of many at once: symbols are looked up once for all, which costs hardly more than for one.
std::vector<std::vector<Frame>> user_frames(std::span<const Backtrace* const> backtraces,
                                            SourceLines lines = SourceLines::of_user);

/// "Net::forward(...) at model.cpp:41"; without debug information "Net::forward(...)"; without a name "model+0x11f4".
std::string format_frame(const Frame& frame);
/// The user's frames as text, a line each, innermost last, as NodeMeta::stack_trace has them.
std::string user_stack(const Backtrace& backtrace);
std::string user_stack(std::span<const Frame> user_frames);

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/backtrace.ipp"
#endif
