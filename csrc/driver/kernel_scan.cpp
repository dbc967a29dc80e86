// Scans words and punctuation, without a grammar. The preprocessor has already removed comments and macros.
#include "kernel_scan.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace openreg::driver {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// LITERALINCLUDE START: modules-scan-tokens
// Splits the source into words, single characters and strings; skips whitespace and the preprocessor's line markers.
std::vector<std::string_view> split(std::string_view source) {
  std::vector<std::string_view> tokens;
  bool line_begins = true;
  for (size_t at = 0; at < source.size();) {
    size_t end = at + 1;
    const char c = source[at];
    if (line_begins && c == '#') {
      end = std::min(source.find('\n', at), source.size());
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      line_begins = line_begins || c == '\n';
      at = end;
      continue;
    } else {
      if (is_word(c)) {
        while (end < source.size() && is_word(source[end])) ++end;
      } else if (c == '"' || c == '\'') {
        while (end < source.size() && source[end] != c) {  // NOT PROVEN: needs text in quotes
          end += source[end] == '\\' ? 2 : 1;  // NOT PROVEN: as above
        }  // NOT PROVEN: as above
        end = std::min(end + 1, source.size());  // NOT PROVEN: as above
      }
      tokens.push_back(source.substr(at, end - at));
    }
    line_begins = false;
    at = end;
  }
  return tokens;
}
// LITERALINCLUDE END: modules-scan-tokens

using Token = std::vector<std::string_view>::const_iterator;

bool is_kernel_word(std::string_view token) { return token == "__kernel" || token == "kernel"; }
bool is_local_word(std::string_view token) { return token == "__local" || token == "local"; }

// LITERALINCLUDE START: modules-scan-kernel
// The token after the parenthesis that closes the one at `open`.
Token after_parenthesis(Token open, Token end) {
  int depth = 0;
  for (; open != end; ++open) {
    if (*open == "(") ++depth;
    if (*open == ")" && --depth == 0) return open + 1;
  }
  return end;  // NOT PROVEN: needs a source that ends there
}

// The kernel defined after the word `kernel`; without a name if there is none, as for a declaration.
ScannedKernel read_kernel(Token token, Token end) {
  ScannedKernel kernel;
  Token open = token;  // the parenthesis of the parameters, and not of an attribute before the name
  while (open != end && *open != "(") open = *open == "__attribute__" ? after_parenthesis(open + 1, end) : open + 1;
  const Token close = after_parenthesis(open, end);
  if (open == token || close == end || *close != "{") return kernel;
  kernel.name = *(open - 1);
  uint64_t parameter = 1;
  for (; open != close; ++open) {
    if (*open == ",") parameter <<= 1;
    if (is_local_word(*open)) kernel.local_parameters |= parameter;
  }
  return kernel;
}
// LITERALINCLUDE END: modules-scan-kernel

// LITERALINCLUDE START: modules-scan-local
// Whether the `__local` before the token qualifies a variable, as in `__local float tile[16];`, and not the target of a
// pointer, as in `__local float* row`.
bool declares_variable(Token token, Token end) {
  constexpr std::array<std::string_view, 5> kEnds = {"*", "[", ";", "=", ","};
  token = std::find_first_of(token, end, kEnds.begin(), kEnds.end());
  return token != end && *token != "*";
}
// LITERALINCLUDE END: modules-scan-local

}  // namespace

// LITERALINCLUDE START: modules-find-kernels
ScannedSource scan_kernels(std::string_view source) {
  ScannedSource scanned;
  const std::vector<std::string_view> tokens = split(source);
  const char* copied = source.data();
  int parentheses = 0;
  for (Token token = tokens.begin(); token != tokens.end(); ++token) {
    if (*token == "(") ++parentheses;
    if (*token == ")") --parentheses;
    if (is_kernel_word(*token)) {
      if (ScannedKernel kernel = read_kernel(token + 1, tokens.end()); !kernel.name.empty()) {
        scanned.kernels.push_back(std::move(kernel));
      }
    } else if (is_local_word(*token) && parentheses == 0 && declares_variable(token + 1, tokens.end())) {
      scanned.text.append(copied, token->data());
      scanned.text.append(*token == "local" ? "__LOC" : "__LOCAL");  // as long as the word
      copied = token->data() + token->size();
    }
  }
  scanned.text.append(copied, source.data() + source.size());
  return scanned;
}
// LITERALINCLUDE END: modules-find-kernels

}  // namespace openreg::driver
