// See overlaps.h.
#include "torch/python/overlaps.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <vector>

#include "torch/record/program_metadata.h"

namespace escapement {
namespace {

struct Place {
  Bytes bytes;
  Py_ssize_t position;
  bool written;
};

// All of the storage; nothing where there is none.
Bytes memory_of(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided || tensor.is_meta() || !tensor.has_storage() || !tensor.storage()) return {nullptr, nullptr};
  const char* const first = static_cast<const char*>(tensor.storage().data());
  return {first, first == nullptr ? nullptr : first + tensor.storage().nbytes()};
}

std::vector<Place> places_of(PyObject* arguments) {
  std::vector<Place> places;
  places.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(arguments)));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arguments); ++i) {
    PyObject* const object = PySequence_Fast_GET_ITEM(arguments, i);
    if (!THPVariable_Check(object)) continue;
    const Bytes memory = memory_of(THPVariable_Unpack(object));
    if (memory.begin != memory.end) places.push_back({memory, i, false});
  }
  return places;
}

bool mark(std::vector<Place>& places, PyObject* written) {
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(written); ++i) {
    const Py_ssize_t position = PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(written, i));
    if (position == -1 && PyErr_Occurred() != nullptr) return false;
    const auto here = std::lower_bound(places.begin(), places.end(), position, [](const Place& place, Py_ssize_t p) { return place.position < p; });
    if (here != places.end() && here->position == position) here->written = true;
  }
  return true;
}

// One pass in ascending order of addresses, which in the ordinary case finds nothing.
bool some_meet(std::vector<Place> places) {
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.bytes.begin < b.bytes.begin; });
  const char *reached = nullptr, *reached_by_written = nullptr;
  for (const Place& place : places) {
    if (place.bytes.begin < (place.written ? reached : reached_by_written)) return true;
    reached = std::max(reached, place.bytes.end);
    if (place.written) reached_by_written = std::max(reached_by_written, place.bytes.end);
  }
  return false;
}

PyObject* pairs_of(const std::vector<Place>& places) {
  PyObject* const found = PyList_New(0);
  if (found == nullptr || !some_meet(places)) return found;
  for (const Place& written : places) {
    if (!written.written) continue;
    for (const Place& other : places) {
      if (other.position == written.position || !overlap(written.bytes, other.bytes)) continue;
      PyObject* const pair = Py_BuildValue("(nn)", written.position, other.position);
      const bool kept = pair != nullptr && PyList_Append(found, pair) == 0;
      Py_XDECREF(pair);
      if (kept) continue;
      Py_DECREF(found);
      return nullptr;
    }
  }
  return found;
}

}  // namespace

PyObject* near(PyObject*, PyObject* args) {
  PyObject *arguments = nullptr, *written = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &arguments, &written)) return nullptr;
  PyObject* const all = PySequence_Fast(arguments, "near: arguments, a sequence");
  PyObject* const positions = all == nullptr ? nullptr : PySequence_Fast(written, "near: positions, a sequence");
  PyObject* found = nullptr;
  try {
    if (positions != nullptr) {
      std::vector<Place> places = places_of(all);
      if (mark(places, positions)) found = pairs_of(places);
    }
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  Py_XDECREF(all);
  Py_XDECREF(positions);
  return found;
}

}  // namespace escapement
