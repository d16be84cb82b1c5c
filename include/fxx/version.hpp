// The version of the library, as numbers for the preprocessor and as text.
// Cost: light.
#pragma once

#define FXX_VERSION_MAJOR 0
#define FXX_VERSION_MINOR 1
#define FXX_VERSION_PATCH 0
#define FXX_VERSION_TEXT "0.1.0"
