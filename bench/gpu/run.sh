#!/usr/bin/env bash
# Builds the trainer against the PyTorch that is installed here, checks it against Hugging Face transformers, and times it
# against torch.distributed.pipelining, RUNS times (3); or samples operators and collectives for the estimator. Reads GPUs' counters;
# changes no setting of any GPU.
#
#   bench/gpu/run.sh [build|check|kernels|time GPUS|orders GPUS|pythia]...
#                                 all of it but `orders`, on all GPUs, when nothing is named
#   time                          1F1B with even stages, of PyTorch eager and compiled, and of the trainer
#   orders                        the orders of both, PyTorch compiled where it can be, with even and uneven stages (2 GPUs)
#   pythia                        EADT's job on one GPU, of the trainer and of compiled transformers
#   bench/gpu/run.sh build-sampler [operators SECONDS]... [collectives GPUS SECONDS]...
#   bench/gpu/run.sh marks        what is recorded of units on a stream against events, by the client library that
#                                 LOWGEAR_LIBRARY names, or else one that is built here
#
# Samples continue where those in build/gpu/samples end, and stop after a row after SECONDS. They are kept packed as
# samples.tar.gz in $OUT (build/ when that is not set), anew every 15 seconds, should the run be cut off.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=build/gpu
samples=$build/samples
out=${OUT:-build}

configure() {
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOWGEAR_WERROR=OFF -DLOWGEAR_BUILD_TESTS=OFF \
    -DLOWGEAR_BUILD_BENCH=OFF "-DCMAKE_PREFIX_PATH=$(python3 -c 'import torch; print(torch.utils.cmake_prefix_path)')" \
    "-DLOWGEAR_ONLY_MODULES=trainer" -DLOWGEAR_PRECOMPILED_HEADERS=OFF -DLOWGEAR_UNITY_BUILD=OFF >"$build.log" 2>&1 || { tail -n 30 "$build.log"; return 1; }
}

build_targets() {
  configure
  cmake --build "$build" --target "$@" >>"$build.log" 2>&1 || { grep -E 'error|FAILED' "$build.log" | head -n 40; return 1; }
  echo "built $* in $SECONDS s"
}

# Each CUDA kernel of the memory's speed against fp64, and its time against a copy of as many bytes.
kernels() {
  build_targets kernel_rates
  "$build/bin/kernel_rates"
}

check() { python3 bench/gpu/compare_transformers.py "$build/bin/gradient_dump" cuda; }

# ranks GPUS COMMAND...: one process a GPU; shows its line of figures, or what went wrong.
ranks() {
  torchrun --standalone --nproc-per-node "$1" "${@:2}" 2>&1 | grep -E '^\{|[Ee]rror' || true
}

# pytorch GPUS OPTIONS...: one run of the pipeline of PyTorch.
pytorch() { ranks "$1" bench/gpu/baseline_pipelining.py "${@:2}"; }

# trainer GPUS FILE SETTINGS...: one run of the trainer.
trainer() {
  local setting options=()
  for setting in "${@:3}"; do options+=(--set "$setting"); done
  echo "lowgear-trainer, ${*:3}:"
  ranks "$1" --no-python "$build/bin/lowgear-trainer" --json "${options[@]}" "$2"
}

# time_all GPUS: PyTorch's pipelining, eager and compiled, and the trainer, in turns, so that all see the same machine.
time_all() {
  local how
  for _ in $(seq "${RUNS:-3}"); do
    for how in none block whole; do pytorch "$1" --compile "$how"; done
    trainer "$1" bench/gpu/pipeline.yaml "parallel.pp=$1" schedule=1f1b
  done
}

# orders GPUS: each order of either system, in turns. Uneven stages are those of 2 GPUs.
orders() {
  local ours=(bench/gpu/pipeline.yaml "parallel.pp=$1") uneven=() parts=() v=() our_parts=() our_v=()
  if [ "$1" = 2 ]; then
    uneven=(--layers "13,11") parts=(--layers "7,6,6,5") v=(--layers "6,7,6,5")
    our_parts=("partition=custom:0,7,13,19,24") our_v=("partition=custom:0,6,13,19,24")
  fi
  for _ in $(seq "${RUNS:-3}"); do
    pytorch "$1" --compile whole
    trainer "$1" "${ours[@]}" schedule=1f1b
    pytorch "$1" --compile whole "${uneven[@]}"
    trainer "$1" "${ours[@]}" schedule=1f1b partition=cost
    pytorch "$1" --compile whole --order interleaved "${parts[@]}"
    trainer "$1" "${ours[@]}" schedule=interleaved parallel.chunks=2 "${our_parts[@]}"
    pytorch "$1" --order zbv "${v[@]}"
    trainer "$1" "${ours[@]}" schedule=zb-v "${our_v[@]}"
    trainer "$1" "${ours[@]}" schedule=zb-h1 partition=cost
  done
}

pythia() {
  local how type
  for _ in $(seq "${RUNS:-3}"); do
    for type in bf16 fp16; do
      for how in default reduce-overhead; do ranks 1 bench/gpu/baseline_neox.py --type "$type" --compile "$how"; done
      trainer 1 bench/gpu/pythia.yaml "type=$type"
    done
  done
}

pack() {
  [ -d "$samples" ] || return 0
  tar -C "$build" -czf "$build/samples.tar.gz.part" samples && mv "$build/samples.tar.gz.part" "$out/samples.tar.gz"
}

# sampled COMMAND...: runs it, packing what there is from time to time; shows its last progress line and all others.
sampled() {
  local status=0 packer
  (while sleep 15; do pack; done) >/dev/null 2>&1 &
  packer=$!
  "$@" 2>"$build/samples.err" || status=$?
  kill "$packer" 2>/dev/null || true
  wait "$packer" 2>/dev/null || true
  grep -v '^progress ' "$build/samples.err" || true
  grep '^progress ' "$build/samples.err" | tail -n 1 || true
  pack
  return "$status"
}

sample_operators() { sampled "$build/bin/lowgear-sampler" operators --out "$samples" --time-limit "$1"; }

sample_collectives() {
  sampled torchrun --standalone --nproc-per-node "$1" --no-python "$build/bin/lowgear-sampler" collectives \
    --out "$samples" --energy 3 --time-limit "$2"
}

marks() {
  [ -n "${LOWGEAR_LIBRARY:-}" ] || build_targets liblowgear
  export LOWGEAR_LIBRARY=${LOWGEAR_LIBRARY:-$build/lib/liblowgear.so.1} PYTHONPATH=python
  local status=0
  python3 bench/gpu/stream_marks/stream_marks.py || status=1
  python3 bench/gpu/stream_marks/stream_marks.py --fill || status=1
  return "$status"
}

mkdir -p build
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader || true
[ $# -gt 0 ] || set -- build check kernels time "$(nvidia-smi -L | wc -l)" pythia
while [ $# -gt 0 ]; do
  case $1 in
    build) build_targets lowgear_trainer_program gradient_dump ;;
    build-sampler) build_targets lowgear_sampler_program ;;
    check) check ;;
    kernels) kernels ;;
    marks) marks ;;
    time) time_all "$2"; shift ;;
    orders) orders "$2"; shift ;;
    pythia) pythia ;;
    operators) sample_operators "$2"; shift ;;
    collectives) sample_collectives "$2" "$3"; shift 2 ;;
    *)
      echo "usage: bench/gpu/run.sh [build|build-sampler|check|kernels|marks|pythia|time GPUS|orders GPUS|operators SECONDS|collectives GPUS SECONDS]..." >&2
      exit 2
      ;;
  esac
  shift
done
