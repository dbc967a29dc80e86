// The terminal's lines and the JSON.
#include "report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace conformance {
namespace {

long count(const std::vector<Reported>& all, Outcome outcome) {
  return std::count_if(all.begin(), all.end(), [&](const Reported& one) { return one.result.outcome == outcome; });
}

long count_wrong(const std::vector<Reported>& all) {
  return static_cast<long>(all.size()) - count(all, Outcome::kPassed) - count(all, Outcome::kNotOffered);
}

// Each reason once, with the checks that it keeps from running; without them where it is the whole group.
void print_by_reason(const std::vector<Reported>& group, Outcome outcome) {
  std::map<std::string, std::vector<const char*>> names;
  for (const auto& [check, result] : group) {
    if (result.outcome == outcome) names[result.reason].push_back(check.name);
  }
  for (const auto& [reason, checks] : names) {
    std::printf("  %s: %s\n", outcome_name(outcome), reason.c_str());
    if (checks.size() == group.size()) continue;
    for (const char* const name : checks) std::printf("      %s\n", name);
  }
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
      result += code;
    } else {
      result += c;
    }
  }
  return result + '"';
}

// A compiler's log has several lines.
std::string indented(const std::string& text) {
  std::string result;
  for (const char c : text.substr(0, text.find_last_not_of('\n') + 1)) {
    result += c;
    if (c == '\n') result += "                ";
  }
  return result;
}

}  // namespace

void print_list(const std::vector<Check>& checks) {
  const char* group = "";
  for (const Check& check : checks) {
    if (std::strcmp(group, check.group) != 0) std::printf("%s\n", check.group);
    group = check.group;
    std::printf("  %s\n      %s\n", check.name, check.relies);
  }
}

void print_identity(const std::string& library, const Identity& identity) {
  std::printf("%s: %s\n", library.c_str(), describe(identity).c_str());
  std::fflush(stdout);
}

void print_group(const std::vector<Reported>& group) {
  const long absent = count(group, Outcome::kNotOffered);
  std::printf("%-15s %2ld of %2zu passed", group.front().check.group, count(group, Outcome::kPassed), group.size());
  if (absent > 0) std::printf(", %ld not offered", absent);
  if (const long wrong = count_wrong(group); wrong > 0) std::printf(", %ld FAILED", wrong);
  std::printf("\n");
  print_by_reason(group, Outcome::kMissing);
  print_by_reason(group, Outcome::kNotOffered);
  for (const auto& [check, result] : group) {
    if (result.expected.empty()) continue;
    std::printf("  %s: %s\n", outcome_name(result.outcome), check.name);
    std::printf("      PyTorch:  %s\n", check.relies);
    std::printf("      expected: %s\n", indented(result.expected).c_str());
    std::printf("      seen:     %s\n", indented(result.seen).c_str());
    if (!result.where.empty()) std::printf("      where:    %s\n", result.where.c_str());
    std::printf("      chapter:  %s\n", check.chapter);
  }
  std::fflush(stdout);
}

bool print_summary(const std::vector<Reported>& all) {
  const long wrong = count_wrong(all);
  std::printf("%s: %ld of %zu checks passed, %ld not offered, %ld failed\n",
              wrong == 0 ? "conforms" : "DOES NOT CONFORM", count(all, Outcome::kPassed), all.size(),
              count(all, Outcome::kNotOffered), wrong);
  return wrong == 0;
}

void write_json(const char* file, const char* library, const Identity& identity, const std::vector<Reported>& all) {
  std::FILE* const out = std::fopen(file, "w");
  if (out == nullptr) {
    std::fprintf(stderr, "driver_conformance: --json %s cannot be written: %s\n", file, std::strerror(errno));
    std::exit(2);
  }
  std::fprintf(out, "{\n  \"library\": %s,\n  \"driver\": %s,\n  \"device\": %s,\n  \"devices\": %d,\n",
               quoted(library).c_str(), quoted(identity.driver).c_str(), quoted(identity.device).c_str(),
               identity.devices);
  if (!identity.problem.empty()) std::fprintf(out, "  \"problem\": %s,\n", quoted(identity.problem).c_str());
  std::fprintf(out, "  \"checks\": [");
  const char* separator = "\n";
  for (const auto& [check, result] : all) {
    std::fprintf(
        out,
        "%s    {\"group\": %s, \"name\": %s, \"relies\": %s, \"chapter\": %s, \"outcome\": \"%s\", \"seconds\": %.3f",
        separator, quoted(check.group).c_str(), quoted(check.name).c_str(), quoted(check.relies).c_str(),
        quoted(check.chapter).c_str(), outcome_name(result.outcome), result.seconds);
    for (const auto& [name, text] : {std::pair("expected", &result.expected), std::pair("seen", &result.seen),
                                     std::pair("where", &result.where), std::pair("reason", &result.reason)}) {
      if (!text->empty()) std::fprintf(out, ", \"%s\": %s", name, quoted(*text).c_str());
    }
    std::fprintf(out, "}");
    separator = ",\n";
  }
  std::fprintf(out, "\n  ]\n}\n");
  if (std::fclose(out) != 0) {
    std::fprintf(stderr, "driver_conformance: --json %s could not be written: %s\n", file, std::strerror(errno));
    std::exit(2);
  }
}

}  // namespace conformance
