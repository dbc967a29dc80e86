// Creates and removes a temporary folder, and reads and writes its files.
#include "temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "error.h"

namespace openreg::driver {

// LITERALINCLUDE START: modules-folder
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;  // leftover temporary files affect no result
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

orError_t TemporaryFolder::create() {
  const char* const named = std::getenv("TMPDIR");
  const char* const parent = named != nullptr && *named != '\0' ? named : "/tmp";
  std::string pattern = std::string(parent) + "/openreg-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return fail(orErrorNotSupported, "no folder can be made in %s (%s); set TMPDIR to a folder for temporary files",
                parent, std::strerror(errno));
  }
  path_ = std::move(pattern);
  return orSuccess;
}

orError_t TemporaryFolder::write(const char* name, const std::string& text) const {
  std::ofstream file(path_ + "/" + name, std::ios::binary);
  if (file << text && file.flush()) return orSuccess;
  return fail(orErrorNotSupported,  // NOT PROVEN: needs a full disk
              "%s/%s cannot be written; set TMPDIR to a folder with room",  // NOT PROVEN: as above
              path_.c_str(), name);  // NOT PROVEN: as above
}

std::string TemporaryFolder::read(const char* name) const {
  std::ifstream file(path_ + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
// LITERALINCLUDE END: modules-folder

}  // namespace openreg::driver
