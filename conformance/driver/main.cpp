// driver_conformance [--list] [--only GROUP]... [--json FILE] [--limit SECONDS] LIBRARY
//
// Exit status: 0 when every check of the asked groups passes or is not offered by the driver, 1 when one does not,
// 2 when the kit itself was asked wrongly.
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "identity.h"
#include "report.h"
#include "run.h"

namespace conformance {
namespace {

constexpr const char* kUsage =
    "usage: driver_conformance [--list] [--only GROUP]... [--json FILE] [--limit SECONDS] LIBRARY\n"
    "  LIBRARY          a shared library with the functions of openreg.h\n"
    "  --list           name the checks and what PyTorch relies on them for, and run none\n"
    "  --only GROUP     run this group; may be given again\n"
    "  --json FILE      write the results there as well\n"
    "  --limit SECONDS  how long one check may take (20)\n";

struct Options {
  bool list = false;
  std::set<std::string> only;
  const char* json = nullptr;
  long limit = 20;
  std::string library;
};

[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "driver_conformance: %s\n%s", what.c_str(), kUsage);
  std::exit(2);
}

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto value = [&] { return ++i < count ? words[i] : (refuse(std::string(word) + " needs a value"), nullptr); };
    if (word == "--list") {
      options.list = true;
    } else if (word == "--only") {
      options.only.insert(value());
    } else if (word == "--json") {
      options.json = value();
    } else if (word == "--limit") {
      const char* const text = value();
      char* end = nullptr;
      options.limit = std::strtol(text, &end, 10);
      if (*end != '\0' || options.limit < 1 || options.limit > 3600) {
        refuse(std::string("--limit is '") + text + "'; valid is a number of seconds from 1 to 3600");
      }
    } else if (word.starts_with("-") || !options.library.empty()) {
      refuse(std::string("'").append(word).append("' is not understood"));
    } else {
      options.library = word;
    }
  }
  return options;
}

std::vector<Check> choose(const std::set<std::string>& only) {
  std::vector<Check> chosen;
  std::set<std::string> unknown = only;
  std::string groups;
  for (const Check& check : all_checks()) {
    if (!groups.ends_with(check.group)) groups += std::string(groups.empty() ? "" : ", ") + check.group;
    unknown.erase(check.group);
    if (only.empty() || only.contains(check.group)) chosen.push_back(check);
  }
  if (!unknown.empty()) refuse("there is no group '" + *unknown.begin() + "'; valid are " + groups);
  return chosen;
}

// The library's absolute path: the loader takes a name without a slash for one of its own folders.
std::string resolve(const std::string& library) {
  if (library.empty()) refuse("name the library to be tested");
  char path[PATH_MAX];
  if (realpath(library.c_str(), path) == nullptr) refuse("'" + library + "': " + std::strerror(errno));
  return path;
}

int run(const Options& options) {
  const std::vector<Check> checks = choose(options.only);
  if (options.list) {
    print_list(checks);
    return 0;
  }
  const std::string library = resolve(options.library);
  const milliseconds limit(options.limit * 1000);
  const Identity identity = identify(library.c_str(), limit);
  print_identity(options.library, identity);
  std::vector<Reported> all;
  std::vector<Reported> group;
  for (size_t i = 0; i < checks.size(); ++i) {
    group.push_back({checks[i], run_check(checks[i], library.c_str(), limit)});
    if (i + 1 == checks.size() || std::strcmp(checks[i].group, checks[i + 1].group) != 0) {
      print_group(group);
      all.insert(all.end(), group.begin(), group.end());
      group.clear();
    }
  }
  if (options.json != nullptr) write_json(options.json, library.c_str(), identity, all);
  return print_summary(all) ? 0 : 1;
}

}  // namespace
}  // namespace conformance

int main(int count, char** words) { return conformance::run(conformance::read_options(count, words)); }
