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

constexpr Check kChecks[] = {
    {"interface", "the library has every function of openreg.h",
     "the backend is linked against them; what a driver cannot do answers orErrorNotSupported", all_functions_exist},
};

}  // namespace

std::span<const Check> interface_checks() { return kChecks; }

}  // namespace conformance
