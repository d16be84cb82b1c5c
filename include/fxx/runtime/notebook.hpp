// A file of notes, each a key and what is known of it, that many threads and processes read and add to.
//
// It is written aside and renamed into place, with what others have written meanwhile: who reads it finds all of it.
// One that is damaged counts as empty, and the next who adds to it writes it anew.
//   fxx notes 1
//   product 128 x 256 -> 1024<tab>8x3
//   end 0123456789abcdef0123456789abcdef
// Main names: Notebook. Cost: light.
#pragma once

#include <map>
#include <string>

#include "fxx/config.hpp"

namespace fxx::inline FXX_ABI {

class Notebook {
 public:
  /// Keys and values have neither tabs nor ends of lines.
  using Notes = std::map<std::string, std::string, std::less<>>;

  /// Nothing is created before something is added.
  explicit Notebook(std::string path);

  const std::string& path() const { return path_; }
  /// All that is there. O(its size).
  Notes read() const;
  /// Adds notes, and returns all that are there then: who was first to note something is right. What cannot be written
  /// is in the result all the same. Waits while another one writes.
  Notes add(const Notes& notes) const;

 private:
  std::string path_;  // absolute
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/runtime/notebook.ipp"
#endif
