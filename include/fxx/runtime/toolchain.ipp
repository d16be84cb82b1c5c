// Bodies of runtime/toolchain.hpp.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "fxx/runtime/files.hpp"
#include "fxx/runtime/limits.hpp"
#include "fxx/runtime/toolchain.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

/// The words of a command as a shell would take them apart: at blanks, but not inside quotes, nor behind a backslash.
FXX_INLINE std::vector<std::string> split_command(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;  // a word
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (quote == '\0' && blank) {
      inside = false;
      continue;
    }
    if (!std::exchange(inside, true)) words.emplace_back();
    if (quote == '\0' && (c == '"' || c == '\'')) quote = c;
    else if (c == quote && quote != '\0') quote = '\0';
    else if (c == '\\' && quote != '\'' && i + 1 < text.size()) words.back() += text[++i];
    else words.back() += c;
  }
  return words;
}

/// The command that a variable holds. The program may have blanks in its path without quotes: the shortest beginning that
/// is a program is taken for it.
FXX_INLINE std::vector<std::string> words_of_variable(const char* name) {
  const char* value = files::variable(name);
  const std::string_view text = value ? value : "";
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  for (std::size_t end = begin; end != text.npos;) {
    end = text.find_first_of(blanks, end + 1);
    const std::string_view program = text.substr(begin, end - begin);
    if (program.find('/') == program.npos) break;  // found through PATH, or quoted
    if (!find_program(program)) continue;
    std::vector<std::string> words{std::string(program)};
    if (end == text.npos) return words;
    for (std::string& word : split_command(text.substr(end))) words.push_back(std::move(word));
    return words;
  }
  return split_command(text);
}

/// At most `count` lines of at most `width` bytes, and how many more there are.
FXX_INLINE std::string first_lines(std::string_view text, std::size_t count, std::size_t width) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::string out;
  for (std::size_t line = 0; !text.empty(); ++line) {
    if (line == count) {
      std::size_t more = 1;
      for (char c : text) more += c == '\n';
      return out + "\n... and " + std::to_string(more) + " more lines";
    }
    const std::size_t end = text.find('\n');
    const std::string_view all = text.substr(0, end);
    if (line) out += '\n';
    out += all.substr(0, width);
    if (all.size() > width) out += "...";
    text = end == text.npos ? std::string_view{} : text.substr(end + 1);
  }
  return out;
}

/// Resolved path, size and time of change of the programs in a command; "ccache g++ -m32" has two.
FXX_INLINE std::string programs_of(const std::vector<std::string>& command) {
  std::string out;
  for (const std::string& word : command) {
    if (word.starts_with('-')) break;
    const std::optional<std::string> program = find_program(word);
    if (!program) continue;
    const std::string path = files::resolved_path(*program);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) continue;
    if (!out.empty()) out += "; ";
    out += path + " " + std::to_string(status.st_size) + " bytes, changed " + std::to_string(status.st_mtim.tv_sec) +
           "." + std::to_string(1000000000 + status.st_mtim.tv_nsec).substr(1);
  }
  return out;
}

/// What `--version` prints first. Asked once a process of each compiler, known by its files.
FXX_INLINE std::string version_of(const std::vector<std::string>& command, const std::string& programs) {
  static std::mutex mutex;
  static std::map<std::string, std::string> known;
  const std::lock_guard lock(mutex);
  const std::string key = command_line(command) + '\n' + programs;
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  std::vector<std::string> argv = command;
  argv.push_back("--version");
  const ProcessResult result = run_process(argv, {.environment = {{"LC_ALL", "C"}}, .timeout_seconds = 60});
  if (result.timed_out)
    throw CompileError(ErrorId::compile_timeout, "Toolchain: '" + command_line(argv) + "' " + describe(result) +
                                                     "; a compiler must answer at once. Name another one in FXX_CXX");
  const std::string version = result.ok() ? result.output.substr(0, result.output.find('\n')) : "";
  return known.emplace(key, version).first->second;
}

/// What compilers say of a full disk, where they speak English.
inline constexpr const char no_room[] = "No space left on device";

FXX_INLINE std::string compose_build_error(const std::vector<std::string>& argv, const ProcessResult& result,
                                           const std::string& folder) {
  std::string what = "the compiler " + describe(result);
  if (result.ok()) what = "the compiler reported success but wrote no library";
  if (result.signal == 9 && !result.timed_out) what += ", perhaps because memory ran out";
  return "Toolchain::build: " + what + "; " +
         (result.timed_out ? "raise timeout_seconds or ask for less optimisation"
                           : "the source must compile with the flags given") +
         ". The source is kept in " + folder +
         "/source.cpp; the command, run in that folder, was: " + command_line(argv);
}

}  // namespace detail

FXX_INLINE BuildError::BuildError(std::vector<std::string> argv, ProcessResult result, std::string folder)
    : CompileError(result.timed_out ? ErrorId::compile_timeout : ErrorId::compile_failed,
                   detail::compose_build_error(argv, result, folder), detail::first_lines(result.output, 20, 500)),
      argv_(std::move(argv)),
      result_(std::move(result)),
      folder_(std::move(folder)) {}

FXX_INLINE Toolchain::Toolchain(std::vector<std::string> command) : command_(std::move(command)) {
  if (command_.empty() || !find_program(command_[0]))
    throw CompileError(
        ErrorId::compiler_missing,
        "Toolchain: there is no program '" + (command_.empty() ? "" : command_[0]) +
            "'; the first word of the command must be a C++ compiler or a program that starts one. Name one in "
            "FXX_CXX; until then modules keep working, interpreted");
  const std::string programs = detail::programs_of(command_);
  try {
    version_ = detail::version_of(command_, programs);
  } catch (const CompileError& error) {
    if (error.id() != ErrorId::process_failed) throw;
    throw CompileError(
        ErrorId::compiler_missing,
        "Toolchain: '" + command_line(command_) +
            "' cannot be run; a C++ compiler was expected. Name one in FXX_CXX; until then modules keep working, "
            "interpreted",
        error.what());
  }
  identity_ = command_line(command_) + "; " + version_ + "; " + programs;
}

FXX_INLINE Toolchain Toolchain::find() {
  std::string tried;
  std::vector<std::string> words = detail::words_of_variable("FXX_CXX");
  if (!words.empty()) {
    // The user named it, so another one must not take its place unnoticed.
    if (find_program(words[0])) return Toolchain(std::move(words));
    tried = "FXX_CXX=" + command_line(words) + ", which is no program";
  } else {
    tried = "the variable FXX_CXX (not set)";
    words = detail::words_of_variable("CXX");
    if (!words.empty() && find_program(words[0])) return Toolchain(std::move(words));
    tried += words.empty() ? ", CXX (not set)" : ", CXX=" + command_line(words) + " (no program)";
    for (const char* name : {"c++", "g++", "clang++"})
      if (find_program(name)) return Toolchain({name});
    const char* path = files::variable("PATH");
    tried += ", and c++, g++ and clang++ in PATH=" + std::string(path ? path : "(not set)");
  }
  throw CompileError(ErrorId::compiler_missing,
                     "Toolchain::find: there is no C++ compiler; looked for " + tried +
                         ". Install one or name one in FXX_CXX; until then modules keep working, interpreted");
}

namespace detail {

/// What the linker is told. -Xlinker word by word: -Wl would split a path at its commas.
FXX_INLINE void add_libraries(const BuildRequest& request, std::vector<std::string>& argv) {
  for (const std::string& folder : request.library_folders) argv.push_back("-L" + files::absolute_path(folder));
  for (const std::string& name : request.libraries)
    argv.push_back(name.find('/') != name.npos ? files::absolute_path(name) : "-l" + name);
  for (const std::string& path : request.rpaths)
    argv.insert(argv.end(),
                {"-Xlinker", "-rpath", "-Xlinker", path.starts_with('$') ? path : files::absolute_path(path)});
}

FXX_INLINE std::string object_of_part(int part) { return "part" + std::to_string(part) + ".o"; }

/// The memory that a compiler of one part takes at most, with room to spare: 0.1 GB for the models that were measured.
inline constexpr std::uint64_t bytes_of_compiler = std::uint64_t{400} << 20;

/// How many parts to build in here: no more than there are processors and memory for.
FXX_INLINE int parts_of(const BuildRequest& request) {
  if (request.parts < 2) return 1;
  const std::uint64_t fit = std::clamp<std::uint64_t>(available_memory() / bytes_of_compiler, 1, 1024);
  return std::min({request.parts, available_processors(), static_cast<int>(fit)});
}

/// Did the compiler call warnings errors, and nothing else?
FXX_INLINE bool failed_for_warnings(const std::string& log) {
  bool any = false;
  for (std::size_t at = 0; (at = log.find(" error: ", at)) != log.npos;) {
    const std::size_t end = std::min(log.find('\n', at), log.size());
    if (std::string_view(log).substr(at, end - at).find("[-Werror") == std::string_view::npos) return false;
    any = true;
    at = end;
  }
  return any;
}

}  // namespace detail

/// The compiler, `mode`, then what is the same however the source is compiled.
FXX_INLINE std::vector<std::string> Toolchain::compiler_words(const BuildRequest& request,
                                                              std::vector<std::string> mode) const {
  std::vector<std::string> argv = command_;
  argv.insert(argv.end(), mode.begin(), mode.end());
  argv.insert(argv.end(), request.flags.begin(), request.flags.end());
  for (const std::string& folder : request.include_folders) argv.push_back("-I" + files::absolute_path(folder));
  return argv;
}

FXX_INLINE std::vector<std::string> Toolchain::build_command(const BuildRequest& request,
                                                             const std::string& library) const {
  std::vector<std::string> argv = compiler_words(request, {"-shared", "-fPIC"});
  // Which headers the source includes, those of the system aside: the cache looks whether they have changed.
  argv.insert(argv.end(), {"-MMD", "-MF", "headers.d", "source.cpp", "-o", library});
  detail::add_libraries(request, argv);
  return argv;
}

FXX_INLINE std::vector<std::vector<std::string>> Toolchain::part_commands(const BuildRequest& request,
                                                                          int parts) const {
  std::vector<std::vector<std::string>> commands;
  for (int part = 0; part < parts; ++part) {
    std::vector<std::string>& argv = commands.emplace_back(compiler_words(request, {"-c", "-fPIC"}));
    argv.insert(argv.end(), {"-DFXX_PARTS=" + std::to_string(parts), "-DFXX_PART=" + std::to_string(part)});
    if (part == 0) argv.insert(argv.end(), {"-MMD", "-MF", "headers.d"});
    argv.insert(argv.end(), {"source.cpp", "-o", detail::object_of_part(part)});
  }
  return commands;
}

FXX_INLINE std::vector<std::string> Toolchain::link_command(const BuildRequest& request, int parts,
                                                            const std::string& library) const {
  std::vector<std::string> argv = compiler_words(request, {"-shared", "-fPIC"});
  for (int part = 0; part < parts; ++part) argv.push_back(detail::object_of_part(part));
  argv.insert(argv.end(), {"-o", library});
  detail::add_libraries(request, argv);
  return argv;
}

FXX_INLINE void Toolchain::build(const BuildRequest& request, const std::string& folder,
                                 const std::string& library) const {
  const std::string place = files::absolute_path(folder);
  const auto write = [&](const std::string& name, std::string_view content) {
    const std::string path = place + "/" + name;
    if (const int error = files::write_file(path, content))
      throw CompileError(ErrorId::cache_unwritable, "Toolchain::build: " + path + " cannot be written, " +
                                                        files::error_text(error) +
                                                        "; make room there or choose another folder");
  };
  write("source.cpp", request.source);
  // Temporary files go to the folder too, so that those of a killed compiler are removed with it.
  ProcessOptions options{.working_directory = place,
                         .environment = {{"TMPDIR", place}},
                         .timeout_seconds = request.timeout_seconds,
                         .output_limit = std::size_t{4} << 20,
                         .meanwhile = request.meanwhile};
  std::string log;
  // The place among the commands of what failed, or -1.
  const auto run = [&](const std::vector<std::vector<std::string>>& commands, std::vector<ProcessResult>& results) {
    results = run_processes(commands, options);
    options.meanwhile = {};
    int failed = -1;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      log += command_line(commands[i]) + "\n" + results[i].output;
      if (failed < 0 && !results[i].ok() && !results[i].cancelled) failed = static_cast<int>(i);
    }
    return failed;
  };
  // What the commands so far leave of the time, which is that of all together.
  const auto take_time = [&](const std::vector<ProcessResult>& results) {
    double longest = 0;
    for (const ProcessResult& result : results) longest = std::max(longest, result.seconds);
    if (options.timeout_seconds > 0) options.timeout_seconds = std::max(options.timeout_seconds - longest, 1e-3);
  };
  const int parts = detail::parts_of(request);
  std::vector<std::vector<std::string>> commands = {build_command(request, library)};
  if (parts > 1) commands = part_commands(request, parts);
  std::vector<ProcessResult> results;
  int failed = run(commands, results);
  if (parts > 1) {
    if (failed < 0) {
      take_time(results);
      commands = {link_command(request, parts, library)};
      failed = run(commands, results);
    }
    for (int part = 0; part < parts; ++part) files::remove_tree(place + "/" + detail::object_of_part(part));
  }
  if (failed >= 0 && request.forgive_warnings && !results[static_cast<std::size_t>(failed)].timed_out &&
      detail::failed_for_warnings(log)) {
    BuildRequest lenient = request;
    lenient.forgive_warnings = false;
    lenient.meanwhile = {};
    std::erase(lenient.flags, "-Werror");
    take_time(results);
    lenient.timeout_seconds = options.timeout_seconds;
    build(lenient, folder, library);
    return write("log", log + files::read_file(place + "/log").value_or(""));
  }
  if (failed >= 0 && log.find(detail::no_room) != std::string::npos)
    throw CompileError(ErrorId::cache_unwritable,
                       "Toolchain::build: there is no room in " + place +
                           " for what the compiler writes; make room there or choose another folder",
                       detail::first_lines(results[static_cast<std::size_t>(failed)].output, 20, 500));
  write("log", log);
  struct stat status {};
  const bool built =
      ::stat((place + "/" + library).c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0;
  if (failed < 0 && built) return;
  const std::size_t at = failed < 0 ? 0 : static_cast<std::size_t>(failed);
  throw BuildError(std::move(commands[at]), std::move(results[at]), place);
}

}  // namespace fxx::inline FXX_ABI
