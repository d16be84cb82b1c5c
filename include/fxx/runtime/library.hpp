// A shared library, loaded while the object lives.
// Main names: Library. Cost: light.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

class Library {
 public:
  Library() = default;
  /// Loads at once with all that it needs, and keeps its names from other libraries (RTLD_NOW, RTLD_LOCAL). A name
  /// without a slash is looked for where the dynamic linker looks.
  /// Errors: LoadError load_failed (E605) with the linker's reason.
  explicit Library(std::string path);
  Library(Library&& other) noexcept : path_(std::move(other.path_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Library& operator=(Library&& other) noexcept {
    path_.swap(other.path_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  /// What was taken from the library must not be used after this.
  ~Library();

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }

  /// A function or an object by its C name: `symbol<int(float)>("run")` is a pointer to function. That the type is
  /// right is the caller's word.
  /// Errors: LoadError load_failed (E605) when the library has no such name.
  template <class T>
  T* symbol(const char* name) const {
    return as<T>(address(name));
  }
  /// Likewise; null when there is none.
  template <class T>
  T* find_symbol(const char* name) const {
    return as<T>(find_address(name));
  }

 private:
  template <class T>
  static T* as(void* address) {
    static_assert(std::is_function_v<T> || std::is_object_v<T>,
                  "fxx::Library::symbol: T is the type of a function or an object, not of a pointer to it");
    static_assert(!std::is_pointer_v<T> || !std::is_function_v<std::remove_pointer_t<T>>,
                  "fxx::Library::symbol: T is a function type, such as int(float), not a pointer to function");
    return reinterpret_cast<T*>(address);
  }
  void* address(const char* name) const;
  void* find_address(const char* name) const;

  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/library.ipp"
#endif
