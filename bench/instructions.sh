#!/bin/bash
# instructions.sh - counts the instructions that the library itself executes in small training steps,
# and compares with instructions.counts: time is noisy, this is not.
#
#   bench/instructions.sh PROGRAM          compares; fails where a count grew by more than the tolerance
#   bench/instructions.sh PROGRAM renew    writes the counts found
#
# Counted by valgrind's callgrind, one thread, functions of the program's own file only: not the C
# library, oneDNN or its generated code. valgrind shows programs a CPU with AVX2 and without AVX-512,
# so loops compiled for several instruction sets are the same on every such machine. A count is kept
# for the start (model, plan, first step) and for the second step, which finds its plan. Counts hold
# for one compiler; with another nothing is compared, and that is said.
set -u
cd "$(dirname "$0")/.."
program=${1:?say which program}
mode=${2:-compare}
counts=bench/instructions.counts
tolerance=${VIVACE_COUNT_TOLERANCE:-5} # percent
dir=$(mktemp -d) && trap 'rm -rf "$dir"' EXIT

cases='mlp model=mlp data=mnist batch=32
resnet model=resnet_cifar data=cifar10 size=16 batch=4
gpt2 model=gpt2-tiny model_settings=dropout=0,d=64,layers=2,heads=2 seq=32 vocabulary=128 batch=2'

say_skip() {
    echo "instructions: skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
command -v valgrind >/dev/null || say_skip "no valgrind"
grep -qw avx2 /proc/cpuinfo || say_skip "this CPU has no AVX2"
compiler=$(strings -a "$program" 2>/dev/null | grep -m 1 '^GCC: ') || compiler=unknown
if [ "$mode" = compare ]; then
    counted=$(sed -n 's/^# compiler: //p' "$counts")
    [ "$counted" = "$compiler" ] || say_skip "counts are of '$counted', this is '$compiler'"
fi

# Instructions in functions of the program's object. In callgrind's format cost lines follow their
# function; the line behind `calls=` is what was called, counted there. Names are compressed: (id) name.
own() { # callgrind's file
    awk -v program="$(basename "$program")" '
        /^ob=/ {
            match($0, /\([0-9]+\)/)
            id = substr($0, RSTART, RLENGTH)
            if (length($0) > RSTART + RLENGTH) name[id] = substr($0, RSTART + RLENGTH + 1)
            n = split(name[id], part, "/")
            mine = part[n] == program
            next
        }
        /^fn=/ {
            match($0, /\([0-9]+\)/)
            id = substr($0, RSTART, RLENGTH)
            if (length($0) > RSTART + RLENGTH) fn[id] = substr($0, RSTART + RLENGTH + 1)
            peak = fn[id] ~ /^chains_/ # the measured peak: no part of a step
            next
        }
        /^c(fi|fl|ob|fn)=/ { # names told here may be meant by number later
            match($0, /\([0-9]+\)/)
            id = substr($0, RSTART, RLENGTH)
            if (length($0) > RSTART + RLENGTH) {
                if ($0 ~ /^cob=/) name[id] = substr($0, RSTART + RLENGTH + 1)
                if ($0 ~ /^cfn=/) fn[id] = substr($0, RSTART + RLENGTH + 1)
            }
            next
        }
        /^calls=/ { getline; next }
        /^[+*0-9-]/ { if (mine && !peak) sum += $2 }
        END { printf "%d\n", sum }' "$1"
}

count() { # name, settings: NAME.1 and NAME.2 are what happened until the first and the second step's end
    local name=$1
    shift
    OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE ONEDNN_MAX_CPU_ISA=AVX2 DNNL_MAX_CPU_ISA=AVX2 \
        valgrind -q --tool=callgrind --callgrind-out-file="$dir/$name" --dump-after=vv_optimizer_step \
        "$program" bench step "$@" steps=1 warmup=2 threads=1 >"$dir/$name.log" 2>&1 &&
        [ -s "$dir/$name.2" ] || { cat "$dir/$name.log" >&2; touch "$dir/failed"; }
}

while read -r name settings; do
    # shellcheck disable=SC2086
    count "$name" $settings &
done <<<"$cases"
wait
[ ! -f "$dir/failed" ] || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }

passed=0
failed=0
found="# Instructions of the library in small steps, by bench/instructions.sh; one compiler, AVX2.
# compiler: $compiler"
while read -r name settings; do
    for part in 1 2; do
        row=$name.$([ $part = 1 ] && echo start || echo step)
        now=$(own "$dir/$name.$part")
        found="$found
$row $now"
        [ "$mode" = renew ] && continue
        before=$(awk -v row="$row" '$1 == row { print $2 }' "$counts")
        if [ -n "$before" ] && [ $((100 * now)) -le $((before * (100 + tolerance))) ]; then
            passed=$((passed + 1))
            verdict=
            [ $((100 * now)) -lt $((before * (100 - tolerance))) ] && verdict="  (fewer: renew the counts)"
        else
            failed=$((failed + 1))
            verdict="  MORE than $tolerance% above"
        fi
        printf '%-14s %12d instructions, counted before %12s%s\n' "$row" "$now" "${before:-never}" "$verdict"
    done
done <<<"$cases"
if [ "$mode" = renew ]; then
    printf '%s\n' "$found" >"$counts"
    cat "$counts"
    exit 0
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
