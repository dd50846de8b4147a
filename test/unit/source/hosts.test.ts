import { expect, test } from "vitest";
import { createHosts, type Conversation } from "../../../src/source/hosts.ts";

class Silence extends Error {}

function useHosts() {
  let time = 0;
  const hosts = createHosts({ callsPerHost: 4, now: () => time });
  const options: Conversation = { quick: true, isSilence: (error) => error instanceof Silence };
  const ask = (host: string, call: () => Promise<string>, more: Partial<Conversation> = {}) =>
    hosts.talk(host, call, { ...options, ...more });
  return { ask, pass: (ms: number) => (time += ms) };
}

const silent = () => Promise.reject(new Silence("nothing came"));
const fine = () => Promise.resolve("refs");
const resting = /does not respond in time; retrying/;

test("a host that does not respond is not asked for a while, and other hosts are", async () => {
  const { ask, pass } = useHosts();
  await expect(ask("dead", silent)).rejects.toThrow("nothing came");

  await expect(ask("dead", fine)).rejects.toMatchObject({
    problem: "unreachable",
    message: expect.stringMatching(resting) as string,
  });
  expect(await ask("alive", fine)).toBe("refs");
  pass(10_000);
  expect(await ask("dead", fine)).toBe("refs");
  expect(await ask("dead", fine)).toBe("refs");
});

test("after the pause one request probes the host for all, and each failure makes the pause longer", async () => {
  const { ask, pass } = useHosts();
  await Promise.allSettled([ask("dead", silent), ask("dead", silent)]); // they began together: one silence
  pass(10_000);
  const probe = Promise.withResolvers<string>();
  const probing = ask("dead", () => probe.promise);
  await expect(ask("dead", fine)).rejects.toThrow(resting);
  probe.reject(new Silence("nothing came"));
  await expect(probing).rejects.toThrow("nothing came");

  pass(19_999);
  await expect(ask("dead", fine)).rejects.toThrow(resting);
  pass(1);
  expect(await ask("dead", fine)).toBe("refs");
});

test("a refusal is a response, and slow commands and aborted calls do not count against a host", async () => {
  const { ask } = useHosts();
  await expect(ask("host", () => Promise.reject(new Error("401")))).rejects.toThrow("401");
  await expect(ask("host", silent, { quick: false })).rejects.toThrow("nothing came");
  const left = new AbortController();
  const leaving = ask("host", () => (left.abort(), silent()), { signal: left.signal });
  await expect(leaving).rejects.toThrow("nothing came");
  expect(await ask("host", fine)).toBe("refs");
});

test("a host that answers other requests in the meantime is not blamed for one silent repository", async () => {
  const { ask, pass } = useHosts();
  const slow = Promise.withResolvers<string>();
  const begun = Promise.withResolvers<void>();
  const asking = ask("host", () => (begun.resolve(), slow.promise));
  await begun.promise;
  pass(1);
  expect(await ask("host", fine)).toBe("refs");
  slow.reject(new Silence("nothing came"));
  await expect(asking).rejects.toThrow("nothing came");
  expect(await ask("host", fine)).toBe("refs");
});
