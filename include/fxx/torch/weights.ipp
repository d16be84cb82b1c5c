// Bodies of torch/weights.hpp.
#pragma once

#include "fxx/torch/weights.hpp"

// after the tensor's own header
#include <ATen/ops/empty_ops.h>

#include <cstring>
#include <set>

#include "fxx/error.hpp"
#include "fxx/io/safetensors.hpp"
#include "fxx/torch/leaf_modules.hpp"
#include "fxx/torch/values.hpp"

namespace fxx::inline FXX_ABI {

FXX_INLINE std::vector<std::string> load_safetensors(torch::nn::Module& module, const std::string& path,
                                                     const LoadOptions& options) {
  const SafetensorsFile file(path);
  const auto fail = [&](const std::string& what) {
    throw FileError(ErrorId::weights_mismatch, "load_safetensors: '" + path + "' " + what);
  };
  std::vector<std::pair<std::string, at::Tensor>> targets;
  for (const auto& item : module.named_parameters()) targets.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) targets.emplace_back(item.key(), item.value());
  // forward reads the members of layers, where other tensors were assigned to them.
  for (const auto& [name, member] : detail::differing_members(module))
    for (auto& [target, tensor] : targets)
      if (target == name && member.member->defined()) tensor = *member.member;
  std::set<std::string_view> names;
  std::vector<std::pair<at::Tensor, const SafetensorsEntry*>> copies;
  // All is checked before anything is copied.
  for (const auto& [name, tensor] : targets) {
    names.insert(name);
    const SafetensorsEntry* entry = file.find(name);
    if (!entry) {
      if (!options.allow_missing) fail("has no entry for '" + name + "' (" + describe(tensor) + ") of the module");
      continue;
    }
    if (tensor.sizes() != at::IntArrayRef(entry->shape)) {
      std::string shape;
      for (std::int64_t size : entry->shape) shape += (shape.empty() ? "" : ", ") + std::to_string(size);
      fail("has '" + name + "' with shape [" + shape + "]; the module's is " + describe(tensor));
    }
    // Converting must keep the numbers, up to precision: no fractions into integers, no complex numbers into real ones.
    if (!c10::canCast(to_scalar_type(entry->dtype), tensor.scalar_type()))
      fail("has '" + name + "' with dtype " + std::string(name_of(entry->dtype)) +
           ", which does not convert; the module's is " + describe(tensor));
    copies.emplace_back(tensor, entry);
  }
  std::vector<std::string> unused;
  for (const SafetensorsEntry& entry : file.entries())
    if (!names.contains(entry.name)) unused.push_back(entry.name);
  if (!unused.empty() && !options.allow_unused)
    fail("has an entry '" + unused[0] + "' that the module has no place for; allow_unused passes over such entries");

  const at::NoGradGuard no_grad;
  for (auto& [tensor, entry] : copies) {
    // The data may not be aligned, so it goes through a tensor of its own.
    at::Tensor staged =
        at::_ops::empty_memory_format::call(c10::fromIntArrayRefSlow(entry->shape), to_scalar_type(entry->dtype),
                                            std::nullopt, at::kCPU, std::nullopt, std::nullopt);
    if (!entry->data.empty()) std::memcpy(staged.mutable_data_ptr(), entry->data.data(), entry->data.size());
    tensor.copy_(staged);
  }
  return unused;
}

}  // namespace fxx::inline FXX_ABI
