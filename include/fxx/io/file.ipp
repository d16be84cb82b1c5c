// Bodies of io/file.hpp.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <system_error>

#include "fxx/error.hpp"
#include "fxx/io/file.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE MappedFile::MappedFile(const std::string& path, std::string_view call) {
  const auto fail = [&](const std::string& reason) {
    throw FileError(ErrorId::file_unreadable, std::string(call) + ": '" + path + "' cannot be read, " + reason +
                                                  "; the path of a file was expected");
  };
  // O_NONBLOCK: opening a named pipe by mistake must not wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(std::generic_category().message(errno));
  struct stat status {};
  int error = ::fstat(file, &status) == 0 ? 0 : errno;
  const bool regular = !error && S_ISREG(status.st_mode);
  if (regular && static_cast<std::uint64_t>(status.st_size) > SIZE_MAX / 2) error = EFBIG;
  if (regular && !error && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    void* data = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (data == MAP_FAILED) error = errno;
    else data_ = static_cast<const std::byte*>(data);
  }
  ::close(file);
  if (error) fail(std::generic_category().message(error));
  if (!regular) fail(S_ISDIR(status.st_mode) ? "it is a folder" : "it is no regular file");
}

FXX_INLINE MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

namespace detail {
/// Whether it begins as pickles of protocols 0 and 1 name a class: "ccollections\nOrderedDict\n".
FXX_INLINE bool begins_as_class_of_pickle(std::string_view text) {
  if (!text.starts_with('c')) return false;
  text.remove_prefix(1);
  for (int word = 0; word < 2; ++word) {
    const auto is_letter = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
    };
    std::size_t length = 0;
    while (length < text.size() && is_letter(text[length])) ++length;
    if (length == 0 || length == text.size() || text[length] != '\n') return false;
    text.remove_prefix(length + 1);
  }
  return text.starts_with("p0\n") || text.starts_with("q");
}
/// Whether these are letters and ends of lines alone, in UTF-8; the last letter may be cut off.
FXX_INLINE bool is_written_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f') || c == 0x7f) return false;
    if (c < 0x80) continue;
    if (c < 0xc2 || c > 0xf4) return false;
    for (int more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3; more > 0 && ++i < text.size(); --more)
      if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return false;
  }
  return true;
}
}  // namespace detail

FXX_INLINE std::optional<FileKind> kind_of_file(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size() < 512 ? bytes.size() : 512);
  const auto at = [&](std::size_t place, std::string_view signature) {
    return place <= text.size() && text.substr(place).starts_with(signature);
  };
  const auto holds = [&](std::string_view part) { return text.find(part) != text.npos; };
  constexpr std::string_view from_python =
      "Python's torch.load reads it, and safetensors.torch.save_file(torch.load(path)) makes a safetensors file of a "
      "state_dict; torch::load and torch::jit::load read what C++ and TorchScript wrote";
  // What begins with a length below 2^32 and a header, as a safetensors file that was cut off, is of no other kind.
  const bool may_be_length = text.size() >= 8 && text.substr(4, 4) == std::string_view("\0\0\0\0", 4) &&
                             (text.size() == 8 || text[8] == '{');
  if (may_be_length) return std::nullopt;
  if (at(0, "PK\x03\x04") || at(0, "PK\x05\x06") || at(0, "PK\x07\x08")) {
    if (holds(".npy")) return FileKind{"a zip archive of NumPy arrays (.npz)", "numpy.load reads it"};
    if (holds("model.weights.h5") || holds("config.json") || holds("metadata.json"))
      return FileKind{"a zip archive, as Keras writes (.keras)", "keras.models.load_model reads it"};
    if (holds("model.json") || holds("archive_format"))
      return FileKind{"a zip archive, as torch.export.save writes (.pt2)", "Python's torch.export.load reads it"};
    return FileKind{"a zip archive, as torch.save, torch::save and TorchScript write (.pt, .pth)", from_python};
  }
  // Protocols 0 and 1 have no signature: they begin with a class, or with an empty dictionary or list and its number.
  constexpr std::string_view empty_dictionary("}q\0", 3), empty_list("]q\0", 3);
  const bool old_pickle = detail::begins_as_class_of_pickle(text) || at(0, "(dp0\n") || at(0, "(lp0\n") ||
                          at(0, empty_dictionary) || at(0, empty_list);
  if (old_pickle || (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5))
    return FileKind{"a Python pickle, as old versions of torch.save write (.pt, .pth)", from_python};
  if (at(0, "\x89HDF\r\n\x1a\n")) return FileKind{"an HDF5 file (.h5, .hdf5)", "h5py and Keras read it"};
  if (at(0, "GGUF")) return FileKind{"a GGUF file", "llama.cpp and the Python package gguf read it"};
  if (at(0, "lmgg") || at(0, "ggml") || at(0, "tjgg") || at(0, "ggjt") || at(0, "fmgg"))
    return FileKind{"a file of ggml", "old versions of llama.cpp read it"};
  if (at(0, "\x93NUMPY")) return FileKind{"a NumPy array (.npy)", "numpy.load reads it"};
  if (at(4, "TFL3")) return FileKind{"a TensorFlow Lite model (.tflite)", "LiteRT reads it"};
  if (at(4, "ET1") || at(4, "ET2")) return FileKind{"an ExecuTorch program (.pte)", "ExecuTorch reads it"};
  if (at(0, "\x1f\x8b")) return FileKind{"compressed by gzip", "Decompress it first: gunzip"};
  if (at(0, "BZh")) return FileKind{"compressed by bzip2", "Decompress it first: bunzip2"};
  if (at(0, std::string_view("\xfd"
                             "7zXZ\0",
                             6)))
    return FileKind{"compressed by xz", "Decompress it first: unxz"};
  if (at(0, "\x28\xb5\x2f\xfd")) return FileKind{"compressed by zstd", "Decompress it first: unzstd"};
  if (at(0, "\x04\x22\x4d\x18")) return FileKind{"compressed by lz4", "Decompress it first: unlz4"};
  if (at(0, "7z\xbc\xaf\x27\x1c")) return FileKind{"a 7-Zip archive", "Unpack it first: 7z x"};
  if (at(0, "Rar!\x1a\x07")) return FileKind{"a RAR archive", "Unpack it first: unrar x"};
  if (at(257, "ustar")) return FileKind{"a tar archive", "Unpack it first: tar xf"};
  if (at(0, "version https://git-lfs"))
    return FileKind{"a pointer of Git LFS in the place of the file", "Fetch the file itself: git lfs pull"};
  if (at(0, "PAR1")) return FileKind{"a Parquet file", "pyarrow and pandas read it"};
  if (at(0, "ARROW1")) return FileKind{"an Arrow file", "pyarrow reads it"};
  if (at(0, "MATLAB 5.0")) return FileKind{"a MATLAB file (.mat)", "scipy.io.loadmat reads it"};
  if (at(0, "SQLite format 3")) return FileKind{"an SQLite database", "sqlite3 reads it"};
  if (at(0, "\x7f"
            "ELF"))
    return FileKind{"a program or library (ELF)", "The system's loader reads it"};
  if (at(0, "%PDF-")) return FileKind{"a PDF document", "It holds no weights"};
  if (at(0, "\x89PNG") || at(0, "\xff\xd8\xff") || at(0, "GIF8")) return FileKind{"an image", "It holds no weights"};
  std::string_view start = text;
  if (start.starts_with("\xef\xbb\xbf")) start.remove_prefix(3);
  start.remove_prefix(start.find_first_not_of(" \t\r\n") == start.npos ? start.size()
                                                                       : start.find_first_not_of(" \t\r\n"));
  const auto begins = [&](std::string_view word) {
    for (std::size_t i = 0; i < word.size(); ++i)
      if (i >= start.size() || (start[i] >= 'A' && start[i] <= 'Z' ? start[i] - 'A' + 'a' : start[i]) != word[i])
        return false;
    return true;
  };
  if (begins("<!doctype html") || begins("<html"))
    return FileKind{"a web page", "A download may have been answered by a page that says why not; look at it"};
  if (begins("<?xml")) return FileKind{"an XML text, as OpenVINO writes beside its weights", "OpenVINO reads it"};
  if (begins("{") || begins("["))
    return FileKind{"a JSON text",
                    "Of a model in several files this is the index (.safetensors.index.json); load the files that it "
                    "names"};
  if (at(0, "MZ") || at(0, "\xcf\xfa\xed\xfe"))
    return FileKind{"a program or library of another system", "It holds no weights that can be read here"};
  if (at(0, "RIFF") || at(0, "OggS") || at(0, "fLaC") || at(0, "ID3"))
    return FileKind{"a sound, an image or a video", "It holds no weights"};
  // A protobuf has no signature. ONNX models begin with their version, and go on with one of the fields 2 to 8.
  if (text.size() > 4 && text[0] == '\x08' && text[1] > 0 && text[1] < 0x20 &&
      (text[2] == '\x12' || text[2] == '\x1a' || text[2] == '\x22' || text[2] == '\x28' || text[2] == '\x32' ||
       text[2] == '\x3a' || text[2] == '\x42'))
    return FileKind{"a protobuf, as ONNX (.onnx) and TensorFlow (.pb) write", "ONNX Runtime and OpenVINO read ONNX"};
  // Frozen graphs of TensorFlow begin with a node, which begins with its name.
  const auto byte = [&](std::size_t place) -> std::size_t { return static_cast<unsigned char>(text[place]); };
  if (text.size() > 8 && text[0] == '\n' && text[2] == '\n' && byte(3) > 0 && byte(3) < byte(1) &&
      detail::is_written_text(text.substr(4, byte(3))))
    return FileKind{"a protobuf, as TensorFlow writes (.pb)", "TensorFlow reads it"};
  if (text.size() >= 8 && detail::is_written_text(text))
    return FileKind{"a text", "Look at it: a download may have been answered by a message"};
  return std::nullopt;
}

FXX_INLINE AsideFile::AsideFile(std::string path, std::string_view call) : path_(std::move(path)), call_(call) {
  // O_EXCL and a number that no other of our files has: two writers of one path never share a file.
  static std::uint32_t count = 0;
  for (int attempt = 0; file_ < 0; ++attempt) {
    aside_ = path_ + ".aside-" + std::to_string(::getpid()) + "-" +
             std::to_string(__atomic_add_fetch(&count, 1u, __ATOMIC_RELAXED));
    file_ = ::open(aside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && (errno != EEXIST || attempt == 100)) {
      const int error = errno;
      aside_.clear();
      fail(error);
    }
  }
}

FXX_INLINE AsideFile::~AsideFile() {
  if (file_ >= 0) ::close(file_);
  if (!aside_.empty()) ::unlink(aside_.c_str());
}

FXX_INLINE void AsideFile::write(std::span<const std::byte> bytes) {
  constexpr std::size_t at_once = std::size_t{1} << 30;  // what one call writes at most on any system
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size() < at_once ? bytes.size() : at_once);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

FXX_INLINE void AsideFile::commit() {
  // Devices and some network file systems do not know how to wait; they say EINVAL.
  if (::fsync(file_) != 0 && errno != EINVAL) fail(errno);
  if (::close(std::exchange(file_, -1)) != 0) fail(errno);
  if (::rename(aside_.c_str(), path_.c_str()) != 0) fail(errno);
  aside_.clear();
}

FXX_INLINE void AsideFile::fail(int error) const {
  throw FileError(ErrorId::file_unwritable,
                  call_ + ": '" + path_ + "' cannot be written, " + std::generic_category().message(error) +
                      "; nothing has been changed. Make room, or choose a place that can be written");
}

}  // namespace fxx::inline FXX_ABI
