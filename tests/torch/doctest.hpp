// doctest beside LibTorch, whose logging has macros of the same names, which end the program where doctest's fail a
// test. Behind LibTorch's headers.
#pragma once

#undef CHECK
#undef CHECK_EQ
#undef CHECK_NE
#undef CHECK_LT
#undef CHECK_LE
#undef CHECK_GT
#undef CHECK_GE
#include <doctest/doctest.h>
