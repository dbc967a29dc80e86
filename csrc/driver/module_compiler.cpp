// Runs the compiler twice: the first run expands macros, so that kernels defined by macros are found; the second builds
// the shared object.
#include "module_compiler.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <vector>

#include "device_language_text.h"
#include "error.h"
#include "kernel_scan.h"
#include "temporary_folder.h"

namespace openreg::driver {
namespace {

using Words = std::vector<std::string>;

// LITERALINCLUDE START: modules-options
// Accepts the options that change what the source means. OpenCL's own are ignored: they only permit less exact code.
orError_t read_options(const char* options, Words* words) {
  std::istringstream text(options != nullptr ? options : "");
  for (std::string word; text >> word;) {
    const std::string_view start = std::string_view(word).substr(0, 2);
    if (start == "-D" || start == "-U") {
      if (word.size() == 2) {
        std::string name;
        text >> name;
        word += name;
      }
      words->push_back(word);
    } else if (!word.starts_with("-cl-")) {
      return fail(orErrorInvalidValue, "option '%s' is unknown; valid are -D, -U and those that begin with -cl-",
                  word.c_str());
    }
  }
  return orSuccess;
}
// LITERALINCLUDE END: modules-options

std::string compiler() {
  const char* const named = std::getenv("OPENREG_CXX");
  if (named == nullptr) return "c++";
  // It runs in another folder, where a relative path would name another file.
  return std::string_view(named).find('/') == std::string_view::npos ? named
                                                                     : std::filesystem::absolute(named).string();
}

std::vector<char*> pointers(Words& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

// The environment, with messages in English.
Words environment() {
  Words variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("LC_ALL=")) variables.emplace_back(*variable);
  }
  variables.emplace_back("LC_ALL=C");
  return variables;
}

// LITERALINCLUDE START: modules-spawn
// Runs the compiler in the folder, without a shell; its output goes to the file `log`.
orError_t run(Words words, const TemporaryFolder& folder) {
  words.insert(words.begin(), compiler());
  Words variables = environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, folder.path().c_str());
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int refused = posix_spawnp(&child, words.front().c_str(), &actions, nullptr, pointers(words).data(),
                                   pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (refused != 0) {
    return fail(orErrorNotSupported,
                "the simulated device compiles with the host's C++ compiler, and '%s' cannot be run (%s); install g++ "
                "or clang++, or set OPENREG_CXX to one",
                words.front().c_str(), std::strerror(refused));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;  // NOT PROVEN: needs a signal during the wait
    return fail(orErrorNotSupported,  // NOT PROVEN: needs a process that ignores SIGCHLD
                "nothing is known of the compiler that ran (%s); do not ignore SIGCHLD",  // NOT PROVEN: as above
                std::strerror(errno));  // NOT PROVEN: as above
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return orSuccess;
  std::string log = folder.read("log");
  log.resize(log.find_last_not_of('\n') + 1);
  return fail_with_log(orErrorCompilation, log.empty() ? "the compiler failed without a message" : log.c_str());
}
// LITERALINCLUDE END: modules-spawn

// LITERALINCLUDE START: modules-unit
// The module as C++. Its kernels are in a namespace, so that no name conflicts with the C library.
std::string translation_unit(const ScannedSource& scanned) {
  std::ostringstream unit;
  unit << "#include \"device_language.h\"\nnamespace kernels {\n"
       << scanned.text << "\n}\n# 1 \"end of the module\"\n"
       << "static constexpr openreg::device_code::Function functions[] = {";
  for (const ScannedKernel& kernel : scanned.kernels) {
    unit << "openreg::device_code::Describe<&kernels::" << kernel.name << ">::function(\"" << kernel.name << "\", "
         << kernel.local_parameters << "ull),\n";
  }
  unit << "};\nextern \"C\" __attribute__((visibility(\"default\"))) const openreg::device_code::Table openreg_module "
          "= {"
       << scanned.kernels.size() << ", functions};\n";
  return unit.str();
}

}  // namespace

orError_t compile_module(const std::string& source, const char* options, std::string* shared_object) {
  Words expand = {"-E",
                  "-x",
                  "c++",
                  "-std=c++20",
                  "-D__OPENCL_VERSION__=120",
                  "-D__OPENCL_C_VERSION__=120",
                  "-Dcl_khr_fp16",
                  "-Dcl_khr_fp64",
                  "-D__ENDIAN_LITTLE__",
                  "kernel.cl",
                  "-o",
                  "kernel.i"};
  // No option that depends on the machine or makes a sum differ from the host's: -march=native, -ffast-math. OpenCL C's
  // char is signed; that of C++ is unsigned on aarch64. An array larger than the stack must not step over its last
  // page.
  const Words compile = {"-std=c++20",
                         "-O2",
                         "-fPIC",
                         "-shared",
                         "-fvisibility=hidden",
                         "-ffp-contract=off",
                         "-fno-math-errno",
                         "-fno-exceptions",
                         "-fsigned-char",
                         "-fstack-clash-protection",
                         "-Wl,-z,defs",
                         "module.cpp",
                         "-o",
                         "module.so"};
  if (const orError_t error = read_options(options, &expand)) return error;
  TemporaryFolder folder;
  if (const orError_t error = folder.create()) return error;
  if (const orError_t error = folder.write("kernel.cl", source)) return error;
  if (const orError_t error = run(expand, folder)) return error;
  const ScannedSource scanned = scan_kernels(folder.read("kernel.i"));
  if (scanned.kernels.empty()) return fail(orErrorCompilation, "the source has no kernel: no function is __kernel");
  if (const orError_t error = folder.write("device_code.h", kDeviceCodeHeader)) return error;
  if (const orError_t error = folder.write("device_language.h", kDeviceLanguageHeader)) return error;
  if (const orError_t error = folder.write("module.cpp", translation_unit(scanned))) return error;
  if (const orError_t error = run(compile, folder)) return error;
  *shared_object = folder.read("module.so");
  return orSuccess;
}
// LITERALINCLUDE END: modules-unit

}  // namespace openreg::driver
