#!/bin/bash
# methods.sh - measures what each method gains and costs at equal epochs on a short real workload.
#
#   bench/methods.sh [LABEL ...]        all lines of bench/methods.list, or those named
#
# Workload: recipes/demo/baseline.yaml (a small ResNet on Fashion-MNIST). Each line is trained once per seed;
# seeds are the outer loop, so that a drift of the machine meets every method alike. Finished runs are kept and
# not repeated. VIVACE (program), RUNS (folder of the runs), SEEDS ("1 2 3"), EPOCHS (5) and OUT (the raw
# results, CSV) may be set. Prints a table in Markdown: mean and spread of the accuracy, time per epoch.
set -eu
cd "$(dirname "$0")/.."
vivace=${VIVACE:-build/vivace}
runs=${RUNS:-runs/methods}
seeds=${SEEDS:-1 2 3}
epochs=${EPOCHS:-5}
out=${OUT:-docs/results/methods.csv}
recipe=recipes/demo/baseline.yaml
mkdir -p "$runs"

# A number out of a run's summary.json: the first of that name.
number() {
    sed -n "s/.*\"$2\": *\([-0-9.e+]*\).*/\1/p" "$1" | head -n 1
}

lines() { # label, tab, words
    sed -e '/^#/d' -e '/^ *$/d' -e 's/^\([a-z0-9_]*\) */\1\t/' bench/methods.list
}

wanted() {
    [ $# = 1 ] && return 0
    local label=$1 name
    shift
    for name in "$@"; do
        [ "$name" = "$label" ] && return 0
    done
    return 1
}

for seed in $seeds; do
    while IFS=$'\t' read -r label words; do
        wanted "$label" "$@" || continue
        run=$runs/$label-$seed
        grep -q '"status": "done"' "$run/summary.json" 2>/dev/null && continue
        echo "== $label, seed $seed" >&2
        rm -rf "$run"
        "$vivace" train "$recipe" ${words:+"$words"} "seed=$seed" "max_duration=${epochs}ep" eval_interval=0ep \
            save_interval=none --run-dir "$run" </dev/null >"$run.log" 2>&1 ||
            { tail -n 2 "$run.log" >&2; echo "$label, seed $seed: failed" >&2; }
    done < <(lines)
done

echo "label,seed,epochs,accuracy,cross_entropy,train_seconds,samples_per_second,commit" >"$out.tmp"
while IFS=$'\t' read -r label words; do
    for summary in "$runs/$label"-[0-9]*/summary.json; do
        grep -q '"status": "done"' "$summary" 2>/dev/null || continue
        echo "$label,$(number "$summary" seed),$(number "$summary" epochs),$(number "$summary" accuracy),$(
            number "$summary" cross_entropy),$(number "$summary" train_seconds),$(
            number "$summary" samples_per_second),$(sed -n 's/.*"commit": "\([^"]*\)".*/\1/p' "$summary")"
    done
done < <(lines) >>"$out.tmp"
mv "$out.tmp" "$out"

awk -F, 'NR > 1 {
    if (!($1 in n)) order[++count] = $1
    n[$1]++; accuracy[$1] += $4; square[$1] += $4 * $4; entropy[$1] += $5; seconds[$1] += $6 / $3
} END {
    print "| method | seeds | test accuracy | difference | cross-entropy | s per epoch | time |"
    print "|---|---|---|---|---|---|---|"
    base = seconds["baseline"] / (n["baseline"] ? n["baseline"] : 1)
    best = accuracy["baseline"] / (n["baseline"] ? n["baseline"] : 1)
    for (i = 1; i <= count; i++) {
        m = order[i]; mean = accuracy[m] / n[m]
        spread = n[m] > 1 ? sqrt((square[m] - n[m] * mean * mean) / (n[m] - 1) + 1e-18) : 0
        printf "| %s | %d | %.2f%% ± %.2f | %+.2f | %.4f | %.1f | %s |\n", m, n[m], 100 * mean, 100 * spread,
            100 * (mean - best), entropy[m] / n[m], seconds[m] / n[m],
            base > 0 ? sprintf("%.2fx", seconds[m] / n[m] / base) : "-"
    }
}' "$out"
