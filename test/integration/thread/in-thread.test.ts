/** The thread for large texts: its calls, and what happens to other calls if one fails. */
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { threadId } from "node:worker_threads";
import { expect, test } from "vitest";
import { inThread, ThreadError } from "../../../src/kit/in-thread.ts";
import { block, exit, fail, whereAmI } from "../../support/thread-fixture.ts";

const fixture = new URL("../../support/thread-fixture.ts", import.meta.url);
const ask = (word: string) => inThread(fixture.href, whereAmI, [word]);

test("calls run in a thread, and concurrent ones share it", async () => {
  const answers = await Promise.all(["one", "two", "three"].map(ask));
  expect(answers.map(({ word }) => word)).toEqual(["one", "two", "three"]);
  const threads = new Set(answers.map(({ thread }) => thread));
  expect(threads.size).toBe(1);
  expect(threads.has(threadId)).toBe(false);
});

test("an exception of a function rejects its own call only", async () => {
  const failing = inThread(fixture.href, fail, []);
  const [failed, other] = await Promise.allSettled([failing, ask("after it")]);
  expect(failed).toMatchObject({
    status: "rejected",
    reason: { name: "RangeError", message: "there is no such line" },
  });
  expect(other).toMatchObject({ status: "fulfilled", value: { word: "after it" } });
});

test("a thread that ends fails one call; the next one gets a new thread", async () => {
  const ending = inThread(fixture.href, exit, []);
  const [ended, other] = await Promise.allSettled([ending, ask("after the end")]);
  expect(ended).toMatchObject({ status: "rejected", reason: expect.any(ThreadError) as unknown });
  expect(other).toMatchObject({ status: "fulfilled", value: { word: "after the end" } });
});

test("a signal aborts its own call only, also while the call waits or never ends", async () => {
  const running = new AbortController();
  const waiting = new AbortController();
  const blocked = inThread(fixture.href, block, [], running.signal);
  const behind = inThread(fixture.href, whereAmI, ["behind"], waiting.signal);
  const last = ask("last");
  waiting.abort(new Error("nobody waits any more"));
  await expect(behind).rejects.toThrow("nobody waits any more");
  running.abort(new Error("enough"));
  await expect(blocked).rejects.toThrow("enough");
  await expect(last).resolves.toMatchObject({ word: "last" });
  await expect(inThread(fixture.href, whereAmI, ["never"], running.signal)).rejects.toThrow("enough");
});

test("a process with nothing else to do waits for the answer, and exits although the thread exists", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [fixture.pathname, "run"]);
  expect(stdout).toBe("done\n");
});
