#!/bin/sh
# Makes the tokens in the folders where kustomize looks for them: for the server (all three), for Prometheus (read), and
# for training jobs (read,jobs). Fails if there are tokens already.
set -eu
cd "$(dirname "$0")"
umask 077
tokens=base/tokens/server.tokens
if [ -e "$tokens" ]; then
  echo "$tokens exists; remove it to make new ones" >&2
  exit 1
fi
secret() { od -An -v -tx1 -N32 /dev/urandom | tr -d ' \n'; }
read_token=$(secret)
train_token=$(secret)
printf 'read name=prometheus %s\nread,jobs name=training %s\nread,jobs,operate name=operators %s\n' "$read_token" "$train_token" "$(secret)" >"$tokens"
printf '%s' "$read_token" >base/tokens/read.token
printf '%s' "$train_token" >examples/token/train.token
