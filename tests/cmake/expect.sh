# expect.sh, to be sourced by tests of a check, whose script is their argument. They define run_check, which runs $check
# on what they have written to the folder $work.
# shellcheck disable=SC2034  # the tests use both
check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect STATUS TEXT DESCRIPTION: the check must exit with STATUS and print TEXT ("" for nothing at all).
expect() {
  output=$(run_check 2>&1)
  status=$?
  if [ "$status" -ne "$1" ]; then
    echo "FAILED: $3: exit code $status instead of $1: $output"
  elif [ -z "$2" ] && [ -n "$output" ]; then
    echo "FAILED: $3: not silent: $output"
  elif ! printf '%s\n' "$output" | grep -qF -- "$2"; then
    echo "FAILED: $3: '$2' is not in: $output"
  else
    echo "ok: $3"
    return
  fi
  failures=$((failures + 1))
}
