/** A server process for tests that kill it: its starter runs a process that ignores SIGTERM. */
import { monotonicNow } from "../../../src/kit/monotonic.ts";
import { startStarter } from "../../../src/starter/starter.ts";

const [cwd = ""] = process.argv.slice(2);
const { startWatched } = startStarter({ home: cwd, env: process.env });
const { ended } = startWatched(
  {
    ...{ command: "bash", args: ["-c", "trap '' TERM; echo begun >&2; while :; do sleep 0.05; done"] },
    ...{ cwd, env: { PATH: process.env["PATH"] ?? "" } },
    beatAt: monotonicNow(),
    limits: { silenceMs: 60_000, keptBytes: 1_000, lineLength: 1_000, lines: 10 },
  },
  () => process.stdout.write("begun\n"),
);
await ended;
