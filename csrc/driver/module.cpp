// Loads modules, and defines the format in which a module is stored on disk.
#include "module.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "device_language_text.h"
#include "error.h"
#include "temporary_folder.h"

namespace openreg::driver {
namespace {

// LITERALINCLUDE START: modules-binary-header
uint64_t checksum(std::string_view bytes) {  // FNV-1a
  uint64_t sum = 0xcbf29ce484222325;
  for (const char byte : bytes) sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return sum;
}

// Identifies the driver, the version, the kind of processor and the language that a binary is for.
struct BinaryHeader {
  char magic[16] = "openreg module";
  uint32_t version = device_code::kVersion;
#if defined(__x86_64__)
  uint32_t machine = EM_X86_64;
#elif defined(__aarch64__)
  uint32_t machine = EM_AARCH64;
#endif
  uint64_t bytes = 0;     // of the shared object that follows
  uint64_t checksum = 0;  // detects a truncated or overwritten file, not an attack
  uint64_t language = driver::checksum(kDeviceLanguageHeader);  // a mended header must not leave old code in caches
};

orError_t check_header(const BinaryHeader& header, std::string_view rest) {
  const BinaryHeader own;
  if (std::memcmp(header.magic, own.magic, sizeof(own.magic)) != 0) {
    return fail(orErrorCompilation, "the binary is not from orModuleGetBinary of this driver");
  }
  if (header.version != own.version || header.machine != own.machine) {
    return fail(orErrorCompilation,
                "the binary is of version %u for machine %u, and this driver loads version %u for machine %u; load the "
                "source again",
                header.version, header.machine, own.version, own.machine);
  }
  if (header.language != own.language) {
    return fail(
        orErrorCompilation,
        "the binary was compiled with another device_language.h than that of this driver; load the source again");
  }
  if (header.bytes != rest.size() || header.checksum != checksum(rest)) {
    return fail(orErrorCompilation, "the binary is damaged: of its %llu bytes %zu are there, or some have changed",
                static_cast<unsigned long long>(header.bytes), rest.size());
  }
  return orSuccess;
}
// LITERALINCLUDE END: modules-binary-header

// LITERALINCLUDE START: modules-local-variables
// The source name of a symbol, with the function that contains it: "kernels::sum(float*)::tile".
std::string demangle(const char* symbol) {
  int status = 0;
  char* const name = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string result = name != nullptr ? name : "";
  std::free(name);
  return result;
}

// The bytes of a function's variables in local memory. They are thread-local, and the shared object's symbol table has
// their sizes.
size_t local_memory(const std::string& shared_object, const char* function) {
  const std::string prefix = std::string("kernels::") + function + "(";
  const char* const start = shared_object.data();
  const auto* const file = reinterpret_cast<const Elf64_Ehdr*>(start);
  const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(start + file->e_shoff);
  size_t bytes = 0;
  for (const Elf64_Shdr* section = sections; section != sections + file->e_shnum; ++section) {
    if (section->sh_type != SHT_SYMTAB) continue;
    const char* const names = start + sections[section->sh_link].sh_offset;
    const auto* const symbols = reinterpret_cast<const Elf64_Sym*>(start + section->sh_offset);
    for (size_t i = 0; i < section->sh_size / sizeof(Elf64_Sym); ++i) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_TLS) continue;
      if (demangle(names + symbols[i].st_name).starts_with(prefix)) bytes += symbols[i].st_size;
    }
  }
  return bytes;
}
// LITERALINCLUDE END: modules-local-variables

}  // namespace

// LITERALINCLUDE START: modules-open
orError_t Module::open() {
  TemporaryFolder folder;
  if (const orError_t error = folder.create()) return error;
  if (const orError_t error = folder.write("module.so", shared_object_)) return error;
  library_ = dlopen((folder.path() + "/module.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  const void* const symbol = library_ != nullptr ? dlsym(library_, "openreg_module") : nullptr;
  if (symbol == nullptr) return fail(orErrorCompilation, "the host cannot load the module: %s", dlerror());
  const auto& table = *static_cast<const device_code::Table*>(symbol);
  for (unsigned i = 0; i < table.function_count; ++i) {
    functions_.push_back({table.functions[i], local_memory(shared_object_, table.functions[i].name)});
  }
  return orSuccess;
}

orError_t Module::load(std::string shared_object, std::shared_ptr<const Module>* module) {
  const std::shared_ptr<Module> loaded(new Module(std::move(shared_object)));
  if (const orError_t error = loaded->open()) return error;
  *module = loaded;
  return orSuccess;
}

Module::~Module() {
  if (library_ != nullptr) dlclose(library_);
}
// LITERALINCLUDE END: modules-open

// LITERALINCLUDE START: modules-as-binary
std::string Module::binary() const {
  BinaryHeader header;
  header.bytes = shared_object_.size();
  header.checksum = checksum(shared_object_);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + shared_object_;
}

orError_t Module::load_binary(const std::string& binary, std::shared_ptr<const Module>* module) {
  BinaryHeader header;
  if (binary.size() < sizeof(header)) {
    return fail(orErrorCompilation, "%zu bytes are too few for the binary of a module", binary.size());
  }
  std::memcpy(&header, binary.data(), sizeof(header));
  std::string shared_object = binary.substr(sizeof(header));
  if (const orError_t error = check_header(header, shared_object)) return error;
  return load(std::move(shared_object), module);
}
// LITERALINCLUDE END: modules-as-binary

}  // namespace openreg::driver
