// What the cases of rewrite/ include.
#include "fxx/rewrite/functions.hpp"
