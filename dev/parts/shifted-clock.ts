/**
 * Preloaded into a process whose machine's clock is off, by what a file says in milliseconds; a test may write it at any time.
 * `Date` follows it, and timers do not: so it is where somebody sets the clock.
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

/** The variables of a process with such a clock, and how to set it. */
export async function aShiftedClock(dir: string, ms: number, name = "clock") {
  const clockFile = join(dir, name);
  const set = (to: number) => writeFile(clockFile, String(to));
  await set(ms);
  const preload = `--import ${pathToFileURL(import.meta.filename).href}`;
  return { env: { NODE_OPTIONS: preload, TEST_CLOCK_FILE: clockFile }, set };
}
