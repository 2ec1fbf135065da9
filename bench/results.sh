#!/usr/bin/env bash
# results.sh BIN: runs the studies of folder BIN, one after the other on one core, and prints the tables of
# bench/RESULTS.md. `./dev bench results` builds them first.
set -euo pipefail

bin=${1:?usage: results.sh BIN}
output=$(mktemp)
trap 'rm -f "$output"' EXIT

for study in frontier gap lowtime agreement; do
  echo "running ${study}_study" >&2
  echo "study: $study" >>"$output"
  taskset -c "$(($(nproc) - 1))" "$bin/${study}_study" >>"$output"
done

printf '%s, %s cores; %s\n\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" \
  "$(g++ --version | head -1)"
printf '| what | measured | reach | reached |\n|---|---|---|---|\n'
sed -n 's/^target: //p' "$output"
for study in gap lowtime agreement; do
  printf '\n### %s_study\n\n' "$study"
  sed -n "/^study: $study\$/,/^study: /p" "$output" | grep '^|' || true
done
