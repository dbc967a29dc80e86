// A folder for temporary files.
#pragma once

#include <string>

#include "openreg.h"

namespace openreg::driver {

// Thread: not safe. The destructor removes the folder and everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() = default;
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // Creates it in $TMPDIR, or in /tmp.
  orError_t create();
  orError_t write(const char* name, const std::string& text) const;
  // Empty when there is no such file.
  [[nodiscard]] std::string read(const char* name) const;
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace openreg::driver
