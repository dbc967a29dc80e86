"""Which files of this repository a choice of chapters includes."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import maps
from environment import Fault
from vendor.states import Early, States
from weaver.configuration import load
from weaver.sources.closure import Sources
from weaver.sources.regions import without_region

# PyTorch requires all of this of any device, so every choice includes it, with the operators that its tests launch.
BASE = (
    "autoload", "block_pool", "build", "copies", "debugging", "device", "distributed", "distributed_callbacks",
    "distributed_direct", "distributed_failures", "driver", "driver_copies", "driver_kernels", "driver_memory",
    "driver_modules", "driver_process", "driver_sharing", "driver_streams", "errors", "event", "fallback",
    "frontend", "generator", "graph", "guard", "hooks", "host_memory", "interop", "layouts", "matrix_products",
    "memory", "memory_history", "operators", "profiler", "random", "random_bits", "registration", "serialization",
    "storage", "stream", "structured", "stubs", "versions",
)  # fmt: skip
# Whole networks, captured or compiled: convolutions, norms, attention, optimizers, autocast, and nothing falls back.
_OF_NETWORKS = (
    "tests/compile/test_replay.py", "tests/compile/test_training.py", "tests/compile/test_values.py",
    "tests/graph/test_callables.py", "tests/graph/test_values.py",
)  # fmt: skip
# FSDP with its parameters on the host, and batches over all ranks.
_OF_RANKS = "tests/distributed/test_training.py"
# By chapter, the tests of its operators. A test that several chapters name needs all of them, and any other the base.
TESTS = {
    "amp": ("test_autocast.py", "test_grad_scaler.py", *_OF_NETWORKS),
    "attention": ("test_attention.py", "test_transformer.py", "tests/distributed/test_attention.py", *_OF_NETWORKS),
    "autograd": ("test_autograd.py", _OF_RANKS),
    "custom_operators": ("test_autograd.py", "test_custom_operators.py", "test_stable_abi.py"),
    "nn_contracts": (
        "test_autocast.py", "test_autograd.py", "test_convolution.py", "test_recurrent.py", "test_transformer.py",
        *_OF_NETWORKS,
    ),
    "normalization": ("test_jagged.py", "test_norms.py", "test_sync_batch_norm.py", *_OF_NETWORKS, _OF_RANKS),
    "optimizers": ("test_foreach.py", "test_fused_optimizers.py", *_OF_NETWORKS),
    "unsplit": (
        "test_ctc_loss.py", "test_embedding_bag.py", "test_grid_sampler.py", "test_jagged.py", "test_losses.py",
        "test_unsplit.py",
        *_OF_NETWORKS,
    ),
}  # fmt: skip
# Whole models, and all operators.
_TESTS_OF_ALL = (
    "tests/compile/test_opinfo.py", "tests/compile/test_predictions.py", "tests/graph/test_operators.py",
    "tests/models/", "tests/opinfo/",
)  # fmt: skip
_CMAKE = "csrc/CMakeLists.txt"
# Drivers that a vendor's own replaces, and tests in a separate folder: the chapter to which each belongs.
_FOLDERS = {
    "csrc/driver/minimal/": "driver_conformance",
    "csrc/driver/opencl/": "real_runtime",
    "tests/compile/": "compile",
    "tests/driver_conformance/": "driver_conformance",
    "tests/driver_opencl/": "real_runtime",
    "tests/libraries/": "libraries",
    "tests/native/": "native_kernels",
    "tests/serving/": "serving",
}
# Separate libraries: a source of each, and the region of the CMake file that builds it.
_LIBRARIES = {"csrc/stable/rms_norm.cpp": "build-stable", "csrc/native/module_cache.cpp": "build-native"}


class Choice:
    """The files that some chapters or a state need, and those that they do not."""

    def __init__(
        self,
        root: Path,
        wanted: Collection[str] | None = None,
        state: int | None = None,
        sources: Sources | None = None,
    ) -> None:
        """``wanted`` names chapters besides those of the base; None means all. ``state`` replaces ``wanted``.

        ``sources`` are those of ``root``, if they are already read.

        Raises:
            Fault: names the existing chapters or states, if one that is given does not exist.
        """
        sources = sources or Sources(load(root))
        every = sorted(sources.chapters)
        # For a state without kernels, which has less than the base.
        self._early: Early | None = None
        if state is not None:
            states = States(root)
            wanted = states.chapters(state)
            self._early = None if states[state].kernels else states.early(state)
        unknown = sorted(set(wanted or ()) - set(every))
        if unknown:
            raise Fault(f"there is no chapter {', '.join(unknown)}; those with sources are {', '.join(every)}")
        if self._early is not None:
            self.chapters, self.taken = sorted(wanted or ()), self._early.taken
        else:
            self.chapters = sorted({*BASE, *wanted} if wanted is not None else every)
            # At an earlier commit, a chapter of the base may not have been there.
            shown = (path for chapter in self.chapters for path in sources.chapters.get(chapter, ()))
            self.taken = sources.closure(shown)
        self._whole = self.chapters == every
        self.missing = sorted(set(every) - set(self.chapters))
        self._owned = {path for chapter in every for path in sources.chapters[chapter]}
        self.left_out = self._owned - self.taken

    def has(self, path: str) -> bool:
        """Whether a file of the repository is included."""
        if self._early is not None and path.startswith("tests/"):
            return self._early.has_test(path) and not self._needs_others(path)
        if path in self.left_out or (path.startswith(_TESTS_OF_ALL) and not self._whole):
            return False
        if path.startswith("csrc/") and (path.endswith("/") or Path(path).name == maps.MAP):
            below = path.removesuffix(maps.MAP)  # a folder, or its map
            return any(source.startswith(below) for source in self._owned - self.left_out)
        if any(path.startswith(folder) and chapter not in self.chapters for folder, chapter in _FOLDERS.items()):
            return False
        return not self._needs_others(path)

    def _needs_others(self, path: str) -> bool:
        """Whether a file is a test of operators that are excluded."""
        test = path.removeprefix("tests/aten/").removeprefix("tests/kernels/")
        return any(test in tests for chapter, tests in TESTS.items() if chapter not in self.chapters)

    def cut(self, path: str, text: str) -> str:
        """The text of a file without the parts that name an excluded source."""
        if Path(path).name == maps.MAP and path.startswith("csrc/"):
            return maps.without(text, str(Path(path).parent), self.has)
        for region in [region for source, region in _LIBRARIES.items() if path == _CMAKE and source in self.left_out]:
            text = without_region(text, region)
        return text if self._early is None else self._early.cut(path, text, self.has)
