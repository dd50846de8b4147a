/**
 * The functions that tests run in the thread for large texts. Run as a program, it uses the thread once and then has to
 * exit by itself.
 */
import process from "node:process";
import { threadId } from "node:worker_threads";
import { inThread } from "../../src/kit/in-thread.ts";

export function whereAmI(word: string): { word: string; thread: number } {
  return { word, thread: threadId };
}

export function fail(): never {
  throw new RangeError("there is no such line");
}

export function exit(): void {
  process.exit(3);
}

export function block(): void {
  for (;;);
}

if (process.argv[2] === "run") {
  const { word } = await inThread(import.meta.url, whereAmI, ["done"]);
  process.stdout.write(`${word}\n`);
}
