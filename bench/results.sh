#!/usr/bin/env bash
# results.sh BIN: runs the studies of the folder BIN and whole `lowgear plan`s, and prints the tables of bench/RESULTS.md
# that are marked with their names. `./dev bench results` builds them first. KILL_ROUNDS=1000 in the environment runs as
# many rounds of the kill study, a minute and a half; 100 without.
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

# study NAME [COMMAND...]: its output goes to $work/NAME.
study() {
  echo "running ${1}_study" >&2
  "${@:2}" "$bin/${1}_study" >"$work/$1"
}

# whole_plan WHAT PROFILE STAGES MICROBATCHES RUNS: one row for a whole process.
whole_plan() {
  echo "running lowgear plan, $1" >&2
  "${pin[@]}" python3 -c '
import resource, statistics, subprocess, sys, time
walls = []
for _ in range(int(sys.argv[2])):
    begin = time.monotonic()
    subprocess.run(sys.argv[3:], check=True, stdout=subprocess.DEVNULL)
    walls.append(time.monotonic() - begin)
peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024e-6
print(f"| {sys.argv[1]} | {statistics.median(walls):.3f} s | {min(walls):.3f} s to {max(walls):.3f} s "
      f"| {len(walls)} | {peak_mb:.0f} MB |")
' "$1" "$5" "$bin/lowgear" plan --profile "$2" --stages "$3" --microbatches "$4" --schedule 1f1b --blocking-power 83.64 \
    --out "$work/plan" 2>>"$work/log" || { cat "$work/log" >&2; exit 1; }
}

whole_plans() {
  printf '| lowgear plan | wall clock | from to | runs | peak memory |\n|---|---|---|---|---|\n'
  local given=$data/gpt3-175b+a100_sxm_bf16.csv
  if [ -e "$given" ]; then
    whole_plan "gpt3-175b A100, 8 stages, M = 96" "$given" 8 96 5
    whole_plan "gpt3-175b A100, 8 stages, M = 1024" "$given" 8 1024 3
  fi
  "$bin/frontier_study" --profile 64 >"$work/unequal.csv"
  whole_plan "64 unequal stages, M = 512, ε = 0.1 %" "$work/unequal.csv" 64 512 1
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
studies=(frontier deadline gap joint_order unit_mark unit_ring_latency kill)
# The threads and processes of these need cores of their own.
study unit_mark
study unit_ring_latency
kill_study
for name in "${studies[@]:0:4}"; do study "$name" "${pin[@]}"; done
whole_plans >"$work/whole"

printf '%s, %s cores, planning pinned to one of them; %s, -O3; load average %s before\n\n' \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
  "$(c++ --version | head -n 1)" "$load_before"
printf '| what | measured | reach | reached |\n|---|---|---|---|\n'
for name in "${studies[@]}"; do sed -n 's/^target: //p' "$work/$name"; done
for name in "${studies[@]}"; do
  printf '\n### %s_study\n\n' "$name"
  grep -v '^target: ' "$work/$name" || true
done
printf '\n### whole processes\n\n'
cat "$work/whole"
