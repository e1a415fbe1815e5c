# The core without Python: its tests and fuzz targets. Called by the Makefile, from the top of the tree:
#     make -f csrc/core.mk check              every C test, every fuzz target over its corpus
#     make -f csrc/core.mk check SANITIZE=1   the same under AddressSanitizer and UndefinedBehaviorSanitizer
#
# Each tests/c/**/test_<stem>.c is one program with a main(); it is linked with the whole core and with the other .c
# files of tests/c (helpers), and fails by its exit status. Each csrc/fuzz/fuzz_<stem>.c is linked with the driver, which
# replays the files of tests/corpus/<stem>/.

SANITIZE ?=
BUILD := build/c/$(if $(SANITIZE),sanitized,plain)

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Werror
CFLAGS := -std=c11 -O2 -g -DSGS_ASSERTIONS -Icsrc -Itests/c -MMD -MP $(WARNINGS)
ifneq ($(SANITIZE),)
CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif

sources = $(sort $(wildcard $(1)/*.c $(1)/*/*.c))
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))

core := $(call objects,$(filter-out csrc/fuzz/%,$(call sources,csrc)))
tests := $(filter $(BUILD)/tests/c/%,$(foreach file,$(call objects,$(call sources,tests/c)),$(if $(filter test_%,$(notdir $(file))),$(file))))
helpers := $(filter-out $(tests),$(call objects,$(call sources,tests/c)))
fuzzers := $(call objects,$(sort $(wildcard csrc/fuzz/fuzz_*.c)))
driver := $(filter-out $(fuzzers),$(call objects,$(call sources,csrc/fuzz)))

test_programs := $(tests:.o=)
fuzz_programs := $(fuzzers:.o=)

.PHONY: check programs
check: programs
	@for program in $(test_programs); do \
	    "$$program" || { echo "FAILED: $$program"; exit 1; }; \
	done
	@for program in $(fuzz_programs); do \
	    "$$program" "tests/corpus/$${program##*/fuzz_}" || { echo "FAILED: $$program"; exit 1; }; \
	done
	@echo "$(words $(test_programs)) C test programs and $(words $(fuzz_programs)) fuzz corpora passed ($(notdir $(BUILD)))"

programs: $(test_programs) $(fuzz_programs)

$(test_programs): %: %.o $(helpers) $(BUILD)/libsegstore.a
	$(CC) $(LDFLAGS) -o $@ $^ -lm

$(fuzz_programs): %: %.o $(driver) $(BUILD)/libsegstore.a
	$(CC) $(LDFLAGS) -o $@ $^

$(BUILD)/libsegstore.a: $(core)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<

.SECONDARY:
-include $(patsubst %.o,%.d,$(core) $(tests) $(helpers) $(fuzzers) $(driver))
