#!/usr/bin/env bash
# nvml_clients.sh LIBRARY_FOLDER LOWGEAR
#
# Runs NVML clients that Lowgear did not write, the nvidia-smi and nvidia-ml-py of a GPU machine, on simulated GPUs:
# they read and set them. No real GPU is touched: every step first makes sure that the simulation's library is the one
# that is loaded, and setters name a simulated GPU by its UUID, which no real library knows.
#
# LIBRARY_FOLDER holds the simulation's libnvidia-ml.so.1 (build/release/simgpu), LOWGEAR is the program. Prints PASS or
# FAIL for every step; exit code 1 when one failed.
set -uo pipefail

[ $# -eq 2 ] && [ -r "$1/libnvidia-ml.so.1" ] && [ -x "$2" ] || {
  echo "usage: nvml_clients.sh LIBRARY_FOLDER LOWGEAR" >&2
  exit 2
}
library=$(cd "$1" && pwd)
lowgear=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LOWGEAR_SIMGPU=$work/machine
"$lowgear" simgpu create --state "$LOWGEAR_SIMGPU" --gpus 2xH100 >/dev/null || exit 1

failures=0
# step WHAT PATTERN COMMAND...: the command succeeds and prints the pattern
step() {
  local what=$1 pattern=$2 output
  shift 2
  if output=$("$@" 2>&1) && grep -qE -- "$pattern" <<<"$output"; then
    echo "PASS  $what"
  else
    echo "FAIL  $what: $* (looking for $pattern)"
    sed 's/^/      /' <<<"$output" | head -n 30
    failures=$((failures + 1))
  fi
}
truth() { "$lowgear" simgpu show --json | python3 -c "import json, sys; print(json.load(sys.stdin)['gpus'][0]$1)"; }

uuid=$(truth "['uuid']")
loaded=$(LD_DEBUG=libs nvidia-smi -L 2>&1 | grep -oE 'calling init: .*libnvidia-ml\S*' | awk '{ print $NF }')
if [ "$loaded" != "$library/libnvidia-ml.so.1" ] || ! nvidia-smi -L | grep -q "$uuid"; then
  echo "FAIL  nvidia-smi loads ${loaded:-nothing}, not the simulation: nothing more is run"
  exit 1
fi
echo "PASS  nvidia-smi loads the simulation: $(nvidia-smi --version 2>/dev/null | grep -m 1 -i version)"

step "nvidia-smi"                  'NVIDIA H100 80GB HBM3'         nvidia-smi
step "nvidia-smi -L"               "$uuid"                         nvidia-smi -L
step "nvidia-smi -q"               'Max Power Limit +: 700.00 W'   nvidia-smi -q
step "nvidia-smi -q -d CLOCK"      'SM +: 345 MHz'                 nvidia-smi -q -d CLOCK
step "nvidia-smi dmon"             '^ +0 +[0-9]+ '                 nvidia-smi dmon -c 1
step "nvidia-smi --query-gpu"      '68\.[0-9]+ W, 345 MHz, 700.00 W' \
  nvidia-smi --query-gpu=power.draw,clocks.sm,power.limit --format=csv
step "nvidia-smi -q -x"            '<gpu_power_readings>'          nvidia-smi -q -x
step "nvidia-smi -lgc 1200"        'clocks set|All done'           nvidia-smi -i "$uuid" -lgc 1200,1200
step "the lock is in the machine"  '1200'                          truth "['locked_sm_clocks_mhz']"
step "nvidia-smi -rgc"             'reset|All done'                nvidia-smi -i "$uuid" -rgc
step "the lock is gone"            'None'                          truth "['locked_sm_clocks_mhz']"
step "nvidia-smi -pl 500"          '500.00 W'                      nvidia-smi -i "$uuid" -pl 500
step "the limit is in the machine" '500'                           truth "['power_limit_w']"
step "nvidia-smi -pl 700"          '700.00 W'                      nvidia-smi -i "$uuid" -pl 700
if [ "$(id -u)" -eq 0 ] && chmod 711 "$work" && chmod 666 "$LOWGEAR_SIMGPU"; then
  step "another user may not set clocks" 'permission|Permission' \
    sh -c "! setpriv --reuid 65534 --regid 65534 --clear-groups nvidia-smi -i $uuid -lgc 1200,1200"
fi
step "nvidia-ml-py reads and sets"  'all checks passed'            python3 "$here/nvml_client.py" "$lowgear"

[ "$failures" -eq 0 ] || { echo "$failures steps failed"; exit 1; }
echo "every step passed"
