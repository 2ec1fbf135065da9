#!/usr/bin/env bash
# results.sh BIN: runs the studies of the folder BIN and whole `lowgear plan`s, one after the other on one core, and
# prints the tables of bench/RESULTS.md. `./dev bench results` builds them first.
set -euo pipefail

bin=${1:?usage: results.sh BIN}
bin=$(realpath "$bin")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
data=../shared/data/perseus/stage_profile
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

core=$(($(nproc) - 1))
pin=()
if taskset -c "$core" true 2>/dev/null; then pin=(taskset -c "$core"); fi

# study NAME: its output goes to $work/NAME.
study() {
  echo "running ${1}_study" >&2
  "${pin[@]}" "$bin/${1}_study" >"$work/$1"
}

# The rows of a study's own table, without its targets.
table() {
  printf '\n### %s_study\n\n' "$1"
  grep -v '^target: ' "$work/$1" || true
}

# whole_plan WHAT PROFILE STAGES MICROBATCHES RUNS: one row for a whole process.
whole_plan() {
  echo "running lowgear plan, $1" >&2
  printf '| %s ' "$1"
  "${pin[@]}" "$bin/process_study" "$5" "$bin/lowgear" plan --profile "$2" --stages "$3" --microbatches "$4" \
    --schedule 1f1b --blocking-power 83.64 --out "$work/plan" 2>>"$work/log" || { cat "$work/log" >&2; exit 1; }
}

whole_plans() {
  printf '| lowgear plan | wall clock | from to | runs | peak memory |\n|---|---|---|---|---|\n'
  local given=$data/gpt3-175b+a100_sxm_bf16.csv
  if [ -e "$given" ]; then
    whole_plan "gpt3-175b A100, 8 stages, M = 96" "$given" 8 96 5
    whole_plan "gpt3-175b A100, 8 stages, M = 1024" "$given" 8 1024 3
  fi
  "$bin/unequal_profile_study" 64 >"$work/unequal.csv"
  whole_plan "64 unequal stages, M = 512, ε = 0.1 %" "$work/unequal.csv" 64 512 1
}

load_before=$(cut -d' ' -f1 /proc/loadavg)
studies=(frontier deadline gap lowtime agreement rounding)
for name in "${studies[@]}"; do study "$name"; done
whole_plans >"$work/whole"

printf '%s, %s cores, everything pinned to one of them; %s, -O3; load average %s before\n\n' \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
  "$(c++ --version | head -n 1)" "$load_before"
printf '| what | measured | reach | reached |\n|---|---|---|---|\n'
for name in "${studies[@]}"; do sed -n 's/^target: //p' "$work/$name"; done
for name in "${studies[@]}"; do table "$name"; done
printf '\n### whole processes\n\n'
cat "$work/whole"
