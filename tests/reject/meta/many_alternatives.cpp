// expect: the variant has more alternatives than the switch has cases
#include "fxx/meta/match.hpp"

template <int I>
struct Case {};
#ifdef FXX_CONTROL
using Cases =
    std::variant<Case<0>, Case<1>, Case<2>, Case<3>, Case<4>, Case<5>, Case<6>, Case<7>, Case<8>, Case<9>, Case<10>,
                 Case<11>, Case<12>, Case<13>, Case<14>, Case<15>, Case<16>, Case<17>, Case<18>, Case<19>>;
#else
using Cases =
    std::variant<Case<0>, Case<1>, Case<2>, Case<3>, Case<4>, Case<5>, Case<6>, Case<7>, Case<8>, Case<9>, Case<10>,
                 Case<11>, Case<12>, Case<13>, Case<14>, Case<15>, Case<16>, Case<17>, Case<18>, Case<19>, Case<20>>;
#endif
int number_of(const Cases& c) {
  return fxx::match(c, []<int I>(Case<I>) { return I; });
}
