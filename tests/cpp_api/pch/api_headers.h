// Precompiled for the tests of the C++ interface: what most of them include that is not ours. Every file still includes what it uses.
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn/modules.h>
