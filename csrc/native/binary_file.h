// A compiled module on disk, so that the next process need not compile it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace openreg::native {

// LITERALINCLUDE START: native-binary-contract
// The file of one key, in $OPENREG_CACHE_DIR or, if that is not set, in torch_openreg below the user's cache folder
// ($XDG_CACHE_HOME, or ~/.cache). An empty OPENREG_CACHE_DIR disables the cache.
//
// The cache never fails: a file that is missing, damaged or of another key reads as empty, and the next process
// compiles again what could not be written. Processes that write concurrently do not see each other's partial files.
class BinaryFile {
 public:
  // `source` begins the file's name, for human readers.
  BinaryFile(const std::string& source, const std::string& key);

  std::vector<char> read() const;
  void write(const std::vector<char>& binary) const noexcept;

 private:
  std::string digest_;  // of the key
  std::filesystem::path path_;  // empty: keep nothing
};
// LITERALINCLUDE END: native-binary-contract

}  // namespace openreg::native
