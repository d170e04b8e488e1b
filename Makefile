# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint format docs bench reproduce-small clean

demo: $(VENV)/.installed
	$(BIN)/python examples/demo.py --out demo

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto

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

bench: $(VENV)/.installed
	$(BIN)/pip install --quiet --constraint constraints.txt -e ".[bench]"
	for script in lifting wl layers data gather strongly_regular topology training memory molecules; do $(BIN)/python benchmarks/$$script.py || exit 1; done

# Every experiment of the paper in little, some 9 minutes on two cores; $$CWNET_DATA, if set, has the data.
reproduce-small: $(VENV)/.installed
	$(BIN)/cwnet reproduce all --small --device cpu

# The C++ core is built here too, so a change to it installs anew.
$(VENV)/.installed: pyproject.toml constraints.txt CMakeLists.txt $(wildcard csrc/*)
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt -e ".[chem,pyg,scale,dev]"
	touch $@

clean:
	rm -rf $(VENV) build dist demo site
