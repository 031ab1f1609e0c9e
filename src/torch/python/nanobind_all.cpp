// nanobind's run time as one translation unit, compiled by our build with nanobind's own flags (src/torch/meson.build).
#include <nb_combined.cpp>
