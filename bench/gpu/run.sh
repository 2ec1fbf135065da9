#!/usr/bin/env bash
# Builds the trainer against the PyTorch that is installed here, checks it against Hugging Face transformers, and times it
# beside torch.distributed.pipelining. Reads GPUs' counters; changes no setting of any GPU.
#
#   bench/gpu/run.sh [build|check|time GPUS]...      all of it, on all GPUs, when nothing is named
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/gpu

build_trainer() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOWGEAR_WERROR=OFF -DLOWGEAR_BUILD_TESTS=OFF \
    -DLOWGEAR_BUILD_BENCH=OFF "-DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')" \
    -DLOWGEAR_ONLY_MODULES=trainer >"$build.log" 2>&1 ||
    { tail -n 30 "$build.log"; return 1; }
  cmake --build "$build" --target lowgear_trainer_program gradient_dump >>"$build.log" 2>&1 || { grep -E 'error|FAILED' "$build.log" | head -n 40; return 1; }
  echo "built $build/bin/lowgear-trainer"
}

check() { python3 bench/gpu/compare_transformers.py "$build/bin/gradient_dump" cuda; }

# time_both GPUS: in turns, so that both see the same machine.
time_both() {
  local run
  for run in 1 2 3; do
    torchrun --standalone --nproc-per-node "$1" bench/gpu/baseline_pipelining.py 12 2>&1 | grep -E '^\{|[Ee]rror' || true
    torchrun --standalone --nproc-per-node "$1" --no-python "$build/bin/lowgear-trainer" --json --set "parallel.pp=$1" \
      bench/gpu/pipeline.yaml 2>&1 | grep -E '^\{|[Ee]rror' || true
  done
}

mkdir -p build
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader || true
[ $# -gt 0 ] || set -- build check time "$(nvidia-smi -L | wc -l)"
while [ $# -gt 0 ]; do
  case $1 in
    build) build_trainer ;;
    check) check ;;
    time) time_both "$2"; shift ;;
    *) echo "usage: bench/gpu/run.sh [build|check|time GPUS]..." >&2; exit 2 ;;
  esac
  shift
done
