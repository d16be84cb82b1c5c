// io/safetensors.hpp: round trips, files of other writers, every way a file can lie, and a fuzz of all of them.
#include "fxx/io/safetensors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <memory>
#include <random>

#include "../runtime/support.hpp"

namespace {

using fxx::Dtype;
using fxx::ErrorId;
using fxx::FileError;
using fxx::SafetensorsEntry;
using fxx::SafetensorsFile;
using support::contains;
using support::fault_of;
using support::TemporaryFolder;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A file with this header, whatever it says, and this data.
std::string file_of(std::string_view header, std::string_view data = "") {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  return (out += header) += data;
}

SafetensorsFile parse(std::string_view text) { return SafetensorsFile::parse(bytes_of(text)); }

/// What is said of a file that is refused.
std::string problem_of(std::string_view text) {
  const FileError error = fault_of<FileError>([&] { (void)parse(text); });
  CHECK(error.id() == ErrorId::file_malformed);
  const std::string message = error.what();
  const std::string begin = "fxx::SafetensorsFile: 'memory' is malformed: ";
  CHECK(message.starts_with(begin));
  return message.substr(begin.size());
}
std::string problem_of_header(std::string_view header, std::string_view data = "") {
  return problem_of(file_of(header, data));
}

/// All that a file that was accepted promises. Touches every byte.
void check_promises(const SafetensorsFile& file, std::string_view text) {
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  std::vector<bool> taken(text.size());
  unsigned sum = 0;
  for (const SafetensorsEntry& entry : file.entries()) {
    std::int64_t bytes = element_size(entry.dtype);
    for (std::int64_t size : entry.shape) {
      REQUIRE(size >= 0);
      bytes *= size;
    }
    REQUIRE(static_cast<std::int64_t>(entry.data.size()) == bytes);
    if (!entry.data.empty()) REQUIRE(entry.data.data() >= first + 8);
    for (const std::byte& byte : entry.data) {
      const auto at = static_cast<std::size_t>(&byte - first);
      REQUIRE(at < text.size());
      REQUIRE(!taken[at]);
      taken[at] = true;
      sum += std::to_integer<unsigned>(byte);
    }
    REQUIRE(file.find(entry.name) == &entry);
  }
  volatile unsigned use = sum;
  (void)use;
}

/// Data and the entries over it: every dtype, sizes that leave the next one unaligned, scalars, empty ones, odd names.
struct Sample {
  Sample() {
    std::mt19937 random(7);
    const auto add = [&](std::string name, Dtype dtype, std::vector<std::int64_t> shape) {
      std::size_t size = static_cast<std::size_t>(element_size(dtype));
      for (std::int64_t axis : shape) size *= static_cast<std::size_t>(axis);
      std::string text(size, '\0');
      for (char& c : text) c = static_cast<char>(random());
      texts.push_back(std::make_unique<std::string>(std::move(text)));
      entries.push_back({std::move(name), dtype, std::move(shape), bytes_of(*texts.back())});
    };
    for (Dtype dtype :
         {Dtype::boolean, Dtype::uint8, Dtype::int8, Dtype::float8_e5m2, Dtype::float8_e4m3fn, Dtype::float8_e5m2fnuz,
          Dtype::float8_e4m3fnuz, Dtype::int16, Dtype::uint16, Dtype::float16, Dtype::bfloat16, Dtype::int32,
          Dtype::uint32, Dtype::float32, Dtype::complex64, Dtype::float64, Dtype::int64, Dtype::uint64})
      add("of." + std::string(name_of(dtype)), dtype, {3, 1});
    add("scalar", Dtype::float32, {});
    add("empty", Dtype::int16, {0, 1000000});
    add("", Dtype::uint8, {5});
    add("quote\" back\\slash \n \x01 \xc3\xa9 \xf0\x9f\x98\x80", Dtype::uint8, {1, 1, 1});
    add("large", Dtype::float32, {17, 33});
  }
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<SafetensorsEntry> entries;
};

std::string written(std::span<const SafetensorsEntry> entries, const fxx::SafetensorsMetadata& metadata = {}) {
  const TemporaryFolder folder;
  fxx::write_safetensors(folder / "file", entries, metadata);
  return support::content_of(folder / "file");
}

}  // namespace

TEST_CASE("what is written is read back, byte for byte and in order") {
  const TemporaryFolder folder;
  const Sample sample;
  const fxx::SafetensorsMetadata metadata = {{"format", "pt"}, {"a \"key\"", "a\nvalue"}, {"", ""}};
  fxx::write_safetensors(folder / "file", sample.entries, metadata);
  const SafetensorsFile file(folder / "file");
  REQUIRE(file.entries().size() == sample.entries.size());
  for (std::size_t i = 0; i < sample.entries.size(); ++i) {
    const SafetensorsEntry &is = file.entries()[i], &should = sample.entries[i];
    CAPTURE(should.name);
    CHECK(is.name == should.name);
    CHECK(is.dtype == should.dtype);
    CHECK(is.shape == should.shape);
    CHECK(text_of(is.data) == text_of(should.data));
    CHECK(file.find(should.name) == &is);
  }
  CHECK(file.metadata() == metadata);
  CHECK(file.find("none") == nullptr);
  CHECK(file.find("of.float3") == nullptr);
  const std::string text = support::content_of(folder / "file");
  check_promises(SafetensorsFile::parse(bytes_of(text)), text);
}

TEST_CASE("the data of each tensor is aligned for its dtype") {
  const TemporaryFolder folder;
  const Sample sample;
  fxx::write_safetensors(folder / "file", sample.entries);
  const SafetensorsFile file(folder / "file");
  for (const SafetensorsEntry& entry : file.entries())
    CHECK(reinterpret_cast<std::uintptr_t>(entry.data.data()) %
              static_cast<std::uintptr_t>(element_size(entry.dtype)) ==
          0);
}

TEST_CASE("the layout is the one that the format asks for") {
  const std::string one = "\x01\x02\x03", two(8, '\x04');
  const SafetensorsEntry entries[] = {{"b", Dtype::uint8, {3}, bytes_of(one)},
                                      {"a", Dtype::float64, {1}, bytes_of(two)}};
  std::string header =
      "{\"__metadata__\":{\"k\":\"v\"},\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
      "\"a\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}";
  header.append((8 - header.size() % 8) % 8, ' ');
  CHECK(written(entries, {{"k", "v"}}) == file_of(header, two + one));
  CHECK(written({}) == file_of("{}      "));
  CHECK(parse(written({})).entries().empty());
}

TEST_CASE("a file as other writers make it is read") {
  // Blanks, escapes, fields in another order, data in another order than the header, a number in metadata's text.
  const std::string header =
      " {\n \"w\\u00e9\\n\" : { \"data_offsets\" : [ 4 , 6 ] , \"shape\" : [ 2 , 1 ] , \"dtype\" : \"BOOL\" } ,"
      " \"__metadata__\" : { \"x\" : \"1\" } , \"v\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
      "\"e\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]} } \t ";
  CHECK(contains(problem_of_header(header, "abcdef"), "does not begin with '{'"));
  const std::string text = file_of(std::string_view(header).substr(1), "abcdef");
  const SafetensorsFile file = parse(text);
  REQUIRE(file.entries().size() == 3);
  CHECK(file.entries()[0].name == "w\xc3\xa9\n");
  CHECK(text_of(file.entries()[0].data) == "ef");
  CHECK(file.entries()[0].dtype == Dtype::boolean);
  CHECK(file.entries()[1].name == "v");
  CHECK(text_of(file.entries()[1].data) == "abcd");
  CHECK(file.entries()[2].shape == std::vector<std::int64_t>{0});
  CHECK(file.metadata() == fxx::SafetensorsMetadata{{"x", "1"}});
  check_promises(file, text);
}

TEST_CASE("the data is not copied, and outlives a move") {
  const std::string data(4, 'x');
  const std::string text = written(std::vector<SafetensorsEntry>{{"a", Dtype::uint8, {4}, bytes_of(data)}});
  SafetensorsFile file = parse(text);
  const std::byte* place = file.entries()[0].data.data();
  CHECK(place == bytes_of(text).data() + text.size() - 4);
  const SafetensorsFile moved = std::move(file);
  CHECK(moved.find("a")->data.data() == place);
}

TEST_CASE("lengths that the file does not have are refused") {
  CHECK(contains(problem_of(""), "it has 0 bytes, fewer than the 8"));
  CHECK(contains(problem_of("1234567"), "it has 7 bytes"));
  CHECK(contains(problem_of(std::string(8, '\0')), "does not begin with '{'"));
  CHECK(contains(problem_of(file_of("{}").substr(0, 9)), "said to have 2 bytes, but only 1 follow"));
  CHECK(
      contains(problem_of(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10)), "100000001 bytes, more than the 100000000"));
  CHECK(contains(problem_of(std::string("\x00\xe1\xf5\x05\0\0\0\0{}", 10)), "100000000 bytes, but only 2 follow"));
  CHECK(contains(problem_of(std::string(8, '\xff') + "{}"), "18446744073709551615 bytes"));
}

TEST_CASE("files of other kinds are recognised, and the message says what reads them") {
  const std::string rest(600, '\x01');
  std::string tar(600, 'a');
  tar.replace(257, 5, "ustar");
  const std::tuple<std::string, std::string, std::string> kinds[] = {
      {std::string("PK\x03\x04\0\0\x08\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0\x12\0archive/data.pkl", 46), "a zip archive, as torch.save",
       "torch.load"},
      {"PK\x03\x04" + rest, "a zip archive", "torch::jit::load"},
      {"PK\x05\x06" + rest, "a zip archive", "safetensors.torch.save_file"},
      {"PK\x03\x04 bias.npy" + rest, "NumPy arrays (.npz)", "numpy.load"},
      {"\x80\x02\x8a\nl\xfc\x9c" + rest, "a Python pickle", "torch.load"},
      {"\x80\x04\x95" + rest, "a Python pickle", "torch.load"},
      // Dictionaries and lists in each protocol, some of a few bytes.
      {std::string("\x80\x04\x95#\0\0\0\0\0\0\0}\x94\x8c\x06weight", 20), "a Python pickle", "torch.load"},
      {std::string("\x80\x05\x95\x09\0\0\0\0\0\0\0]\x94(K\x01K\x02" "e.", 20), "a Python pickle", "torch.load"},
      {"(dp0\nVweight\np1\n(lp2\nF1.0\na", "a Python pickle", "torch.load"},
      {"(lp0\nI1\naI2\na.", "a Python pickle", "torch.load"},
      {"ccollections\nOrderedDict\np0\n(tRp1\n", "a Python pickle", "torch.load"},
      {std::string("ccollections\nOrderedDict\nq\0)Rq\x01", 32), "a Python pickle", "torch.load"},
      {"cnumpy.core.multiarray\n_reconstruct\np0\n(cnumpy\nndarray\np1\n", "a Python pickle", "torch.load"},
      {std::string("}q\0X\x06\0\0\0weightq\x01]q\x02(G?", 22), "a Python pickle", "torch.load"},
      {std::string("]q\0(K\x01K\x02" "e.", 9), "a Python pickle", "torch.load"},
      {"\x89HDF\r\n\x1a\n" + rest, "an HDF5 file", "h5py"},
      {std::string("GGUF\x03\0\0\0", 8) + rest, "a GGUF file", "llama.cpp"},
      {std::string("\x93NUMPY\x01\0v", 9) + rest, "a NumPy array (.npy)", "numpy.load"},
      {std::string("\x1c\0\0\0TFL3", 8) + rest, "a TensorFlow Lite model", "LiteRT"},
      {std::string("\x1c\0\0\0ET12", 8) + rest, "an ExecuTorch program", "ExecuTorch"},
      {std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) + rest, "compressed by gzip", "gunzip"},
      {"BZh91AY&SY" + rest, "compressed by bzip2", "bunzip2"},
      {std::string("\xfd" "7zXZ\0\0\x04", 8) + rest, "compressed by xz", "unxz"},
      {"\x28\xb5\x2f\xfd" + rest, "compressed by zstd", "unzstd"},
      {tar, "a tar archive", "tar xf"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a pointer of Git LFS", "git lfs pull"},
      {"\n<!DOCTYPE html>\n<html>" + rest, "a web page", "download"},
      {"{\"metadata\": {}, \"weight_map\": {}}", "a JSON text", "index"},
      {std::string("\x08\x08\x12\x07pytorch\x1a\x05", 13) + rest, "a protobuf, as ONNX", "ONNX Runtime"},
      {"\x08\x07:\xd2\x80\x01" + rest, "a protobuf, as ONNX", "ONNX Runtime"},
      {"<?xml version=\"1.0\"?>" + rest, "an XML text", "OpenVINO"},
      {"PAR1" + rest, "a Parquet file", "pyarrow"},
      {"\x7f" "ELF\x02\x01\x01" + rest, "a program or library", ""},
      {"%PDF-1.7\n" + rest, "a PDF document", "no weights"},
      {"\x89PNG\r\n\x1a\n" + rest, "an image", "no weights"},
      {std::string("RIFF\x24\x08\0\0WAVEfmt ", 16) + rest, "a sound", "no weights"},
      {std::string("MZ\x90\0\x03\0\0\0\x04\0\0\0", 12) + rest, "another system", ""},
      {"\n;\n\x05input\x12\x0bPlaceholder" + rest, "a protobuf, as TensorFlow", "TensorFlow"},
      {"layer1.weight 0.5 0.25\nlayer1.bias 1\n", "a text", "Look at it"},
      {"\xef\xbb\xbf" "404: Datei nicht gefunden \xe2\x80\x94 weg", "a text", "Look at it"},
      {"7767517\n75 83\nInput data 0 1 data\n", "a text", "Look at it"},
  };
  for (const auto& [text, what, readers] : kinds) {
    const std::string problem = problem_of(text);
    CAPTURE(problem);
    CHECK(contains(problem, what));
    CHECK(contains(problem, "a safetensors file was expected"));
    CHECK(contains(problem, readers));
    CHECK(!contains(problem, "bytes"));  // no length that is none
  }
  const TemporaryFolder folder;
  const std::string path = folder.file("model.pth", std::get<0>(kinds[0]) + rest);
  CHECK(contains(fault_of<FileError>([&] { (void)SafetensorsFile(path); }).what(), "model.pth' is malformed: it is a zip"));
}

TEST_CASE("a safetensors file that was cut off is taken for nothing else, whatever its length") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string file(8, '\0');
    std::uint64_t length = random() % 100'000'001;
    if (i % 4 == 0) length = (length & ~std::uint64_t{0xff}) | (i % 8 ? 0x08u : 0x80u);  // as protobufs and pickles begin
    if (i % 4 == 1) length = (length & ~std::uint64_t{0xffffff}) | (i % 8 == 1 ? 0x088b1fu : 0x685a42u);  // gzip, bzip2
    for (std::size_t k = 0; k < 8; ++k) file[k] = static_cast<char>(length >> (8 * k));
    file += R"({"weight":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
    if (length <= file.size()) continue;
    const std::string problem = problem_of(file);
    if (!contains(problem, "its header is said to have")) FAIL(length, ": ", problem);
  }
}

TEST_CASE("a length that was written with the highest byte first is told as such") {
  const std::string file = file_of(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "1");
  std::string other = file;
  std::reverse(other.begin(), other.begin() + 8);
  CHECK(parse(file).entries().size() == 1);
  CHECK(contains(problem_of(other), "wrong order"));
  CHECK(contains(problem_of(other), " 53,"));
}

TEST_CASE("a header that is no JSON is refused with the place") {
  CHECK(contains(problem_of_header("{\"a\""), "byte 5 of the header: "));
  CHECK(contains(problem_of_header("{\"a\": tru"), "of the header: "));
  CHECK(contains(problem_of_header("{} x"), "of the header: "));
  CHECK(contains(problem_of_header("{}{}"), "of the header: "));
  CHECK(contains(problem_of_header("{\"\xff\":1}"), "UTF-8"));
  CHECK(contains(problem_of_header("{\"\\ud800\":1}"), "of the header: "));
  CHECK(contains(problem_of_header(std::string("{\0}", 3)), "byte 2 of the header: a zero byte"));
  CHECK(contains(problem_of_header(std::string("{}\0 x", 5)), "byte 3 of the header: a zero byte"));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  CHECK(contains(problem_of_header(deep), "tensor 'a'"));
  CHECK(contains(problem_of_header("{\"a\":" + std::string(100000, '[')),
                 "a list stands where an object must describe it"));
}

TEST_CASE("values of the wrong kind are refused with the tensor's name") {
  const auto problem = [](const std::string& tensor) { return problem_of_header("{\"w\":" + tensor + "}", "1234"); };
  const std::string good = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";
  CHECK(parse(file_of("{\"w\":{" + good + "}}", "1234")).entries().size() == 1);
  for (const char* wrong : {"1", "-1", "1.5", "\"x\"", "null", "true", "[]"})
    CHECK(contains(problem(wrong), "tensor 'w': "));
  CHECK(contains(problem("{}"), "tensor 'w': it lacks its dtype, its shape or its data_offsets"));
  CHECK(contains(problem(R"({"dtype":"U8","shape":[4]})"), "it lacks"));
  CHECK(contains(problem(R"({"dtype":"U8","data_offsets":[0,4]})"), "it lacks"));
  CHECK(contains(problem(R"({"shape":[4],"data_offsets":[0,4]})"), "it lacks"));
  CHECK(contains(problem("{" + good + R"(,"more":1})"), "it has a field 'more'"));
  CHECK(contains(problem("{" + good + R"(,"dtype":"U8"})"), "its dtype stands twice"));
  CHECK(contains(problem("{" + good + R"(,"shape":[4]})"), "its shape stands twice"));
  CHECK(contains(problem("{" + good + R"(,"data_offsets":[0,4]})"), "its data_offsets stands twice"));
  CHECK(contains(problem(R"({"dtype":"F4","shape":[8],"data_offsets":[0,4]})"), "its dtype 'F4' is none of those"));
  CHECK(contains(problem(R"({"dtype":"u8","shape":[4],"data_offsets":[0,4]})"), "its dtype 'u8'"));
  for (const char* wrong : {"1", "null", "[]", "{}"})
    CHECK(contains(problem(std::string(R"({"dtype":)") + wrong + "}"), "dtype must be a text"));
  for (const char* wrong : {"1", "null", "\"4\"", "{}"}) {
    CHECK(contains(problem(std::string(R"({"shape":)") + wrong + "}"), "shape must be a list"));
    CHECK(contains(problem(std::string(R"({"data_offsets":)") + wrong + "}"), "data_offsets must be a list"));
  }
  for (const char* wrong :
       {"-1", "1.0", "1e2", "null", "true", "\"4\"", "[4]", "{}", "9223372036854775808", "18446744073709551616"}) {
    CHECK(contains(problem(std::string(R"({"shape":[)") + wrong + "]}"),
                   "only whole numbers from 0 to 2^63-1 may stand here"));
    CHECK(contains(problem(std::string(R"({"data_offsets":[)") + wrong + "]}"), "only whole numbers from 0 to 2^63-1"));
  }
  CHECK(contains(problem(R"({"data_offsets":[0]})"), "data_offsets has fewer than two numbers"));
  CHECK(contains(problem(R"({"data_offsets":[]})"), "data_offsets has fewer than two numbers"));
  CHECK(contains(problem(R"({"data_offsets":[0,4,4]})"), "data_offsets has more than two numbers"));
  CHECK(contains(problem_of_header("{\"" + std::string(10000, 'n') + "\":1}"), "nnn'..."));
}

TEST_CASE("offsets that do not fit are refused") {
  const auto problem = [](const std::string& dtype, const std::string& shape, const std::string& offsets,
                          std::string_view data) {
    return problem_of_header(
        "{\"w\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}", data);
  };
  CHECK(
      contains(problem("U8", "[5]", "[0,5]", "1234"), "data_offsets [0, 5] do not lie in the data, which has 4 bytes"));
  CHECK(contains(problem("U8", "[0]", "[5,5]", "1234"), "do not lie in the data"));
  CHECK(contains(problem("U8", "[1]", "[3,2]", "1234"), "data_offsets [3, 2] do not lie"));
  CHECK(contains(problem("U8", "[1]", "[9223372036854775807,9223372036854775807]", "1234"), "do not lie"));
  CHECK(contains(problem("F32", "[4]", "[0,4]", "1234"), "hold 4 bytes, but shape [4] of float32 takes 16"));
  CHECK(contains(problem("F32", "[0]", "[0,4]", "1234"), "takes 0"));
  CHECK(contains(problem("F32", "[]", "[0,2]", "1234"), "hold 2 bytes, but shape [] of float32 takes 4"));
  // Products that wrap around to the right number.
  CHECK(contains(problem("U8", "[4294967296,4294967296]", "[0,0]", ""), "more elements than can be counted"));
  CHECK(contains(problem("F32", "[4611686018427387905]", "[0,4]", "1234"), "more elements than can be counted"));
  CHECK(contains(problem("U8", "[4611686018427387904,4,0]", "[0,0]", ""), "more elements than can be counted"));
  CHECK(contains(problem("U8", "[0,4611686018427387904,4]", "[0,0]", ""), "more elements than can be counted"));
}

TEST_CASE("gaps, overlaps and what is left over are refused") {
  const auto tensor = [](const std::string& name, int begin, int end) {
    return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) + R"(],"data_offsets":[)" +
           std::to_string(begin) + "," + std::to_string(end) + "]}";
  };
  const auto problem = [](const std::string& tensors) { return problem_of_header("{" + tensors + "}", "12345678"); };
  CHECK(parse(file_of("{" + tensor("b", 4, 8) + "," + tensor("a", 0, 4) + "," + tensor("e", 4, 4) + "}", "12345678"))
            .entries()
            .size() == 3);
  CHECK(contains(problem(tensor("a", 0, 4) + "," + tensor("b", 3, 8)),
                 "tensor 'b' begins at byte 3 of the data, inside the one before"));
  CHECK(contains(problem(tensor("a", 0, 8) + "," + tensor("b", 0, 8)), "inside the one before"));
  CHECK(contains(problem(tensor("a", 0, 8) + "," + tensor("e", 4, 4)), "inside the one before"));
  CHECK(contains(problem(tensor("a", 0, 4) + "," + tensor("b", 5, 8)),
                 "tensor 'b' begins at byte 5 of the data, behind a gap"));
  CHECK(contains(problem(tensor("a", 1, 8)), "behind a gap that begins at 0"));
  CHECK(contains(problem(tensor("a", 0, 7)), "1 bytes follow the last tensor"));
  CHECK(contains(problem_of_header("{}", "x"), "1 bytes follow the last tensor"));
  CHECK(contains(problem(tensor("a", 0, 4) + "," + tensor("a", 4, 8)), "two tensors are called 'a'"));
}

TEST_CASE("metadata is texts by texts, once") {
  const auto problem = [](const std::string& value) { return problem_of_header("{\"__metadata__\":" + value + "}"); };
  CHECK(parse(file_of(R"({"__metadata__":{}})")).metadata().empty());
  for (const char* wrong : {"1", "null", "\"x\"", "[]", "true"}) CHECK(contains(problem(wrong), "__metadata__: "));
  for (const char* wrong : {"1", "-1", "1.5", "null", "true", "[]", "{}"})
    CHECK(contains(problem(std::string("{\"k\":") + wrong + "}"), "its values must be texts"));
  CHECK(contains(problem(R"({"k":"1","j":"2","k":"3"})"), "__metadata__: the key 'k' stands twice"));
  CHECK(contains(problem(R"({},"__metadata__":{})"), "__metadata__: it stands twice"));
}

TEST_CASE("a file that is not there is a fault with the reason") {
  const TemporaryFolder folder;
  const FileError missing = fault_of<FileError>([&] { SafetensorsFile file(folder / "missing"); });
  CHECK(missing.id() == ErrorId::file_unreadable);
  CHECK(contains(missing.what(),
                 "fxx::SafetensorsFile: '" + (folder / "missing") + "' cannot be read, No such file or directory"));
  CHECK(fault_of<FileError>([&] { SafetensorsFile file(folder.path()); }).id() == ErrorId::file_unreadable);
  const FileError malformed = fault_of<FileError>([&] { SafetensorsFile file(folder.file("empty", "")); });
  CHECK(malformed.id() == ErrorId::file_malformed);
  CHECK(contains(malformed.what(), folder / "empty"));
}

TEST_CASE("what no file can hold is not written, and the old file stays") {
  const TemporaryFolder folder;
  folder.file("file", "old");
  const std::string data(16, 'x');
  const auto refused = [&](const std::vector<SafetensorsEntry>& entries,
                           const fxx::SafetensorsMetadata& metadata = {}) {
    const FileError error = fault_of<FileError>([&] { fxx::write_safetensors(folder / "file", entries, metadata); });
    CHECK(error.id() == ErrorId::file_malformed);
    CHECK(support::content_of(folder / "file") == "old");
    CHECK(support::count_entries(folder.path()) == 1);
    return std::string(error.what());
  };
  const auto entry = [&](const std::string& name, Dtype dtype, std::vector<std::int64_t> shape, std::size_t size) {
    return SafetensorsEntry{name, dtype, std::move(shape), bytes_of(data).first(size)};
  };
  CHECK(
      contains(refused({entry("a", Dtype::uint8, {3}, 4)}), "tensor 'a' has 4 bytes, but shape [3] of uint8 takes 3"));
  CHECK(contains(refused({entry("a", Dtype::uint8, {-1}, 0)}), "more than can be counted"));
  CHECK(contains(refused({entry("a", Dtype::uint8, {INT64_MAX, 3}, 0)}), "more than can be counted"));
  CHECK(contains(refused({entry("a", Dtype::qint8, {1}, 1)}), "has dtype qint8, which the format lacks"));
  CHECK(contains(refused({entry("a", Dtype::complex128, {1}, 16)}), "has dtype complex128"));
  CHECK(contains(
      refused({entry("a", Dtype::uint8, {1}, 1), entry("b", Dtype::uint8, {1}, 1), entry("a", Dtype::uint8, {2}, 2)}),
      "tensor 'a' is given twice"));
  CHECK(contains(refused({entry("__metadata__", Dtype::uint8, {1}, 1)}), "no tensor can be called __metadata__"));
  CHECK(contains(refused({entry("\xff", Dtype::uint8, {1}, 1)}), "is not UTF-8"));
  CHECK(contains(refused({}, {{"k", "1"}, {"k", "2"}}), "metadata 'k' is given twice"));
  CHECK(contains(refused({}, {{"k", "\xc3"}}), "is not UTF-8"));
  const FileError error = fault_of<FileError>([&] { fxx::write_safetensors(folder / "missing/file", {}); });
  CHECK(error.id() == ErrorId::file_unwritable);
}

TEST_CASE("mutated files are refused or keep every promise") {
  // Valid files of several kinds; each is changed at random, mostly in the header, and read from a block of its exact
  // size, so that a sanitizer sees every byte read beyond it.
  std::vector<std::string> seeds;
  const Sample sample;
  seeds.push_back(written(sample.entries, {{"format", "pt"}}));
  seeds.push_back(written(std::span(sample.entries).first(3)));
  seeds.push_back(written({}));
  const std::string first = R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]})",
                    second = R"("b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]})";
  seeds.push_back(file_of("{" + first + "," + second + "}", std::string(19, 'x')));
  for (const std::string& seed : seeds) check_promises(parse(seed), seed);

  // clang-format off
  static constexpr std::string_view words[] = {
      "{", "}", "[", "]", "\"", ",", ":", " ", "0", "1", "-1", "9", "1e9", "null", "true", "\xff", "\xc3", "\\u0000",
      "\\ud800", "99999999999", "9223372036854775807", "18446744073709551615", "\"dtype\"", "\"shape\"",
      "\"data_offsets\"", "\"__metadata__\"", "\"F64\"", "\"U8\"", "\"BOOL\""};
  // clang-format on
  std::mt19937 random(1);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = seeds[random() % seeds.size()];
    const std::size_t header = 8 + static_cast<unsigned char>(text[0]) + 256u * static_cast<unsigned char>(text[1]);
    for (int change = static_cast<int>(random() % 4); change >= 0; --change) {
      const std::size_t at = random() % 8 ? random() % (header + 1) : random() % (text.size() + 1);
      if (at >= text.size()) continue;
      switch (random() % 7) {
        case 0: text[at] = static_cast<char>(random()); break;
        case 1: text[at] = static_cast<char>(text[at] ^ (1 << random() % 8)); break;
        case 2: text[at] = static_cast<char>('0' + random() % 10); break;
        case 3: {
          const std::string_view word = words[random() % std::size(words)];
          // Overwriting keeps the length of the header right, inserting does not.
          if (random() % 2) text.replace(at, std::min(word.size(), text.size() - at), word.substr(0, text.size() - at));
          else text.insert(at, word);
          break;
        }
        case 4: text.erase(at, 1 + random() % 4); break;
        case 5: text.resize(at); break;
        default: text[random() % std::min<std::size_t>(8, text.size())] = static_cast<char>(random()); break;
      }
      if (text.empty()) break;
    }
    const std::unique_ptr<char[]> exact(new char[text.size() + !text.size()]);
    std::memcpy(exact.get(), text.data(), text.size());
    const std::string_view block(exact.get(), text.size());
    try {
      const SafetensorsFile file = parse(block);
      check_promises(file, block);
      ++accepted;
    } catch (const FileError& error) {
      REQUIRE(error.id() == ErrorId::file_malformed);
      ++refused;
    }
  }
  CHECK(accepted > 100);  // both ways are taken
  CHECK(refused > 10000);
}
