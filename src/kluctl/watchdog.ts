import { constants, getPriority } from "node:os";

/**
 * What stands between us and every process we start: a shell that leads the process group and listens for heartbeats on
 * descriptor 3. Node cannot end a child once it is frozen (SIGSTOP, a starved machine) or gone (SIGKILL); the watch can,
 * and so kluctl never outlives the lease it works under.
 *
 * - The whole group is killed, the shell included, after `seconds`, or at the end of descriptor 3. Each line on it says after how
 *   many seconds from now instead.
 * - SIGTERM to the group ends the command but not the shell, which goes on watching one that ignores it.
 * - The command's exit status is passed on (128 + signal number when a signal ended it), and the watch ends with it.
 * - The command runs at a lower priority than the server: renders that fill the machine shall delay neither the lease's renewals
 *   nor the answers to webhooks.
 * - The command does not get descriptor 3, leaves no core dump, and what it writes only we can read: results hold secrets.
 */
const script = `
seconds=$1; shift
ulimit -c 0; umask 077
trap : TERM
"$@" 3<&- & child=$!
( trap '' TERM; while read -r -t "$seconds" -u 3 seconds; do :; done; kill -KILL 0 ) >/dev/null 2>&1 & watch=$!
until wait "$child"; status=$?; ! kill -0 "$child" 2>/dev/null; do :; done
kill -KILL "$watch"; exit "$status"`;

const lowPriority = constants.priority.PRIORITY_BELOW_NORMAL;

/** To be spawned as leader of its own group, with a pipe as descriptor 3 that gets a `watchLine` in time. */
export function underWatch(leftMs: number, command: string, args: readonly string[]): [string, string[]] {
  // Whoever has it already hands it on, and that spares a program.
  const lowered = getPriority() >= lowPriority ? [] : ["nice", "-n", String(lowPriority)];
  return ["bash", ["-c", script, "watchdog", seconds(leftMs), ...lowered, command, ...args]];
}

export function watchLine(leftMs: number): string {
  return `${seconds(leftMs)}\n`;
}

function seconds(ms: number): string {
  return (Math.max(ms, 1) / 1_000).toFixed(3);
}
