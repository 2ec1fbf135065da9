#!/usr/bin/env bash
# results.sh BIN: runs the studies of the folder BIN and whole `lowgear plan`s, and prints the tables of
# bench/RESULTS.md. `./dev bench results` builds them first. KILL_ROUNDS=1000 in the environment runs as many rounds of
# the kill study, a minute and a half; 100 without.
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

# Those whose threads and processes need cores of their own.
unpinned_study() {
  echo "running ${1}_study" >&2
  "$bin/${1}_study" >"$work/$1"
}

# Its figures and, by its exit status, whether they are what they should be.
kill_study() {
  local rounds=${KILL_ROUNDS:-100} reached=yes
  echo "running kill_study, $rounds rounds" >&2
  "$bin/kill_study" "$rounds" 7 >"$work/kill" || reached='**no**'
  printf 'target: | SIGKILLs at random moments (*simulated* GPUs), %s rounds | %s | 0 GPUs left changed | %s |\n' \
    "$rounds" "$(sed -n 's/.*; \(.* left changed\).*/\1/p' "$work/kill")" "$reached" >>"$work/kill"
}

load_before=$(cut -d' ' -f1 /proc/loadavg)
studies=(frontier deadline gap integrality lowtime agreement rounding few_clock joint_order)
unpinned=(unit_mark unit_ring_latency)
for name in "${unpinned[@]}"; do unpinned_study "$name"; done
kill_study
# Waits for simulated GPUs in real time, and measures no time: concurrently with the others.
unpinned_study energy_meter &
energy_meter=$!
for name in "${studies[@]}"; do study "$name"; done
whole_plans >"$work/whole"
wait "$energy_meter"
studies+=("${unpinned[@]}" energy_meter kill)

printf '%s, %s cores, planning pinned to one of them; %s, -O3; load average %s before\n\n' \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
  "$(c++ --version | head -n 1)" "$load_before"
printf '| what | measured | reach | reached |\n|---|---|---|---|\n'
for name in "${studies[@]}"; do sed -n 's/^target: //p' "$work/$name"; done
for name in "${studies[@]}"; do table "$name"; done
printf '\n### whole processes\n\n'
cat "$work/whole"
