// What functionalise has to know before it edits: which tensors there are, which of them are views of which memory, who
// writes to it, and which memory can be made pure. For passes/functionalise.ipp only.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fxx/ops/operation.hpp"
#include "fxx/passes/detail/views.ipp"

namespace fxx::inline FXX_ABI::detail {

class GraphWrites {
 protected:
  GraphWrites(Graph& graph, const Owner* owner)
      : graph_(graph),
        owner_(owner ? owner : graph.owning_module()),
        records_(graph.index_bound()),
        object_of_(graph.index_bound(), -1) {
    for (Node* node : graph_.nodes()) follow(*node);
    decide();
  }
  static constexpr std::size_t forever = std::numeric_limits<std::size_t>::max();

  /// Memory that values may lie in.
  struct Set {
    int joined = -1;  // with that set, for all that is known
    Node* maker = nullptr;
    std::size_t made = 0, last_use = 0;
    std::vector<std::size_t> writes = {};  // places in the graph, also of those that may write
    std::vector<Node*> writers = {};       // that are known to
    std::string reason = {};               // why it cannot be made pure; empty when it can
    std::string attribute = {};            // of a get_attr
    bool shared = false;                   // an input or an attribute
    bool returned = false;                 // values of it are, or somebody may write to them who stays
    bool linked = false;                   // values of it may also be copies of others, or others of it
    bool reshaped = false;                 // sizes of its tensors change where they are
    bool under_detach = true;              // all writes are
    int root = -1;
    int version = 0;
  };
  /// A tensor: all of some memory, or a view of another.
  struct Object {
    enum class Kind : std::uint8_t { tensor, list, several };
    int set = -1;
    int parent = -1;
    std::vector<views::Step> steps = {};
    Node* maker = nullptr;
    views::Meta meta = {};
    Kind kind = Kind::tensor;
    bool whole = true;      // what the maker gives, and nothing else
    Node* value = nullptr;  // while editing
    int version = -1;
  };
  struct Write {
    enum class Kind : std::uint8_t { none, twin, zero, copy, out };
    Kind kind = Kind::none;
    const Operator* twin = nullptr;
    std::vector<int> objects = {};
  };
  /// What is known of a node.
  struct Record {
    std::vector<std::pair<Node*, int>> reads = {};  // arguments that are tensors, as they are when it runs
    int defines = -1;                               // the object that it makes
    int stands_for = -1;                            // the object that it gives back
    Write write = {};
    std::string left = {};  // why it stays as it is
  };

  Record& record(const Node& node) { return records_[node.index()]; }
  int find(int set) const {
    while (sets_[static_cast<std::size_t>(set)].joined >= 0) set = sets_[static_cast<std::size_t>(set)].joined;
    return set;
  }
  Object& object(int i) { return objects_[static_cast<std::size_t>(i)]; }
  const Object& object(int i) const { return objects_[static_cast<std::size_t>(i)]; }
  Set& set_of(int i) { return sets_[static_cast<std::size_t>(find(object(i).set))]; }
  const Set& set_of(int i) const { return sets_[static_cast<std::size_t>(find(object(i).set))]; }
  int object_of(const Argument& a) const { return a.is_node() ? object_of_[a.node()->index()] : -1; }
  static std::string quoted(const Node& node) { return '%' + std::string(node.name()); }
  static views::Meta meta_of(const Node& node) {
    return node.tensor_meta() ? views::Meta(*node.tensor_meta()) : views::Meta();
  }

  int new_object(Object o, Node& maker) {
    o.maker = &maker;
    objects_.push_back(std::move(o));
    return static_cast<int>(objects_.size()) - 1;
  }
  int root(Node& node, Object::Kind kind = Object::Kind::tensor) {
    const int set = static_cast<int>(sets_.size());
    sets_.push_back({.maker = &node, .made = place_, .last_use = place_, .root = static_cast<int>(objects_.size())});
    return new_object({.set = set, .meta = meta_of(node), .kind = kind}, node);
  }
  void define(Node& node, int o) { object_of_[node.index()] = record(node).defines = o; }
  void stand_for(Node& node, int o) { object_of_[node.index()] = record(node).stands_for = o; }
  void fail(Set& set, const std::string& why) {
    if (set.reason.empty()) set.reason = why;
  }
  void join(int a, int b, const std::string& why) {
    a = find(a), b = find(b);
    fail(sets_[static_cast<std::size_t>(a)], why);
    if (a == b) return;
    Set &to = sets_[static_cast<std::size_t>(a)], &from = sets_[static_cast<std::size_t>(b)];
    fail(from, why);
    from.joined = a;
    to.made = std::min(to.made, from.made);
    to.last_use = std::max(to.last_use, from.last_use);
    to.writes.insert(to.writes.end(), from.writes.begin(), from.writes.end());
    to.writers.insert(to.writers.end(), from.writers.begin(), from.writers.end());
    to.shared = to.shared || from.shared;
    to.returned = to.returned || from.returned;
    to.linked = to.linked || from.linked;
    to.reshaped = to.reshaped || from.reshaped;
  }

  // --- follow_writes.ipp ---------------------------------------------------------------------------------------------
  void follow(Node& node);
  void unknown(Node& node, bool writes, const std::string& why);
  void follow_function(Node& node, const UserFunction& function);
  void follow_module(Node& node, const std::string& target);
  static bool holds_tensors(const Operator& op);
  void follow_operator(Node& node, const Operator& op);
  static const Operator* twin_of(const Node& node, const Operator& op);
  static const Operator* functional_of(const Operator& op);
  void follow_write(Node& node, const Operator& op);
  static bool is_item(const Node& node);
  static bool has_random_twin(const Write& write);
  std::string may_resize(const Node& node, const std::vector<int>& written, std::size_t k) const;
  void leave(Node& node, const std::vector<int>& written, const std::string& why, bool reshapes = false);
  void follow_change_of_shape(Node& node, const Operator& op, int o);

  /// Which memory can be made pure.
  void decide() {
    // What may be a copy, or not: it does not matter where nobody sees a difference.
    std::map<int, std::vector<int>> groups;
    {
      std::vector<int> group(sets_.size());
      for (std::size_t i = 0; i < group.size(); ++i) group[i] = static_cast<int>(i);
      const auto top = [&](int i) {
        while (group[static_cast<std::size_t>(i)] != i) i = group[static_cast<std::size_t>(i)];
        return i;
      };
      for (const auto& [a, b] : links_) group[static_cast<std::size_t>(top(find(a)))] = top(find(b));
      for (const auto& [a, b] : links_)
        for (int s : {find(a), find(b)}) {
          std::vector<int>& all = groups[top(s)];
          if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(s);
        }
    }
    for (const auto& [top, group] : groups) {
      const Set* writes = nullptr;
      const Set* sees = nullptr;
      for (int a : group)
        for (int b : group) {
          const Set &p = sets_[static_cast<std::size_t>(a)], &q = sets_[static_cast<std::size_t>(b)];
          if (a == b || writes) continue;
          for (std::size_t at : p.writes)
            if (q.made < at && (q.shared || q.last_use > at)) writes = &p, sees = &q;
        }
      if (!writes) continue;
      const std::string why = "whether " + quoted(*(writes->made > sees->made ? writes : sees)->maker) +
                              " is a copy or the same memory is not known";
      const std::vector<int> members = group;
      for (int s : members) join(members[0], s, why);
    }
    const Node* last = graph_.nodes().back();
    for (Set& set : sets_) {
      if (set.shared && (!last || last->opcode() != Opcode::output)) fail(set, "the graph has no output yet");
      if (set.attribute.empty() || set.joined >= 0) continue;
      if (std::find(trained_.begin(), trained_.end(), set.attribute) != trained_.end())
        fail(set, "a module updates it as its statistics");
      for (const Node* call : modules_)
        if (may_read(*call, set.attribute)) fail(set, "the module that " + quoted(*call) + " calls may read it");
    }
    // A call that writes to several tensors stays when one of them does.
    for (bool more = true; more;) {
      more = false;
      for (const auto& [view, other] : sized_by_) {
        Set& set = sets_[static_cast<std::size_t>(find(view))];
        const Set& by = sets_[static_cast<std::size_t>(find(other))];
        if (!set.reason.empty() || !by.reshaped || by.reason.empty()) continue;
        fail(set, "the sizes of " + quoted(*by.maker) + ", which a view has, change");
        more = true;
      }
      for (const Node* node : graph_.nodes()) {
        const std::vector<int>& objects = record(*node).write.objects;
        const auto stays =
            std::find_if(objects.begin(), objects.end(), [&](int o) { return !set_of(o).reason.empty(); });
        if (stays == objects.end()) continue;
        for (int o : objects)
          if (set_of(o).reason.empty()) {
            fail(set_of(o), set_of(*stays).reason);
            more = true;
          }
      }
    }
  }
  bool may_read(const Node& call, const std::string& attribute) const {
    const std::string& target = std::get<CallModule>(call.op()).target;
    const ModuleInfo* module = owner_ ? owner_->find_module(target) : nullptr;
    if (module && module->borrows) return true;
    if (!module || !module->operation) return attribute.starts_with(target + ".");
    return module->counter == attribute ||
           std::any_of(module->parts.begin(), module->parts.end(),
                       [&](const ModuleInfo::Part& part) { return part.attribute == attribute; });
  }
  static bool is_pure(const Set& set) { return set.joined < 0 && set.reason.empty() && !set.writers.empty(); }
  bool is_pure(int o) const { return o >= 0 && is_pure(set_of(o)); }
  const std::string* reason_of(const Node& node) {
    Record& mine = record(node);
    if (!mine.left.empty()) return &mine.left;
    if (mine.write.objects.empty() || is_pure(mine.write.objects[0])) return nullptr;
    return &set_of(mine.write.objects[0]).reason;
  }

  /// Does nothing that can be made pure write to memory but copies into inputs and attributes at the end, one each? So
  /// functionalise left it.
  bool is_functional() {
    std::vector<int> copied;
    for (const Node* node : graph_.nodes()) {
      const std::vector<int>& written = record(*node).write.objects;
      if (!written.empty() && is_pure(written[0])) {
        const int set = find(object(written[0]).set);
        int o = written[0];
        while (object(o).parent >= 0 && object(o).maker->calls(ops::detach)) o = object(o).parent;
        if (record(*node).write.kind != Write::Kind::copy || object(o).parent >= 0 || !set_of(o).shared ||
            std::find(copied.begin(), copied.end(), set) != copied.end())
          return false;
        copied.push_back(set);
      } else if (!copied.empty() && (!written.empty() || !record(*node).left.empty())) {
        return false;
      } else if (!copied.empty() && node->opcode() != Opcode::output && object_of_[node->index()] >= 0 &&
                 object(object_of_[node->index()]).parent < 0 && !set_of(object_of_[node->index()]).linked) {
        return false;
      }
    }
    return true;
  }

  Graph& graph_;
  const Owner* owner_;
  std::size_t place_ = 0;
  std::vector<Set> sets_;
  std::vector<Object> objects_;
  std::vector<Record> records_;  // by index
  std::vector<int> object_of_;   // by index; -1: no tensor
  std::map<std::string, int, std::less<>> attributes_;
  std::map<std::pair<int, std::int64_t>, int> items_;  // of a node with several results
  std::vector<std::pair<int, int>> links_;             // sets of which the second may be a copy
  std::vector<std::pair<int, int>> sized_by_;          // views of the first have sizes of the second
  std::vector<Node*> modules_;
  std::vector<std::string> trained_;  // attributes that modules write to
};

}  // namespace fxx::inline FXX_ABI::detail
