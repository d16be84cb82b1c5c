// Tensors that traced code meets and that are neither made by it nor its module's: constants of the graph, with the
// values that they had when they were met.
//
// Main names: detail::MetConstants. Cost: includes <torch/nn/module.h>; a constant is copied when its memory is
// written.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/torch/leaf_modules.hpp"
#include "fxx/torch/module_owner.hpp"

namespace fxx::inline FXX_ABI::detail {

/// The tensor's values as they are now, in memory of their own, under no wrapper.
at::Tensor copy_of(const at::Tensor& tensor);
/// Whether two tensors of one dtype have the same sizes and values. Not a number is itself here.
bool same_values(const at::Tensor& a, const at::Tensor& b);

/// An object of a TorchScript class (packed weights, a process group) as a member of a module.
class HeldObject final : public torch::nn::Module, public HeldValue {
 public:
  explicit HeldObject(c10::IValue object) : torch::nn::Module("HeldObject"), object_(std::move(object)) {}
  c10::IValue held_value() const override { return object_; }
  /// Of the same object.
  std::shared_ptr<torch::nn::Module> clone(const std::optional<torch::Device>& = std::nullopt) const override {
    return std::make_shared<HeldObject>(object_);
  }

 private:
  c10::IValue object_;
};

class MetConstants {
 public:
  /// `owner` has to outlive it: names are none that its module has.
  explicit MetConstants(const ModuleOwner& owner) : owner_(owner) {}

  /// Its name. Kept by reference, as a tensor that a callable captured, unless `copied`, or its memory is somebody
  /// else's (from_blob).
  std::string add(const at::Tensor& tensor, bool copied);
  /// The memory is about to be written: constants in it keep the values that they have.
  void keep_those_in(const c10::StorageImpl* storage);
  /// The tensors that were copied because their memory was written, with their names: state, where somebody still holds
  /// them after the run.
  struct Written {
    std::string name;
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor;
  };
  std::vector<Written>& written() { return written_; }
  /// The names of those that were copied when they were met.
  const std::vector<std::string>& copied() const { return copied_; }
  /// The name of an object that operators take. The graph keeps the object itself.
  std::string add_object(const c10::IValue& object);
  /// With the names that get_attr nodes have for them.
  const std::vector<std::pair<std::string, at::Tensor>>& all() const { return constants_; }
  const std::vector<std::pair<std::string, std::shared_ptr<HeldObject>>>& objects() const { return objects_; }

 private:
  const ModuleOwner& owner_;
  std::vector<std::pair<std::string, at::Tensor>> constants_;
  std::unordered_map<const c10::StorageImpl*, std::vector<std::size_t>> not_copied_;
  std::vector<Written> written_;
  std::vector<std::string> copied_;
  std::vector<std::pair<std::string, std::shared_ptr<HeldObject>>> objects_;
  std::size_t next_ = 0, next_object_ = 0;
};

}  // namespace fxx::inline FXX_ABI::detail

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/dispatch/met_constants.ipp"
#endif
