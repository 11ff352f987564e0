#!/bin/sh
# run.sh - the collection that `docs/results/collection.json` holds: runs the sweeps of this folder and
# exports their runs. `bench/collection/run.sh [DIR]`; VIVACE_DATA needs mnist and cifar10. What is done
# in DIR (default runs/collection) is not done again.
set -eu
cd "$(dirname "$0")/../.."
dir=${1:-runs/collection}
vivace=${VIVACE:-build/vivace}
export OMP_WAIT_POLICY=PASSIVE
for sweep in fashion_methods fashion_pairs mnist_random fashion_mlp_bandit cifar10_halving; do
    "$vivace" sweep "bench/collection/$sweep.yaml" --dir "$dir" jobs="${JOBS:-2}" threads="${THREADS:-1}"
    cp "$dir/table.csv" "$dir/$sweep.csv"
done
"$vivace" runs export "$dir/collection.json" --db "$dir/runs.db"
"$vivace" runs list --db "$dir/runs.db" | tail -n 1
