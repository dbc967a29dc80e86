"""Modules: the supported language, what is refused, and how work-items run."""

from __future__ import annotations

import array
import ctypes
import os
import re
import signal
import stat
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.driver import openreg as driver
from tests.driver.conftest import RunDriver
from tests.driver.openreg import DriverError, Error, Fault, Format, launch_function, lib, local, pointer, value

SOURCE = """
// __kernel void in_a_comment(int a) {}
#define BINARY(name, op)                                                                                    \\
  __kernel void name(__global const float* a, __global const float* b, __global float* restrict out, int n) { \\
    const int i = get_global_id(0);                                                                         \\
    if (i < n) out[i] = a[i] op b[i];                                                                       \\
  }
BINARY(add, +)
BINARY(mul, *)
__kernel void declared_only(int a);
__constant char text[] = "__kernel void in_a_string(int a) {";

__kernel void __attribute__((reqd_work_group_size(1, 1, 1))) attributed(global int* out, local int* one) {
  local int LOCAL;  // a name that is the program's
  LOCAL = 3;
  *one = 4;
  *out = LOCAL + *one;
}

kernel __attribute__((reqd_work_group_size(8, 1, 1)))
void total(global const int* a, global int* out, local int* scratch) {
  __local int tile[8];
  local int* const row = tile;  // a pointer to local memory, not a variable in it
  const uint l = get_local_id(0);
  row[l] = a[get_global_id(0)];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint s = get_local_size(0) / 2; s > 0; s /= 2) {
    if (l < s) row[l] += row[l + s];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  scratch[l] = tile[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (l == 7) out[get_group_id(0)] = scratch[0];
}
__kernel void diverge(__global int* out) {
  if (get_local_id(0) < 3) return;
  barrier(CLK_LOCAL_MEM_FENCE);
}
"""


@pytest.fixture(scope="module")
def module() -> int:
    """Modules outlive orDeviceReset, which runs after every test."""
    return driver.module_load(SOURCE)


def floats(numbers: list[float]) -> int:
    """Device memory with these numbers."""
    data = array.array("f", numbers).tobytes()
    address = driver.malloc(len(data))
    driver.write(address, data)
    return address


def read_as(code: str, address: int, count: int) -> Sequence[float]:
    numbers = array.array(code)
    numbers.frombytes(driver.read(address, count * numbers.itemsize))
    return numbers.tolist()


def run_one(source: str, *arguments: driver.Argument, name: str = "f", options: str | None = None) -> None:
    """Compiles a source and runs one work-item of a function."""
    loaded = driver.module_load(source, options)
    launch_function(driver.function(loaded, name), (1,), (1,), *arguments)
    driver.synchronize()
    driver.check(lib.orModuleUnload(loaded))


def refused(error: Error, text: str, call: Callable[..., object], *arguments: object) -> None:
    """Checks that the call fails with this error and exactly this detail."""
    with pytest.raises(DriverError) as caught:
        call(*arguments)
    assert (caught.value.error, caught.value.detail) == (error, text)


def test_kernels_that_macros_write(module: int) -> None:
    a, b, out = floats([1, 2, 3, 4, 5]), floats([10, 20, 30, 40, 50]), floats([0] * 5)
    for name, expected in (("add", [11, 22, 33, 44, 0]), ("mul", [10, 40, 90, 160, 0])):
        arguments = (pointer(a), pointer(b), pointer(out), value(ctypes.c_int(4)))
        launch_function(driver.function(module, name), (2,), (4,), *arguments)
        assert read_as("f", out, 5) == expected


def test_pointers_may_lie_inside_an_allocation_and_be_null(module: int) -> None:
    a, out = floats([1, 2, 3, 4]), floats([0] * 4)
    arguments = (pointer(a + 8), pointer(a), pointer(out + 4), value(ctypes.c_int(2)))
    launch_function(driver.function(module, "add"), (1,), (2,), *arguments)
    assert read_as("f", out, 4) == [0, 4, 6, 0]
    run_one("__kernel void f(__global int* a, __global int* out) { out[0] = a == 0; }", pointer(None), pointer(out))
    assert read_as("i", out, 1) == [1]


def test_barriers_and_local_memory(module: int) -> None:
    a = driver.malloc(4 * 32)
    driver.write(a, array.array("i", range(32)).tobytes())
    out = driver.malloc(16)
    launch_function(driver.function(module, "total"), (4,), (8,), pointer(a), pointer(out), local(32))
    assert read_as("i", out, 4) == [28, 92, 156, 220]


def test_an_attribute_before_the_name_of_a_kernel(module: int) -> None:
    out = floats([0])
    launch_function(driver.function(module, "attributed"), (1,), (1,), pointer(out), local(4))
    assert read_as("i", out, 1) == [7]


def test_attributes(module: int) -> None:
    found = {}
    for name in ("add", "total"):
        attributes = driver.FunctionAttributes()
        driver.check(lib.orFunctionGetAttributes(ctypes.byref(attributes), driver.function(module, name)))
        found[name] = (attributes.argument_count, attributes.local_memory)
    assert found == {"add": (4, 0), "total": (3, 32)}
    assert (attributes.max_group_size, attributes.group_size_multiple) == (1024, 1)


def test_items_know_where_they_stand() -> None:
    source = """__kernel void f(__global ulong* out) {
      const size_t plane = get_global_id(1) + get_global_size(1) * get_global_id(2);
      const size_t row = get_global_id(0) + get_global_size(0) * plane;
      out[row] = get_local_id(0) | get_local_id(1) << 4 | get_local_id(2) << 8 | get_group_id(0) << 12 |
                 get_group_id(1) << 16 | get_group_id(2) << 20 | get_num_groups(0) << 24 | get_local_size(1) << 28 |
                 get_global_offset(0) << 32 | (get_num_groups(3) + get_local_id(7)) << 36;
    }"""
    groups, size = (2, 3, 2), (2, 1, 3)
    out = driver.malloc(8 * 72)
    loaded = driver.module_load(source)
    launch_function(driver.function(loaded, "f"), groups, size, pointer(out))
    expected = [
        x % 2 | (y % 1) << 4 | (z % 3) << 8 | x // 2 << 12 | y << 16 | z // 3 << 20 | 2 << 24 | 1 << 28 | 1 << 36
        for z in range(6)
        for y in range(3)
        for x in range(4)
    ]
    assert read_as("L", out, 72) == expected


def test_builtin_functions() -> None:
    lines = {
        "fmin(3.0f, x)": 2,
        "fmax(3.0f, x)": 3,
        "fma(x, x, 1.0f)": 5,
        "mad(x, x, 1.0f)": 5,
        "clamp(x, 0.0f, 1.0f)": 1,
        "clamp(-1, 0, 7)": 0,
        "max(1, 2) + min(1u, 2u)": 3,
        "log2(exp2(x))": 2,
        "rsqrt(4.0f)": 0.5,
        "sqrt(4.0f) + pow(x, 3.0f) + pown(x, 2)": 14,
        "fabs(-x)": 2,
        "tanh(0.0f) + erf(0.0f) + log(exp(0.0f))": 0,
        "sign(-x) + step(1.0f, x) + mix(1.0f, 3.0f, 0.5f)": 2,
        "select(1.0f, 2.0f, x > 1.0f)": 2,
        "as_float(as_uint(x))": 2,
        "as_int(1.0f)": 0x3F800000,
        "convert_int(2.9f)": 2,
        "convert_float((half)x)": 2,
        "(float)((uchar)257 + (ushort)1 + (ulong)1)": 3,
        "M_PI > 3.14 && isnan(NAN) && INFINITY > FLT_MAX": 1,
        "__OPENCL_VERSION__": 120,
        "exp10(x)": 100,
    }
    body = "".join(f"  out[{number}] = {line};\n" for number, line in enumerate(lines))
    out = floats([-1] * len(lines))
    run_one(f"__kernel void f(__global float* out, float x) {{\n{body}}}", pointer(out), value(ctypes.c_float(2)))
    assert dict(zip(lines, read_as("f", out, len(lines)), strict=True)) == lines


def test_half_and_atomics() -> None:
    source = """
    __kernel void f(__global half* h, __global int* n, __global uint* u) {
      vstore_half(vload_half(0, h) * 3, 1, h);
      h[2] = h[0] + h[1];
      atomic_add(n, 5); atomic_inc(n); atomic_dec(n); atomic_sub(n, 1);
      atomic_max(n, 100); atomic_min(n, 50);
      n[1] = atomic_xchg(n, 7); n[2] = atomic_cmpxchg(n, 7, 8); n[3] = atomic_cmpxchg(n, 7, 9);
      atomic_add(u, 1);
    }"""
    h, n = driver.malloc(6), driver.malloc(20)
    driver.write(h, bytes([0, 0x3E, 0, 0, 0, 0]))
    driver.write(n, bytes(20))
    run_one(source, pointer(h), pointer(n), pointer(n + 16))
    assert driver.read(h, 6) == bytes([0, 0x3E, 0x80, 0x44, 0, 0x46])  # 1.5, 4.5, 6
    assert read_as("i", n, 5) == [8, 50, 7, 8, 1]


def test_values_are_copied_at_the_launch() -> None:
    class Pair(ctypes.Structure):
        _fields_ = [("a", ctypes.c_char), ("b", ctypes.c_double)]

    source = """typedef struct { char a; double b; } pair;
    __kernel void f(pair p, __global double* out) { out[0] = p.a + p.b; }"""
    out = driver.malloc(8)
    handle = driver.function(driver.module_load(source), "f")
    pair = Pair(b"\2", 0.5)
    driver.sleep(0.05)
    launch_function(handle, (1,), (1,), value(pair), pointer(out))
    pair.b = 100
    driver.synchronize()
    assert read_as("d", out, 1) == [2.5]


def test_options_and_several_modules_of_one_source() -> None:
    source = "__kernel void f(__global int* out) { out[0] = TILE; }"
    out = driver.malloc(4)
    for options in ("-DTILE=16 -cl-fast-relaxed-math", " -D TILE=17 -cl-std=CL1.2 ", "-DTILE=1 -UTILE -DTILE=18"):
        run_one(source, pointer(out), options=options)
        assert read_as("i", out, 1) == [int(re.findall("TILE=([0-9]+)", options)[-1])]
    for option in ("-o", "-fplugin=x.so"):
        refused(
            Error.INVALID_VALUE,
            f"orModuleLoad: option '{option}' is unknown; valid are -D, -U and those that begin with -cl-",
            driver.module_load,
            source,
            option,
        )


def test_a_source_that_does_not_compile_gives_the_whole_log() -> None:
    source = "".join(f"int f{n}(int a) {{ return a + unknown_{n}; }}\n" for n in range(40))
    with pytest.raises(DriverError) as caught:
        driver.module_load(source + "__kernel void f(int a) {}")
    assert caught.value.error == Error.COMPILATION
    assert caught.value.detail.startswith("orModuleLoad: kernel.cl: In function")
    assert len(caught.value.detail) > 4000
    for number in range(40):
        assert f"kernel.cl:{number + 1}:" in caught.value.detail
        assert f"'unknown_{number}' was not declared" in caught.value.detail
    assert lib.orGetLastError() == Error.COMPILATION
    assert lib.orSetDevice(99) == Error.INVALID_DEVICE  # a shorter text follows a longer one
    assert driver.detail() == f"orSetDevice: device 99 does not exist; valid are 0 to {driver.device_count() - 1}"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("#error no such device\n__kernel void f(int a) {}", "kernel.cl:1:2: error: #error no such device"),
        ("__kernel void f(int a) { g(a); }", "'g' was not declared in this scope"),
        ("void g(int); __kernel void f(int a) { g(a); }", "g"),
        ("int f(int a) { return a; }", "the source has no kernel: no function is __kernel"),
        ("", "the source has no kernel: no function is __kernel"),
        ("__kernel void f(int a) {", "expected '}'"),
        ("__kernel void f(int a) {\n  local int t[4]; g(a); }", r":2:19: error: 'g' was not declared"),
        ("__kernel void f(int a) {\n  __local int t[4]; g(a); }", r":2:21: error: 'g' was not declared"),
        ("__kernel void f(__global int* a) { __local float* p; *p = a; }", "invalid conversion|cannot convert"),
    ],
)
def test_what_does_not_compile(source: str, text: str) -> None:
    with pytest.raises(DriverError, match=text) as caught:
        driver.module_load(source)
    assert caught.value.error == Error.COMPILATION


def test_the_binary_of_a_module(module: int) -> None:
    binary = driver.module_binary(module)
    again = driver.module_load(binary, form=Format.BINARY)
    assert driver.module_binary(again) == binary
    a, out = floats([1, 2]), floats([0, 0])
    arguments = (pointer(a), pointer(a), pointer(out), value(ctypes.c_int(2)))
    launch_function(driver.function(again, "mul"), (1,), (2,), *arguments)
    assert read_as("f", out, 2) == [1, 4]
    size = ctypes.c_size_t(10)
    assert lib.orModuleGetBinary(ctypes.create_string_buffer(10), ctypes.byref(size), again) == Error.OUT_OF_RANGE
    assert driver.detail() == (f"orModuleGetBinary: the binary has {len(binary)} bytes, and the image has room for 10")
    assert size.value == len(binary)
    assert lib.orModuleGetBinary(None, None, again) == Error.INVALID_VALUE
    assert driver.detail() == "orModuleGetBinary: bytes is null"


def test_foreign_old_and_damaged_binaries_are_refused(module: int) -> None:
    binary = driver.module_binary(module)
    machine = int.from_bytes(binary[20:24], "little")
    cases = {
        b"\x7fELF" + bytes(100): "the binary is not from orModuleGetBinary of this driver",
        b"short": "5 bytes are too few for the binary of a module",
        binary[:16] + b"\x63\0\0\0" + binary[20:]: (
            f"the binary is of version 99 for machine {machine}, and this driver loads version 1 for machine "
            f"{machine}; load the source again"
        ),
        binary[:40] + bytes(8) + binary[48:]: (
            "the binary was compiled with another device_language.h than that of this driver; load the source again"
        ),
        binary[:-1]: (
            f"the binary is damaged: of its {len(binary) - 48} bytes {len(binary) - 49} are there, or some have changed"
        ),
        binary[:-1] + b"x": (
            f"the binary is damaged: of its {len(binary) - 48} bytes {len(binary) - 48} are there, or some have changed"
        ),
    }
    for image, text in cases.items():
        refused(Error.COMPILATION, f"orModuleLoad: {text}", driver.module_load, image, None, Format.BINARY)
    refused(
        Error.NOT_SUPPORTED,
        "orModuleLoad: format 7; this driver takes orModuleSource and orModuleBinary",
        driver.module_load,
        b"x",
        None,
        7,
    )


def test_names_and_handles(module: int) -> None:
    refused(
        Error.INVALID_VALUE,
        "orModuleGetFunction: the module has no function 'sub'; valid are 'add', 'mul', 'attributed', 'total', "
        "'diverge'",
        driver.function,
        module,
        "sub",
    )
    function = driver.function(module, "add")
    assert lib.orModuleUnload(function) == Error.INVALID_HANDLE
    assert driver.detail() == f"orModuleUnload: {function:#x} is not a module, or its module was unloaded"
    other = driver.module_load("__kernel void f(int a) {}")
    of_other = driver.function(other, "f")
    driver.check(lib.orModuleUnload(other))
    for call in (
        lib.orModuleUnload,
        lambda handle: lib.orModuleGetBinary(None, ctypes.byref(ctypes.c_size_t()), handle),
    ):
        assert call(other) == Error.INVALID_HANDLE
    for handle in (0, module, of_other):
        refused(
            Error.INVALID_HANDLE,
            f"orLaunchFunction: {hex(handle) if handle else '(nil)'} is not a function, or its module was unloaded",
            launch_function,
            handle,
            (1,),
            (1,),
        )
    driver.function(module, "add")  # the other modules stay loaded


def bad_launches(module: int) -> dict[str, tuple[Error, str, list[driver.Argument], tuple[int, ...], tuple[int, ...]]]:
    a = driver.malloc(64)
    freed = driver.malloc(512)
    driver.free(freed)
    number = value(ctypes.c_int(1))
    good = [pointer(a), pointer(a), pointer(a), number]
    host = ctypes.create_string_buffer(8)
    bad = Error.INVALID_VALUE
    return {
        "'add' takes 4 arguments, given 3": (bad, "add", good[:3], (1,), (1,)),
        "argument 3 of 'add' has 4 bytes, given 8": (bad, "add", [*good[:3], value(ctypes.c_long(1))], (1,), (1,)),
        "argument 3 of 'add' is a value, given a pointer": (bad, "add", [*good[:3], pointer(a)], (1,), (1,)),
        "argument 0 of 'add' is a pointer, given a value": (bad, "add", [number, *good[1:]], (1,), (1,)),
        "argument 0 of 'add' is a pointer, given local memory": (bad, "add", [local(8), *good[1:]], (1,), (1,)),
        "argument 2 of 'total' is local memory, given a pointer": (bad, "total", good[:3], (1,), (1,)),
        "argument 2 of 'total' is local memory of 0 bytes": (bad, "total", [*good[:2], local(0)], (1,), (1,)),
        "the value of argument 3 of 'add' is null": (
            bad, "add", [*good[:3], driver.Argument(1, 4, None)], (1,), (1,),
        ),
        "argument 3 of 'add' has kind 5, which does not exist; valid are 0 to 2": (
            bad, "add", [*good[:3], driver.Argument(5, 4, None)], (1,), (1,),
        ),
        "'total' has more local memory than the 65536 bytes of a group: its own 32, and arguments": (
            bad, "total", [*good[:2], local(65505)], (1,), (1,),
        ),
        "groups are (2, 0, 1) and group_size is (1, 1, 1); each is at least 1, also where it is not used": (
            bad, "add", good, (2, 0), (1,),
        ),
        "a group of (64, 17, 1) work-items is too large; at most 1024 work-items are one": (
            bad, "add", good, (1,), (64, 17),
        ),
        "a group of (65536, 65536, 1) work-items is too large; at most 1024 work-items are one": (
            bad, "add", good, (1,), (65536, 65536),
        ),
        f"argument 1 of 'add', {ctypes.addressof(host):#x}, is not device memory": (
            Error.INVALID_POINTER, "add", [good[0], pointer(ctypes.addressof(host)), *good[2:]], (1,), (1,),
        ),
        "openreg:0 + 0x200 is not allocated, or no longer": (
            Error.FREED_POINTER, "add", [good[0], pointer(freed), *good[2:]], (1,), (1,),
        ),
    }  # fmt: skip


def test_launches_are_checked_before_anything_runs(module: int) -> None:
    for text, (error, name, arguments, groups, size) in bad_launches(module).items():
        handle = driver.function(module, name)
        refused(error, f"orLaunchFunction: {text}", lambda: launch_function(handle, groups, size, *arguments))  # noqa: B023
    handle = driver.function(module, "add")
    assert lib.orLaunchFunction(handle, None, None, 4, None) == Error.INVALID_VALUE
    assert driver.detail() == "orLaunchFunction: config is null"
    config = driver.LaunchConfig((1, 1, 1), (1, 1, 1))
    assert lib.orLaunchFunction(handle, ctypes.byref(config), None, 4, None) == Error.INVALID_VALUE
    assert driver.detail() == "orLaunchFunction: arguments is null"
    driver.synchronize()


def test_the_largest_local_memory_and_group() -> None:
    source = """__kernel void f(__global int* out, __local char* extra) {
      __local int sum;
      if (get_local_id(0) == 0) sum = 0;
      barrier(CLK_LOCAL_MEM_FENCE);
      sum += get_local_id(0); extra[65531] = 1;
      barrier(CLK_LOCAL_MEM_FENCE);
      if (get_local_id(0) == 0) out[0] = sum;
    }"""
    out = driver.malloc(4)
    handle = driver.function(driver.module_load(source), "f")
    launch_function(handle, (1,), (1024,), pointer(out), local(65532))
    assert read_as("i", out, 1) == [1023 * 512]


def test_items_of_a_group_without_memory_do_not_go_on_later(run_driver: RunDriver) -> None:
    code = """
    import resource
    source = '''
    __kernel void first(__global int* out) { int l = get_local_id(0); barrier(1); out[l] = 1; }
    __kernel void second(__global int* out) { int l = get_local_id(0); barrier(1); out[l + 1024] = 2; }
    '''
    module = driver.module_load(source)
    out = driver.malloc(8192)
    pages = int(open("/proc/self/statm").read().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (20 << 20), before[1]))
    try:
        driver.launch_function(driver.function(module, "first"), (1,), (1024,), driver.pointer(out))
        driver.synchronize()
    except driver.DriverError as error:
        print(error)
    resource.setrlimit(resource.RLIMIT_AS, before)
    driver.check(driver.lib.orDeviceReset())
    out = driver.malloc(8192)
    driver.write(out, bytes(8192))
    driver.launch_function(driver.function(module, "second"), (1,), (8,), driver.pointer(out))
    print(sum(driver.read(out, 4096)), sum(driver.read(out + 4096, 4096)))
    """
    ran = run_driver(code, OPENREG_LAUNCH="inline", OPENREG_DEVICE_MEMORY="32M")
    assert "the host has no memory for a group of 1024 work-items" in ran.stdout, ran.stderr
    assert ran.stdout.splitlines()[-1] == "0 16"


@pytest.mark.parametrize("floats", [65_500, 90_000])
def test_an_array_larger_than_the_stack_of_an_item_ends_the_process(run_driver: RunDriver, floats: int) -> None:
    code = f"""
    source = '''
    static __attribute__((noinline)) int deeper(int l) {{
      float a[{floats}];
      for (int i = 0; i < 64; ++i) ((volatile float*)a)[i] = l;
      return ((volatile float*)a)[3];
    }}
    __kernel void f(__global int* out) {{
      int l = get_local_id(0);
      volatile int mine[1024];
      for (int i = 0; i < 1024; ++i) mine[i] = l;
      barrier(1);
      if (l == 0) out[0] = deeper(l);
      barrier(1);
      for (int i = 0; i < 1024; ++i) if (mine[i] != l) out[1] = 1;
    }}
    '''
    out = driver.malloc(8)
    driver.launch_function(driver.function(driver.module_load(source), "f"), (1,), (8,), driver.pointer(out))
    driver.synchronize()
    """
    assert run_driver(code).returncode == -signal.SIGSEGV


@pytest.mark.parametrize("expression", ["n / (n - 7)", "n % (n - 7)", "(-2147483647 - 1) / (6 - n)"])
def test_a_division_by_zero_ends_the_process_with_a_reason(run_driver: RunDriver, expression: str) -> None:
    code = f"""
    source = "__kernel void f(__global int* out, int n) {{ out[0] = {expression}; }}"
    out = driver.malloc(4)
    arguments = driver.pointer(out), driver.value(ctypes.c_int(7))
    driver.launch_function(driver.function(driver.module_load(source), "f"), (1,), (1,), *arguments)
    driver.synchronize()
    """
    ran = run_driver(code)
    assert ran.returncode == -signal.SIGFPE
    assert (
        "openreg: a kernel divided an integer by zero, or the smallest integer by -1. Check its divisors." in ran.stderr
    )


def test_absolute_values_are_unsigned() -> None:
    source = """__kernel void f(__global ulong* out, int smallest, uint large, long number) {
      out[0] = abs(smallest); out[1] = abs(large); out[2] = abs(number); out[3] = abs((char)-128);
    }"""
    out = driver.malloc(32)
    numbers = [value(ctypes.c_int(-(2**31))), value(ctypes.c_uint(2**32 - 1)), value(ctypes.c_long(-(2**63)))]
    run_one(source, pointer(out), *numbers)
    assert read_as("L", out, 4) == [2**31, 2**32 - 1, 2**63, 128]


def test_a_barrier_that_some_do_not_reach_is_a_failure(module: int) -> None:
    out = driver.malloc(4)
    text = (
        "kernel 'diverge' failed on openreg:0: 5 of 8 work-items of group (0, 0, 0) wait at a barrier, and the others "
        "have ended without it; the device runs nothing more until orDeviceReset"
    )
    launch_function(driver.function(module, "diverge"), (2,), (8,), pointer(out))
    refused(Error.LAUNCH_FAILURE, f"orDeviceSynchronize: {text}", driver.synchronize)
    driver.check(lib.orDeviceReset())
    test_barriers_and_local_memory(module)  # the abandoned fibers start afresh
    late = """__kernel void late(__global int* out) {
      for (int i = 0; i < 3 + (get_local_id(0) == 2); ++i) barrier(CLK_LOCAL_MEM_FENCE);
    }"""
    loaded = driver.module_load(late)
    launch_function(driver.function(loaded, "late"), (1,), (4,), pointer(driver.malloc(4)))
    with pytest.raises(DriverError, match=r"kernel 'late' failed .* 1 of 4 work-items of group \(0, 0, 0\) wait"):
        driver.synchronize()


@pytest.mark.parametrize("mode", ["auto", "async", "inline"])
def test_launch_modes(run_driver: RunDriver, mode: str) -> None:
    ran = run_driver(
        """
        from tests.driver.openreg import launch_function, pointer
        module = driver.module_load("__kernel void f(__global int* a) { a[0] += 1; }"
                                    "__kernel void bad(__global int* a) { if (get_local_id(0) > 0) barrier(0); }")
        a = driver.malloc(4)
        threads = len(os.listdir("/proc/self/task"))
        driver.write(a, bytes(4))
        launch_function(driver.function(module, "f"), (1,), (1,), pointer(a))
        print(len(os.listdir("/proc/self/task")) - threads)
        launch_function(driver.function(module, "f"), (1 << 16,), (1,), pointer(a))
        print(int.from_bytes(driver.read(a, 4), "little"))
        try:
            launch_function(driver.function(module, "bad"), (1,), (2,), pointer(a))
            print("launched")
            driver.synchronize()
        except driver.DriverError as error:
            print(error.error.name, error.detail.split(":")[0])
        """,
        OPENREG_LAUNCH=mode,
    )
    workers = {"auto": 0, "async": 1, "inline": 0}[mode]
    failure = ["LAUNCH_FAILURE orLaunchFunction"]
    if mode != "inline":
        failure = ["launched", "LAUNCH_FAILURE orDeviceSynchronize"]
    assert ran.stdout.splitlines() == [str(workers), "65537", *failure]


def test_injected_faults_name_the_function(module: int) -> None:
    a = driver.malloc(64)
    arguments = (pointer(a), pointer(a), pointer(a), value(ctypes.c_int(1)))
    driver.check(lib.orInjectFault(Fault.KERNEL, 0, 1))
    launch_function(driver.function(module, "add"), (1,), (1,), *arguments)
    with pytest.raises(DriverError, match="kernel 'add' failed on openreg:0: injected fault"):
        driver.synchronize()
    assert lib.orModuleUnload(module) == Error.LAUNCH_FAILURE  # and stays loaded
    driver.check(lib.orDeviceReset())
    driver.check(lib.orInjectFault(Fault.HANG, 0, 1))
    a = driver.malloc(64)
    launch_function(driver.function(module, "add"), (1,), (1,), pointer(a), pointer(a), pointer(a), arguments[3])
    assert lib.orStreamQuery(None) == Error.NOT_READY
    driver.check(lib.orDeviceReset())


def test_unloading_waits_for_what_is_queued() -> None:
    loaded = driver.module_load("__kernel void f(__global int* a) { a[0] = 5; }")
    stream, a = driver.stream_create(), driver.malloc(4)
    handle = driver.function(loaded, "f")
    driver.sleep(0.05, stream)
    launch_function(handle, (1,), (1,), pointer(a), stream=stream)
    driver.check(lib.orModuleUnload(loaded))
    assert read_as("i", a, 1) == [5]


@pytest.mark.needs("two devices")
def test_devices(module: int) -> None:
    driver.set_device(1)
    there = driver.malloc(64)
    of_there = driver.stream_create()
    number = value(ctypes.c_int(1))
    # The module was loaded while device 0 was current, so it runs there, by default on that device's default stream.
    driver.set_device(0)
    here = driver.malloc(64)
    add = driver.function(module, "add")
    arguments = (pointer(here), pointer(here), pointer(there), number)
    refused(
        Error.INVALID_VALUE,
        "orLaunchFunction: the module of 'add' belongs to openreg:0 and the stream to openreg:1",
        lambda: launch_function(add, (1,), (1,), *arguments, stream=of_there),
    )
    text = (
        "orLaunchFunction: argument 2 of 'add' lies on openreg:1, and the function runs on openreg:0; call "
        "orDeviceEnablePeerAccess(1) with openreg:0 current, or copy the memory"
    )
    refused(Error.INVALID_POINTER, text, lambda: launch_function(add, (1,), (1,), *arguments))
    for _ in range(2):  # twice is no error
        driver.check(lib.orDeviceEnablePeerAccess(1))
    driver.set_device(1)
    driver.write(here, array.array("f", [4]).tobytes())
    launch_function(add, (1,), (1,), *arguments)  # on the module's device, whichever is current
    driver.set_device(0)
    driver.synchronize()
    assert read_as("f", there, 1) == [8]
    for _ in range(2):
        driver.check(lib.orDeviceDisablePeerAccess(1))
    refused(Error.INVALID_POINTER, text, lambda: launch_function(add, (1,), (1,), *arguments))
    driver.check(lib.orDeviceEnablePeerAccess(1))
    driver.check(lib.orDeviceReset())
    here = driver.malloc(64)
    refused(
        Error.INVALID_POINTER,
        text,
        lambda: launch_function(add, (1,), (1,), pointer(here), pointer(here), pointer(there), number),
    )


def test_modules_live_on_after_a_reset(module: int) -> None:
    add = driver.function(module, "add")
    driver.check(lib.orDeviceReset())
    a = floats([1])
    launch_function(add, (1,), (1,), pointer(a), pointer(a), pointer(a), value(ctypes.c_int(1)))
    assert read_as("f", a, 1) == [2]


def test_many_threads_load_and_launch() -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            driver.set_device(number % driver.device_count())
            a, stream = driver.malloc(4), driver.stream_create()
            loaded = driver.module_load(
                f"__kernel void f(__global int* a) {{ __local int n; n = {number}; barrier(0); a[0] = n; }}"
            )
            for _ in range(50):
                launch_function(driver.function(loaded, "f"), (4,), (16,), pointer(a), stream=stream)
            driver.synchronize(stream)
            assert read_as("i", a, 1) == [number]
            driver.check(lib.orModuleUnload(loaded))
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_no_compiler(run_driver: RunDriver, tmp_path: Path) -> None:
    code = """
        try:
            driver.module_load("__kernel void f(int a) {}")
        except driver.DriverError as error:
            print(error)
        """
    ran = run_driver(code, OPENREG_CXX="/no/such/compiler", TMPDIR=str(tmp_path))
    assert ran.stdout == (
        "NOT_SUPPORTED: orModuleLoad: the simulated device compiles with the host's C++ compiler, and "
        "'/no/such/compiler' cannot be run (No such file or directory); install g++ or clang++, or set OPENREG_CXX to "
        "one\n"
    )
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexit 3\n")
    silent.chmod(silent.stat().st_mode | stat.S_IXUSR)
    ran = run_driver(code, OPENREG_CXX=str(silent), TMPDIR=str(tmp_path))
    assert ran.stdout == "COMPILATION: orModuleLoad: the compiler failed without a message\n"
    ran = run_driver(code, TMPDIR=str(tmp_path / "missing"))
    assert ran.stdout == (
        f"NOT_SUPPORTED: orModuleLoad: no folder can be made in {tmp_path}/missing (No such file or directory); "
        "set TMPDIR to a folder for temporary files\n"
    )
    assert os.listdir(tmp_path) == ["silent"]  # nothing is left over


def test_a_forked_child_is_refused_and_its_parent_goes_on(run_driver: RunDriver) -> None:
    ran = run_driver(
        """
        from tests.driver.openreg import launch_function, pointer
        module = driver.module_load("__kernel void f(__global int* a) { a[0] = 3; }")
        f, a = driver.function(module, "f"), driver.malloc(4)
        child = os.fork()
        if child == 0:
            for call in (lambda: driver.module_load("x"), lambda: launch_function(f, (1,), (1,), pointer(a)),
                         lambda: driver.check(driver.lib.orModuleUnload(module))):
                try:
                    call()
                except driver.DriverError as error:
                    print(error.error.name)
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        launch_function(f, (1,), (1,), pointer(a))
        print(driver.read(a, 4)[0])
        driver.sleep(60)
        launch_function(f, (1,), (1,), pointer(a))  # dropped when the process ends
        """
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == ["FORKED", "FORKED", "FORKED", "3"]


def test_wrong_addresses_are_explained(run_driver: RunDriver) -> None:
    code = """
        from tests.driver.openreg import launch_function, pointer, value
        module = driver.module_load("__kernel void f(__global int* a, long b) { SOURCE; }")
        a = driver.malloc(64)
        launch_function(driver.function(module, "f"), (1,), (1,), pointer(a), value(ctypes.c_long(a)))
        driver.synchronize()
        """
    ran = run_driver(code.replace("SOURCE", "a[b - b + (1 << 28)] = 1"))
    assert ran.returncode == -signal.SIGSEGV
    assert re.fullmatch(
        r"openreg: a kernel accessed memory that is not allocated at openreg:0 \+ 0x40000000 \(address 0x[0-9a-f]+\)\. "
        r"Check its indices\.\n",
        ran.stderr,
    )
    ran = run_driver(code.replace("SOURCE", "((int*)b)[1] = 1"))
    assert ran.returncode == -signal.SIGSEGV
    assert re.fullmatch(
        r"openreg: host code accessed device memory at openreg:0 \+ 0x4 \(address 0x[0-9a-f]+\)\. A kernel finds the "
        r"bytes at another address: pass it the pointer as an orArgumentPointer, or use orGetHostAlias\.\n",
        ran.stderr,
    )


def test_a_made_up_function_of_a_module() -> None:
    loaded = driver.module_load("__kernel void f(__global int* a) { a[0] = 1; }")
    function = driver.function(loaded, "f")
    attributes = driver.FunctionAttributes()
    for index in (1, 1000, 0xFFFFF):  # bits 8 to 27 of a handle
        made_up = function | (index << 8)
        text = f"orFunctionGetAttributes: {made_up:#x} is not a function, or its module was unloaded"
        assert lib.orFunctionGetAttributes(ctypes.byref(attributes), made_up) == Error.INVALID_HANDLE
        assert driver.detail() == text
    driver.check(lib.orModuleUnload(loaded))


def test_an_impossible_size_of_a_module() -> None:
    loaded = ctypes.c_void_p()
    assert lib.orModuleLoad(ctypes.byref(loaded), Format.SOURCE, b"x", 2**63, None) == Error.INVALID_VALUE
    assert driver.detail().startswith("orModuleLoad: ")


def test_pown_of_large_odd_numbers() -> None:
    out = floats([0] * 3)
    source = "__kernel void f(__global float* o) { o[0] = pown(-1.0f, 16777217); o[1] = pown(-1.0f, 2147483647); "
    run_one(source + "o[2] = pown(-2.0f, 3); }", pointer(out))
    assert read_as("f", out, 3) == [-1, -1, -8]
