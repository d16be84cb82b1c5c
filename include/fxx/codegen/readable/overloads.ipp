// Which of LibTorch's overloads C++ picks for arguments as they are written: its rules of overload resolution, as far
// as operators need them.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "fxx/ops/registry.hpp"

namespace fxx::inline FXX_ABI::detail {

/// An argument of a call, and what it is to C++.
struct WrittenArgument {
  enum Form { variable, constant, braces, options, nothing };  // nothing: `{}` or std::nullopt
  std::string text;
  Form form = variable;
  Type type = {};         // of a list in braces: of its items
  std::size_t items = 1;  // in braces
  bool zero = false;      // begins with a literal 0, which is a null pointer too
};

/// How an argument becomes a parameter, better ways first.
enum class Conversion { exact, standard, user, none };

/// What operators spread over dtype, layout, device and pin_memory is one parameter in C++.
inline constexpr Type tensor_options_type{.base = ValueType::other};

FXX_INLINE Conversion conversion(const WrittenArgument& given, const Type& to) {
  using enum Conversion;
  using enum ValueType;
  const auto number = [](ValueType v) { return v == integer || v == real || v == boolean; };
  const bool plain = !to.list && !to.optional, one = given.form == WrittenArgument::braces && given.items == 1;
  const ValueType from = given.type.base;
  if (given.form == WrittenArgument::nothing) {
    if (given.text == "{}") return plain && number(to.base) ? exact : user;
    return to.optional ? user : none;
  }
  if (given.form == WrittenArgument::options) return to == tensor_options_type ? exact : none;
  if (given.type.list) {
    if (!to.list || to.base != from) return none;
    return given.form == WrittenArgument::constant && !to.optional ? exact : user;
  }
  if (given.form == WrittenArgument::braces && !one && !to.list)
    return to.base == string && given.zero && given.items == 2 ? user : none;
  Conversion made = none;
  // Literals of integers are of type int, and those of devices name a kind of device.
  if (from == to.base)
    made = from == string                             ? user
           : given.form == WrittenArgument::variable  ? exact
           : from == integer                          ? standard
           : from == device                           ? user
                                                      : exact;
  else if (number(from) && number(to.base)) made = standard;
  else if (number(from) && to.base == scalar) made = user;
  else if (given.zero && (to.base == string || (to.base == tensor && one))) made = user;
  else if (from == string && to.base == boolean && given.form == WrittenArgument::constant) made = standard;
  else if (from == string && (to.base == device || to == tensor_options_type)) made = user;
  else if (to == tensor_options_type && (from == dtype || from == layout || from == device || from == memory_format))
    made = user;
  return made == none || plain ? made : user;
}

/// Is it a member of the tensor that is its first parameter?
FXX_INLINE bool is_member(const Operator& op) {
  return has(op.traits, Trait::method) && op.index_of("self") == 0 &&
         op.parameters[0].type == Type{.base = ValueType::tensor};
}
/// How many parameters C++ must be given although the schema has defaults: where they would make overloads ambiguous.
FXX_INLINE std::size_t required_in_cpp(const Operator& op) {
  struct Required {
    std::string_view name;
    std::size_t count;
  };
  static constexpr Required table[] = {
      {"clamp", 2},          {"clamp_", 2},         {"clip", 2},
      {"clip_", 2},          {"all.dims", 2},       {"any.dims", 2},
      {"std", 2},            {"std.dim", 3},        {"var", 2},
      {"var.dim", 3},        {"std_mean", 2},       {"std_mean.dim", 3},
      {"var_mean", 2},       {"var_mean.dim", 3},   {"arange.start_step", 3},
      {"conv1d.padding", 5}, {"conv2d.padding", 5}, {"conv3d.padding", 5},
      {"stft", 6},           {"linalg_pinv.atol_rtol_float", 3},
      {"linalg_matrix_rank.atol_rtol_float", 3}};
  const std::string_view name = op.name.substr(op.name.find("::") + 2);
  for (const Required& known : table)
    if (known.name == name) return known.count;
  return op.required;
}
struct CppParameter {
  Type type;
  bool has_default;
};
/// From parameter `first` of the operator on, as C++ declares them.
FXX_INLINE std::vector<CppParameter> cpp_parameters(const Operator& op, int first) {
  std::vector<CppParameter> list;
  const auto all = op.parameters;
  const std::size_t required = required_in_cpp(op);
  for (auto i = static_cast<std::size_t>(first); i < all.size(); ++i) {
    const bool options = all[i].name == "dtype" && i + 3 < all.size() && all[i + 3].name == "pin_memory";
    list.push_back({options ? tensor_options_type : all[i].type, i >= required && all[i].has_default()});
    if (options) i += 3;
  }
  return list;
}

/// Is it this operator that C++ calls by the name with these arguments, for its parameters from `first` on: 0 for a
/// function, 1 for a method? When C++ would find the call ambiguous it is not.
FXX_INLINE bool picks(const Operator& op, int first, std::span<const WrittenArgument> given) {
  if (op.base_name() == "normal" && first == 0) return false;  // torch::normal, of numbers alone, hides at::normal
  const std::vector<const Operator*> overloads = overloads_of(op.name.substr(0, op.name.find('.')));
  if (overloads.size() < 2) return true;
  const std::vector<CppParameter> own = cpp_parameters(op, first);
  if (given.size() < own.size() && !own[given.size()].has_default) return false;
  for (const Operator* other : overloads) {
    if (*other == op || !(first ? is_member(*other) : has(other->traits, Trait::function))) continue;
    const std::vector<CppParameter> parameters = cpp_parameters(*other, first);
    bool takes = given.size() <= parameters.size(), better = false, worse = false;
    for (std::size_t i = 0; takes && i < parameters.size(); ++i) {
      if (i >= given.size()) {
        takes = parameters[i].has_default;
        continue;
      }
      const Conversion theirs = conversion(given[i], parameters[i].type);
      const Conversion ours = std::min(conversion(given[i], own[i].type), Conversion::user);
      takes = theirs != Conversion::none;
      better = better || ours < theirs;
      worse = worse || theirs < ours;
    }
    if (takes && (worse || !better)) return false;
  }
  return true;
}

}  // namespace fxx::inline FXX_ABI::detail
