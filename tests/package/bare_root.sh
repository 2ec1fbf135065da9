#!/usr/bin/env bash
# Follows a plan on a bare Debian, on which nothing but its python3 and the wheel are installed: simulated GPUs, the agent
# and `lowgear run --plan` from the wheel, a job that knows nothing of Lowgear.
#
#   tests/package/bare_root.sh WHEEL [FOLDER]
#
# Needs root, debootstrap and a mirror of Debian. FOLDER is kept for the next time; without it, all of it is removed again.
# RELEASE names another release than bookworm. Ends with 1 where the job does not follow the plan.
set -euo pipefail
[ $# -ge 1 ] && [ $# -le 2 ] && [ -f "$1" ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
wheel=$(realpath "$1")
root=${2:-$(mktemp -d -t lowgear-root.XXXXXX)}
log=$(mktemp)
trap 'rm -f "$log"; [ -n "${keeps:-}" ] || rm -rf --one-file-system "$root"' EXIT
keeps=${2:-}

if [ ! -e "$root/.ready" ]; then
  mirror=$(awk '/^URIs:/ { print $2; exit } /^deb / { print $2; exit }' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true)
  mkdir -p "$root"
  debootstrap --variant=minbase --include=python3,python3-venv "${RELEASE:-bookworm}" "$root" \
    ${mirror:+"$mirror"} >"$log" 2>&1 || { tail -n 5 "$log" >&2; exit 1; }
  touch "$root/.ready"
fi

rm -rf --one-file-system "$root/trial"
mkdir -p "$root/trial/tests"
cp "$wheel" "$root/trial/"
cp -r "$source/python/tests/test_attached_job.py" "$source/python/tests/job" "$root/trial/tests/"

# A mount and process namespace of its own: whatever is left over ends with it.
unshare --mount --pid --fork chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
  PYTHONDONTWRITEBYTECODE=1 sh -euc '
    mount -t proc proc /proc
    cd /trial
    python3 -m venv venv
    venv/bin/python -m pip --disable-pip-version-check install --quiet --no-index lowgear-*.whl
    [ -z "$(dpkg-query --show --showformat="\${Package}\n" "*lowgear*" 2>/dev/null)" ]
    venv/bin/lowgear --version
    LOWGEAR_BINARY=/trial/venv/bin/lowgear LOWGEAR_NVML=$(echo /trial/venv/lib/python3*/site-packages/lowgear/simgpu/libnvidia-ml.so.1) \
      exec venv/bin/python -m unittest discover --verbose -s tests -p test_attached_job.py -k OnSimulatedGpus'
echo "the job has followed its plan: $(basename "$wheel"), Debian $(cat "$root/etc/debian_version")"
