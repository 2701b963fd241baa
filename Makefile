# make            builds bin/metaroced; needs Go only
# make lab        builds and runs the main job between two hosts in namespaces
# make test       runs all tests; as root also those that need the kernel
# make check      everything a change must pass
# make bench      measures how good it is, each figure beside its bar; about 5 minutes
# make generate   rebuilds the committed BPF objects; needs clang 14
# make clean      removes bin/
#
# lab and bench need root: without it they build as you and call sudo to run.
# LAB, BENCH and TESTFLAGS hold flags, for example:
#
#     make lab LAB="--loss 1% --duration 10s"

# sudo's PATH does not have the place that Go's own instructions install to.
GO ?= $(or $(shell command -v go),$(wildcard /usr/local/go/bin/go),go)
LAB ?=
BENCH ?=
TESTFLAGS ?=

# git refuses to tell root about somebody else's clone, and Go then to build.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS 2>/dev/null) -buildvcs=false)

ROOT := $(filter 0,$(shell id -u))
AS_ROOT := $(if $(ROOT),,sudo)

# As root a test that skips for want of privileges is a failure.
TEST_ENVIRONMENT := $(if $(ROOT),METAROCED_REQUIRE_PRIVILEGED=1)

.PHONY: build
build: need-go
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/metaroced ./cmd/metaroced

.PHONY: lab
lab: need-root build
	$(AS_ROOT) bin/metaroced lab $(LAB)

.PHONY: bench
bench: need-root build
	$(AS_ROOT) bin/metaroced bench $(BENCH)

.PHONY: test
test: need-go
	CGO_ENABLED=0 $(TEST_ENVIRONMENT) $(GO) test $(TESTFLAGS) ./...

# Generated objects can be compared where their compiler is; CI always does.
.PHONY: check
check: check-static $(if $(wildcard /usr/bin/clang-14),check-generated) test check-race

.PHONY: check-static
check-static: check-tidy check-format check-vet check-arm64

.PHONY: check-tidy
check-tidy: need-go
	@$(GO) mod tidy -diff || { echo "go.mod is not tidy (run: go mod tidy)"; exit 1; }

.PHONY: check-format
check-format: need-go
	@unformatted=$$($(GO) tool gofumpt -l .) || exit 1; \
	if test -n "$$unformatted"; then \
		echo "not formatted (run: go tool gofumpt -w .):"; echo "$$unformatted"; exit 1; \
	fi

.PHONY: check-vet
check-vet: need-go
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

# Memory ordering and big structures differ there; it must at least build and vet.
.PHONY: check-arm64
check-arm64: need-go
	CGO_ENABLED=0 GOARCH=arm64 $(GO) build ./...
	CGO_ENABLED=0 GOARCH=arm64 $(GO) vet ./...

# The race detector needs a C compiler. The lab and the command measure time and
# fork whole daemons; what they consist of is tested here.
.PHONY: check-race
check-race: need-go
	.ci/need gcc:gcc /usr/include/stdlib.h:libc6-dev
	CGO_ENABLED=1 $(TEST_ENVIRONMENT) $(GO) test -race $(TESTFLAGS) \
		$$($(GO) list ./... | grep -v -e /bench/ -e /cmd/)

# Generates again and compares with what was there.
GENERATED = find . -name '*_bpfe[lb].go' -o -name '*_bpfe[lb].o' | LC_ALL=C sort

.PHONY: check-generated
check-generated:
	@before=$$($(GENERATED) | xargs sha256sum) && \
	$(MAKE) --no-print-directory generate && \
	after=$$($(GENERATED) | xargs sha256sum) && \
	if test "$$before" != "$$after"; then \
		echo "generated objects differ from what was committed:"; \
		echo "before:"; echo "$$before"; echo "after:"; echo "$$after"; exit 1; \
	fi

.PHONY: generate
generate: need-go
	.ci/need clang-14:clang-14 llvm-strip-14:llvm-14 \
		/usr/include/bpf/bpf_helpers.h:libbpf-dev /usr/include/linux/bpf.h:linux-libc-dev
	$(GO) generate ./...

.PHONY: clean
clean:
	rm -rf bin

.PHONY: need-go
need-go:
	@command -v "$(GO)" >/dev/null || { \
		echo "Go is missing: install the version that go.mod names (https://go.dev/dl) and put it into PATH"; exit 1; }

.PHONY: need-root
need-root:
	@test -n "$(ROOT)" || command -v sudo >/dev/null || { \
		echo "this needs root, and there is no sudo: it makes network namespaces, links and XDP programs (all gone afterwards)"; \
		exit 1; }
