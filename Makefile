# Thin front of the Meson build. `make` builds a release into build/; `make test` and `make demo` also
# install what is missing.
.PHONY: all deps test demo install clean

all: build/build.ninja
	ninja -C build

deps:
	tools/deps

build/build.ninja: | deps
	meson setup build --buildtype=release

test: deps
	tools/run_tests

demo: deps all
	tools/demo

install: all
	meson install -C build

clean:
	rm -rf build
