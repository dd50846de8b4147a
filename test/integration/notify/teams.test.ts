/** Notifications in Teams, whose workflow is a server here that enforces the limits of Teams. */
import { buffer } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { Notification } from "../../../src/model.ts";
import { createTeamsNotifier } from "../../../src/notify/teams/notifier.ts";
import { failureOf as failureWithout, flood, unreachableTarget, useTarget } from "../../support/notify-targets.ts";
import { sampleNotification } from "../../support/sample-notification.ts";

const path = "/workflows/7d0c/triggers/manual/paths/invoke";
const secret = "secret-of-the-workflow";
const query = `?api-version=1&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=${secret}`;
const mostBytes = 28_000;

interface Item {
  readonly type: string;
  readonly style?: string;
  readonly text?: string;
  readonly weight?: string;
  readonly items?: readonly Item[];
  readonly inlines?: readonly Item[];
}

interface Action {
  readonly type: string;
  readonly title: string;
  readonly url: string;
}

interface Card {
  readonly type: string;
  readonly version: string;
  readonly msteams?: { readonly width?: string; readonly entities?: unknown };
  readonly body: readonly Item[];
  readonly actions: readonly Action[];
}

interface Envelope {
  readonly type?: string;
  readonly attachments?: readonly { readonly contentType: string; readonly contentUrl: null; readonly content: Card }[];
}

/** `most`: requests that are accepted before the rate limit. */
async function useWorkflow({ most = 100 }: { readonly most?: number } = {}) {
  const cards: Card[] = [];
  let requests = 0;

  function respond(url: string, body: Buffer): { status: number; code?: string } {
    if (requests++ >= most) return { status: 429, code: "WorkflowRunActionRepetitionRateExceeded" };
    const { pathname, searchParams } = new URL(url, "http://localhost");
    if (pathname !== path) return { status: 404, code: "WorkflowNotFound" };
    if (searchParams.get("sig") !== secret) return { status: 401, code: "DirectApiInvalidAuthorization" };
    if (body.length > mostBytes) return { status: 413, code: "RequestEntityTooLarge" };
    const card = readCard(JSON.parse(body.toString("utf8")) as Envelope);
    if (card === undefined) return { status: 400, code: "TriggerInputSchemaMismatch" };
    cards.push(card);
    return { status: 202 };
  }

  const origin = await useTarget((req, res) => {
    void buffer(req).then((body) => {
      const { status, code } = respond(req.url ?? "", body);
      const error = JSON.stringify({ error: { code, message: `The request ${req.url} failed.` } });
      res.writeHead(status, status === 429 ? { "retry-after": "20" } : {}).end(code && error);
    });
  });
  const url = `${origin}${path}${query}`;
  return { cards, origin, url, notifier: createTeamsNotifier({ url }) };
}

/** The card, if Teams would show it. */
function readCard({ type, attachments = [] }: Envelope): Card | undefined {
  const [{ contentType, contentUrl, content } = {}, ...others] = attachments;
  if (type !== "message" || others.length > 0 || contentUrl !== null) return undefined;
  if (contentType !== "application/vnd.microsoft.card.adaptive" || content?.type !== "AdaptiveCard") return undefined;
  const isValid =
    content.version === "1.4" &&
    itemsOf(content.body).every((item) => item.type !== "TextRun" || (item.text ?? "") !== "") &&
    content.actions.length <= 6 &&
    content.actions.every((action) => action.type === "Action.OpenUrl" && /^https?:/.test(action.url));
  return isValid ? content : undefined;
}

function itemsOf(items: readonly Item[]): Item[] {
  return items.flatMap((item) => [item, ...itemsOf(item.items ?? []), ...itemsOf(item.inlines ?? [])]);
}

/** What a reader sees: a line for each paragraph. Characters without width separate what would be interpreted. */
function shown({ body }: Card): string[] {
  const paragraphs = itemsOf(body).filter(({ type }) => type === "RichTextBlock");
  return paragraphs.map(({ inlines = [] }) => inlines.map(({ text = "" }) => text.replaceAll("\u200b", "")).join(""));
}

const options = () => ({ signal: AbortSignal.timeout(60_000) });

const failureOf = (sending: Promise<unknown>) => failureWithout(sending, /secret-of|workflows/);

test("a workflow receives a card with the title, the lines, the facts and the links", async () => {
  const { notifier, cards } = await useWorkflow();
  expect(notifier.edits).toBe(false);
  expect(await notifier.send(sampleNotification({ linesLeftOut: 4, sample: true }), options())).toBeUndefined();
  const [card] = cards;
  expect(card && shown(card)).toEqual([
    "Only a sample: nothing happened.",
    "❌ shop: 3f2c1ab failed in 1 of 3 deployments",
    "❌ shop/prod: deploy failed with 1 errors: ConfigMap/settings: is invalid",
    "⏳ shop/dev",
    "and 4 more",
    "Commit: 3f2c1ab Raise the limit · Author: Ada · Succeeded: 1 deployment",
    "Cluster: test · {{DATE(2026-11-26T12:00:00Z, SHORT)}} {{TIME(2026-11-26T12:00:00Z)}}",
  ]);
  expect(card?.body[0]).toMatchObject({ type: "Container", style: "attention" });
  expect(card?.msteams).toEqual({ width: "Full" });
  expect(card?.actions).toEqual([
    { type: "Action.OpenUrl", title: "Commit", url: "https://git.example.com/shop/commit/3f2c1ab" },
  ]);
});

test.each([
  ["deploy", "failed", "error", "attention", "❌"],
  ["preview", "open", "error", "attention", "❌"],
  ["drift", "open", "warning", "warning", "⚠️"],
  ["approval", "open", "warning", "warning", "⏸️"],
  ["prune", "open", "warning", "warning", "⏸️"],
  ["deploy", "recovered", "info", "good", "✅"],
  ["deploy", "succeeded", "info", "good", "✅"],
  ["drift", "closed", "info", "good", "✅"],
  ["deploy", "closed", "info", "emphasis", "⏭️"],
  ["deploy", "progress", "info", "accent", "⏳"],
] as const)("the title of %s in state %s with severity %s has the colour %s and the sign %s", async (...about) => {
  const [kind, state, severity, style, sign] = about;
  const { notifier, cards } = await useWorkflow();
  await notifier.send(sampleNotification({ kind, state, severity, title: "title" }), options());
  expect(cards[0]?.body[0]?.style).toBe(style);
  expect(cards[0] && shown(cards[0])[0]).toBe(`${sign} title`);
});

test("without lines, nothing separates the facts from the title", async () => {
  const { notifier, cards } = await useWorkflow();
  await notifier.send(sampleNotification({ state: "closed", lines: [], facts: [], links: [] }), options());
  expect(cards[0]?.body).toHaveLength(2);
  expect(JSON.stringify(cards[0])).not.toContain("separator");
});

const hostile = [
  "<at>ada@example.com</at> <AT>Ada</AT> @everyone {{DATE(2026-11-26T12:00:00Z)}} {{{TIME(2026-11-26T12:00:00Z)}}}",
  "**bold** _italic_ [click](https://evil.example.com) https://evil.example.com `code` \\*x\\* &lt;b&gt; <b>b</b>",
  "# header\r\n- item\n1. item\u2028end\u0000\u202eesrever ${expression} @{expression} \ud800",
].join("\n");

test("hostile text mentions nobody, has no markup and no links, and stays on its line", async () => {
  const { notifier, cards } = await useWorkflow();
  const message = sampleNotification({
    title: hostile,
    facts: [{ label: hostile, value: hostile }],
    lines: [{ name: hostile, state: "failed", text: hostile }],
    links: [
      { label: hostile, url: 'https://git.example.com/?a="<at>x</at>"' },
      { label: "script", url: "javascript:alert(1)" },
      { label: "none", url: "no address" },
    ],
    cluster: hostile,
  });
  await notifier.send(message, options());
  const [card] = cards;
  // Our own time is the only thing that is interpreted.
  const json = JSON.stringify(card).replace(/\{\{DATE\(2026-11-26T12:00:00Z, SHORT\)\}\} \{\{TIME\(\S+Z\)\}\}"/, "");
  // Text is in text runs only, which are not formatted.
  const items = itemsOf(card?.body ?? []);
  expect(new Set(items.map(({ type }) => type))).toEqual(new Set(["Container", "RichTextBlock", "TextRun"]));
  expect(items.filter(({ type, text }) => text !== undefined && type !== "TextRun")).toEqual([]);
  // What is interpreted in them, too.
  expect(json).not.toMatch(/<\/?at\b/i);
  expect(json).not.toMatch(/\{\{/);
  expect(json).not.toMatch(/[\r\n\u2028\u202e]|\\u0000|\\ud800|\\n|javascript/);
  expect(card?.msteams?.entities).toBeUndefined();
  expect(card?.actions).toHaveLength(1);
  const [title = ""] = card ? shown(card) : [];
  expect(title).toMatch(
    /^❌ <at>ada@example.com<\/at> <AT>Ada<\/AT> @everyone \{\{DATE\(2026-11-26T12:00:00Z\)\}\} \{\{\{TIME/,
  );
  expect(card && shown(card).join("\n")).toContain("**bold** _italic_ [click](https://evil.example.com)");
});

test.each(["x", "&", "<at>", "{{", '"', "漢", "👩", "\\", "\u0001x"])(
  "a message of 200 lines and 100 000 times %j stays within the limit",
  async (characters) => {
    const { notifier, cards } = await useWorkflow();
    const longest = characters.repeat(100_000);
    const long = longest.slice(0, 3_000);
    const message: Notification = sampleNotification({
      title: `title ${longest}`,
      facts: Array.from({ length: 50 }, (_, index) => ({ label: long, value: index === 0 ? longest : long })),
      lines: Array.from({ length: 200 }, (_, index) => ({
        ...{ name: `first/line-${index} ${long}`, state: "failed" as const, text: index === 0 ? longest : long },
      })),
      linesLeftOut: 7,
      links: Array.from({ length: 50 }, () => ({
        label: long,
        url: `https://git.example.com/${long.slice(0, 1_500)}`,
      })),
      cluster: long,
    });
    await notifier.send(message, options());
    const all = cards[0] ? shown(cards[0]) : [];
    expect(all[0]).toMatch(/^❌ title /);
    expect(all[1]).toMatch(/^❌ first\/line-0/);
    const lines = all.filter((line) => line.startsWith("❌ first")).length;
    expect(all).toContain(`and ${207 - lines} more`);
    expect(JSON.stringify(cards[0])).not.toMatch(/\\ud[89a-f]/);
  },
);

test("twenty ordinary lines are all shown", async () => {
  const { notifier, cards } = await useWorkflow();
  const lines = Array.from({ length: 20 }, (_, index) => ({
    ...{ name: `shop/deployment-${index}`, state: "failed" as const },
    text: `deploy failed with 3 errors: ConfigMap/settings-${index}: ${"is invalid because of the limit ".repeat(10)}`,
  }));
  await notifier.send(sampleNotification({ lines }), options());
  expect(cards[0] && shown(cards[0]).join("\n")).toContain("deployment-19");
});

test.each(["", "\u0000", "\u202e"])(
  "a title that is empty, such as %j, does not prevent the message",
  async (title) => {
    const { notifier, cards } = await useWorkflow();
    const facts = [{ label: "", value: "" }];
    const message = sampleNotification({ title, facts, lines: [{ name: "", state: "failed", text: "" }], cluster: "" });
    await notifier.send(message, options());
    expect(cards[0] && shown(cards[0])).toEqual(["❌ deploy", "❌ ", ": ", expect.stringMatching(/^\{\{DATE/)]);
  },
);

test("no more links are sent than Teams shows", async () => {
  const { notifier, cards } = await useWorkflow();
  const links = Array.from({ length: 20 }, (_, index) => ({
    label: `${index}`,
    url: `https://git.example.com/${index}`,
  }));
  await notifier.send(sampleNotification({ links }), options());
  expect(cards[0]?.actions.map(({ title }) => title)).toEqual(["0", "1", "2", "3", "4", "5"]);
});

test.each(["", "secret-of-the-workflow", "ftp://secret-of-the-workflow"])("%j is not an address", (url) => {
  expect(() => createTeamsNotifier({ url })).toThrow(new Error("url: must begin with https:// or http://"));
});

test("an address with a password is not accepted", () => {
  expect(() => createTeamsNotifier({ url: "https://user:secret-of-the-user@example.com/" })).toThrow(
    new Error("url: must not contain a user name or password"),
  );
});

test("too many requests are reported with the time to wait", async () => {
  const { notifier, cards } = await useWorkflow({ most: 1 });
  await notifier.send(sampleNotification(), options());
  const failure = await failureOf(notifier.send(sampleNotification(), options()));
  expect(failure).toMatchObject({ problem: "later", retryAfterMs: 20_000 });
  expect(cards).toHaveLength(1);
});

test("a workflow that is gone, or has another signature, is refused without its address", async () => {
  const { origin, url } = await useWorkflow();
  for (const address of [`${origin}/workflows/gone${query}`, `${url}x`]) {
    const failure = await failureOf(createTeamsNotifier({ url: address }).send(sampleNotification(), options()));
    expect(failure).toMatchObject({
      problem: "refused",
      message: expect.stringContaining(new URL(origin).host) as string,
    });
  }
});

async function useAnswer(status: number, body = "", headers: Record<string, string> = {}): Promise<string> {
  const origin = await useTarget((req, res) => {
    req.resume();
    res.writeHead(status, headers).end(body);
  });
  return `${origin}${path}${query}`;
}

test.each([
  [200, undefined],
  [202, undefined],
  [400, "refused"],
  [502, "later"],
  [504, "later"],
])("status %i of a workflow with a response of its own means %s", async (status, problem) => {
  const url = await useAnswer(status, `the request ${path}${query} failed`);
  const sending = createTeamsNotifier({ url }).send(sampleNotification(), options());
  if (problem === undefined) expect(await sending).toBeUndefined();
  else expect(await failureOf(sending)).toMatchObject({ problem });
});

test("an endless response is not read to its end", async () => {
  const origin = await useTarget((req, res) => {
    req.resume();
    res.writeHead(202);
    flood(res);
  });
  expect(await createTeamsNotifier({ url: `${origin}${path}${query}` }).send(sampleNotification(), options())).toBe(
    undefined,
  );
});

test("a redirect is not followed", async () => {
  let followed = 0;
  const elsewhere = await useTarget((req, res) => {
    followed++;
    req.resume();
    res.end();
  });
  const url = await useAnswer(307, "", { location: elsewhere });
  const failure = await failureOf(createTeamsNotifier({ url }).send(sampleNotification(), options()));
  expect(failure.problem).toBe("refused");
  expect(followed).toBe(0);
});

test("a workflow that cannot be reached is tried later", async () => {
  const origin = await unreachableTarget();
  const notifier = createTeamsNotifier({ url: `${origin}${path}${query}` });
  const failure = await failureOf(notifier.send(sampleNotification(), options()));
  expect(failure).toMatchObject({ problem: "later", message: expect.stringContaining("ECONNREFUSED") as string });
});

test("an aborted signal ends the request with its reason", async () => {
  const controller = new AbortController();
  const origin = await useTarget(() => controller.abort(new Error("stopping")));
  const notifier = createTeamsNotifier({ url: `${origin}${path}${query}` });
  const send = () => notifier.send(sampleNotification(), { signal: controller.signal });
  await expect(send()).rejects.toThrow("stopping");
  await expect(send()).rejects.toThrow("stopping");
});
