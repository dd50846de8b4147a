import { constants, getPriority } from "node:os";

/**
 * Runs between us and every process we start: a shell that leads the process group and listens for heartbeats on
 * descriptor 3. Node cannot end a child while Node itself is frozen (SIGSTOP, an overloaded machine) or after it was
 * killed (SIGKILL). The watchdog can, so kluctl never outlives its lease.
 *
 * - The watchdog kills the whole group, including the shell, after `seconds` or when descriptor 3 is closed. Each line
 *   read from it is a new number of seconds, counted from then.
 * - SIGTERM to the group ends the command but not the shell, which keeps watching a command that ignores it.
 * - The command's exit status is passed on (128 + signal number if a signal ended it), and the watchdog ends with it.
 * - The command runs at a lower priority than the server: renders that use all CPUs must delay neither the lease's
 *   renewals nor the responses to webhooks.
 * - The command gets stdin (`<&0`), which a shell replaces for processes in the background.
 * - The command does not get descriptor 3, leaves no core dump, and creates files that only we can read: results hold
 *   secrets.
 */
const script = `
seconds=$1; shift
ulimit -c 0; umask 077
trap : TERM
"$@" <&0 3<&- & child=$!
( trap '' TERM; while read -r -t "$seconds" -u 3 seconds; do :; done; kill -KILL 0 ) >/dev/null 2>&1 & watch=$!
until wait "$child"; status=$?; ! kill -0 "$child" 2>/dev/null; do :; done
kill -KILL "$watch"; exit "$status"`;

const lowPriority = constants.priority.PRIORITY_BELOW_NORMAL;

/**
 * Returns the command to spawn as leader of its own process group, with a pipe as descriptor 3 that must receive a
 * `watchLine` in time.
 */
export function underWatch(leftMs: number, command: string, args: readonly string[]): [string, string[]] {
  // A lower priority is inherited, so `nice` is not needed if this process already has it.
  const lowered = getPriority() >= lowPriority ? [] : ["nice", "-n", String(lowPriority)];
  // Node connects stdin by a socket, which bash takes for a login from another machine: it would run ~/.bashrc.
  return ["bash", ["--norc", "-c", script, "watchdog", seconds(leftMs), ...lowered, command, ...args]];
}

export function watchLine(leftMs: number): string {
  return `${seconds(leftMs)}\n`;
}

function seconds(ms: number): string {
  return (Math.max(ms, 1) / 1_000).toFixed(3);
}
