// See exported_python.h. The GIL is held as by a Region (region_type.cpp).
#include "torch/python/exported_python.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "escapement/load.h"
#include "torch/python/values.h"

namespace nb = nanobind;

namespace escapement {

namespace {

// What ATen throws becomes what torch makes of it.
template <class Action>
auto translated(Action action) {
  try {
    return action();
  } catch (...) {
    set_python_error_from_current_exception();
    throw nb::python_error();
  }
}

nb::tuple call_module(const Module& module, const nb::args& args) {
  return translated([&] {
    std::vector<c10::IValue> inputs;
    for (const nb::handle arg : args) inputs.push_back(value_from_python(arg.ptr()));
    nb::list results;
    for (const c10::IValue& output : module.run(inputs)) results.append(nb::steal(value_to_python(output)));
    return nb::tuple(results);
  });
}

void save_module(const Module& module, const std::string& path) {
  translated([&] { return module.save(path), true; });
}

Module* load_from_python(const std::string& path, const nb::dict& options) {
  return translated([&] {
    OptionList list;
    for (const auto& [name, value] : options)
      list.emplace_back(nb::cast<std::string>(name), nb::cast<std::string>(nb::str(value)));
    return new Module(load(path, list));
  });
}

}  // namespace

void add_exported_type(nb::module_& module) {
  nb::class_<Module>(module, "ExportedModule")
      .def("__call__", &call_module)
      .def("explain", &Module::explain)
      .def("save", &save_module)
      .def("close", &Module::close)
      .def_prop_ro("input_names", &Module::input_names);
  module.def("load_exported", &load_from_python, nb::arg("path"), nb::arg("options") = nb::dict(), nb::rv_policy::take_ownership);
}

}  // namespace escapement
