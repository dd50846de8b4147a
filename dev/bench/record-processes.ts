/**
 * Loaded into the server before everything else (`node --import`): records when each process that the server starts
 * begins and ends. The server itself is unchanged. Imports none of our modules, because it is loaded from another
 * directory.
 */
import type { ChildProcess } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { appendFileSync } from "node:fs";

const file = process.env["BENCH_PROCESS_LOG"];
if (file === undefined) throw new Error("BENCH_PROCESS_LOG names no file.");
const now = () => performance.timeOrigin + performance.now(); // as in clock.ts

subscribe("child_process", (message) => {
  const { process: child } = message as { process: ChildProcess };
  const from = now();
  child.once("exit", () => appendFileSync(file, `${JSON.stringify({ from, to: now(), args: child.spawnargs })}\n`));
});
