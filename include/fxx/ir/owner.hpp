// What a graph may refer to by name: attributes and submodules of the module that owns it.
//
// The light half of a module. The LibTorch wing implements it with real modules; tests and tools with plain lists.
// Main names: AttributeInfo, ModuleInfo, Owner. Cost: light.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fxx/ir/argument.hpp"
#include "fxx/ir/operator.hpp"
#include "fxx/ir/tensor_meta.hpp"

namespace fxx::inline FXX_ABI {

struct AttributeInfo {
  enum class Kind { parameter, buffer };
  std::string name;  // qualified
  Kind kind = Kind::buffer;
  TensorMeta meta;
};

/// A leaf module, and the one operator call that its forward amounts to, when it does.
struct ModuleInfo {
  /// One argument of that call.
  struct Part {
    enum class Kind { input, attribute, constant, training };
    Kind kind = Kind::constant;
    std::string attribute = {};  // Kind::attribute: qualified name
    Argument constant = {};      // Kind::constant
  };
  std::string name;                      // qualified
  std::string type;                      // as C++ spells it: "torch::nn::Conv2d"
  std::string result = "torch::Tensor";  // what forward returns, as C++ spells it
  std::string construct;                 // constructor arguments: "torch::nn::Conv2dOptions(3, 64, 7).stride(2)"
  bool construct_unknown = false;        // nobody can say what they are
  const Operator* operation = nullptr;   // null when forward is more than one operator
  std::vector<Part> parts = {};          // one per parameter of `operation`
  bool training = false;
  std::string counter = {};  // attribute that a call adds one to besides: batch norm's, in training
  /// What the operator's parameter `i` is given, where that is known of the module: a constant, or the training flag.
  Argument argument(int i) const {
    const Part& part = parts[static_cast<std::size_t>(i)];
    return part.kind == Part::Kind::training ? Argument(training) : part.constant;
  }
  /// Some tensor that it uses is registered elsewhere and not with itself, as tied weights are. What is made from the
  /// module's own tensors, a copy, a file or C++, would compute something else.
  bool borrows = false;
};

class Owner {
 public:
  virtual ~Owner() = default;
  /// Null when there is no tensor of that qualified name.
  virtual const AttributeInfo* find_attribute(std::string_view name) const = 0;
  /// Null when there is no leaf module of that qualified name.
  virtual const ModuleInfo* find_module(std::string_view name) const = 0;
  /// All leaf modules, in order of registration.
  virtual std::vector<const ModuleInfo*> leaf_modules() const = 0;
  /// Name of the module's class, for messages and generated code.
  virtual std::string class_name() const { return "GraphModule"; }
};

}  // namespace fxx::inline FXX_ABI
