// load_exported(path, options) -> ExportedModule: include/escapement/load.h for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace escapement {

void add_exported_type(nanobind::module_& module);

}  // namespace escapement
