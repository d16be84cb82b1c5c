// Structs that Boost.Hana knows, as inputs and outputs of traced functions.
//
//   template <class T>
//   struct Detection { BOOST_HANA_DEFINE_STRUCT(Detection, (T, boxes), (T, scores)); };
//
// A struct that holds proxies while tracing and tensors otherwise is a template over the two. Include this file
// wherever such a struct is traced or asked for (`gm->call<Detection<at::Tensor>>(x)`).
// Cost: light; Hana's headers add 15 MB and some hundredths of a second to a file.
#pragma once

#include <array>
#include <boost/hana/accessors.hpp>
#include <boost/hana/adapt_struct.hpp>
#include <boost/hana/concept/struct.hpp>
#include <boost/hana/core/to.hpp>
#include <boost/hana/define_struct.hpp>
#include <boost/hana/first.hpp>
#include <boost/hana/pair.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/string.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/unpack.hpp>
#include <string_view>

#include "fxx/trace/structure.hpp"

namespace fxx::inline FXX_ABI {

template <class T>
  requires(boost::hana::Struct<T>::value)
struct record_traits<T> {
  static constexpr auto names = boost::hana::unpack(boost::hana::accessors<T>(), [](auto... member) {
    return std::array<std::string_view, sizeof...(member)>{
        std::string_view(boost::hana::to<const char*>(boost::hana::first(member)))...};
  });

  template <class Self, class F>
  static decltype(auto) apply(Self&& value, F&& f) {
    return boost::hana::unpack(boost::hana::accessors<T>(), [&](auto... member) -> decltype(auto) {
      return f(boost::hana::second(member)(value)...);
    });
  }
};

}  // namespace fxx::inline FXX_ABI
