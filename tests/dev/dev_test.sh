#!/usr/bin/env bash
# dev_test.sh PROJECT: runs ./dev with stand-ins for the package manager, CMake and ctest, which note how they are called.
# shellcheck disable=SC2016  # the dollars belong to the scripts of stand-ins
set -u
project=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
output=''
status=0

# Only these commands can be found: neither sudo nor a real apt-get of this machine.
real_commands="awk bash cat df dirname env find grep ls mkdir nproc rm sed sleep sort tail tee xargs"
bin=$work/bin
log=$work/calls

# stand_in NAME [SCRIPT [FOLDER]]: a command that notes its arguments, then runs SCRIPT.
stand_in() {
  local folder=${3:-$bin}
  mkdir -p "$folder"
  printf '#!/bin/bash\necho "%s $*" >>"%s"\n%s\n' "$1" "$log" "${2:-}" >"$folder/$1"
  chmod +x "$folder/$1"
}

# A root user on a Debian with every package, and a project whose build succeeds.
fresh() {
  rm -rf "$bin" "$work/project"
  mkdir -p "$bin" "$work/project/cmake" "$work/project/fuzz" "$work/project/bench"
  : >"$log"
  local command
  for command in $real_commands; do ln -s "$(command -v "$command")" "$bin/$command"; done
  cp "$project/dev" "$work/project/"
  cp "$project/cmake/packages.txt" "$work/project/cmake/"
  touch "$work/project/fuzz/csv_fuzzer.cpp" "$work/project/bench/frontier_bench.cpp"
  installed_except
  stand_in apt-get
  stand_in cmake
  stand_in ctest 'echo "100% tests passed, 0 tests failed out of 7"; echo "The following tests did not run:"'
  stand_in id 'echo 0'
  stand_in lowgear_planning '' "$work/project/build/release/bin"
}

# installed_except [PACKAGE...]: dpkg-query knows every package but these.
installed_except() {
  stand_in dpkg-query "for package in \"\${@:4}\"; do
    case \" $* \" in *\" \$package \"*) continue ;; esac
    echo \"installed \$package\"
  done"
}

run() {
  output=$(cd "$work" && PATH=$bin LOWGEAR_JOBS=${jobs-2} LOWGEAR_INSTALL=${install-} "$work/project/dev" "$@" 2>&1)
  status=$?
}

fail() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n--- exit code %s, calls:\n%s\n--- output:\n%s\n' "$1" "$status" "$(cat "$log")" "$output"
}

exits() { [ "$status" -eq "$1" ] || fail "$2: expected exit code $1"; }
says() { grep -qF -- "$1" <<<"$output" || fail "$2: expected to read '$1'"; }
calls() { grep -qxF -- "$1" "$log" || fail "$2: expected the call '$1'"; }
never_calls() { ! grep -q -- "^$1" "$log" || fail "$2: must not call $1"; }

apt_options="-q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0"

what="test with everything installed"
fresh; run test
exits 0 "$what"
never_calls apt-get "$what"
calls "cmake --preset release" "$what"
calls "cmake --build --preset release --parallel 2" "$what"
calls "ctest --preset release --parallel 8" "$what"
[ "$(tail -n 1 <<<"$output")" = "100% tests passed, 0 tests failed out of 7" ] ||
  fail "$what: the last line must be ctest's count"

what="test of another preset with ctest options"
fresh; run test asan -R planner
calls "cmake --build --preset asan --parallel 2" "$what"
calls "ctest --preset asan --parallel 8 -R planner" "$what"

# line_of PATTERN: where in the calls the first one that begins so stands.
line_of() { grep -n "^$1" "$log" | head -n 1 | cut -d: -f1; }

what="test builds the planner while it installs what the planner does not need"
fresh; installed_except cmake libgtest-dev chromium
stand_in apt-get 'case $* in *chromium*) sleep 0.3; echo "chromium is there" >>'"'$log'"' ;; esac'
run test
exits 0 "$what"
calls "apt-get $apt_options install --no-install-recommends cmake" "$what"
planner=$(line_of "cmake --build --preset release --target lowgear_planner ")
installed=$(line_of "chromium is there")
all=$(line_of "cmake --build --preset release --parallel")
[ "${planner:-0}" -gt 0 ] && [ "$planner" -lt "${installed:-0}" ] && [ "$installed" -lt "${all:-0}" ] || fail "$what"

what="test with a missing package in a folder that was built before"
fresh; installed_except chromium; mkdir -p "$work/project/build/release"; touch "$work/project/build/release/build.ninja"
run test
exits 0 "$what"
never_calls "cmake --build --preset release --target" "$what"

what="test with missing packages, and neither root nor sudo"
fresh; installed_except chromium; stand_in id 'echo 1000'; run test
exits 1 "$what"
says "apt-get install chromium" "$what"
never_calls cmake "$what"

what="test without what could not be installed during the build"
fresh; installed_except chromium; stand_in apt-get '[[ $* != *chromium* ]] || { echo "no such archive"; exit 100; }'
run test
exits 1 "$what"
says "no such archive" "$what"
never_calls ctest "$what"

what="missing packages as root"
fresh; installed_except libgtest-dev ninja-build; run build
exits 0 "$what"
calls "apt-get $apt_options update" "$what"
calls "apt-get $apt_options install --no-install-recommends ninja-build libgtest-dev" "$what"

what="missing packages with sudo"
fresh; installed_except cmake; stand_in id 'echo 1000'; stand_in sudo 'exec "$@"'; run build
exits 0 "$what"
calls "sudo env DEBIAN_FRONTEND=noninteractive apt-get $apt_options install --no-install-recommends cmake" "$what"

what="missing packages with neither root nor sudo"
fresh; installed_except cmake; stand_in id 'echo 1000'; run build
exits 1 "$what"
says "apt-get install cmake" "$what"
never_calls "cmake" "$what"

what="packages that cannot be installed"
fresh; installed_except cmake; stand_in apt-get '[[ $* != *install* ]] || { echo "no such archive"; exit 100; }'; run build
exits 1 "$what"
says "no such archive" "$what"
never_calls "cmake" "$what"

what="package lists that cannot be updated"
fresh; installed_except cmake; stand_in apt-get '[[ $* != *update* ]]'; run build
exits 0 "$what"
calls "apt-get $apt_options install --no-install-recommends cmake" "$what"

what="no Debian"
fresh; rm "$bin/dpkg-query"; run build
exits 1 "$what"
says "LOWGEAR_INSTALL=never" "$what"

what="no Debian, told to install nothing"
fresh; rm "$bin/dpkg-query"; install=never run build
exits 0 "$what"

what="only what a command needs"
fresh; installed_except libgtest-dev chromium clang; run quickstart
never_calls apt-get "$what"

what="quickstart plans before it installs and builds what training needs"
fresh; installed_except libtorch-dev; stand_in python3 ''; run quickstart
exits 0 "$what"
planned=$(line_of "lowgear_planning plan")
installed=$(line_of "apt-get .*install .*libtorch-dev")
trainer=$(line_of "cmake --build .*lowgear_trainer_program")
[ "${planned:-0}" -gt 0 ] && [ "$planned" -lt "${installed:-0}" ] && [ "$installed" -lt "${trainer:-0}" ] || fail "$what"
calls "cmake --preset release -DLOWGEAR_BUILD_TESTS=OFF -DLOWGEAR_BUILD_BENCH=OFF -DLOWGEAR_ONLY_MODULES=cli" "$what"
calls "cmake --preset release -DLOWGEAR_BUILD_TESTS=OFF -DLOWGEAR_BUILD_BENCH=OFF" "$what"

what="examples in a folder that has every module"
fresh; mkdir -p "$work/project/build/release"; stand_in python3 ''
touch "$work/project/build/release/build.ninja"
echo "LOWGEAR_ONLY_MODULES:STRING=" >"$work/project/build/release/CMakeCache.txt"; run quickstart
exits 0 "$what"
never_calls "cmake --preset" "$what"

what="quickstart after a test that ended while packages were installed"
fresh; mkdir -p "$work/project/build/release"; stand_in python3 ''
touch "$work/project/build/release/build.ninja"
echo "LOWGEAR_ONLY_MODULES:STRING=planner" >"$work/project/build/release/CMakeCache.txt"; run quickstart
exits 0 "$what"
calls "cmake --preset release -DLOWGEAR_BUILD_TESTS=OFF -DLOWGEAR_BUILD_BENCH=OFF -DLOWGEAR_ONLY_MODULES=cli" "$what"

what="quickstart stops where a step fails"
fresh; stand_in python3 'exit 1'; run quickstart
exits 1 "$what"
calls "python3 examples/closed-loop/closed_loop.py build/release out/quickstart" "$what"

what="quickstart without a build"
fresh; stand_in cmake '[[ $1 != --build ]] || { echo "a.cpp:1: error: reason"; exit 1; }'; stand_in python3 ''
run quickstart
exits 1 "$what"
says "a.cpp:1: error: reason" "$what"
says "the whole log is build/release/build.log" "$what"
never_calls "python3" "$what"

what="quickstart on a full disk"
fresh; stand_in cmake '[[ $1 != --build ]] || { echo "error: No space left on device"; exit 1; }'; run quickstart
exits 1 "$what"
says "the disk is full" "$what"

what="quickstart says first what follows, prints no line for each step, and ends with commands that can be typed"
fresh; stand_in python3 ''
stand_in cmake '[[ $1 != --build ]] || { printf "[0/2] Re-checking globbed directories...\n[1/2] Re-running CMake...\n"
  [[ $* != *lowgear_planning* ]] || printf "[%s/150] Building a.cpp\n" {1..150}; }'
stand_in lowgear_planning 'echo "plan 00000"; echo "next: lowgear verify"' "$work/project/build/release/bin"
run quickstart
exits 0 "$what"
[[ $output == "[dev] quickstart, without a GPU"* ]] || fail "$what: the steps must come first"
says "step 150 of 150" "$what"
! grep -qF "of 2," <<<"$output" || fail "$what: must not count the steps of CMake"
says "plan 00000" "$what"
says "$work/project/build/release/bin/lowgear plan" "$what"
says "$work/project/build/release/bin/lowgear doctor" "$what"
for line in "Building" "lowgear verify"; do
  ! grep -qF -- "$line" <<<"$output" || fail "$what: must not print '$line'"
done
[ "$(wc -l <<<"$output")" -le 40 ] || fail "$what: more than 40 lines"

what="quickstart with a profile of the folder where it is called"
fresh; stand_in python3 ''; touch "$work/mine.csv"; run quickstart --profile mine.csv --microbatches 12
exits 0 "$what"
calls "lowgear_planning plan $work/mine.csv --microbatches 12 --out out/quickstart-profile/plan" "$what"
never_calls "lowgear_planning example" "$what"

what="a configuration that fails"
fresh; stand_in cmake 'echo "CMake Error: reason"; exit 1'; run build debug
exits 1 "$what"
says "CMake Error: reason" "$what"

what="a build that fails"
fresh; stand_in cmake '[[ $1 != --build ]]'; run test
exits 1 "$what"
never_calls ctest "$what"

what="tests that fail"
fresh; stand_in ctest 'exit 8'; run test
exits 1 "$what"

what="test where one fails"
fresh
stand_in ctest '
  logs=build/release/Testing/Temporary
  mkdir -p "$logs"
  echo 2:client.python >"$logs/LastTestsFailed.log"
  for test in "1/2 client.abi" "2/2 client.python"; do
    printf "%s Test: %s\nOutput:\n---\n" $test
    seq -f "line %g of ${test#* }" 50
    printf "<end of output>\nTest time = 1 sec\n"
  done >"$logs/LastTest.log"
  echo "50% tests passed, 1 tests failed out of 2"
  exit 8'
ln -s "$(command -v seq)" "$bin/seq"
run test
exits 1 "$what"
says "the last lines of client.python:" "$what"
says "line 11 of client.python" "$what"
says "line 50 of client.python" "$what"
for line in "line 10 of client.python" "of client.abi" "Test time"; do
  ! grep -qF -- "$line" <<<"$output" || fail "$what: must not print '$line'"
done
[ "$(tail -n 1 <<<"$output")" = "50% tests passed, 1 tests failed out of 2" ] ||
  fail "$what: the last line must be ctest's count"

what="a fuzz target by name and time"
fresh; stand_in csv_fuzzer '' "$work/project/build/fuzz/bin"; run fuzz csv 5
exits 0 "$what"
calls "cmake --build --preset fuzz --target csv_fuzzer --parallel 2" "$what"
grep -q '^csv_fuzzer -max_total_time=5 .* build/fuzz/found/csv/corpus fuzz/corpus/csv$' "$log" || fail "$what: not run"

what="packages"
fresh; installed_except dpkg-dev libgtest-dev
stand_in cmake '[[ $1 != --build ]] || printf "[%s/9] Building a.cpp\n" {1..9}'
stand_in cpack 'mkdir -p build/package/packages/_CPack_Packages && : >build/package/packages/lowgear_2_amd64.deb'
mkdir -p "$work/project/build/package/packages" && touch "$work/project/build/package/packages/lowgear_1_amd64.deb"
run package
exits 0 "$what"
calls "apt-get $apt_options install --no-install-recommends dpkg-dev" "$what"
calls "cmake --build --preset package --parallel 2" "$what"
says "lowgear_2_amd64.deb" "$what"
says "step 9 of 9" "$what"
! grep -qF "Building a.cpp" <<<"$output" || fail "$what: must not print the lines of ninja"
[ "$(ls "$work/project/build/package/packages")" = lowgear_2_amd64.deb ] || fail "$what: other files are left"

what="a wheel"
fresh; mkdir -p "$work/project/build/package/wheel" && touch "$work/project/build/package/wheel/lowgear-1.whl"
stand_in cmake 'case "$*" in *lowgear_wheel*) mkdir -p build/package/wheel && : >build/package/wheel/lowgear-2.whl ;; esac'
run wheel
exits 0 "$what"
calls "cmake --build --preset package --target lowgear_wheel --parallel 2" "$what"
says "lowgear-2.whl" "$what"
[ "$(ls "$work/project/build/package/wheel")" = lowgear-2.whl ] || fail "$what: other files are left"

# What `./dev image` needs: packages, a wheel, and a commit.
fresh_for_images() {
  fresh
  stand_in cpack 'mkdir -p build/package/packages && : >build/package/packages/lowgear_2_amd64.deb'
  stand_in cmake 'case "$*" in *lowgear_wheel*) mkdir -p build/package/wheel && : >build/package/wheel/lowgear-2.whl ;; esac'
  stand_in dpkg-deb 'echo 2'
  stand_in git 'echo 1700000000'
  stand_in python3 'echo "epoch $SOURCE_DATE_EPOCH"'
}
built="python3 deploy/images/build_images.py --debs build/package/packages --wheel build/package/wheel/lowgear-2.whl"

what="an image"
fresh_for_images; run image agent
exits 0 "$what"
calls "$built --version 2 --out build/image agent" "$what"
says "epoch 1700000000" "$what"

what="all images, checked"
fresh_for_images; run image --check
calls "$built --version 2 --out build/image" "$what"
calls "$built --version 2 --out build/image.again --cache build/image/apt" "$what"
calls "python3 tests/deploy/images/check_images.py build/image build/image.again" "$what"

what="images checked by a user who is not root"
fresh_for_images; stand_in id 'echo 1000'; run image --check
exits 1 "$what"
says "run --check as root" "$what"
never_calls python3 "$what"

what="an image that cannot be built"
fresh_for_images; stand_in python3 'exit 1'; run image server
exits 1 "$what"
says "the images could not be built" "$what"

what="packages that cannot be made"
fresh; stand_in cpack 'echo "CPack Error: reason"; exit 1'; run package
exits 1 "$what"
says "CPack Error: reason" "$what"

what="as many processes as the machine carries"
fresh; jobs='' run build
grep -qE '^cmake --build --preset release --parallel [1-9][0-9]*$' "$log" || fail "$what: no bound on the processes"

for arguments in "" "nonsense" "build nonsense" "build debug asan" "test fuzz" "fuzz nonsense" "fuzz csv soon" \
                 "fuzz csv 5 6" "bench nonsense" "quickstart now" "quickstart --profile" "quickstart --profile none.csv" \
                 "quickstart --microbatches 4" "package now" "wheel now" "image now" "image agent now" "image --check agent" "lint now" "format now"; do
  # shellcheck disable=SC2086  # a list of words
  fresh && run $arguments
  exits 2 "bad usage: ./dev $arguments"
  never_calls cmake "bad usage: ./dev $arguments"
done

fresh; jobs=many run build
exits 2 "bad usage: LOWGEAR_JOBS=many"

fresh; run help
exits 0 "help"
says "usage: ./dev COMMAND" "help"

unexplained=$(awk '/^[a-z]/ { print $2 }' "$project/cmake/packages.txt" | while read -r package; do
  grep -qF "\`$package\`" "$project/docs/dependencies.md" || echo "$package"
done)
[ -z "$unexplained" ] || { output=$unexplained; fail "docs/dependencies.md does not explain every package"; }

echo "$failures failed"
[ "$failures" -eq 0 ]
