// Plans that are compiled, loaded and run, with one thread and with two, for tests beside plain loops.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/lowered.hpp"
#include "fxx/codegen/arena.hpp"
#include "fxx/codegen/specialised_source.hpp"
#include "fxx/kernels/features.hpp"
#include "fxx/kernels/module.hpp"
#include "fxx/runtime/cache.hpp"
#include "fxx/runtime/files.hpp"
#include "fxx/runtime/library.hpp"
#include "runtime/support.hpp"
#include "support.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace fxx::test {

inline std::vector<float> numbers(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> result(count);
  for (float& x : result) x = static_cast<float>(random.below(2001)) / 1000.f - 1.f;
  return result;
}

/// A plan that was compiled and loaded. A program with the sanitizers compiles it with them as well, and its buffers
/// and constants have gaps between them, which they watch.
class Loaded {
 public:
  /// In so many parts, however many processors there are; 0: in all at once, through the cache.
  Loaded(const KernelPlan& plan, const std::vector<const void*>& attributes, int parts = 0) : plan_(plan) {
    BuildRequest request;
#if defined(__SANITIZE_ADDRESS__)
    place_buffers(plan_, /*guarded=*/true);
#endif
    const SpecialisedSource source = specialised_source(plan_, "Net");
    request.source = source.text;
    request.flags = {"-std=c++20", "-O1", "-march=native", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"};
#if defined(__SANITIZE_ADDRESS__)
    for (const char* flag : {"-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1"})
      request.flags.emplace_back(flag);
#endif
    request.include_folders = {std::string(std::getenv("FXX_SOURCE_DIR")) + "/include"};
    CAPTURE(request.source);
    library_ = Library(parts == 0 ? BuildCache().get_or_build(request) : in_parts(request, parts));
    const auto& info = *library_.symbol<const kernels::ModuleInfo>("fxx_module");
    CHECK(info.abi == kernels::module_abi);
    CHECK(info.source == source.hash);
    CHECK(kernels::missing_feature(info.features) == nullptr);
    CHECK(info.arena_bytes == static_cast<std::size_t>(plan_.arena_bytes));
    weights_ = aligned(info.weights * sizeof(float));
    library_.symbol<void(const void* const*, float*)>("fxx_pack")(attributes.data(),
                                                                  reinterpret_cast<float*>(weights_.get()));
    for (int threads : {1, 2}) memory_[threads - 1] = aligned(info.memory(threads));
  }
  /// Runs it with one thread and with two, whose results must be the same.
  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs,
           int (*call_back)(kernels::ModuleCall*, int) = nullptr, int fault = 0) {
    std::vector<std::string> first;
    for (int threads : {1, 2}) {
      void* team = library_.symbol<void*(int, int)>("fxx_open")(threads, 0);
      kernels::ModuleCall call = {};
      call.inputs = inputs.data();
      call.outputs = outputs.data();
      call.memory = memory_[threads - 1].get();
      call.weights = reinterpret_cast<const float*>(weights_.get());
      call.call_back = call_back;
      const std::size_t bytes = bytes_[call.memory];
#if defined(__SANITIZE_ADDRESS__)
      ASAN_UNPOISON_MEMORY_REGION(call.memory, bytes);
#endif
      std::memset(call.memory, 0xff, bytes);  // nan wherever nothing is written
#if defined(__SANITIZE_ADDRESS__)
      ASAN_POISON_MEMORY_REGION(call.memory, static_cast<std::size_t>(plan_.arena_bytes));
      for (const plans::Buffer& buffer : plan_.buffers)
        if (buffer.kind == plans::Buffer::Kind::arena && buffer.first >= 0)
          ASAN_UNPOISON_MEMORY_REGION(call.memory + buffer.offset, static_cast<std::size_t>(buffer.bytes()));
#endif
      library_.symbol<void(void*, kernels::ModuleCall*)>("fxx_run")(team, &call);
      CHECK(call.fault == fault);
      library_.symbol<void(void*)>("fxx_close")(team);
      std::vector<std::string> results;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (outputs[i])
          results.emplace_back(static_cast<const char*>(outputs[i]),
                               static_cast<std::size_t>(buffer_of(plan_, plan_.outputs[i].view).bytes()));
      if (threads == 1) first = results;
      else CHECK((first == results));
    }
  }
  const KernelPlan& plan() const { return plan_; }

 private:
  std::string in_parts(const BuildRequest& request, int parts) {
    const Toolchain toolchain = Toolchain::find();
    const ProcessOptions here{.working_directory = folder_.path()};
    REQUIRE(files::write_file(folder_ / "source.cpp", request.source) == 0);
    for (const ProcessResult& result : run_processes(toolchain.part_commands(request, parts), here)) {
      CAPTURE(result.output);
      REQUIRE(result.ok());
      CHECK(result.output.empty());  // no warning
    }
    REQUIRE(run_process(toolchain.link_command(request, parts, "module.so"), here).ok());
    return folder_ / "module.so";
  }

  support::TemporaryFolder folder_;
  struct Free {
    void operator()(unsigned char* memory) const { std::free(memory); }
  };
  using Memory = std::unique_ptr<unsigned char, Free>;
  Memory aligned(std::size_t bytes) {
    const std::size_t whole = (bytes + 64) / 64 * 64;
    Memory memory(static_cast<unsigned char*>(std::aligned_alloc(64, whole)));
    bytes_[memory.get()] = whole;
    return memory;
  }
  KernelPlan plan_;
  Library library_;
  Memory weights_, memory_[2];
  std::map<unsigned char*, std::size_t> bytes_;
};

inline void check_near(const std::vector<float>& given, const std::vector<double>& wanted, double tolerance = 1e-5) {
  REQUIRE(given.size() == wanted.size());
  double worst = 0, largest = 1;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    worst = std::max(worst, std::isnan(given[i]) ? 1e9 : std::abs(given[i] - wanted[i]));
    largest = std::max(largest, std::abs(wanted[i]));
  }
  CHECK(worst <= tolerance * largest);
}

}  // namespace fxx::test
