// Files that two processes map. Another process of the same user opens them by way of /proc, so that no daemon, name or
// socket is needed; a driver for real hardware asks its kernel module for the same.
#include "ipc.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "error.h"

namespace openreg::driver {

// LITERALINCLUDE START: ipc-make-file
orError_t make_file(size_t bytes, int* file) {
  // Sealed, so that no process can shorten it: accesses of the others would then end in SIGBUS.
  const int made = memfd_create("openreg", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made >= 0 && ftruncate(made, static_cast<off_t>(bytes)) == 0 &&
      fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) {
    *file = made;
    return orSuccess;
  }
  const int reason = errno;
  if (made >= 0) close(made);
  return fail(orErrorMemoryAllocation, "the host has no room for a shared file of %zu bytes (%s)", bytes,
              std::strerror(reason));
}
// LITERALINCLUDE END: ipc-make-file

// LITERALINCLUDE START: ipc-export-file
orError_t export_file(ExportedKind kind, int device, int file, size_t bytes, ExportedFile* exported) {
  struct stat status{};
  if (fstat(file, &status) != 0) {
    return fail(orErrorInvalidHandle, "the shared file cannot be read (%s)",  // NOT PROVEN: needs a closed file
                std::strerror(errno));  // NOT PROVEN: as above
  }
  *exported = ExportedFile{kind, device, getpid(), file, status.st_ino, bytes};
  return orSuccess;
}

orError_t open_exported(const ExportedFile& exported, ExportedKind kind, int current_device, size_t file_bytes,
                        int* file) {
  if (exported.kind != kind) return fail(orErrorInvalidHandle, "the handle was not made by the same function");
  if (exported.device != current_device) {
    return fail(orErrorInvalidDevice, "the handle belongs to openreg:%d, and the current device is openreg:%d",
                exported.device, current_device);
  }
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/fd/%d", exported.process, exported.file);
  const int opened = open(path, O_RDWR | O_CLOEXEC);
  if (opened < 0 && errno != ENOENT && errno != ENXIO) {
    const bool is_forbidden = errno == EACCES || errno == EPERM;
    return fail(orErrorInvalidHandle, "memory of process %d cannot be opened (%s)%s", exported.process,
                std::strerror(errno), is_forbidden ? ": it must belong to the same user" : "");
  }
  struct stat status{};
  if (opened >= 0 && fstat(opened, &status) == 0 && status.st_ino == exported.inode) {
    if (static_cast<uint64_t>(status.st_size) == file_bytes) {
      *file = opened;
      return orSuccess;
    }
    close(opened);
    return fail(orErrorInvalidHandle, "the handle is damaged: %zu bytes are not the size of what it names",
                static_cast<size_t>(exported.bytes));
  }
  if (opened >= 0) close(opened);
  return fail(orErrorInvalidHandle, "process %d has freed what the handle names, or has ended", exported.process);
}
// LITERALINCLUDE END: ipc-export-file

// LITERALINCLUDE START: ipc-process
uint64_t start_of_process(pid_t process) noexcept {
  // Of its first thread, which starts with it: qemu-user invents the file of the process itself.
  char path[48];
  std::snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, process);
  std::FILE* const stat = std::fopen(path, "re");
  if (stat == nullptr) return errno == ENOENT || errno == ESRCH ? 0 : kUnknownStart;
  char text[1024] = "";
  const size_t length = std::fread(text, 1, sizeof(text) - 1, stat);
  std::fclose(stat);
  text[length] = '\0';
  // The name of the program, in parentheses, may contain anything. After it come the state and, 20th, the start.
  const char* const name_end = std::strrchr(text, ')');
  char state = 'X';
  unsigned long long start = 0;
  if (name_end == nullptr ||
      std::sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  &state, &start) != 2) {
    return 0;  // NOT PROVEN: needs another format of this file
  }
  return state == 'Z' || state == 'X' ? 0 : start;
}
// LITERALINCLUDE END: ipc-process

}  // namespace openreg::driver
