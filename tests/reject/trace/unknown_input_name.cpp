// expect: an input is bound by a name that the module does not have in its input_names, or twice
#include "fxx/trace/concrete.hpp"

struct Net {
  static constexpr auto input_names = fxx::input_names("x", "flag");
};

[[maybe_unused]] static void f() {
#ifdef FXX_CONTROL
  (void)fxx::detail::in_order<Net>(fxx::concrete_args(fxx::PH, fxx::input<"flag">(true)));
#else
  (void)fxx::detail::in_order<Net>(fxx::concrete_args(fxx::PH, fxx::input<"flags">(true)));
#endif
}
