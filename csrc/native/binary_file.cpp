// A compiled module as a file: a header line with the digests of the key and the content, then the binary.
#include "native/binary_file.h"

#include <c10/util/hash.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <system_error>

namespace openreg::native {
namespace {

namespace fs = std::filesystem;

std::string digest_of(const std::string& text) { return c10::sha1(text).str(); }

// LITERALINCLUDE START: native-binary-folder
fs::path cache_folder() {
  if (const char* const own = std::getenv("OPENREG_CACHE_DIR"); own != nullptr) {
    return own;
  }
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') {
    return fs::path(cache) / "torch_openreg";
  }
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? fs::path(home) / ".cache" / "torch_openreg" : fs::path();
}
// LITERALINCLUDE END: native-binary-folder

// LITERALINCLUDE START: native-binary-header
std::string header_of(const std::string& key_digest, const std::vector<char>& binary) {
  return "openreg-module 1 " + key_digest + " " + digest_of(std::string(binary.begin(), binary.end())) + "\n";
}
// LITERALINCLUDE END: native-binary-header

}  // namespace

// LITERALINCLUDE START: native-binary-file
BinaryFile::BinaryFile(const std::string& source, const std::string& key) : digest_(digest_of(key)) {
  if (const fs::path folder = cache_folder(); !folder.empty()) {
    path_ = folder / (fs::path(source).stem().string() + "-" + digest_ + ".bin");
  }
}

std::vector<char> BinaryFile::read() const {
  std::ifstream file(path_, std::ios::binary);
  std::string header;
  if (path_.empty() || !std::getline(file, header)) {
    return {};
  }
  std::vector<char> binary{std::istreambuf_iterator<char>(file), {}};
  return header + "\n" == header_of(digest_, binary) ? binary : std::vector<char>();
}

// Written under another name and renamed, which replaces a file atomically.
void BinaryFile::write(const std::vector<char>& binary) const noexcept {
  if (path_.empty()) return;
  try {
    fs::create_directories(path_.parent_path());
    const fs::path unfinished = path_.string() + "." + std::to_string(getpid());
    std::error_code ignored;
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file << header_of(digest_, binary);
    file.write(binary.data(), static_cast<std::streamsize>(binary.size()));
    file.close();
    if (file.good()) {
      fs::rename(unfinished, path_);
    } else {
      fs::remove(unfinished, ignored);  // NOT PROVEN: needs a full disk
    }
  } catch (const std::exception&) {
    // The folder cannot be written to: the next process compiles again.
  }
}
// LITERALINCLUDE END: native-binary-file

}  // namespace openreg::native
