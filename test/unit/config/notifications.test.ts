import { expect, test } from "vitest";
import { stringify } from "yaml";
import { loadConfig, secretValues } from "../../../src/config.ts";
import { same } from "../../../src/config/compare.ts";
import { takeLive } from "../../../src/config/live-keys.ts";
import { printConfig } from "../../../src/config/print.ts";

const url = "https://hooks.example.com/services/T000/abcdefghijklmnop1234";
const key = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;

function load(notifications: object, files: Record<string, string> = {}) {
  const readFile = (path: string) => (path === "towline.yaml" ? stringify({ notifications }) : (files[path] ?? ""));
  return loadConfig({ env: { TOWLINE_CONFIG: "towline.yaml" }, readFile });
}

function problemsOf(notifications: object): string {
  try {
    load(notifications);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

test("secrets of targets are read from files, and never shown", () => {
  const targets = [
    { id: "team", kind: "webhook", urlFile: "/url", tokenFile: "/token", signingKeyFiles: ["/keys"] },
    {
      id: "mail",
      kind: "email",
      url: "smtp://me:p%40ss@mail.example.com",
      from: "a@example.com",
      to: ["b@example.com"],
    },
  ];
  const loaded = load({ targets }, { "/url": url, "/token": "hunter2-token", "/keys": `${key}\n${key}` });
  const [team, mail] = loaded.config.notifications.targets;
  expect(team?.url?.reveal()).toBe(url);
  expect(team?.signingKeys).toHaveLength(2);
  expect(mail?.perHour).toBe(60);
  const printed = printConfig(loaded);
  for (const secret of [url, "hunter2-token", key, "p%40ss"]) expect(printed).not.toContain(secret);
  expect(printed).toContain("id: team");
  // What a log must not show: also a part that an error of another program might quote.
  const secrets = [url, "abcdefghijklmnop1234", "hunter2-token", key, "p@ss", "p%40ss"];
  expect(secretValues(loaded.config)).toEqual(expect.arrayContaining(secrets));
});

test.each<[string, object, string]>([
  [
    "an address that is none",
    { id: "a", kind: "webhook", url: "hooks.example.com/d4c3" },
    "must be a URL that begins with https://",
  ],
  ["a token with a line break", { id: "a", kind: "teams", url, token: "a\nb" }, "contains a space, a line break"],
  ["a webhook without an address", { id: "a", kind: "webhook" }, "targets[0].url  is missing: set it, or urlFile"],
  [
    "a Slack bot without a channel",
    { id: "a", kind: "slack", token: "xoxb-1" },
    "channel  is missing: a bot needs a channel",
  ],
  [
    "an incoming webhook with a channel",
    { id: "a", kind: "slack", url, channel: "#a" },
    "channel  has no effect on an incoming webhook",
  ],
  [
    "an e-mail over http",
    { id: "a", kind: "email", url, from: "a@b", to: ["a@b"] },
    "url  must begin with smtps:// or smtp://",
  ],
  [
    "an e-mail to nobody",
    { id: "a", kind: "email", url: "smtp://mail", from: "a@b" },
    "to  is empty: e-mails need recipients",
  ],
  [
    "an address with credentials",
    { id: "a", kind: "teams", url: "https://me:pw@example.com" },
    "must not contain credentials",
  ],
  ["a body of another kind", { id: "a", kind: "teams", url, body: {} }, "body  is supported for kind webhook only"],
  [
    "a key that is no key",
    { id: "a", kind: "webhook", url, signingKeys: ["whsec_short"] },
    "must be whsec_ followed by",
  ],
  [
    "a time zone that does not exist",
    { id: "a", kind: "teams", url, quietHours: { from: "22:00", to: "06:00", timeZone: "Mars" } },
    "time zone",
  ],
  ["an unknown key", { id: "a", kind: "teams", url, chanel: "#a" }, 'is not a known key; did you mean "channel"?'],
  ["an unknown kind", { id: "a", kind: "pager", url }, "must be one of slack, teams"],
])("%s is refused in words", (_what, target, words) => {
  const problems = problemsOf({ targets: [target] }).replaceAll(/ {2,}/g, "  ");
  expect(problems).toContain(words);
  expect(problems).not.toContain(url);
});

test("targets are unique, and routes name existing ones", () => {
  const target = { id: "team", kind: "teams", url };
  const problems = problemsOf({
    targets: [target, target],
    routes: [{ target: "tean" }, { target: "team", events: ["fail"] }],
  });
  expect(problems).toContain('"team" is already used by another target');
  expect(problems).toContain('"tean" is not the id of a target');
  expect(problems).toContain("must be one of started, succeeded");
});

test("targets and routes take effect while the server runs", () => {
  const before = load({}).config;
  const after = load({ targets: [{ id: "team", kind: "teams", url }] }).config;
  expect(same(takeLive(before, after).notifications, after.notifications)).toBe(true);
});
