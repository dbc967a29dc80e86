// What a handle of openreg_ipc.h contains in this driver: a file without a name, open in the process that exported it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "openreg.h"

namespace openreg::driver {

// LITERALINCLUDE START: ipc-exported
enum class ExportedKind : uint32_t { kMemory = 0x6d65'6d31, kEvent = 0x6576'7431 };

struct ExportedFile {
  ExportedKind kind;
  int32_t device = 0;
  int32_t process = 0;
  int32_t file = 0;    // its descriptor in that process
  uint64_t inode = 0;  // recognizes the file: descriptors and process numbers are reused
  uint64_t bytes = 0;  // as requested
};
// LITERALINCLUDE END: ipc-exported

// Makes a file of this size in memory. The caller closes it.
orError_t make_file(size_t bytes, int* file);
// Describes a file of this process.
orError_t export_file(ExportedKind kind, int device, int file, size_t bytes, ExportedFile* exported);
// Opens the file of another process, or of this one, which must have `file_bytes`. The current device must be the
// exported one. The caller closes the file.
orError_t open_exported(const ExportedFile& exported, ExportedKind kind, int current_device, size_t file_bytes,
                        int* file);

// When a process started, in ticks since the boot; 0 if it has ended. With its number it names a process uniquely.
uint64_t start_of_process(pid_t process) noexcept;
// The result if the host does not tell, since this process has too many open files, for example.
inline constexpr uint64_t kUnknownStart = UINT64_MAX;

}  // namespace openreg::driver
