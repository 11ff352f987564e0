#!/bin/bash
# ci.sh - runs one job of the continuous integration, exactly as it runs there:
#   tools/ci.sh debug | release | asan | tsan | minimal | lint | counts | arm64 | fuzz-smoke |
#   valgrind | dist
# Each job has its own build folder (build-JOB) and ends with a line `N passed, N failed, N skipped`.
set -u
cd "$(dirname "$0")/.."
job=${1:-}

suite() { # build type, further options of meson setup, then arguments of meson test
    export VIVACE_TEST_BUILD=build-$job VIVACE_TEST_BUILDTYPE=$1 VIVACE_TEST_OPTIONS=$2
    shift 2
    tools/run_tests "$@"
}

# ---- jobs made of single steps ----
passed=0
failed=0
step() { # a name, then the command
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $name"
    fi
}
finish() {
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ]
}

shell_syntax() { # every script can at least be read
    local file bad=0
    for file in .ci/run tools/* tests/*/run; do
        case $(head -n 1 "$file") in
        '#!/bin/sh'*) sh -n "$file" || bad=1 ;;
        '#!/bin/bash'*) bash -n "$file" || bad=1 ;;
        esac
    done
    return $bad
}

werror() { # everything that is installed, with the compiler named, every warning an error
    local dir=build-lint-$1
    [ -f "$dir/build.ninja" ] ||
        CC=$1 meson setup "$dir" -Dbuildtype=release -Dwerror=true -Dtests=disabled >"$dir.log" 2>&1 ||
        { cat "$dir.log"; return 1; }
    rm -f "$dir.log"
    ninja -C "$dir"
}

valgrind_some() { # a few quick programs; oneDNN's generated code is not for valgrind
    local dir=build-valgrind
    [ -f "$dir/build.ninja" ] || meson setup "$dir" -Dbuildtype=debugoptimized -Dcpu=disabled \
        -Donednn=disabled -Dopenmp=disabled || return 1
    meson test -C "$dir" --print-errorlogs --timeout-multiplier 20 --wrapper \
        'valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite' \
        test_status test_str test_describe test_training_time test_tensor test_safetensors test_graph \
        test_module test_optim_steps test_record test_transform
}

case $job in
debug) suite debug "" ;;
release) suite release "" ;;
asan)
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    suite debugoptimized "-Db_sanitize=address,undefined" --no-suite slow
    ;;
tsan) # without OpenMP: libgomp is not instrumented, its barriers look like races. The library's own
    # threads (loaders, loggers, signals) are what is looked at; oneDNN stays on one
    export OMP_NUM_THREADS=1 TSAN_OPTIONS=halt_on_error=1
    suite debugoptimized "-Db_sanitize=thread -Dopenmp=disabled" --no-suite slow
    ;;
minimal) # backend `ref` alone and nothing optional; whole recipes would take minutes on it
    suite debugoptimized "-Doptimization=2 -Ddebug=false -Dcpu=disabled -Donednn=disabled \
        -Dopenmp=disabled -Dzlib=disabled -Dzstd=disabled -Dcurl=disabled -Dpng=disabled -Djpeg=disabled -Dpcre2=disabled -Dprotobuf=disabled -Dsqlite=disabled -Dmicrohttpd=disabled" --no-suite slow --no-suite recipes
    ;;
lint)
    step check_layers tools/check_layers
    step check_tree tools/check_tree
    step shell-syntax shell_syntax
    step gcc-werror werror gcc
    finish
    ;;
counts) # instructions of small steps, with the program that `lint` built
    werror gcc && exec bench/instructions.sh build-lint-gcc/vivace
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
    ;;
arm64) exec tools/arm64 ;;
fuzz-smoke)
    for source in tests/fuzz/fuzz_*.c; do
        name=$(basename "$source" .c)
        [ "$name" = fuzz_replay ] || step "$name" tools/fuzz "$name" "${VIVACE_FUZZ_SECONDS:-20}"
    done
    finish
    ;;
valgrind)
    step valgrind valgrind_some
    finish
    ;;
dist) # the archive that is handed out builds, tests and is complete by itself
    step dist sh -c 'meson setup build-dist >/dev/null && meson dist -C build-dist --no-tests --formats gztar'
    finish
    ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
