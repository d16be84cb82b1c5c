// What a class for a graph has to have: a member for each module that it calls and each attribute that is in none of
// those.
// Main names: Members. Linear in the graph. Cost: light.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fxx/ir/graph.hpp"

namespace fxx::inline FXX_ABI {

class Members {
 public:
  struct Member {
    std::string name;        // qualified, as in the graph
    std::string identifier;  // in C++
    const ModuleInfo* module = nullptr;
    const AttributeInfo* attribute = nullptr;
  };

  /// `class_name`: of the class, whose members may not be called like it; may be left out.
  Members(const Graph& graph, const Owner& owner, const std::string& class_name = {});

  const std::vector<Member>& all() const { return members_; }
  /// `this->fc` for a member; `this->fc->weight` for an attribute inside of one.
  std::string expression(const std::string& name) const;

 private:
  const Member* find(std::string_view name) const;
  /// The called module that the attribute is inside of.
  const Member* holder(std::string_view name) const;
  void add(const std::string& name, const ModuleInfo* module, const AttributeInfo* attribute);

  std::vector<Member> members_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::set<std::string> taken_;
  std::set<std::string, std::less<>> inner_buffers_;  // of called modules
};

}  // namespace fxx::inline FXX_ABI

#if defined(FXX_HEADER_ONLY)
#include "fxx/codegen/members.ipp"
#endif
