#!/usr/bin/env bash
# Makes a Debian 12 root with Slurm in FOLDER, for slurm_test.py and slurmdbd_test.py: name it in
# LOWGEAR_SLURM_ROOT. Needs root, debootstrap and a mirror of Debian; some 1.1 GB.
#
#   tests/deploy/slurm/make_root.sh FOLDER
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$1
packages=slurm-wlm,munge,libslurm-dev,gcc,libc6-dev,python3,procps,iproute2,openmpi-bin,slurmdbd,mariadb-server
# What the program of a build folder is linked with; the package `lowgear` depends on the same.
libraries=libsentencepiece0,libsqlite3-0,libyaml-cpp0.7,libspdlog1.10,libfmt9
mirror=$(awk '/^URIs:/ { print $2; exit } /^deb / { print $2; exit }' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true)
mkdir -p "$root"
debootstrap --variant=minbase --include="$packages,$libraries" bookworm "$root" ${mirror:+"$mirror"}
[ -e "$root/etc/hosts" ] || : >"$root/etc/hosts"  # debootstrap makes none where the machine has none; own_root.py mounts over it
