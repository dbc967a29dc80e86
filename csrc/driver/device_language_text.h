// The headers that the driver compiles a module's source with, as text.
#pragma once

namespace openreg::driver {

extern const char* const kDeviceCodeHeader;      // device_code.h
extern const char* const kDeviceLanguageHeader;  // device_language.h

}  // namespace openreg::driver
