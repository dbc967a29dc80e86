// A registration macro of PyTorch in a form that a mutant can leave out ([mutants] of weaver.toml), with the condition
// as its first argument.
#pragma once

#define WEAVER_OPTIONAL_C10_REGISTER_GUARD_IMPL(removed, kind, Impl) \
  static const bool weaver_optional_##kind =                         \
      (removed) ||                                                   \
      (static_cast<void>(new ::c10::impl::DeviceGuardImplRegistrar(::c10::DeviceType::kind, new Impl())), true);
