import { expect, test } from "vitest";
import { createMissedWebhooks } from "../../../src/intake/missed-webhooks.ts";
import type { DeliveryRecord } from "../../../src/model/delivery-record.ts";
import type { MissedPushes } from "../../../src/model.ts";
import { findSilentForges } from "../../../src/reporting/notifications/webhook-notices.ts";
import { aDeployment } from "../../support/deployments.ts";

const shop = { repo: "git.example.com/org/shop", url: "https://git.example.com/org/shop", ref: "main" };
const commit = (letter: string) => letter.repeat(40);

function aDelivery(own: Partial<DeliveryRecord>): DeliveryRecord {
  const counts = { matched: 0, queued: 0, ignoredMore: 0, ms: 1 };
  const lists = { deployments: [], ignored: [] };
  return { v: 1, forge: "gitea", at: 0, status: 202, event: "push", repoName: "Org/shop", ...counts, ...lists, ...own };
}

function aWorld() {
  let now = 1_000;
  const stored = new Map<string, MissedPushes>();
  const deliveries: DeliveryRecord[] = [];
  const observed: string[] = [];
  const explained: (string | undefined)[] = [];
  const webhooks = createMissedWebhooks({
    senders: () => ["gitea"],
    speaksFor: (_forge, url) => !url.startsWith("https://other.example.com/"),
    isHostedBy: (_forge, url) => url.startsWith("https://git.example.com/"),
    deliveries: { latest: () => Promise.resolve(deliveries) },
    store: {
      all: () => Promise.resolve([...stored.values()]),
      save: (_forge, missed) => Promise.resolve(void stored.set(missed.repo, missed)),
      saveReason: () => Promise.resolve(),
      remove: (_forge, repo) => Promise.resolve(void stored.delete(repo)),
    },
    observe: (forge) => void observed.push(forge),
    explain: (_forge, { reason }) => void explained.push(reason?.kind),
    clock: { now: () => now },
  });
  const find = (letter: string) => webhooks.note([{ ...shop, commit: commit(letter) }]);
  return { webhooks, stored, deliveries, observed, explained, find, pass: (ms: number) => void (now += ms) };
}

test("pushes that no webhook reported are counted until one arrives again", async () => {
  const { webhooks, deliveries, observed, find, pass } = aWorld();
  await find("a");
  pass(1_000);
  await find("a"); // the sweep finds it until it is deployed
  pass(1_000);
  await find("b");
  expect(await webhooks.missed("gitea")).toEqual([
    { v: 1, repo: shop.repo, ref: "main", since: 1_000, lastAt: 3_000, count: 2, commit: commit("b") },
  ]);
  expect(observed).toEqual(["gitea", "gitea"]);
  deliveries.push(aDelivery({ at: 4_000, commit: commit("c") }));
  expect(await webhooks.missed("gitea")).toEqual([]);
});

test("a push whose webhook came is not missed, and a forged delivery proves nothing", async () => {
  const { webhooks, deliveries, find } = aWorld();
  deliveries.push(aDelivery({ commit: commit("a") }), aDelivery({ commit: commit("x"), others: [commit("b")] }));
  await find("a");
  await find("b");
  expect(await webhooks.missed("gitea")).toEqual([]);
  deliveries.push(aDelivery({ at: 9_000, commit: commit("c"), refused: "wrong signature", status: 401 }));
  await find("c");
  expect(await webhooks.missed("gitea")).toHaveLength(1);
});

test("another repository's webhook, and a repository of another host, change nothing", async () => {
  const { webhooks, deliveries, find } = aWorld();
  await find("a");
  deliveries.push(aDelivery({ at: 9_000, repoName: "org/other-shop" }));
  await webhooks.note([
    { ...shop, repo: "other.example.com/shop", url: "https://other.example.com/shop", commit: commit("d") },
  ]);
  expect((await webhooks.missed("gitea")).map(({ repo }) => repo)).toEqual([shop.repo]);
});

test("two pushes in a row are worth a notification, one is not", async () => {
  const { webhooks, find } = aWorld();
  const deployment = aDeployment();
  await find("a");
  expect(await findSilentForges(["gitea"], webhooks, [deployment])).toEqual([]);
  await find("b");
  expect(await findSilentForges(["gitea"], webhooks, [deployment])).toMatchObject([
    { kind: "webhooks", about: "gitea", deployments: [deployment], lines: [{ name: shop.repo, state: "warning" }] },
  ]);
});

test("on a host that is not known to be the forge's, webhooks are only missing once there were some", async () => {
  const { webhooks, deliveries } = aWorld();
  const mirror = { repo: "mirror.example.com/org/shop", url: "https://mirror.example.com/org/shop", ref: "main" };
  expect(await webhooks.note([{ ...mirror, commit: commit("a") }])).toEqual([]);
  deliveries.push(aDelivery({ at: 0, commit: commit("a") }));
  expect(await webhooks.note([{ ...mirror, commit: commit("b") }])).toEqual([mirror.repo]);
});

test("the reason stays with further pushes, and is part of the notification", async () => {
  const { webhooks, stored, explained, find } = aWorld();
  await find("a");
  stored.set(shop.repo, { ...stored.get(shop.repo)!, reason: { kind: "disabled", host: "towline.example.com" } });
  await find("b");
  expect(explained).toEqual([undefined, "disabled"]);
  const [notice] = await findSilentForges(["gitea"], webhooks, [aDeployment()]);
  expect(notice?.lines[0]?.text).toMatch(
    /since 1970-01-01 00:00 UTC: the git host has disabled the webhook to towline/,
  );
});
