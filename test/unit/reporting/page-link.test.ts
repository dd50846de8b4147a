import fc from "fast-check";
import { expect, test } from "vitest";
import { createPageLinks, linkExpiry, pullRequestAddress } from "../../../src/reporting/page-link.ts";

const dayMs = 24 * 3_600_000;
const now = Date.UTC(2026, 4, 4, 12);
const key = { forge: "gitea", repoName: "org/shop", number: 7 };
const links = createPageLinks("the login of the forge");

test("a link opens its pull request until it expires, at every replica with the same secret", () => {
  const text = links.sign(key, now + dayMs);
  const until = Date.UTC(2026, 4, 6);
  const replica = createPageLinks("the login of the forge");
  expect(replica.check(key, text, now)).toEqual({ state: "valid", until });
  expect(replica.check({ ...key, repoName: "Org/Shop" }, text, until - 1)).toEqual({ state: "valid", until });
  expect(replica.check(key, text, until)).toEqual({ state: "expired", until });
});

test("a link opens nothing else, and ends with the secret", () => {
  const text = links.sign(key, now + dayMs);
  for (const other of [
    { ...key, number: 8 },
    { ...key, number: 77 },
    { ...key, forge: "github" },
    { ...key, repoName: "org/shop2" },
  ])
    expect(links.check(other, text, now)).toEqual({ state: "invalid" });
  expect(createPageLinks("another login").check(key, text, now)).toEqual({ state: "invalid" });
});

test("a link whose expiry or signature was changed is invalid, not expired", () => {
  const [day = "", mac = ""] = links.sign(key, now - 10 * dayMs).split(".");
  expect(links.check(key, `${day}.${mac}`, now).state).toBe("expired");
  const made = [
    `${Number(day) + 99}.${mac}`,
    `0${day}.${mac}`,
    `${day}.${mac.slice(1)}`,
    `${day}.${mac}x`,
    day,
    mac,
    "",
  ];
  for (const text of [...made, `${day}.${"A".repeat(43)}`, `.${"A".repeat(43)}`])
    expect(links.check(key, text, now), text).toEqual({ state: "invalid" });
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(links.check(key, text, now)).toEqual({ state: "invalid" });
    }),
  );
});

test("the same report always has the same link, so that no comment is written again because of it", () => {
  const report = { startedAt: now, finishedAt: now + 2_000 };
  const sign = (at: typeof report) => links.sign(key, linkExpiry(at));
  expect(sign(report)).toBe(sign(report));
  expect(links.check(key, sign(report), now + 30 * dayMs)).toMatchObject({ state: "valid" });
  expect(links.check(key, sign(report), now + 31 * dayMs)).toMatchObject({ state: "expired" });
  // A new comparison extends it.
  const next = { startedAt: now + 5 * dayMs, finishedAt: now + 5 * dayMs };
  expect(links.check(key, sign(next), now + 35 * dayMs)).toMatchObject({ state: "valid" });
});

test("an address keeps the signature in its fragment, and nothing in it is markup", () => {
  const address = pullRequestAddress("https://towline.example.com", key, links.sign(key, now));
  expect(address).toMatch(
    /^https:\/\/towline\.example\.com\/#\/pull-requests\/gitea\/org\/shop\/7\?link=\d+\.[\w-]{43}$/,
  );
  const evil = { ...key, repoName: `a/"><img src=x>)](b)*~'` };
  expect(pullRequestAddress("https://towline.example.com", evil, "1.x")).toMatch(/^[\w:/.#?=%-]+$/);
});
