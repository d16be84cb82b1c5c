// What a pattern says, as data: the link between the types of rewrite/pattern.hpp and the terms of rewrite/term.hpp.
//
// Each pattern type has one `Form`, which points at the forms of its members; `flatten` writes the terms of all in prefix
// order, once a pattern.
// Main names: Form, Flat, flatten. Cost: light.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fxx/rewrite/survey.hpp"

namespace fxx::inline FXX_ABI::rewrite {

/// What a pattern says, as data, which every pattern has as `form`. Constants, since a function a type that writes the
/// terms took the compiler twice the memory.
struct Form {
  Term term = {};                        // of the outermost; its size counts all
  const Form* const* members = nullptr;  // what stands below it: of a call the arguments that are given
  int count = 0;
  std::string_view keyword = {};  // of the parameter that it stands for, where that is said
};
template <class... Ps>
inline constexpr const Form* forms[sizeof...(Ps)] = {&Ps::form...};
template <>
inline constexpr const Form* const* forms<> = nullptr;

namespace detail {
/// The form of a term around these members.
constexpr Form form_of(const Term& term, const Form* const* members, int count) {
  Form f{.term = term, .members = members, .count = count};
  // A call also has a term for each parameter that is left out.
  const int children = term.kind == Term::Kind::call ? term.op->arity() : count;
  int size = 1 + children - count;
  for (int i = 0; i < count; ++i) size += members[i]->term.size;
  f.term.children = static_cast<std::uint8_t>(children);
  f.term.size = static_cast<std::uint16_t>(size);
  return f;
}
constexpr Form call_form(const Operator& op, const Form* const* arguments, int count) {
  return form_of({.kind = Term::Kind::call, .id = op.means, .op = &op}, arguments, count);
}
constexpr Form single_form(Form f) {
  f.term.once = true;
  return f;
}
constexpr Form keyword_form(Form f, std::string_view name) {
  f.keyword = name;
  return f;
}
/// What argument of a call stands for parameter `i`: its position, or -1 for the default.
constexpr int source_of(const Form& call, int i) {
  int found = -1;
  for (int at = 0; at < call.count; ++at) {
    const std::string_view keyword = call.members[at]->keyword;
    if (keyword.empty() ? at == i : call.term.op->index_of(keyword) == i) found = at;
  }
  return found;
}
/// Writes the terms of a pattern, in prefix order.
constexpr void write(const Form& form, Term*& out) {
  *out++ = form.term;
  const bool is_call = form.term.kind == Term::Kind::call;
  bool keyed = false;
  for (int i = 0; i < form.count; ++i) keyed = keyed || form.members[i]->keyword.size() > 0;
  if (!is_call || !keyed)
    for (int i = 0; i < form.count; ++i) write(*form.members[i], out);
  if (!is_call) return;
  for (int i = keyed ? 0 : form.count; i < form.term.children; ++i) {
    if (const int source = keyed ? source_of(form, i) : -1; source >= 0) {
      write(*form.members[source], out);
    } else {
      // Field by field, since it is a term already: making one and copying it would cost the compiler more.
      out->kind = Term::Kind::standard;
      out++->value = &form.term.op->parameters[static_cast<std::size_t>(i)].standard;
    }
  }
}

constexpr bool binds_outside(const Term* all, int n, int first, int last, std::uint64_t id) {
  for (int i = 0; i < n; ++i)
    if ((i < first || i >= last) && binds_name(all[i]) && all[i].id == id) return true;
  return false;
}
/// A name that stands inside of an `each` or `chain` and outside of it too is one value for all of them.
constexpr void mark_shared(Term* all, int n) {
  for (int i = 0; i < n; ++i) {
    if (all[i].kind != Term::Kind::each && all[i].kind != Term::Kind::chain) continue;
    const int first = i + 1, last = first + (all[i].kind == Term::Kind::each ? all[i].size - 1 : all[first].size);
    for (int k = first; k < last; ++k)
      if (binds_name(all[k]) && binds_outside(all, n, first, last, all[k].id)) all[k].shared = true;
  }
}
}  // namespace detail
/// The terms of one pattern, and what a walk over them finds.
template <std::size_t Size>
struct Flat {
  Term terms[Size]{};
  Survey survey = {};
  constexpr const Term* data() const { return terms; }
  constexpr const Term* begin() const { return terms; }
  constexpr const Term* end() const { return terms + Size; }
  constexpr const Term& operator[](std::size_t i) const { return terms[i]; }
};
template <std::size_t Size>
constexpr Flat<Size> flatten(const Form& form) {
  Flat<Size> flat;
  Term* out = flat.terms;
  detail::write(form, out);
  detail::mark_shared(flat.terms, int(Size));
  flat.survey = survey(flat.terms);
  return flat;
}

}  // namespace fxx::inline FXX_ABI::rewrite
