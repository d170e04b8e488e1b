# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-lowest test-wheel coverage lint format docs notebooks bench reproduce-small campaign sanitize clean

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py --out demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto

# The same tests on the lowest versions that are allowed; LOWEST_PINS="torch==2.13.0" holds what cannot be had as old.
test-lowest:
	PYTHON=$(PYTHON) tools/test_lowest.sh $(LOWEST_PINS)

# A wheel, installed where there is no compiler.
test-wheel:
	PYTHON=$(PYTHON) tools/test_wheel.sh

# Which lines of the package the tests reach: a table, and pages in build/coverage.
coverage: $(VENV)/.installed
	$(BIN)/pip install --quiet --disable-pip-version-check "coverage>=7.4"
	$(BIN)/coverage run -m pytest -n 0 -p no:cacheprovider tests
	$(BIN)/coverage html -q -d build/coverage
	$(BIN)/coverage report --skip-covered

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror csrc/*.cpp csrc/*.hpp

format: $(VENV)/.installed
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i csrc/*.cpp csrc/*.hpp

# The site of the documentation, in site/. MkDocs comes with what `dev` installs; its theme announces its successor.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The tutorials as notebooks; the site has them as well.
notebooks:
	$(PYTHON) tools/notebooks.py notebooks

bench: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt -e ".[bench]"
	for script in lifting wl layers data gather strongly_regular topology training memory molecules; do $(BIN)/python benchmarks/$$script.py || exit 1; done

# Every experiment of the paper in little, some 9 minutes on two cores; $$CWNET_DATA, if set, has the data.
reproduce-small: $(VENV)/.installed
	$(BIN)/cwnet reproduce all --small --device cpu

# A million hostile inputs, in hours; it goes on where it was stopped. Its counts are written to docs/reliability.md.
campaign: $(VENV)/.installed
	$(BIN)/python -m tests.campaign

# The core under sanitizers, and the tests that reach into it. Their runtimes come first, and libstdc++ with them, as
# Python itself has neither. Leaks are not looked for: Python keeps what it has until it ends.
SANITIZED := tests/hostile/test_graphs.py tests/hostile/test_stores.py tests/lifting tests/wl/test_refine.py \
	tests/nn/test_cpu_kernels.py tests/chem/test_features.py
sanitize: sanitize-address,undefined sanitize-thread

sanitize-%: $(VENV)/.installed
	cmake -S . -B build/$* -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCWNET_SANITIZE=$* -DPython_EXECUTABLE=$(abspath $(BIN))/python
	cmake --build build/$*
	rm -rf build/$*/src && mkdir -p build/$*/src && cp -r src/cwnet build/$*/src/
	cmake --install build/$* --prefix build/$*/src
	PYTHONPATH=$(CURDIR)/build/$*/src OMP_NUM_THREADS=2 \
	LD_PRELOAD="$$(g++ -print-file-name=lib$(if $(filter thread,$*),tsan,asan).so) $$(g++ -print-file-name=libstdc++.so.6)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	TSAN_OPTIONS="suppressions=$(CURDIR)/csrc/thread.supp halt_on_error=1 exitcode=66" \
	$(BIN)/python -m pytest -n 0 -q -p no:cacheprovider $(SANITIZED)

# The C++ core is built here too, so a change to it installs anew.
$(VENV)/.installed: pyproject.toml constraints.txt CMakeLists.txt $(wildcard csrc/*)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt -e ".[chem,pyg,scale,dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist demo site notebooks
