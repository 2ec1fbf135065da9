#!/usr/bin/env bash
# Builds the trainer against the PyTorch that is installed here, checks it against Hugging Face transformers, and times it
# against torch.distributed.pipelining, RUNS times (3); or samples operators and collectives for the estimator. Reads GPUs' counters;
# changes no setting of any GPU.
#
#   bench/gpu/run.sh [build|check|time GPUS]...      all of it, on all GPUs, when nothing is named
#   bench/gpu/run.sh freeze GPUS BLOCKS              the job of pipeline.yaml with all blocks trained and with the first
#                                 BLOCKS frozen, in turns ABBA, RUNS times; a line of the trainer's figures for each
#   bench/gpu/run.sh drop GPUS BUDGET                the job of pipeline.yaml with all weight gradients, as a placebo and with
#                                 that share of them left out, in turns there and back, RUNS times; metrics in $OUT/drop.tar.gz
#   bench/gpu/run.sh freeze-record BLOCKS    that job on one GPU, with all blocks trained and with the first BLOCKS
#                                 frozen, units recorded; $OUT/recordings.tar.gz, for `lowgear profile`, and what
#                                 `lowgear replan --freeze` predicts from the first for the second
#   bench/gpu/run.sh switch GPUS             the job of pipeline.yaml whose first stage gets three layers more, and gives
#                                 them back, three times: how long the moves take (docs/adapting.md); $OUT/switch.jsonl
#   bench/gpu/run.sh finetune SECONDS                fine-tuning with all blocks trained, a placebo and frozen blocks
#                                 (finetune.py, with the words of FINETUNE_OPTIONS), as many seeds as fit; metrics in
#                                 $OUT/finetune.tar.gz
#   bench/gpu/run.sh fp8 SECONDS                     a training step of 1.36 billion parameters in bf16 and in fp8 by
#                                 PyTorch (fp8_probe.py), one GPU; $OUT/fp8_probe.json
#   bench/gpu/run.sh kernels                         the masked softmax and the mixtures of experts that the sampler times
#                                 against the same in fp64 on the CPU
#   bench/gpu/run.sh activations GPUS                what the activations of a microbatch take, by stage, as the trainer
#                                 measures it, in several forms of the job of pipeline.yaml (FORMS: some of them), and
#                                 the time of the step in which it does, next to that of others; $OUT/activations.tar.gz
#   bench/gpu/run.sh fp8-products                    the trainer's casts and products in fp8 against the definition of the
#                                 formats and against fp32, and their rates at the sizes of pipeline.yaml
#   bench/gpu/run.sh fp8-train SECONDS               pipeline.yaml on one GPU in bf16 and in fp8, in turns, as many seeds
#                                 as fit (fp8_train.py, with the words of FP8_OPTIONS); metrics in $OUT/fp8_train.tar.gz
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

check() { python3 bench/gpu/compare_transformers.py "$build/bin/gradient_dump" cuda; }

# ranks GPUS COMMAND...: one process a GPU; shows its line of figures, or what went wrong.
ranks() {
  torchrun --standalone --nproc-per-node "$1" "${@:2}" 2>&1 | grep -E '^\{|[Ee]rror' || true
}

# time_all GPUS: PyTorch's pipelining, eager and compiled, and the trainer, in turns, so that all see the same machine.
time_all() {
  local run how
  for run in $(seq "${RUNS:-3}"); do
    for how in none block whole; do
      ranks "$1" bench/gpu/baseline_pipelining.py --compile "$how"
    done
    for how in 'schedule=1f1b' 'schedule=zb-h1 --set partition=cost'; do
      echo "lowgear-trainer, $how, run $run:"
      # shellcheck disable=SC2086  # a list of words
      ranks "$1" --no-python "$build/bin/lowgear-trainer" --json --set "parallel.pp=$1" --set $how bench/gpu/pipeline.yaml
    done
  done
}

# freeze GPUS BLOCKS: the same machine sees both in turns, so that warming up and drift fall on both alike.
freeze() {
  local run blocks
  for run in $(seq "${RUNS:-3}"); do
    for blocks in 0 "$2" "$2" 0; do
      echo "lowgear-trainer, $blocks blocks frozen, run $run:"
      ranks "$1" --no-python "$build/bin/lowgear-trainer" --json --set "parallel.pp=$1" --set "steps=${STEPS:-30}" \
        --set "adapt.freeze.blocks=$blocks" bench/gpu/pipeline.yaml
    done
  done
}

# drop GPUS BUDGET: the warm-up, in which nothing is left out, is two steps, which the figures leave out, too.
drop() {
  local run turn arm folder=$build/drop budget="adapt.freeze.weight_gradients.budget=$2"
  rm -rf "$folder" && mkdir -p "$folder"
  for run in $(seq "${RUNS:-3}"); do
    turn=0
    for arm in plain placebo dropped dropped placebo plain; do
      local settings=()
      turn=$((turn + 1))
      [ "$arm" = plain ] || settings+=(--set "$budget")
      [ "$arm" != placebo ] || settings+=(--set adapt.placebo=true)
      echo "lowgear-trainer, $arm, run $run:"
      ranks "$1" --no-python "$build/bin/lowgear-trainer" --json --set "parallel.pp=$1" --set "steps=${STEPS:-30}" \
        --set "metrics=$PWD/$folder/$arm-$run-$turn.jsonl" "${settings[@]}" bench/gpu/pipeline.yaml
      tar -C "$build" -czf "$out/drop.tar.gz" drop
    done
  done
}

# freeze_record BLOCKS: RUNS recordings of each, in turns.
freeze_record() {
  local run blocks recordings=$PWD/$build/recordings
  rm -rf "$recordings"
  for run in $(seq "${RUNS:-1}"); do
    for blocks in 0 "$1"; do
      ranks 1 --no-python "$build/bin/lowgear-trainer" --json --set parallel.pp=1 --set microbatches=8 \
        --set "steps=${STEPS:-30}" --set "adapt.freeze.blocks=$blocks" \
        --set "energy.recording=$recordings/frozen-$blocks-run-$run" bench/gpu/pipeline.yaml
    done
  done
  tar -C "$build" -czf "$out/recordings.tar.gz" recordings
}

# switch GPUS: two stages; the first move of all also makes NCCL's connections.
switch() {
  local out_file=$out/switch.jsonl more='"custom:0,15,24"' back='"custom:0,12,24"'
  ranks "$1" --no-python "$build/bin/lowgear-trainer" --json --set "parallel.pp=$1" --set steps=24 \
    --set "metrics=$out_file" --set "adapt.repartition.schedule=[
      {step: 5, partition: $more}, {step: 8, partition: $back}, {step: 11, partition: $more},
      {step: 14, partition: $back}, {step: 17, partition: $more}, {step: 20, partition: $back}]" bench/gpu/pipeline.yaml
  python3 -c '
import json, sys
for line in map(json.loads, open(sys.argv[1])):
    moved = line.get("moved")
    if moved:
        print("step %d: %.3f GB in %.3f s, %.1f GB/s; the step took %.3f s" % (
            line["step"], moved["bytes"] / 1e9, moved["time_s"], moved["bytes"] / 1e9 / moved["time_s"], line["time_s"]))
' "$out_file"
}

finetune() {
  # shellcheck disable=SC2086  # a list of words
  python3 bench/gpu/finetune.py "$build/bin" --work "$build/finetune" --out "$out/finetune.tar.gz" --seconds "$1" \
    ${FINETUNE_OPTIONS:-}
}

fp8_products() {
  "$build/bin/fp8_products" cuda 8192,2048,6144 8192,2048,2048 8192,2048,11264 8192,5632,2048
}

kernels() {
  build_targets kernel_checks
  "$build/bin/kernel_checks" cuda
}

# activations GPUS: the trainer measures in the second step of each form.
activations() {
  local form settings folder=$build/activations
  rm -rf "$folder" && mkdir -p "$folder"
  for form in ${FORMS:-bf16 recompute fp8 zb-h1 zb-v frozen}; do
    case $form in
      bf16) settings=() ;;
      recompute) settings=(--set recompute=true) ;;
      fp8) settings=(--set type=fp8) ;;
      zb-h1) settings=(--set schedule=zb-h1) ;;
      zb-v) settings=(--set schedule=zb-v) ;;
      frozen) settings=(--set adapt.freeze.blocks=6) ;;
    esac
    echo "lowgear-trainer, $form:"
    ranks "$1" --no-python "$build/bin/lowgear-trainer" --json --set "parallel.pp=$1" --set "metrics=$PWD/$folder/$form.jsonl" \
      "${settings[@]}" bench/gpu/pipeline.yaml | cut -c1-300
  done
  tar -C "$build" -czf "$out/activations.tar.gz" activations
  python3 -c '
import json, pathlib, statistics, sys
for path in sorted(pathlib.Path(sys.argv[1]).glob("*.jsonl")):
    steps = [line for line in map(json.loads, open(path)) if "time_s" in line]
    for line in steps:
        if "activation_bytes" in line:
            later = [other["time_s"] for other in steps[4:] if "activation_bytes" not in other]
            print("%s: step %d of %.3f s (later ones %.3f s): %s MiB" % (path.stem, line["step"], line["time_s"],
                  statistics.median(later), ", ".join("%.1f" % (b / 2**20) for b in line["activation_bytes"])))
' "$folder"
}

fp8_train() {
  # shellcheck disable=SC2086  # a list of words
  python3 bench/gpu/fp8_train.py "$build/bin" --work "$build/fp8" --out "$out/fp8_train.tar.gz" --seconds "$1" ${FP8_OPTIONS:-}
}

fp8() { python3 bench/gpu/fp8_probe.py --seconds "$1" --out "$out/fp8_probe.json"; }

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
[ $# -gt 0 ] || set -- build check time "$(nvidia-smi -L | wc -l)"
while [ $# -gt 0 ]; do
  case $1 in
    build) build_targets lowgear_trainer_program gradient_dump synthetic_text fp8_products ;;
    build-sampler) build_targets lowgear_sampler_program ;;
    check) check ;;
    marks) marks ;;
    time) time_all "$2"; shift ;;
    freeze) freeze "$2" "$3"; shift 2 ;;
    drop) drop "$2" "$3"; shift 2 ;;
    freeze-record) freeze_record "$2"; shift ;;
    switch) switch "$2"; shift ;;
    finetune) finetune "$2"; shift ;;
    fp8) fp8 "$2"; shift ;;
    kernels) kernels ;;
    activations) activations "$2"; shift ;;
    fp8-products) fp8_products ;;
    fp8-train) fp8_train "$2"; shift ;;
    operators) sample_operators "$2"; shift ;;
    collectives) sample_collectives "$2" "$3"; shift 2 ;;
    *)
      echo "usage: bench/gpu/run.sh [build|build-sampler|check|marks|time GPUS|freeze GPUS BLOCKS|drop GPUS BUDGET|freeze-record BLOCKS|switch GPUS|finetune SECONDS|kernels|activations GPUS|fp8 SECONDS|fp8-products|fp8-train SECONDS|operators SECONDS|collectives GPUS SECONDS]..." >&2
      exit 2
      ;;
  esac
  shift
done
