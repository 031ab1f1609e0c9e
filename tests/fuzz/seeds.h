// Inputs that the readers accept, to start fuzzing from: files of tests/fuzz/seeds, the golden traces, and what is made here.
#pragma once

#include <string>
#include <vector>

namespace escapement {

std::string seed_file(const std::string& name);   // without the newline at the end

std::vector<std::string> zip_seeds();
std::vector<std::string> json_seeds();
std::vector<std::string> program_seeds();
std::vector<std::string> weights_seeds();
std::vector<std::string> package_seeds();
std::vector<std::string> safetensors_seeds();
std::vector<std::string> size_seeds();
std::vector<std::string> guard_seeds();
std::vector<std::string> trace_seeds();

}  // namespace escapement
