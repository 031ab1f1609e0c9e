// The Python module escapement._C: Region (region_type.h), the option table, counters.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <torch/csrc/autograd/python_variable.h>

#include "torch/program/engine.h"
#include "torch/program/pack.h"
#include "torch/python/cached_calls.h"
#include "torch/python/contents.h"
#include "torch/python/entrance.h"
#include "torch/python/exported_python.h"
#include "torch/python/number_calls.h"
#include "torch/python/outside_calls.h"
#include "torch/python/overlaps.h"
#include "torch/python/region_type.h"
#include "torch/python/replay_type.h"
#include "torch/python/symnode_python.h"
#include "torch/python/tensor_makers.h"
#include "torch/python/wrapped_numbers.h"
#include "torch/record/libm.h"
#include "torch/record/undo_log.h"
#include "torch/record/world.h"

namespace nb = nanobind;

namespace {

nb::object default_of(const escapement::OptionFacts& row) {
  if (row.type == "bool") return nb::bool_(row.default_value == "true");
  if (row.type == "int") return nb::int_(std::stol(row.default_value));
  return nb::str(row.default_value.c_str());
}

nb::list option_table() {
  nb::list rows;
  for (const escapement::OptionFacts& row : escapement::option_facts())
    rows.append(nb::make_tuple(row.name, row.type, default_of(row), nb::tuple(), row.doc));
  return rows;
}

void check_option(const std::string& name, const std::string& value) {
  escapement::Options scratch;
  escapement::set_option(scratch, name, std::string_view(value));
}

nb::dict stats() {
  nb::dict result;
  for (const auto& [name, value] : escapement::counter_facts()) result[name.c_str()] = value;
  result["packed_bytes"] = escapement::packed_bytes();
  return result;
}

nb::object count_before(const escapement::UndoLog& undo, nb::handle tensor) {
  const std::optional<uint32_t> count = undo.count_before(THPVariable_Unpack(tensor.ptr()));
  return count ? nb::object(nb::int_(*count)) : nb::none();
}

nb::list ops() {
  nb::list rows;
  for (const escapement::OpFacts& row : escapement::op_facts()) rows.append(nb::make_tuple(row.name, row.kind, row.tier, row.aten));
  return rows;
}

}  // namespace

NB_MODULE(_C, m) {
  escapement::install_python_hooks();
  escapement::mend_tensor_makers();
  escapement::mend_wrapped_numbers();
  if (!escapement::add_region_type(m.ptr()) || !escapement::add_contents_type(m.ptr()) || !escapement::add_entrance_type(m.ptr()) ||
      !escapement::add_replay_type(m.ptr()) || !escapement::add_outside_calls(m.ptr()) || !escapement::add_cached_calls(m.ptr()) ||
      !escapement::add_number_calls(m.ptr()))
    throw nb::python_error();
  escapement::add_exported_type(m);
  nb::class_<escapement::World>(m, "World", "Torch's own state, as it was when this was made.")
      .def(nb::init<>())
      .def("changed", &escapement::World::changed, "What of it is otherwise now; empty if nothing is.");
  nb::class_<escapement::UndoLog>(m, "UndoLog", "What a recording has written over.")
      .def("possible", &escapement::UndoLog::possible, "Whether all of it can be put back.")
      .def("count_before", &count_before, "How often a tensor had been written before, under whatever name; None of what was not written.")
      .def("restore", &escapement::UndoLog::restore, "Puts it back. Only where that is possible.");
  static PyMethodDef flow_method{"flow", escapement::flow, METH_VARARGS, "A higher-order operator; see flow.h."};
  m.attr("flow") = nb::steal(PyCFunction_New(&flow_method, m.ptr()));
  static PyMethodDef near_method{"near", escapement::near, METH_VARARGS, "Arguments that share memory with written ones; see overlaps.h."};
  m.attr("near") = nb::steal(PyCFunction_New(&near_method, m.ptr()));
  m.def("option_table", &option_table, "Rows (name, type, default, choices, doc) of the option table.");
  m.def("check_option", &check_option, "RuntimeError where an option does not take a text.");
  m.def("stats", &stats, "Counters of this process, by name.");
  m.def("recording", &escapement::is_recording, "Whether this thread runs under the recorder.");
  m.def("has_written", &escapement::has_written, "Whether this thread's recording has written to memory that the program did not make.");
  m.def("keep_undo", &escapement::keep_undo, "Copies what this thread's recording writes over from now on.");
  m.def("define_libm", &escapement::define_libm, "From now on there are operators escapement::log and others, of 0-d float64 tensors: the C library's functions.");
  m.def("says_otherwise", &escapement::says_otherwise, "This thread's recording notes operators from here on that stand for others of the program's.");
  m.def("take_undo", &escapement::take_undo, "What was copied since keep_undo().");
  m.def("is_wide", [](nb::handle node) { return escapement::is_wide(node.ptr()); }, "Whether an integer's node is ours and needs more than 32 bits.");
  m.def("ops", &ops, "Rows (name, kind, tier, ATen name) of the op table.");
  m.def("reset", &escapement::reset_engine, "Sets all counters to zero.");
}
