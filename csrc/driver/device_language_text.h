// The headers that the driver puts in front of a module's source.
#pragma once

namespace openreg::driver {

extern const char* const kDeviceCodeHeader;      // device_code.h
extern const char* const kDeviceLanguageHeader;  // device_language.h

}  // namespace openreg::driver
