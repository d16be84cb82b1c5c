// A module as plain lists, for tests of what asks the owner of a graph.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "fxx/ir/owner.hpp"

namespace fxx::test {

class ListedOwner : public Owner {
 public:
  ListedOwner() = default;
  ListedOwner(std::vector<std::string> attributes, std::vector<std::string> modules) {
    for (std::string& name : attributes)
      add({.name = std::move(name), .kind = AttributeInfo::Kind::parameter, .meta = {}});
    for (std::string& name : modules) add(ModuleInfo{.name = std::move(name), .type = {}, .construct = {}});
  }
  void add(AttributeInfo attribute) { attributes_.push_back(std::move(attribute)); }
  ModuleInfo& add(ModuleInfo module) { return modules_.emplace_back(std::move(module)); }

  const AttributeInfo* find_attribute(std::string_view name) const override {
    for (const AttributeInfo& a : attributes_)
      if (a.name == name) return &a;
    return nullptr;
  }
  const ModuleInfo* find_module(std::string_view name) const override {
    for (const ModuleInfo& m : modules_)
      if (m.name == name) return &m;
    return nullptr;
  }
  std::vector<const ModuleInfo*> leaf_modules() const override {
    std::vector<const ModuleInfo*> all;
    for (const ModuleInfo& m : modules_) all.push_back(&m);
    return all;
  }
  std::string class_name() const override { return "Net"; }

 private:
  std::deque<AttributeInfo> attributes_;  // whose elements stay where they are
  std::deque<ModuleInfo> modules_;
};

using Part = ModuleInfo::Part;
inline Part input() { return {.kind = Part::Kind::input}; }
inline Part attribute_part(std::string name) { return {.kind = Part::Kind::attribute, .attribute = std::move(name)}; }
inline Part constant_part(Argument value) { return {.kind = Part::Kind::constant, .constant = std::move(value)}; }
inline Part training_part() { return {.kind = Part::Kind::training}; }

}  // namespace fxx::test
