# A thin layer: tools/dev.py prepares the environment (the active one, or .venv), builds what is out of date and runs.
# PYTHON names the interpreter that creates .venv; an active environment has its own. ARGS is passed to the program behind
# a target: make test ARGS="-k stream". DRIVER names the folder of another driver, HOST_KERNELS=OFF leaves out the kernels
# that run as host code. Both apply to one command only; the next one without them uses the defaults in CMakeLists.txt.

PYTHON ?= python3
ARGS ?=
# Not ?=, because a machine may have these in its environment: WSL has NAME, conda PREFIX.
NAME =
DEST =
PREFIX =
LIBRARY =
CHAPTERS =
STATE =
GIT =
TORCH =
# Not ?=, because an environment variable would choose the driver for more than one command.
DRIVER =
HOST_KERNELS =
# One word of the shell, even if the value contains an apostrophe.
quoted = '$(subst ','\'',$(1))'
dev = $(PYTHON) tools/dev.py --driver $(call quoted,$(DRIVER)) --host-kernels $(call quoted,$(HOST_KERNELS))

.DEFAULT_GOAL := help
.NOTPARALLEL:
.SILENT:
.PHONY: help html epub pdf doctest proof mutate livehtml browser torch build test conformance opinfo models libraries stubs surface check lock stress sanitize fuzz bench instructions vendor chapters states cross next clean python

help:
	echo 'make html      weave the pages into docs/build/html'
	echo 'make epub      weave the pages into one EPUB, in docs/build/epub'
	echo 'make pdf       print all pages into one PDF, in docs/build/pdf (needs chromium)'
	echo 'make test      run the tests'
	echo 'make doctest   execute every snippet of the pages'
	echo 'make proof     measure which displayed lines the examples execute (needs clang)'
	echo 'make mutate    plant small faults in the displayed lines: how many do the examples notice?'
	echo 'make livehtml  serve the pages at http://127.0.0.1:8000, rebuild when a source changes'
	echo 'make browser   open the pages in Chromium: widths, console, accessibility (needs chromium)'
	echo 'make torch     install PyTorch alone: the moment to name another index by PIP_INDEX_URL'
	echo 'make build     build the extension and install it for development'
	echo 'make conformance  ask of the device what PyTorch requires of any, and write a report'
	echo 'make opinfo    run PyTorch'"'"'s operator database on the device, all of it'
	echo 'make models    train models on the CPU and on the device, and write the table that compares them'
	echo 'make libraries run programs of users'"'"' libraries on the device, and write the table that compares them with the CPU'
	echo 'make stubs     ask PyTorch which of its operators read which stubs, on the CPU and on the device'
	echo 'make surface   write down what of PyTorch the backend stands on: a new release shows its changes as a diff'
	echo 'make check     static checks: style, types, every source compiled alone, layers, weaver'
	echo 'make stress    the driver and the pool of blocks under the sanitizers, the whole backend with many threads'
	echo 'make sanitize  the tests on a build with the address and undefined-behavior sanitizers'
	echo 'make fuzz      random programs on the CPU and on the device, until they differ: ARGS="--seconds 600 --seed 1"'
	echo 'make bench     run the benchmarks'
	echo 'make instructions  count the instructions of small calls: which need more than was accepted? (needs valgrind)'
	echo 'make vendor    write a repository for a backend of another name: NAME=acme DEST=../torch_acme [PREFIX=am] [LIBRARY=acme_rt] [STATE=n or CHAPTERS="..."]'
	echo 'make chapters  try what make vendor writes: all chapters together, and alone those that have changed'
	echo 'make states    try the states of make vendor STATE=n: what they build, and what works by then'
	echo 'make cross     compile for aarch64, and run what needs no Python on an emulated processor'
	echo 'make next      how far the backend gets with another release of PyTorch: TORCH=2.14.1'
	echo 'make lock      renew the lock on what the pages show of PyTorch itself'
	echo 'make clean     remove all that was built (.venv stays)'
	echo 'With another driver, each of these that runs the installed backend: make test DRIVER=csrc/driver/minimal HOST_KERNELS=OFF'
	echo 'Each works in the active virtual environment, or else in .venv, and installs there what is missing.'

html epub pdf doctest proof mutate livehtml browser torch build test conformance opinfo models libraries stubs surface check lock stress sanitize fuzz bench instructions chapters states cross: python
	$(dev) $@ $(ARGS)

# Otherwise make would find nothing to do for the name of a folder, and say nothing.
FOLDERS = benchmarks cmake csrc docs examples tests tools torch_openreg weaver
.PHONY: $(FOLDERS)
$(FOLDERS):
	echo 'torch_openreg: $@ is a folder and no target; make help lists the targets' >&2
	exit 2

# Works with any Python, so that an old one leads to one line instead of a syntax error.
python:
	command -v $(PYTHON) >/dev/null || { echo 'torch_openreg: Python 3.11 or newer is needed, found no $(PYTHON); name one: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("torch_openreg: Python 3.11 or newer is needed, $(PYTHON) is %d.%d; %s" % (sys.version_info[:2] + ("leave this environment (deactivate), or remove it" if sys.prefix != getattr(sys, "base_prefix", sys.prefix) else "name another: make PYTHON=/path/to/python3",)))'

vendor: python
	$(dev) vendor --name $(call quoted,$(NAME)) --dest $(call quoted,$(DEST)) --prefix $(call quoted,$(PREFIX)) --library $(call quoted,$(LIBRARY)) --chapters $(call quoted,$(CHAPTERS)) --state $(call quoted,$(STATE)) --git $(call quoted,$(GIT))

next: python
	$(dev) next $(call quoted,$(TORCH)) $(ARGS)

clean:
	rm -rf build docs/build .make .mypy_cache .ruff_cache .pytest_cache
	find conformance weaver csrc torch_openreg docs examples tests tools benchmarks cmake -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	echo 'make clean: removed what was built; remove .venv by hand to start from nothing'
