// Bodies of runtime/notebook.hpp.
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "fxx/runtime/files.hpp"
#include "fxx/runtime/identity.hpp"
#include "fxx/runtime/notebook.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

inline constexpr std::string_view notes_begin = "fxx notes 1\n";

FXX_INLINE std::string text_of_notes(const Notebook::Notes& notes) {
  std::string text(notes_begin);
  for (const auto& [key, value] : notes) (((text += key) += '\t') += value) += '\n';
  return text + "end " + wide_hash(text) + "\n";
}
/// Nothing for a text that is not whole.
FXX_INLINE Notebook::Notes notes_of_text(std::string_view text) {
  const std::size_t end = text.rfind("end ");
  if (!text.starts_with(notes_begin) || end == text.npos ||
      text.substr(end) != "end " + wide_hash(text.substr(0, end)) + "\n")
    return {};
  Notebook::Notes notes;
  for (std::string_view rest = text.substr(notes_begin.size(), end - notes_begin.size()); !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const std::size_t tab = line.find('\t');
    if (tab == line.npos) return {};
    notes.emplace(line.substr(0, tab), line.substr(tab + 1));
  }
  return notes;
}

}  // namespace detail

FXX_INLINE Notebook::Notebook(std::string path) : path_(files::absolute_path(path)) {}

FXX_INLINE Notebook::Notes Notebook::read() const {
  return detail::notes_of_text(files::read_file(path_).value_or(""));
}

FXX_INLINE Notebook::Notes Notebook::add(const Notes& notes) const {
  const std::string folder = path_.substr(0, path_.rfind('/'));
  Notes all = notes;
  if (files::make_folders(folder, 0700) != 0) return all;
  // One writes at a time. Where there are no locks, the worst is that a note is lost, and found out again.
  const files::Descriptor lock = files::lock_folder(folder);
  Notes before = read();
  const std::size_t known = before.size();
  before.merge(all);
  all = std::move(before);
  if (all.size() == known) return all;
  std::string aside = folder + "/aside-notes-XXXXXX";
  // By its descriptor all the time: in a folder that others write to, another file may take its name.
  const files::Descriptor made(::mkostemp(aside.data(), O_CLOEXEC));
  if (!made) return all;
  // Whoever may use what lies in the folder may read the notes.
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0 && ::fchmod(made.get(), (status.st_mode & 0666) | 0600) != 0) errno = 0;
  if (files::write_file(made, detail::text_of_notes(all)) != 0 || ::rename(aside.c_str(), path_.c_str()) != 0)
    ::unlink(aside.c_str());
  return all;
}

}  // namespace fxx::inline FXX_ABI
