# Builds a plugin in C. A Makefile that includes this sets NAME (of the plugin) and SOURCES; see guests/c/carrier-stats. EXPORTS says
# what the host finds beside an operator (timers, end-of-input), or that it is a sink (sink); see weir.h.
#
#   make            OUT/NAME.wasm, a component; COMPONENTIZE must be weir-componentize (default: on PATH)
#   make test       TESTS, compiled natively and run
WEIR_C := $(dir $(lastword $(MAKEFILE_LIST)))
# The first compiler and linker for Wasm that are there: LLVM's by any name, or those of a `zig` (PyPI: ziglang).
first = $(firstword $(foreach tool,$(1),$(shell command -v $(tool) 2>/dev/null)))
LLVM := $(firstword $(foreach v,-22 -21 -20 -19 -18 -17 -16 -15 -14,$(if $(and $(call first,clang$(v)),$(call first,wasm-ld$(v))),$(v))))
ifneq ($(and $(call first,clang),$(call first,wasm-ld)),)
LLVM :=
WASM_CC ?= clang
endif
WASM_CC ?= $(if $(LLVM),clang$(LLVM),$(if $(call first,zig),zig cc,$(if $(call first,python-zig),python-zig cc,clang)))
COMPONENTIZE ?= weir-componentize
OUT ?= build
CFLAGS ?= -O3 -Wall -Wextra
EXPORT_FLAGS := $(if $(filter timers,$(EXPORTS)),-DWEIR_TIMERS) $(if $(filter end-of-input,$(EXPORTS)),-DWEIR_END_OF_INPUT) \
  $(if $(filter sink,$(EXPORTS)),-DWEIR_SINK)
$(if $(filter-out timers end-of-input sink,$(EXPORTS)),$(error EXPORTS can be timers, end-of-input or sink, not $(EXPORTS)))
WEIR_FILES := $(wildcard $(WEIR_C)*.c $(WEIR_C)*.h)
WASM_FLAGS := --target=wasm32-unknown-unknown -std=c11 -ffreestanding -nostdlib -mbulk-memory -msimd128 -I$(WEIR_C)
# An overflow of the stack traps instead of overwriting data; zig lays it out so by itself.
LINK_FLAGS := -Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=65536 -Wl,--stack-first
ifneq ($(findstring zig,$(WASM_CC)),)
LINK_FLAGS := -Wl,--no-entry -Wl,--strip-all -Wl,-z,stack-size=65536
WASM_FLAGS := -target wasm32-freestanding -std=c11 -ffreestanding -nostdlib -mcpu=generic+bulk_memory+simd128 -I$(WEIR_C)
endif

$(OUT)/$(NAME).wasm: $(SOURCES) $(WEIR_FILES)
	@mkdir -p $(OUT)
	$(WASM_CC) $(WASM_FLAGS) $(EXPORT_FLAGS) $(CFLAGS) -flto $(LINK_FLAGS) -o $(OUT)/$(NAME).core.wasm $(SOURCES) $(WEIR_C)weir.c
	$(COMPONENTIZE) $(OUT)/$(NAME).core.wasm $@

.PHONY: test clean
test: $(TESTS) $(WEIR_FILES)
	@mkdir -p $(OUT)
	$(CC) -std=c11 -g -O1 -Wall -Wextra -fsanitize=undefined -fno-sanitize-recover $(EXPORT_FLAGS) -I$(WEIR_C) -o $(OUT)/$(NAME)-test $(TESTS)
	$(OUT)/$(NAME)-test

clean:
	rm -rf $(OUT)
