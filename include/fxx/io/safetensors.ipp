// Bodies of io/safetensors.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "fxx/error.hpp"
#include "fxx/io/safetensors.hpp"
#include "fxx/ir/print.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

static_assert(std::endian::native == std::endian::little,
              "fxx::SafetensorsFile: the data of a file is little-endian and is used as it lies there");

inline constexpr std::uint64_t largest_safetensors_header = 100'000'000;  // bytes; the limit of the format
inline constexpr std::string_view safetensors_metadata_key = "__metadata__";

struct SafetensorsDtype {
  std::string_view name;
  Dtype dtype;
};
inline constexpr SafetensorsDtype safetensors_dtypes[] = {
    {"BOOL", Dtype::boolean},
    {"U8", Dtype::uint8},
    {"I8", Dtype::int8},
    {"F8_E5M2", Dtype::float8_e5m2},
    {"F8_E4M3", Dtype::float8_e4m3fn},
    {"F8_E5M2FNUZ", Dtype::float8_e5m2fnuz},
    {"F8_E4M3FNUZ", Dtype::float8_e4m3fnuz},
    {"I16", Dtype::int16},
    {"U16", Dtype::uint16},
    {"F16", Dtype::float16},
    {"BF16", Dtype::bfloat16},
    {"I32", Dtype::int32},
    {"U32", Dtype::uint32},
    {"F32", Dtype::float32},
    {"C64", Dtype::complex64},
    {"F64", Dtype::float64},
    {"I64", Dtype::int64},
    {"U64", Dtype::uint64},
};

/// A name from a file, for messages: quoted, escaped, not longer than a line.
FXX_INLINE std::string quoted_name(std::string_view name) {
  constexpr std::size_t longest = 80;
  return name.size() <= longest ? repr(name) : repr(name.substr(0, longest)) + "...";
}

/// Bytes that a tensor takes; nothing when that is no number of 63 bits. Axes of size 0 are left out of the product, so
/// that strides computed from the shape do not overflow either.
FXX_INLINE std::optional<std::int64_t> bytes_of(std::span<const std::int64_t> shape, Dtype dtype) {
  std::int64_t bytes = element_size(dtype);
  bool empty = false;
  for (std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
    else if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return empty ? 0 : bytes;
}

FXX_INLINE std::string shape_text(std::span<const std::int64_t> shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == 16) return out + ", ...]";
    if (i) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

/// A tensor as the header tells of it.
struct HeaderEntry {
  std::string name = {};
  std::optional<Dtype> dtype = {};
  std::optional<std::vector<std::int64_t>> shape = {};
  std::optional<std::vector<std::int64_t>> offsets = {};  // begin and end in the data
};

/// Takes the events of the JSON parser and accepts the one form that a header has; no tree is built, so deep nesting or
/// wrong kinds cost nothing. Each event returns false when the parser must stop; then `problem` says why.
class HeaderReader {
 public:
  std::vector<HeaderEntry> entries;
  SafetensorsMetadata metadata;
  std::string problem;

  bool null() { return unexpected("null"); }
  bool boolean(bool) { return unexpected("a boolean"); }
  bool number_integer(std::int64_t value) { return unexpected("the negative number " + std::to_string(value)); }
  bool number_float(double, const std::string& text) { return unexpected("the number " + text.substr(0, 40)); }
  bool binary(std::vector<std::uint8_t>&) { return unexpected("binary data"); }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::shape_items && place_ != Place::offset_items) return unexpected("a number");
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return unexpected("the number " + std::to_string(value));
    auto& list = place_ == Place::shape_items ? *entries.back().shape : *entries.back().offsets;
    if (place_ == Place::offset_items && list.size() == 2) return fail("data_offsets has more than two numbers");
    list.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::metadata_value) {
      metadata.back().second = std::move(value);
      place_ = Place::metadata;
      return true;
    }
    if (place_ != Place::dtype) return unexpected("the text " + quoted_name(value));
    for (const SafetensorsDtype& known : safetensors_dtypes)
      if (known.name == value) entries.back().dtype = known.dtype;
    if (!entries.back().dtype) return fail("its dtype " + quoted_name(value) + " is none of those that are supported");
    place_ = Place::tensor;
    return true;
  }
  bool start_object(std::size_t) {
    switch (place_) {
      case Place::start: place_ = Place::top; return true;
      case Place::tensor_value: place_ = Place::tensor; return true;
      case Place::metadata_object: place_ = Place::metadata; return true;
      default: return unexpected("an object");
    }
  }
  bool key(std::string& name) {
    if (place_ == Place::metadata) {
      metadata.emplace_back(std::move(name), "");
      place_ = Place::metadata_value;
      return true;
    }
    if (place_ == Place::tensor) {
      HeaderEntry& entry = entries.back();
      const bool dtype = name == "dtype", shape = name == "shape", offsets = name == "data_offsets";
      if (!dtype && !shape && !offsets) return fail("it has a field " + quoted_name(name));
      if (dtype ? entry.dtype.has_value() : shape ? entry.shape.has_value() : entry.offsets.has_value())
        return fail("its " + name + " stands twice");
      place_ = dtype ? Place::dtype : shape ? Place::shape : Place::offsets;
      return true;
    }
    if (name == safetensors_metadata_key) {
      place_ = Place::metadata_object;
      if (std::exchange(seen_metadata_, true)) return fail("it stands twice");
      return true;
    }
    entries.emplace_back().name = std::move(name);
    place_ = Place::tensor_value;
    return true;
  }
  bool end_object() {
    if (place_ == Place::tensor) {
      const HeaderEntry& entry = entries.back();
      if (!entry.dtype || !entry.shape || !entry.offsets)
        return fail("it lacks its dtype, its shape or its data_offsets");
    }
    place_ = place_ == Place::top ? Place::end : Place::top;
    return true;
  }
  bool start_array(std::size_t) {
    if (place_ == Place::shape) {
      entries.back().shape.emplace();
      place_ = Place::shape_items;
    } else if (place_ == Place::offsets) {
      entries.back().offsets.emplace();
      place_ = Place::offset_items;
    } else {
      return unexpected("a list");
    }
    return true;
  }
  bool end_array() {
    if (place_ == Place::offset_items && entries.back().offsets->size() != 2)
      return fail("data_offsets has fewer than two numbers");
    place_ = Place::tensor;
    return true;
  }
  template <class Exception>
  bool parse_error(std::size_t position, const std::string&, const Exception& error) {
    std::string_view text = error.what();  // "[json.exception.parse_error.101] parse error at ...: syntax error ..."
    text = text.substr(std::min(text.find("] ") + 2, text.size()));
    problem = "byte " + std::to_string(position) + " of the header: " + std::string(text.substr(0, 300));
    return false;
  }

 private:
  enum class Place {
    start,
    top,
    tensor_value,
    tensor,
    dtype,
    shape,
    shape_items,
    offsets,
    offset_items,
    metadata_object,
    metadata,
    metadata_value,
    end
  };

  bool fail(const std::string& text) {
    const bool in_metadata =
        place_ == Place::metadata_object || place_ == Place::metadata || place_ == Place::metadata_value;
    if (in_metadata) problem = "__metadata__: " + text;
    else if (place_ == Place::start || place_ == Place::top || entries.empty()) problem = text;
    else problem = "tensor " + quoted_name(entries.back().name) + ": " + text;
    return false;
  }
  bool unexpected(const std::string& what) {
    const auto wanted = [&] {
      switch (place_) {
        case Place::start: return "the header must be an object";
        case Place::tensor_value: return "an object must describe it";
        case Place::dtype: return "dtype must be a text";
        case Place::shape: return "shape must be a list";
        case Place::offsets: return "data_offsets must be a list";
        case Place::shape_items:
        case Place::offset_items: return "only whole numbers from 0 to 2^63-1 may stand here";
        case Place::metadata_object: return "it must be an object";
        case Place::metadata_value: return "its values must be texts";
        default: return "nothing more was expected";
      }
    };
    return fail(what + " stands where " + wanted());
  }

  Place place_ = Place::start;
  bool seen_metadata_ = false;
};

[[noreturn]] FXX_INLINE void safetensors_malformed(std::string_view name, const std::string& problem) {
  throw FileError(ErrorId::file_malformed, "SafetensorsFile: '" + std::string(name) + "' is malformed: " + problem +
                                               "; a safetensors file was expected. Write or download it again");
}

/// A file that does not even begin as it should: of a kind that is known, or damaged.
[[noreturn]] FXX_INLINE void no_safetensors(std::span<const std::byte> bytes, std::string_view name,
                                            const std::string& problem) {
  const std::optional<FileKind> kind = kind_of_file(bytes);
  if (!kind) safetensors_malformed(name, problem);
  throw FileError(ErrorId::file_malformed, "SafetensorsFile: '" + std::string(name) + "' is malformed: it is " +
                                               std::string(kind->what) + "; a safetensors file was expected. " +
                                               std::string(kind->readers));
}

/// The length and the JSON, checked against the size of the file.
FXX_INLINE std::string_view safetensors_header(std::span<const std::byte> bytes, std::string_view name) {
  if (bytes.size() < 8)
    no_safetensors(bytes, name,
                          "it has " + std::to_string(bytes.size()) + " bytes, fewer than the 8 of the header's length");
  std::uint64_t length = 0, other_way = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  for (std::size_t i = 0; i < 8; ++i) other_way = other_way << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  if (length > largest_safetensors_header && other_way < bytes.size() - 8 && bytes[8] == std::byte{'{'})
    safetensors_malformed(name, "the length of its header, " + std::to_string(other_way) +
                                    ", has its bytes in the wrong order, the highest first");
  if (length > largest_safetensors_header)
    no_safetensors(bytes, name, "its header is said to have " + std::to_string(length) + " bytes, more than the " +
                                    std::to_string(largest_safetensors_header) + " that are allowed");
  if (length > bytes.size() - 8)
    no_safetensors(bytes, name, "its header is said to have " + std::to_string(length) + " bytes, but only " +
                                    std::to_string(bytes.size() - 8) + " follow");
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (!text.starts_with('{')) no_safetensors(bytes, name, "byte 8: the header does not begin with '{'");
  // The parser would take it for the end and believe whatever follows.
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    safetensors_malformed(name, "byte " + std::to_string(zero + 1) + " of the header: a zero byte");
  return text;
}

}  // namespace detail

FXX_INLINE SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path, "SafetensorsFile") {
  read(file_.bytes(), path);
}

FXX_INLINE SafetensorsFile SafetensorsFile::parse(std::span<const std::byte> bytes, std::string_view name) {
  SafetensorsFile file;
  file.read(bytes, name);
  return file;
}

FXX_INLINE void SafetensorsFile::read(std::span<const std::byte> bytes, std::string_view name) {
  const auto malformed = [&](const std::string& problem) { detail::safetensors_malformed(name, problem); };
  const std::string_view text = detail::safetensors_header(bytes, name);
  const std::span<const std::byte> data = bytes.subspan(8 + text.size());
  const auto size = static_cast<std::int64_t>(data.size());

  detail::HeaderReader header;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &header)) malformed(header.problem);

  entries_.reserve(header.entries.size());
  for (detail::HeaderEntry& read : header.entries) {
    SafetensorsEntry& entry = entries_.emplace_back();
    entry.name = std::move(read.name);
    entry.dtype = *read.dtype;
    entry.shape = std::move(*read.shape);
    const std::int64_t begin = (*read.offsets)[0], end = (*read.offsets)[1];
    const auto wrong = [&](const std::string& problem) {
      malformed("tensor " + detail::quoted_name(entry.name) + ": " + problem);
    };
    const std::string offsets = "data_offsets [" + std::to_string(begin) + ", " + std::to_string(end) + "]";
    if (begin > end || end > size)
      wrong(offsets + " do not lie in the data, which has " + std::to_string(size) + " bytes");
    const std::optional<std::int64_t> needed = detail::bytes_of(entry.shape, entry.dtype);
    if (!needed) wrong("shape " + detail::shape_text(entry.shape) + " has more elements than can be counted");
    if (end - begin != *needed)
      wrong(offsets + " hold " + std::to_string(end - begin) + " bytes, but shape " + detail::shape_text(entry.shape) +
            " of " + std::string(name_of(entry.dtype)) + " takes " + std::to_string(*needed));
    entry.data = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  std::vector<std::uint32_t> by_place = by_name_;
  std::sort(by_name_.begin(), by_name_.end(), [&](auto a, auto b) { return entries_[a].name < entries_[b].name; });
  for (std::size_t i = 1; i < by_name_.size(); ++i)
    if (entries_[by_name_[i]].name == entries_[by_name_[i - 1]].name)
      malformed("two tensors are called " + detail::quoted_name(entries_[by_name_[i]].name));

  // Every byte of the data belongs to one tensor.
  const auto begin_of = [&](std::uint32_t i) { return entries_[i].data.data() - data.data(); };
  const auto end_of = [&](std::uint32_t i) {
    return begin_of(i) + static_cast<std::ptrdiff_t>(entries_[i].data.size());
  };
  std::sort(by_place.begin(), by_place.end(), [&](auto a, auto b) {
    return begin_of(a) != begin_of(b) ? begin_of(a) < begin_of(b) : end_of(a) < end_of(b);
  });
  std::ptrdiff_t at = 0;
  for (std::uint32_t i : by_place) {
    if (begin_of(i) != at)
      malformed("tensor " + detail::quoted_name(entries_[i].name) + " begins at byte " + std::to_string(begin_of(i)) +
                " of the data, " +
                (begin_of(i) < at ? "inside the one before it, which ends" : "behind a gap that begins") + " at " +
                std::to_string(at));
    at = end_of(i);
  }
  if (at != size) malformed(std::to_string(size - at) + " bytes follow the last tensor");

  metadata_ = std::move(header.metadata);
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : metadata_) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  if (const auto twice = std::adjacent_find(keys.begin(), keys.end()); twice != keys.end())
    malformed("__metadata__: the key " + detail::quoted_name(*twice) + " stands twice in it");
}

FXX_INLINE const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [&](std::uint32_t i, std::string_view wanted) { return entries_[i].name < wanted; });
  return found != by_name_.end() && entries_[*found].name == name ? &entries_[*found] : nullptr;
}

FXX_INLINE void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                                  const SafetensorsMetadata& metadata) {
  constexpr const char* call = "write_safetensors";
  const auto refuse = [&](const std::string& problem) {
    throw FileError(ErrorId::file_malformed, std::string(call) + ": '" + path + "' is not written: " + problem);
  };
  const auto json_text = [&](const std::string& text) {
    try {
      return nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) {
      refuse("the name or text " + detail::quoted_name(text) + " is not UTF-8; give it as UTF-8");
    }
    return std::string();
  };
  const auto unique = [&](std::vector<std::string_view> names, const char* what) {
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
      refuse(std::string(what) + " " + detail::quoted_name(*twice) + " is given twice; rename one");
  };

  std::vector<std::string_view> names;
  for (const SafetensorsEntry& entry : entries) {
    const std::string quoted = "tensor " + detail::quoted_name(entry.name);
    if (entry.name == detail::safetensors_metadata_key) refuse("no tensor can be called __metadata__; rename it");
    if (std::none_of(std::begin(detail::safetensors_dtypes), std::end(detail::safetensors_dtypes),
                     [&](const auto& known) { return known.dtype == entry.dtype; }))
      refuse(quoted + " has dtype " + std::string(name_of(entry.dtype)) + ", which the format lacks; convert it first");
    const std::optional<std::int64_t> needed = detail::bytes_of(entry.shape, entry.dtype);
    if (!needed || static_cast<std::uint64_t>(*needed) != entry.data.size())
      refuse(quoted + " has " + std::to_string(entry.data.size()) + " bytes, but shape " +
             detail::shape_text(entry.shape) + " of " + std::string(name_of(entry.dtype)) + " takes " +
             (needed ? std::to_string(*needed) : "more than can be counted") + "; give all of its data, contiguous");
    names.push_back(entry.name);
  }
  unique(std::move(names), "tensor");
  names.clear();
  for (const auto& [key, value] : metadata) names.push_back(key);
  unique(std::move(names), "metadata");

  // The header keeps the caller's order. The data goes by falling element size, so that each tensor is aligned in the
  // file without gaps, which the format forbids.
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return element_size(entries[a].dtype) > element_size(entries[b].dtype);
  });
  std::vector<std::uint64_t> begins(entries.size());
  std::uint64_t end = 0;
  for (std::size_t i : order) {
    begins[i] = end;
    end += entries[i].data.size();
  }

  std::string header = "{";
  const auto separate = [&] { header += header.size() > 1 ? "," : ""; };
  if (!metadata.empty()) {
    header += "\"__metadata__\":{";
    for (std::size_t i = 0; i < metadata.size(); ++i)
      header += (i ? "," : "") + json_text(metadata[i].first) + ":" + json_text(metadata[i].second);
    header += "}";
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const SafetensorsEntry& entry = entries[i];
    const auto* known = std::find_if(std::begin(detail::safetensors_dtypes), std::end(detail::safetensors_dtypes),
                                     [&](const auto& d) { return d.dtype == entry.dtype; });
    separate();
    header += json_text(entry.name) + ":{\"dtype\":\"" + std::string(known->name) + "\",\"shape\":[";
    for (std::size_t axis = 0; axis < entry.shape.size(); ++axis)
      header += (axis ? "," : "") + std::to_string(entry.shape[axis]);
    header +=
        "],\"data_offsets\":[" + std::to_string(begins[i]) + "," + std::to_string(begins[i] + entry.data.size()) + "]}";
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > detail::largest_safetensors_header)
    refuse("its header would have " + std::to_string(header.size()) + " bytes, more than the " +
           std::to_string(detail::largest_safetensors_header) +
           " that the format allows; split the tensors over several files");

  AsideFile file(path, call);
  std::byte length[8];
  for (std::size_t i = 0; i < 8; ++i)
    length[i] = static_cast<std::byte>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  file.write(length);
  file.write(header);
  for (std::size_t i : order) file.write(entries[i].data);
  file.commit();
}

}  // namespace fxx::inline FXX_ABI
