// A compiled module on disk, so that the next process need not compile it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace openreg::native {

// LITERALINCLUDE START: native-binary-contract
// The file of one key, in $OPENREG_CACHE_DIR, or else in torch_openreg below the user's cache folder
// ($XDG_CACHE_HOME, or ~/.cache). OPENREG_CACHE_DIR= (empty) keeps nothing.
//
// A cache never fails: a file that is missing, damaged, or that another key wrote reads as empty, and what cannot be
// written is compiled again by the next process. Processes that write at once do not see each other's halves.
class BinaryFile {
 public:
  // `source` is the beginning of the file's name, for people.
  BinaryFile(const std::string& source, const std::string& key);

  std::vector<char> read() const;
  void write(const std::vector<char>& binary) const noexcept;

 private:
  std::string digest_;  // of the key
  std::filesystem::path path_;  // empty: keep nothing
};
// LITERALINCLUDE END: native-binary-contract

}  // namespace openreg::native
