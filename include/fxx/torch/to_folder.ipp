// Bodies of torch/to_folder.hpp.
#pragma once

#include <fcntl.h>
#include <torch/serialize.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "fxx/codegen/inputs.hpp"
#include "fxx/codegen/module_source.hpp"
#include "fxx/error.hpp"
#include "fxx/ir/names.hpp"
#include "fxx/torch/build.hpp"
#include "fxx/torch/dispatch/recording.hpp"
#include "fxx/torch/dispatch/training_flags.hpp"
#include "fxx/torch/fake.hpp"
#include "fxx/torch/results.hpp"
#include "fxx/torch/to_folder.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {

inline constexpr const char* folder_meson =
    R"meson(project('@FILE@', 'cpp', default_options: ['cpp_std=c++20', 'buildtype=release'])

# LibTorch: the option, else the variables that CMake users set, else the torch package of python3.
torch = run_command('python3', '-c', '''
import os, sys
def found(folder):
    while folder and folder != os.path.dirname(folder):
        if os.path.exists(os.path.join(folder, "include", "ATen", "core", "Tensor.h")):
            print(folder)
            sys.exit()
        folder = os.path.dirname(folder)
for name in [sys.argv[1], os.environ.get("Torch_DIR", ""), *os.environ.get("CMAKE_PREFIX_PATH", "").split(":")]:
    found(os.path.abspath(name) if name else "")
try:
    import torch
    found(os.path.dirname(torch.__file__))
except ImportError:
    pass
sys.exit("LibTorch was not found; give its folder with -Dtorch=...")
''', get_option('torch'), check: true).stdout().strip()

cpp = meson.get_compiler('cpp')
torch_dep = declare_dependency(
  compile_args: ['-isystem' + torch / 'include', '-isystem' + torch / 'include/torch/csrc/api/include'],
  link_args: ['-L' + torch / 'lib', '-Wl,--no-as-needed', '-ltorch', '-ltorch_cpu', '-lc10', '-Wl,-rpath,' + torch / 'lib'],
)
# The folder is no place for <...>: a model may be called like a header of the system's.
executable('@FILE@', ['@FILE@.cpp', 'main.cpp'], dependencies: torch_dep, implicit_include_directories: false)
)meson";

inline constexpr const char* folder_main = R"program(#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "@FILE@.h"

// All tensors of a result, in order.
template <class T>
void add_tensors(std::vector<torch::Tensor>& to, const T& value) {
  if constexpr (std::is_convertible_v<const T&, torch::Tensor>) to.push_back(value);
  else if constexpr (requires { std::tuple_size<T>::value; }) std::apply([&](const auto&... parts) { (add_tensors(to, parts), ...); }, value);
  else if constexpr (requires { value.begin()->value(); }) for (const auto& entry : value) add_tensors(to, entry.value());
  else if constexpr (requires { value.begin()->second; }) for (const auto& entry : value) add_tensors(to, entry.second);
  else if constexpr (requires { value.begin(); }) for (const auto& item : value) add_tensors(to, item);
}

// Loads the weights and runs the model on the inputs that were kept with it.
// usage: @FILE@ [folder with weights.pt]
int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  try {
    @NAME@ model;
    torch::load(model, folder + "/weights.pt");
    model->eval();
    torch::NoGradGuard no_grad;
    std::cout << "loaded " << model->parameters().size() << " parameters" << std::endl;
@CHECK@    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
)program";

FXX_INLINE std::string filled(std::string text, const std::vector<std::pair<std::string, std::string>>& values) {
  for (const auto& [key, value] : values)
    for (std::size_t at = 0; (at = text.find(key, at)) != text.npos; at += value.size())
      text.replace(at, key.size(), value);
  return text;
}

/// What the files of a class and its program are called: not as the program's own, nor as a target of Meson's.
FXX_INLINE std::string folder_file(std::string_view class_name) {
  static constexpr std::string_view taken[] = {"main",    "all",   "benchmark",   "clean", "coverage", "dist",
                                               "install", "phony", "reconfigure", "test",  "uninstall"};
  std::string file = snake_case(class_name);
  if (std::find(std::begin(taken), std::end(taken), file) != std::end(taken)) file += "_model";
  return file;
}

/// `write(aside)` makes the file under another name, of which nothing stays when that fails.
template <class F>
void write_aside(const std::filesystem::path& path, F&& write) {
  const std::filesystem::path aside = path.string() + ".new";
  // A link in its place would be written through; what an earlier run left there is in the way.
  std::error_code ignored_here;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(aside, ignored_here)))
    std::filesystem::remove(aside, ignored_here);
  // Made by us, and by nobody else meanwhile.
  const int made = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (made < 0)
    throw CodegenError(ErrorId::folder_not_written,
                       "to_folder: '" + path.string() + "' cannot be written: '" + aside.string() +
                           "' cannot be made, " + std::generic_category().message(errno) +
                           "; check the folder and the space on it");
  ::close(made);
  try {
    write(aside.string());
    std::filesystem::rename(aside, path);
  } catch (...) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(aside, ignored)) std::filesystem::remove(aside, ignored);
    throw;
  }
}
FXX_INLINE void write_text(const std::filesystem::path& path, const std::string& text) {
  write_aside(path, [&](const std::string& aside) {
    std::ofstream file(aside, std::ios::binary);
    file << text;
    file.flush();
    if (!file)
      throw CodegenError(ErrorId::folder_not_written,
                         "to_folder: '" + path.string() + "' cannot be written; check the folder and the space on it");
  });
}

}  // namespace detail

FXX_INLINE void to_folder(GraphModule& module, const std::string& folder, const std::string& name,
                          const FolderOptions& options) {
  (void)ModuleOwner(module);  // refuses a module that holds itself, which LibTorch would save without end
  module.follow_members();
  // Everything that can fail for the graph's sake comes first. LibTorch writes names into the text of its archives as
  // they are: these end a string there, and what follows is code.
  for (const std::vector<std::string>& names :
       {module.named_modules({}, false).keys(), module.named_parameters().keys(), module.named_buffers().keys()})
    for (const std::string& text : names)
      for (const char c : text)
        if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ')
          throw CodegenError(ErrorId::no_cpp_spelling,
                             "to_folder: " + repr(std::string_view(text)) +
                                 " cannot name a tensor or module in a file of weights; register it under a name "
                                 "without quotes, backslashes and line ends");
  const auto refuse_fake = [](const auto& tensors) {
    for (const auto& item : tensors)
      if (is_fake(item.value()))
        throw CodegenError(ErrorId::no_cpp_spelling, "to_folder: " + repr(std::string_view(item.key())) +
                                                         " is a fake tensor, which has no elements to save; give the "
                                                         "module its weights first, tensor by tensor with set_data()");
  };
  refuse_fake(module.named_parameters());
  refuse_fake(module.named_buffers());
  const std::string file = detail::folder_file(name);
  const ModuleSource source = module_source(module.graph(), module.owner(), name, file + ".h");
  std::string check;
  std::vector<at::Tensor> inputs = options.example_inputs, outputs;
  if (!inputs.empty()) {
    const at::NoGradGuard no_grad;
    const detail::TrainingFlags flags(module);
    module.eval();  // as the program that is written
    // The program starts from the weights as they are now, so what this run changes is put back; results may be that.
    const detail::ModuleState before(module.owner(), module.graph());
    std::vector<c10::IValue> boxed;
    for (const at::Tensor& input : inputs) boxed.emplace_back(input.clone());
    const c10::IValue result = module.run_flat(std::move(boxed));
    detail::flatten(result, outputs);
    for (at::Tensor& output : outputs)
      if (output.defined()) output = output.clone();
    check =
        "    std::vector<torch::Tensor> inputs, expected;\n"
        "    torch::load(inputs, folder + \"/example_inputs.pt\");\n"
        "    torch::load(expected, folder + \"/example_outputs.pt\");\n"
        "    std::vector<torch::Tensor> results;\n"
        "    add_tensors(results, model->forward(" +
        forward_arguments(module.graph(), "inputs") +
        "));\n"
        "    if (results.size() != expected.size()) throw std::runtime_error(\"there are not as many results as the "
        "traced model has\");\n"
        "    for (size_t i = 0; i < results.size(); ++i) {\n"
        "      const bool parts = results[i].is_complex() || expected[i].is_complex();\n"
        "      const auto type = parts ? torch::kComplexDouble : torch::kDouble;\n"
        "      const torch::Tensor a = results[i].to(type), b = expected[i].to(type);\n"
        "      const bool same = a.sizes() == b.sizes() && torch::allclose(a, b, 1e-4, 1e-4, /*equal_nan=*/true);\n"
        "      std::cout << \"result \" << i << \": \" << results[i].sizes() << (same ? \", as expected\" : \", not as "
        "expected\") << std::endl;\n"
        "      if (!same) throw std::runtime_error(\"the results differ from those of the traced model\");\n"
        "    }\n";
  }
  const std::vector<std::pair<std::string, std::string>> values = {
      {"@FILE@", file}, {"@NAME@", name}, {"@CHECK@", check}};
  torch::serialize::OutputArchive archive;
  module.save(archive);

  namespace fs = std::filesystem;
  try {
    const fs::path to(folder);
    fs::create_directories(to);
    detail::write_text(to / (file + ".h"), source.header);
    detail::write_text(to / (file + ".cpp"), source.source);
    detail::write_text(to / "main.cpp", detail::filled(detail::folder_main, values));
    detail::write_text(to / "meson.build", detail::filled(detail::folder_meson, values));
    detail::write_text(
        to / "meson.options",
        "option('torch', type: 'string', value: '', description: 'folder of LibTorch, with include and lib')\n");
    detail::write_text(to / "README.md", "# " + name +
                                             "\n\nWritten by fxx from a traced model. Build and run:\n\n    meson "
                                             "setup build && meson compile -C build && ./build/" +
                                             file +
                                             " .\n\nMeson finds LibTorch by `-Dtorch=<folder>`, `Torch_DIR`, "
                                             "`CMAKE_PREFIX_PATH` or the torch package of python3.\n");
    detail::write_aside(to / "weights.pt", [&](const std::string& aside) { archive.save_to(aside); });
    if (!inputs.empty()) {
      detail::write_aside(to / "example_inputs.pt", [&](const std::string& aside) { torch::save(inputs, aside); });
      detail::write_aside(to / "example_outputs.pt", [&](const std::string& aside) { torch::save(outputs, aside); });
    }
  } catch (const fs::filesystem_error& e) {
    throw CodegenError(ErrorId::folder_not_written, "to_folder: '" + folder + "' cannot be written (" +
                                                        e.code().message() + "); check the path and its permissions");
  } catch (const c10::Error& e) {  // of files of tensors
    throw CodegenError(ErrorId::folder_not_written, "to_folder: '" + folder + "' cannot be written (" +
                                                        e.what_without_backtrace() +
                                                        "); check the folder and the space on it");
  }
}

}  // namespace fxx::inline FXX_ABI
