// What a real module owns, as graphs see it: tensors and leaf modules by qualified name, and the way back by identity.
//
// Main names: ModuleOwner. Built in one walk over the submodules, tensors in another when somebody asks for one; a
// tensor or module reachable by several names has the first one. Where another tensor was assigned to the member of a
// layer of torch::nn than it has registered, the name means the member, which forward reads.
// Cost: heavy (torch/nn/module.h).
#pragma once

#include <torch/nn/module.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fxx/ir/owner.hpp"
#include "fxx/torch/leaf_modules.hpp"

namespace fxx::inline FXX_ABI {

namespace detail {
/// What a tensor is called, before a number, that a graph refers to and the module does not have.
inline constexpr std::string_view constant_prefix = "_tensor_constant";
/// Modules that are nested deeper hold themselves, and so do calls.
inline constexpr std::size_t most_nested_modules = 200;
/// Throws GraphError (E113) when the name of a submodule, with a dot for each module around it, says that modules are
/// nested deeper than that. LibTorch's walks over modules go deep first, and end in a stack overflow without it.
void require_depth(const std::string& name, std::string_view class_name);
/// Whether `wanted` is the module, or inside it. Throws GraphError (E113) for a module that holds itself.
bool holds(const torch::nn::Module& tree, const torch::nn::Module& wanted);
/// A call of a graph module, or another walk into one, as long as it lasts. The constructor throws GraphError (E113) when
/// too many are inside each other on this thread. `what`: "GraphModule: calls", for the message.
class NestedCall {
 public:
  explicit NestedCall(const char* what) {
    if (++depth() <= most_nested_modules) [[likely]]
      return;
    --depth();
    nested_too_deep(what);
  }
  ~NestedCall() { --depth(); }
  NestedCall(const NestedCall&) = delete;
  NestedCall& operator=(const NestedCall&) = delete;

 private:
  static std::size_t& depth() {
    static thread_local std::size_t depth = 0;
    return depth;
  }
  [[noreturn]] static void nested_too_deep(const char* what);
};
}  // namespace detail

class ModuleOwner final : public Owner {
 public:
  struct Tensor {
    std::string name;
    at::Tensor tensor;  // that forward reads: what a member of a layer is, else what is registered
    AttributeInfo::Kind kind;
    at::Tensor registered = {};
  };

  /// Reads names; keeps tensors and submodules alive, not the root. Throws GraphError (E113) for a module that holds
  /// itself.
  explicit ModuleOwner(const torch::nn::Module& root, std::string class_name = {});

  /// With what the tensor is now: its dtype, and whether it trains, may change.
  const AttributeInfo* find_attribute(std::string_view name) const override;
  /// The training flag is the module's present one.
  const ModuleInfo* find_module(std::string_view name) const override;
  std::vector<const ModuleInfo*> leaf_modules() const override;
  std::string class_name() const override { return class_name_; }

  /// Undefined when there is none of that name.
  at::Tensor tensor(std::string_view name) const;
  /// Otherwise it is a buffer, or there is none of that name.
  bool is_parameter(std::string_view name) const;
  /// Null when there is none of that name; the root is "".
  std::shared_ptr<torch::nn::Module> module(std::string_view name) const;
  /// Empty when the tensor is none of the module's.
  std::string name_of(const at::Tensor& tensor) const;
  /// Null when it is not in the hierarchy; the root's name is "".
  const std::string* name_of(const torch::nn::Module* module) const;
  /// `prefix`0, `prefix`1, ...: the first, from `next` on, that no tensor and no submodule has. `next` is then the
  /// number after it.
  std::string fresh_name(std::string_view prefix, std::size_t& next) const;
  /// May a leaf module use tensors that are registered elsewhere (ModuleInfo::borrows)? Much cheaper than to describe
  /// them all.
  bool may_borrow() const;
  /// Is every tensor that the module has registered now known, under that name?
  bool knows_tensors_of(const torch::nn::Module& root) const;
  /// Are the members of layers the tensors that were read, but for those of the root? A comparison for each.
  bool is_current() const;
  /// The member of a layer below the root that is read under that name; null when it is no such member. It lives as long
  /// as the layer, which is module(path).
  const at::Tensor* member(std::string_view name) const;
  /// Every tensor under every name, parameters before buffers.
  const std::deque<Tensor>& tensors() const { return read_tensors(), tensors_; }

  /// Notes a tensor that was registered in the module after the walk.
  void add(const std::string& name, const at::Tensor& tensor, AttributeInfo::Kind kind);

 private:
  struct Submodule {
    std::string name;
    std::shared_ptr<torch::nn::Module> module;
    bool first;                           // of the names that it has
    std::optional<ModuleInfo> info = {};  // made when it is asked for
    std::vector<std::pair<const at::Tensor*, at::Tensor>> described = {};  // the members that it was made of
  };
  struct RootTensor {
    std::string name;
    at::Tensor tensor, registered;
    AttributeInfo::Kind kind;
  };
  const ModuleInfo& describe(Submodule& submodule) const;
  Submodule* find(std::string_view name) const;
  /// Tensors and their names: the first time that one is asked for.
  void read_tensors() const;
  void insert(Tensor entry) const;
  /// `f(module, name, registered, kind)` for each that is registered, also what is undefined, parameters before buffers;
  /// `module` is null for the root.
  template <class F>
  void for_each_tensor(F&& f) const;

  std::string class_name_, root_name_;
  const torch::nn::Module* root_;  // compared, never followed
  std::vector<RootTensor> root_tensors_;
  mutable std::once_flag read_;
  mutable std::atomic<bool> is_read_ = false;
  struct MemberRead {
    std::string name;
    const at::Tensor* place;
    at::Tensor was;
  };
  mutable std::vector<MemberRead> members_;  // of layers below the root
  mutable std::deque<Tensor> tensors_;  // whose elements stay where they are: the maps refer to them
  mutable std::unordered_map<std::string_view, const Tensor*> by_name_;
  mutable std::unordered_map<const c10::TensorImpl*, const Tensor*> by_tensor_;
  mutable std::vector<Submodule> modules_;
  std::unordered_map<const torch::nn::Module*, Submodule*> by_module_;
  mutable std::once_flag named_;
  mutable std::unordered_map<std::string_view, Submodule*> modules_by_name_;
  mutable std::mutex mutex_;  // guards what is made on demand
  mutable std::unordered_map<std::string_view, AttributeInfo> infos_;
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/torch/module_owner.ipp"
#endif
