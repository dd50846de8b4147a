#!/bin/bash
# Runs a command that reads the list of kernel modules and fails if the kernel does not support modules: without
# /proc/modules, the command sees an empty one. The first argument is an empty directory.
set -eu
dir=$1
shift
if [ ! -e /proc/modules ]; then
  mkdir -p "$dir/proc" "$dir/seen"
  mount --rbind /proc "$dir/proc"
  for path in "$dir"/proc/[!0-9]*; do ln -s "$path" "$dir/seen/"; done
  ln -s "$dir/proc/$$" "$dir/seen/$$" # exec keeps this process id for the command
  : >"$dir/seen/modules"
  mount --bind "$dir/seen" /proc
fi
exec "$@"
