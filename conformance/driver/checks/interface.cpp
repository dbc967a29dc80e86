// Whether the library has the functions at all.
#include <string>

#include "check.h"

namespace conformance {
namespace {

void all_functions_exist() {
  std::string absent;
  driver.for_each_required([&](const auto& function) {
    if (!function.exists()) absent += std::string(absent.empty() ? "" : ", ") + function.name();
  });
  expect(absent.empty(), "every function of openreg.h", "the library does not have " + absent);
}

void parts_are_whole() {
  std::string halves;
  for (const Part& part : optional_parts()) {
    std::string has;
    std::string lacks;
    for (const Presence& function : part.functions) {
      std::string& list = function.exists ? has : lacks;
      list += std::string(list.empty() ? "" : ", ") + function.name;
    }
    if (has.empty() || lacks.empty()) continue;
    halves += std::string(halves.empty() ? "" : "; ") + part.name + ": it has " + has + ", but not " + lacks;
  }
  expect(halves.empty(), "all functions of a part of an optional header, or none of them", halves);
}

constexpr Check kChecks[] = {
    {"interface", "the library has every function of openreg.h",
     "the backend is linked against them; what a driver cannot do answers orErrorNotSupported", all_functions_exist},
    {"interface", "the parts of the optional headers are there as a whole, or not at all",
     "the backend asks for one function of a part, and then uses all of it", parts_are_whole},
};

}  // namespace

std::span<const Check> interface_checks() { return kChecks; }

}  // namespace conformance
