import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { patience } from "../../support/patience.ts";
import { useGitHost, useSources } from "../../support/source.ts";

const signal = new AbortController().signal;
const limits = { idleCheckouts: 1, checkoutIdleMs: 60_000 };

async function useRepo() {
  const repo = (await useGitHost()).repo("shop");
  repo.write("app/a.txt", "one");
  repo.write("other/b.txt", "two");
  repo.push();
  const watched = useSources({ limits });
  const checkOut = (path = "", asked = signal) =>
    watched.sources.checkout({ url: repo.url, ref: {}, credentials: [], path }, undefined, asked);
  return { repo, ...watched, checkOut };
}

test("checkouts of the same commit share one clone, which is kept until the repository moves", async () => {
  const { repo, checkOut, work } = await useRepo();
  const [app, other] = await Promise.all([checkOut("app"), checkOut("other")]);
  expect(app.root).toBe(other.root);
  expect(readFileSync(join(app.projectDir, "a.txt"), "utf8")).toBe("one");
  expect(readFileSync(join(other.projectDir, "b.txt"), "utf8")).toBe("two");
  await app.release();
  await app.release(); // only counts once
  expect(existsSync(other.projectDir)).toBe(true);
  await other.release();

  const later = await checkOut("app");
  expect(later.root).toBe(app.root);
  repo.write("app/a.txt", "newer");
  repo.push();
  const newer = await checkOut("app");
  expect(newer.root).not.toBe(app.root);
  expect(readFileSync(join(later.projectDir, "a.txt"), "utf8")).toBe("one");
  await later.release();
  await newer.release();
  expect(work()).toHaveLength(1);
  expect(existsSync(newer.root)).toBe(true);
});

test("a clone that was written to is not reused, and that repository's clones are no longer shared", async () => {
  const { checkOut, work } = await useRepo();
  const first = await checkOut();
  writeFileSync(join(first.root, "app/a.txt"), "changed");
  await first.release();
  await vi.waitFor(async () => {
    const next = await checkOut();
    const root = next.root;
    const content = readFileSync(join(root, "app/a.txt"), "utf8");
    await next.release();
    expect([root === first.root, content]).toEqual([false, "one"]);
  }, patience);
  const [one, two] = await Promise.all([checkOut(), checkOut()]);
  expect(one.root).not.toBe(two.root);
  await Promise.all([one.release(), two.release()]);
  expect(work().filter((name) => one.root.endsWith(name) || two.root.endsWith(name))).toEqual([]);
});

test("a caller that aborts while a clone is created does not affect the others, and the last caller removes it", async () => {
  const { checkOut, work } = await useRepo();
  const leaving = new AbortController();
  const both = Promise.allSettled([checkOut("app", leaving.signal), checkOut("app")]);
  leaving.abort(new Error("gone"));
  const [left, stayed] = await both;
  expect(left).toMatchObject({ status: "rejected", reason: { message: "gone" } });
  if (stayed.status === "rejected") throw stayed.reason;
  expect(existsSync(stayed.value.projectDir)).toBe(true);
  await stayed.value.release();
  expect(work()).toHaveLength(1);
});

test("a missing project directory does not affect other checkouts", async () => {
  const { checkOut, work } = await useRepo();
  const there = await checkOut("app");
  await expect(checkOut("nowhere")).rejects.toMatchObject({ problem: "path-not-found" });
  expect(existsSync(there.projectDir)).toBe(true);
  await there.release();
  expect(work()).toHaveLength(1);
});
