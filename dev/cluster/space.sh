#!/bin/bash
# Runs a command in network, mount and process namespaces of its own. Processes, mounts and settings in them end with it,
# however it ends. The first argument is an empty directory.
set -eu
dir=$1
shift
mount --make-rprivate /
# Writes below /var (logs of pods, address leases) go to the directory; /run is empty.
mkdir -p "$dir/var" "$dir/var-work"
mount -t overlay overlay -o "lowerdir=/var,upperdir=$dir/var,workdir=$dir/var-work" /var
mount -t tmpfs -o mode=0755 tmpfs /run
mount -t bpf bpf /sys/fs/bpf
# The kubelet and Cilium's agent would set these for the whole machine unless they have the required values already.
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000 \
  kernel/timer_migration=0 kernel/unprivileged_bpf_disabled=1; do
  [ -e "/proc/sys/${setting%=*}" ] || continue
  file=$dir/${setting//\//.}
  echo "${setting#*=}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
# The first process of a namespace has to reap orphaned processes, which a waiting shell does.
"$@" &
child=$!
trap '' INT TERM HUP # the parent kills the whole namespace at once
wait "$child"
