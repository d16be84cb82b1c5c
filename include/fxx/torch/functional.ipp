// Bodies of torch/functional.hpp: each function over proxies as operators of ATen. A file for each section of
// torch::nn::functional is in torch/functional/.
#pragma once

#include "fxx/torch/functional/activations.ipp"
#include "fxx/torch/functional/images.ipp"
#include "fxx/torch/functional/linear_maps.ipp"
#include "fxx/torch/functional/losses.ipp"
#include "fxx/torch/functional/normalisation.ipp"
#include "fxx/torch/functional/pooling.ipp"
