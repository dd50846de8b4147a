import { expect, test } from "vitest";
import { createSweepPaces } from "../../../src/intake/sweep-pace.ts";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import type { MissedPushes, SweepPace } from "../../../src/model.ts";

const [second, minute] = [1_000, 60_000];
const shop = { repo: "git.example.com/org/shop", url: "https://git.example.com/org/shop" };

function aWorld({ isAdaptive = true } = {}) {
  let now = minute;
  const deliveries: DeliveryRecord[] = [];
  const missing: MissedPushes[] = [];
  const recorded: SweepPace[] = [];
  const explained: string[] = [];
  const state = { down: false };
  const answer = async <T>(value: T): Promise<T> => {
    if (state.down) throw new Error("Redis is away");
    return value;
  };
  const paces = createSweepPaces({
    usualMs: () => minute,
    isAdaptive: () => isAdaptive,
    sendersFor: (url) => (url.startsWith("https://git.example.com/") ? ["gitea"] : []),
    deliveries: { latest: () => answer(deliveries) },
    missedWebhooks: { missed: () => answer(missing) },
    explain: (_forge, { repo }) => void explained.push(repo),
    store: { save: async (pace) => void recorded.push(await answer(pace)) },
    clock: { now: () => now },
  });
  const counts = { matched: 0, queued: 0, ignoredMore: 0, ms: 1, deployments: [], ignored: [] };
  return {
    ...{ paces, missing, recorded, explained, state },
    every: () => paces.longestMs(shop) / second,
    look: async (commit: string, of = shop) => {
      now += second;
      await paces.looked([{ ...of, ref: "main", commit }]);
    },
    deliver: (commit: string) =>
      void deliveries.unshift({ v: 1, forge: "gitea", at: now, status: 202, event: "push", commit, ...counts }),
    miss: () => {
      missing.push({ v: 1, repo: shop.repo, ref: "main", since: now, lastAt: now, count: 1 });
      paces.missed(shop.repo);
    },
  };
}

/** Three pushes that webhooks report. */
async function prove({ look, deliver }: ReturnType<typeof aWorld>) {
  await look("start");
  for (const commit of ["a", "b", "c"]) {
    deliver(commit);
    await look(commit);
  }
  await look("c");
}

test("a repository is asked rarely once webhooks reported three pushes, and a restart forgets it", async () => {
  const world = aWorld();
  const { paces, look, deliver, every, recorded } = world;
  await look("start");
  for (const commit of ["a", "b", "c"]) {
    expect(every()).toBe(60);
    deliver(commit);
    await look(commit);
  }
  expect(every()).toBe(60); // the last one is judged at the next look
  await look("c");
  expect([every(), paces.everyMs(shop) / second]).toEqual([300, 60]);
  expect(recorded.map(({ pace, everyMs }) => [pace, everyMs / second])).toEqual([
    ["usual", 60],
    ["rarely", 300],
  ]);
  expect(aWorld().every()).toBe(60);
});

test("a missed webhook makes it often until one arrives, and then as many pushes have to be reported again", async () => {
  const world = aWorld();
  const { look, deliver, every, miss, missing, explained } = world;
  await prove(world);
  await look("lost");
  miss();
  expect(every()).toBe(10);
  await look("lost");
  expect([every(), explained]).toEqual([10, [shop.repo]]);

  deliver("d");
  missing.pop();
  await look("d");
  expect(every()).toBe(60);
  for (const commit of ["e", "f"]) {
    deliver(commit);
    await look(commit);
    expect(every()).toBe(60);
  }
  await look("f");
  expect(every()).toBe(300);
});

test("a webhook that comes just after the sweep proves as much as one before", async () => {
  const world = aWorld();
  const { look, deliver, every, miss, missing } = world;
  await prove(world);
  await look("d");
  miss();
  deliver("d");
  missing.pop();
  expect(every()).toBe(10);
  await look("d");
  expect(every()).toBe(300);
});

test("what was missed before a restart is still missing", async () => {
  const { look, every, miss } = aWorld();
  miss(); // the repository is not known yet: only Redis has it
  expect(every()).toBe(60);
  await look("start");
  expect(every()).toBe(10);
});

test("no push is judged while Redis is away, and none is forgotten", async () => {
  const world = aWorld();
  const { look, every, deliver, state } = world;
  await prove(world);
  await look("lost");
  state.down = true;
  await expect(look("d")).rejects.toThrow("Redis is away");
  expect(every()).toBe(300);
  state.down = false;
  deliver("d");
  await look("d");
  expect(every()).toBe(60);
});

test("without a sender of webhooks nothing is proven, and without adapting it does not matter", async () => {
  const { paces, look, deliver } = aWorld();
  const other = { repo: "other.example.com/shop", url: "https://other.example.com/shop" };
  for (const commit of ["start", "a", "b", "c", "c"]) {
    deliver(commit);
    await look(commit, other);
  }
  expect(paces.longestMs(other)).toBe(minute);
  const fixed = aWorld({ isAdaptive: false });
  await prove(fixed);
  fixed.miss();
  expect(fixed.every()).toBe(60);
});
