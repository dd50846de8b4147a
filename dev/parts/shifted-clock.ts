/**
 * Preloaded into a process to shift its clock by the number of milliseconds in a file, which a test may change at any
 * time. It changes `Date` but not timers, as when the clock of a machine is set.
 */
import { readFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const file = process.env["TEST_CLOCK_FILE"];
if (file !== undefined) shift(file);

function shift(from: string): void {
  const Real = Date;
  let [readAt, offset] = [-Infinity, 0];
  const now = () => {
    if (performance.now() - readAt > 100) [readAt, offset] = [performance.now(), Number(readFileSync(from, "utf8"))];
    return Real.now() + offset;
  };
  globalThis.Date = class extends Real {
    constructor(...args: readonly unknown[]) {
      super(...((args.length === 0 ? [now()] : args) as [number]));
    }
    static override now = now;
  } as DateConstructor;
}

/** Returns the environment of a process with such a clock, and a function that sets it. */
export async function aShiftedClock(dir: string, ms: number, name = "clock") {
  const clockFile = join(dir, name);
  const set = (to: number) => writeFile(clockFile, String(to));
  await set(ms);
  const preload = `--import ${pathToFileURL(import.meta.filename).href}`;
  return { env: { NODE_OPTIONS: preload, TEST_CLOCK_FILE: clockFile }, set };
}
