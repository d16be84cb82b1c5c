// expect: the module does not name its inputs; add
#include "fxx/trace/concrete.hpp"

struct Net {
#ifdef FXX_CONTROL
  static constexpr auto input_names = fxx::input_names("x", "flag");
#endif
};

[[maybe_unused]] static void f() {
  (void)fxx::detail::in_order<Net>(fxx::concrete_args(fxx::input<"flag">(true)));
}
