// Unique names of one graph: valid C++ identifiers in snake case, numbered when taken.
//
// Main names: NameTable. Lookup and insertion: O(1). Numbers that are given in turn, x_1 to x_900000, cost nothing to
// keep; other names 16 bytes and their slot's slack. Names are never given back: a name that an erased node had stays
// taken, as in torch.fx. After torch.fx graph.py _Namespace, 2.13.
// Cost: light.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "fxx/ir/detail/arena.hpp"
#include "fxx/meta/fixed_string.hpp"

namespace fxx::inline FXX_ABI::detail {

class NameTable {
 public:
  NameTable() = default;
  NameTable(const NameTable&) = delete;  // what is recent points into the table itself
  NameTable& operator=(const NameTable&) = delete;
  /// A free name made from `candidate`, taken from now on; its text lives in `arena`.
  std::string_view create(std::string_view candidate, Arena& arena);
  /// Lets go of what makes it fast, 12 kB, until the next name is made.
  void rest() { std::vector<Recent>().swap(recent_); }

 private:
  /// A name with numbers for those who ask for it again, and the hash of its text.
  struct Base {
    std::string_view text;  // in the arena
    std::uint64_t hash;
    bool operator==(const Base& other) const { return hash == other.hash && text == other.text; }
  };
  struct HashOfBase {
    std::size_t operator()(const Base& base) const { return base.hash; }
  };
  struct Numbers {
    std::uint64_t last = 0;  // the number given last
    std::uint64_t all = 0;   // 1 to this one are taken; those beyond it are, if they are among the slots
    bool beyond = false;     // some of those are
  };
  /// A base that was asked for lately, by the address of the text that was given: operators give the same each time.
  struct Recent {
    std::string_view base;  // in the arena
    Numbers* numbers = nullptr;
  };
  struct Slot {
    const char* text = nullptr;
    std::uint32_t size = 0, hash = 0;
  };
  bool in_slots(std::string_view name, std::uint64_t hash) const {
    return !slots_.empty() && slots_[find(name, static_cast<std::uint32_t>(hash))].text != nullptr;
  }
  std::size_t find(std::string_view name, std::uint32_t hash) const;
  /// Where this text may be. More than two in one place drive each other out, so there is room for several times the
  /// operators of a graph.
  Recent& recent(const char* text) {
    constexpr int bits = 9;
    if (recent_.empty()) recent_.resize(std::size_t{1} << bits);
    return recent_[(reinterpret_cast<std::uintptr_t>(text) * 0x9e3779b97f4a7c15ull) >> (64 - bits)];
  }
  void insert(std::string_view name, std::uint64_t hash);

  std::vector<Slot> slots_;  // open addressing; the size is a power of two
  std::size_t used_ = 0;
  std::unordered_map<Base, Numbers, HashOfBase> numbers_;
  std::vector<Recent> recent_;
};

}  // namespace fxx::inline FXX_ABI::detail
