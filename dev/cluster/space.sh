#!/bin/bash
# Runs a command in namespaces of its own: network, mounts, processes. What it starts, mounts and changes there is gone with
# it, whatever ends it. The first argument is an empty directory.
set -eu
dir=$1
shift
mount --make-rprivate /
# What is written below /var (logs of pods, leases of addresses) lies in the directory; /run is empty.
mkdir -p "$dir/var" "$dir/var-work"
mount -t overlay overlay -o "lowerdir=/var,upperdir=$dir/var,workdir=$dir/var-work" /var
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t bpf bpf /sys/fs/bpf
# The kubelet and Cilium's agent set these for the whole machine, unless they are what they want.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000 \
  kernel/timer_migration=0 kernel/unprivileged_bpf_disabled=1; do
  [ -e "/proc/sys/${setting%=*}" ] || continue
  file=$dir/${setting//\//.}
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
# The first process of a namespace has to bury those whose parents have gone, which a shell that waits does.
"$@" &
child=$!
trap '' INT TERM HUP # who started us ends all of it at once
wait "$child"
