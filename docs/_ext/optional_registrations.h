// A registration of PyTorch's that a mutant leaves out ([mutants] of weaver.toml): the macro, with the question before
// its arguments.
#pragma once

#define WEAVER_OPTIONAL_C10_REGISTER_GUARD_IMPL(removed, kind, Impl) \
  static const bool weaver_optional_##kind =                         \
      (removed) ||                                                   \
      (static_cast<void>(new ::c10::impl::DeviceGuardImplRegistrar(::c10::DeviceType::kind, new Impl())), true);
