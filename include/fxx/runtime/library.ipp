// Bodies of runtime/library.hpp.
#pragma once

#include <dlfcn.h>

#include "fxx/error.hpp"
#include "fxx/runtime/library.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
/// The linker's reason for the last failure of this thread.
FXX_INLINE std::string linker_reason() {
  const char* text = ::dlerror();
  return text ? text : "no reason given";
}
}  // namespace detail

FXX_INLINE Library::Library(std::string path) : path_(std::move(path)), handle_(nullptr) {
  // An empty path would give the program itself.
  if (!path_.empty()) handle_ = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle_)
    throw LoadError(ErrorId::load_failed, "Library: '" + path_ + "' cannot be loaded, " +
                                              (path_.empty() ? "the path is empty" : detail::linker_reason()) +
                                              "; a shared library for this machine was expected");
}

FXX_INLINE Library::~Library() {
  if (handle_) ::dlclose(handle_);
}

FXX_INLINE void* Library::find_address(const char* name) const { return handle_ ? ::dlsym(handle_, name) : nullptr; }

FXX_INLINE void* Library::address(const char* name) const {
  void* found = find_address(name);
  if (!found)
    throw LoadError(ErrorId::load_failed, "Library::symbol: '" + path_ + "' has no '" + name + "', " +
                                              (handle_ ? detail::linker_reason() : "no library is loaded") +
                                              "; declare it extern \"C\" and visible, or build the library anew");
  return found;
}

}  // namespace fxx::inline FXX_ABI
