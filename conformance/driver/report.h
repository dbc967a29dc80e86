// What the kit says: on the terminal while it runs, and in a file for other programs.
#pragma once

#include <string>
#include <vector>

#include "check.h"
#include "identity.h"
#include "run.h"

namespace conformance {

struct Reported {
  Check check;
  Result result;
};

void print_list(const std::vector<Check>& checks);
// The first line: the library, as it was named, and what it says of itself.
void print_identity(const std::string& library, const Identity& identity);
// One line for each group, and below it what did not pass.
void print_group(const std::vector<Reported>& group);
// Returns whether all that the driver offers is right.
bool print_summary(const std::vector<Reported>& all);
void write_json(const char* file, const char* library, const Identity& identity, const std::vector<Reported>& all);

}  // namespace conformance
