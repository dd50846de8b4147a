/** Notifications in Slack, which is a server here that enforces Slack's limits and answers with its errors. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import type { Notification } from "../../../src/model.ts";
import { createSlackNotifier } from "../../../src/notify/slack/notifier.ts";
import { failureOf as failureWithout, flood, unreachableTarget, useTarget } from "../../support/notify-targets.ts";
import { sampleNotification } from "../../support/sample-notification.ts";

const hookPath = "/services/T0/B0/secret-of-the-webhook";
const token = "xoxb-secret-of-the-bot";
const retryAfter = "30";

interface TextObject {
  readonly type: "plain_text" | "mrkdwn";
  readonly text: string;
  readonly emoji?: boolean;
  readonly verbatim?: boolean;
}

interface Run {
  readonly type: string;
  readonly text: string;
  readonly url?: string;
  readonly style?: { readonly bold?: boolean };
}

interface RichTextSection {
  readonly type: "rich_text_section";
  readonly elements: readonly Run[];
}

interface Block {
  readonly type: string;
  readonly text?: TextObject;
  readonly elements?: readonly (TextObject | RichTextSection)[];
}

interface Body {
  readonly text?: string;
  readonly blocks?: readonly Block[];
  readonly attachments?: readonly { readonly color?: string; readonly blocks?: readonly Block[] }[];
  readonly channel?: string;
  readonly ts?: string;
  readonly thread_ts?: string;
  readonly reply_broadcast?: boolean;
  readonly unfurl_links?: boolean;
  readonly unfurl_media?: boolean;
  readonly parse?: string;
  readonly link_names?: boolean;
}

interface Posted {
  readonly channel: string;
  readonly ts: string;
  body: Body;
  edits: number;
}

/** IDs of channels by name. The app is in the first two. */
const channels: Readonly<Record<string, string>> = {
  "#deploys": "C01",
  "#shop": "C02",
  "#private": "C03",
  "#old": "C04",
};

/** `most`: requests that are accepted before the rate limit. */
async function useSlack({ most = 100 }: { readonly most?: number } = {}) {
  const posted: Posted[] = [];
  let requests = 0;

  function act(method: string, headers: IncomingHttpHeaders, body: Body): object {
    if (headers.authorization !== `Bearer ${token}`) return { ok: false, error: "invalid_auth" };
    const fault = findFault(body);
    if (fault !== undefined) return { ok: false, error: fault };
    const { channel: to = "", ts = "", thread_ts } = body;
    if (method === "chat.update") {
      // Names are accepted for new messages only.
      if (!Object.values(channels).includes(to)) return { ok: false, error: "channel_not_found" };
      const found = posted.find((one) => one.channel === to && one.ts === ts);
      if (found === undefined) return { ok: false, error: "message_not_found" };
      // What is not sent stays as it was.
      found.body = { ...found.body, ...body };
      found.edits++;
      return { ok: true, channel: to, ts };
    }
    const channel = Object.entries(channels).find((names) => names.includes(to))?.[1];
    if (channel === undefined) return { ok: false, error: "channel_not_found" };
    if (channel === "C03") return { ok: false, error: "not_in_channel" };
    if (channel === "C04") return { ok: false, error: "is_archived" };
    if (thread_ts !== undefined && !posted.some((one) => one.ts === thread_ts))
      return { ok: false, error: "thread_not_found" };
    const added = { channel, ts: `1764158400.${String(posted.length).padStart(6, "0")}`, body, edits: 0 };
    posted.push(added);
    return { ok: true, channel, ts: added.ts };
  }

  async function answer(path: string, headers: IncomingHttpHeaders, json: string, res: ServerResponse): Promise<void> {
    if (requests++ >= most) {
      res.writeHead(429, { "retry-after": retryAfter }).end("ratelimited");
      return;
    }
    const body = JSON.parse(json) as Body;
    if (path === hookPath) {
      const fault = findFault(body);
      if (fault === undefined) posted.push({ channel: "C01", ts: "", body, edits: 0 });
      res.writeHead(fault === undefined ? 200 : 400).end(fault ?? "ok");
      return;
    }
    const method = path.replace("/api/", "");
    if (method !== "chat.postMessage" && method !== "chat.update") res.writeHead(404).end("no_service");
    else res.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(act(method, headers, body)));
  }

  const origin = await useTarget((req, res) => {
    void text(req).then((json) => answer(req.url ?? "", req.headers, json, res));
  });
  const url = `${origin}${hookPath}`;
  const apiUrl = `${origin}/api`;
  const bot = (channel = "#deploys") => createSlackNotifier({ token, channel, apiUrl });
  return { posted, url, apiUrl, bot, webhook: createSlackNotifier({ url }) };
}

/** The error with which Slack rejects a message. */
function findFault({ text: brief = "", blocks = [], attachments = [] }: Body): string | undefined {
  if (brief.trim() === "") return "no_text";
  if (brief.length > 4_000) return "msg_too_long";
  const all = [...blocks, ...attachments.flatMap((attachment) => attachment.blocks ?? [])];
  if (all.length > 50) return "invalid_blocks";
  if (JSON.stringify(all).length > 13_200) return "msg_blocks_too_long";
  return all.every(isValid) ? undefined : "invalid_blocks";
}

function isValid({ type, text: content, elements = [] }: Block): boolean {
  if (type === "header") return content?.type === "plain_text" && isText(content, 150);
  if (elements.length === 0) return false;
  if (type === "rich_text") return elements.every((one) => one.type === "rich_text_section" && isSection(one));
  if (type !== "context" || elements.length > 10) return false;
  return elements.every((one) => one.type !== "rich_text_section" && isText(one, 3_000));
}

function isSection({ elements }: RichTextSection): boolean {
  const isRun = ({ type, text: content, url }: Run) =>
    content !== "" && (type === "text" ? url === undefined : type === "link" && URL.canParse(url ?? ""));
  return elements.length > 0 && elements.every(isRun);
}

function isText({ type, text: content, emoji, verbatim }: TextObject, max: number): boolean {
  if (content.length === 0 || content.length > max) return false;
  return type === "plain_text" ? verbatim === undefined : emoji === undefined;
}

function blocksOf({ blocks = [], attachments = [] }: Body): Block[] {
  return [...blocks, ...attachments.flatMap((attachment) => attachment.blocks ?? [])];
}

/** The texts of a message in which Slack reads markup or escapes. */
function textsOf(body: Body): TextObject[] {
  const inBlocks = blocksOf(body).flatMap((block) => [
    ...(block.text ? [block.text] : []),
    ...(block.elements ?? []).flatMap((one) => (one.type === "rich_text_section" ? [] : [one])),
  ]);
  return [{ type: "mrkdwn", text: body.text ?? "" }, ...inBlocks];
}

/** The texts that Slack shows as they are. */
function runsOf(body: Body): Run[] {
  const sections = blocksOf(body).flatMap(({ elements = [] }) => elements);
  return sections.flatMap((one) => (one.type === "rich_text_section" ? one.elements : []));
}

/** What Slack interprets: everything between angle brackets. */
function markupOf(body: Body): string[] {
  return textsOf(body).flatMap(({ text: content }) =>
    [...content.matchAll(/<([^>]*)>?/g)].map(([, inside = ""]) => inside),
  );
}

/** What a reader sees of a block. */
function shownIn({ text: content, elements = [] }: Block): string {
  const texts = elements.map((one) =>
    one.type === "rich_text_section" ? one.elements.map(({ text: run }) => run).join("") : unescape(one.text),
  );
  return [...(content ? [unescape(content.text)] : []), ...texts].join(" | ");
}

function unescape(content: string): string {
  const shown = content.replaceAll(/<[^|>]*\|([^>]*)>/g, "$1");
  return shown.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

/** What a reader sees of a message. */
function shown(body: Body): string {
  return [unescape(body.text ?? ""), ...blocksOf(body).map(shownIn)].join("\n");
}

const options = (own: { sent?: string | undefined; announce?: boolean; channel?: string } = {}) => ({
  ...own,
  signal: AbortSignal.timeout(60_000),
});

const failureOf = (sending: Promise<unknown>) => failureWithout(sending, /secret-of/);

/** A server that answers each method of the API the same. */
async function useAnswer(status: number, body: string, headers: Record<string, string> = {}): Promise<string> {
  return useTarget((req, res) => {
    req.resume();
    res.writeHead(status, headers).end(body);
  });
}

const botAt = (apiUrl: string) => createSlackNotifier({ token, channel: "#deploys", apiUrl });
const webhookAt = (origin: string) => createSlackNotifier({ url: `${origin}${hookPath}` });
const both = [
  ["a webhook", webhookAt],
  ["the API", botAt],
] as const;

test("a webhook receives the title, the lines, the facts and the links", async () => {
  const { webhook, posted } = await useSlack();
  expect(webhook.edits).toBe(false);
  expect(await webhook.send(sampleNotification({ linesLeftOut: 4 }), options())).toBeUndefined();
  const body = posted[0]?.body ?? {};
  expect(body).toMatchObject({ unfurl_links: false, unfurl_media: false });
  expect(body.text).toBe(
    "❌ shop: 3f2c1ab failed in 1 of 3 deployments\n" +
      "❌ shop/prod: deploy failed with 1 errors: ConfigMap/settings: is invalid",
  );
  expect(body.blocks?.map(shownIn)).toEqual([
    "❌ shop: 3f2c1ab failed in 1 of 3 deployments",
    "Commit: 3f2c1ab Raise the limit | Author: Ada | Succeeded: 1 deployment | Cluster: test | 2026-11-26 12:00 UTC",
  ]);
  expect(body.blocks?.[0]?.type).toBe("header");
  expect(body.attachments).toHaveLength(1);
  expect(body.attachments?.[0]?.color).toBe("#cf222e");
  expect(body.attachments?.[0]?.blocks?.map(shownIn)).toEqual([
    "❌ shop/prod: deploy failed with 1 errors: ConfigMap/settings: is invalid\n⏳ shop/dev",
    "and 4 more",
    "Commit",
  ]);
  const runs = runsOf(body);
  expect(runs.filter(({ style }) => style?.bold === true).map(({ text: name }) => name)).toEqual([
    "shop/prod",
    "shop/dev",
  ]);
  expect(runs.find(({ type }) => type === "link")?.url).toBe("https://git.example.com/shop/commit/3f2c1ab");
});

test("a sample says first that it is one", async () => {
  const { webhook, posted } = await useSlack();
  await webhook.send(sampleNotification({ sample: true }), options());
  const [first] = posted[0]?.body.blocks ?? [];
  expect(first && shownIn(first)).toBe("Only a sample: nothing happened.");
});

test("a title that is too long for a header is shown whole, and once", async () => {
  const { webhook, posted } = await useSlack();
  const title = `shop: ${"x".repeat(190)}`;
  await webhook.send(sampleNotification({ title }), options());
  const blocks = posted[0]?.body.blocks ?? [];
  expect(blocks.map(shownIn).filter((content) => content.includes("xxx"))).toEqual([`❌ ${title}`]);
});

test("a bot changes the message that it sent", async () => {
  const { bot, posted } = await useSlack();
  const notifier = bot();
  expect(notifier.edits).toBe(true);
  const sent = await notifier.send(sampleNotification({ state: "progress" }), options());
  expect(posted[0]).toMatchObject({
    channel: "C01",
    body: { channel: "#deploys", unfurl_links: false, unfurl_media: false, parse: "none", link_names: false },
  });
  const closed = { state: "recovered", title: "shop: deployed", lines: [], facts: [], links: [] } as const;
  expect(await notifier.send(sampleNotification(closed), options({ sent }))).toBe(sent);
  expect(posted).toHaveLength(1);
  expect(posted[0]).toMatchObject({ edits: 1, body: { parse: "none", attachments: [] } });
  const all = shown(posted[0]?.body ?? {});
  expect(all).toContain("✅ shop: deployed");
  expect(all).not.toMatch(/prod|Ada|Commit/);
});

test("a change that needs attention is announced in the thread and in the channel", async () => {
  const { bot, posted } = await useSlack();
  const sent = await bot().send(sampleNotification({ state: "progress" }), options());
  expect(await bot().send(sampleNotification(), options({ sent, announce: true }))).toBe(sent);
  expect(posted).toHaveLength(2);
  const [message, reply] = posted;
  expect(message?.edits).toBe(1);
  expect(reply?.body).toMatchObject({ thread_ts: message?.ts, reply_broadcast: true, unfurl_links: false });
  expect(reply?.body.text).toMatch(/^❌ shop: 3f2c1ab failed in 1 of 3 deployments\n❌ shop\/prod: .*invalid$/);
  expect(reply?.body.blocks?.map(shownIn)).toEqual([reply?.body.text]);
  expect(shown(reply?.body ?? {})).not.toContain("shop/dev");
});

test("a message of its own needs no announcement", async () => {
  const { bot, posted } = await useSlack();
  await bot().send(sampleNotification(), options({ announce: true }));
  expect(posted).toHaveLength(1);
});

test("an announcement that was not accepted is sent when the same state is sent again", async () => {
  const { apiUrl, bot, posted } = await useSlack();
  const sent = await bot().send(sampleNotification({ state: "progress" }), options());
  let replies = 0;
  const between = await useTarget((req, res) => {
    void text(req).then(async (body) => {
      const fails = body.includes("thread_ts") && replies++ === 0;
      const answer = await fetch(`${apiUrl}${req.url}`, {
        ...{ method: "POST", body },
        headers: { authorization: req.headers.authorization ?? "" },
        ...(fails && { signal: AbortSignal.abort() }),
      }).catch(() => undefined);
      res.writeHead(answer?.status ?? 503).end(await answer?.text());
    });
  });
  const announce = () => botAt(between).send(sampleNotification(), options({ sent, announce: true }));
  expect(await failureOf(announce())).toMatchObject({ problem: "later" });
  expect(await announce()).toBe(sent);
  expect(posted.map(({ edits }) => edits)).toEqual([2, 0]);
});

test("a message that was deleted is replaced by a new one", async () => {
  const { bot, posted } = await useSlack();
  const sent = await bot().send(sampleNotification(), options());
  posted.length = 0;
  const next = await bot().send(sampleNotification(), options({ sent, announce: true }));
  expect(next).toContain("C01");
  expect(posted).toHaveLength(1);
  expect(posted[0]?.body.thread_ts).toBeUndefined();
});

test.each(["cant_update_message", "edit_window_closed", "channel_not_found"])(
  "a message whose change fails with %s is replaced by a new one",
  async (error) => {
    const origin = await useTarget((req, res) => {
      req.resume();
      const isChange = req.url === "/chat.update";
      res.end(JSON.stringify(isChange ? { ok: false, error } : { ok: true, channel: "C01", ts: "2.2" }));
    });
    const sent = JSON.stringify({ channel: "C01", ts: "1.1", to: "#deploys" });
    expect(JSON.parse((await botAt(origin).send(sampleNotification(), options({ sent }))) ?? "")).toEqual({
      ...{ channel: "C01", ts: "2.2", to: "#deploys" },
    });
  },
);

test("another configured channel receives a new message, and the old one stays as it was", async () => {
  const { bot, posted } = await useSlack();
  const sent = await bot().send(sampleNotification(), options());
  const next = await bot("#shop").send(sampleNotification(), options({ sent }));
  expect(posted.map(({ channel, edits }) => [channel, edits])).toEqual([
    ["C01", 0],
    ["C02", 0],
  ]);
  await bot("#shop").send(sampleNotification(), options({ sent: next }));
  // Its ID is the same channel.
  await bot("C02").send(sampleNotification(), options({ sent: next }));
  expect(posted.map(({ edits }) => edits)).toEqual([0, 2]);
});

test("a channel that is given with the message replaces the configured one", async () => {
  const { bot, posted, apiUrl } = await useSlack();
  await bot().send(sampleNotification(), options({ channel: "#shop" }));
  await createSlackNotifier({ token, apiUrl: `${apiUrl}/` }).send(sampleNotification(), options({ channel: "C02" }));
  expect(posted.map(({ channel }) => channel)).toEqual(["C02", "C02"]);
});

test.each(["", "not JSON", "{}", `{"channel":"C01"}`, `"C01"`, "null"])(
  "a reference that a bot did not return, such as %j, leads to a new message",
  async (sent) => {
    const { bot, posted } = await useSlack();
    await bot().send(sampleNotification(), options({ sent }));
    expect(posted).toHaveLength(1);
  },
);

test("without a channel, and without a webhook or token, it is said what is missing", async () => {
  const { apiUrl } = await useSlack();
  const failure = await failureOf(createSlackNotifier({ token, apiUrl }).send(sampleNotification(), options()));
  expect(failure).toMatchObject({ problem: "refused", message: expect.stringContaining("no channel") as string });
  expect(() => createSlackNotifier({ channel: "#deploys" })).toThrow("needs the address");
  expect(() => createSlackNotifier({ url: hookPath })).toThrow(new Error("url: must begin with https:// or http://"));
  const withPassword = "https://user:secret-of-the-user@example.com/";
  for (const wrong of [{ url: withPassword }, { token, apiUrl: withPassword }])
    expect(() => createSlackNotifier(wrong)).toThrow(new Error("url: must not contain a user name or password"));
});

test("errors that a person has to correct are refused, with what to do", async () => {
  const { bot, apiUrl } = await useSlack();
  const send = (channel: string) => failureOf(bot(channel).send(sampleNotification(), options()));
  const { host } = new URL(apiUrl);
  expect(await send("#private")).toMatchObject({
    problem: "refused",
    message: `${host}: not_in_channel: invite the app to the channel`,
  });
  expect(await send("#old")).toMatchObject({
    problem: "refused",
    message: expect.stringContaining("is_archived") as string,
  });
  expect(await send("#none")).toMatchObject({
    problem: "refused",
    message: expect.stringContaining("channel_not_found: check the name") as string,
  });
  const stranger = createSlackNotifier({ token: `${token}-revoked`, channel: "#deploys", apiUrl });
  expect(await failureOf(stranger.send(sampleNotification(), options()))).toMatchObject({
    problem: "refused",
    message: expect.stringContaining("invalid_auth: reinstall the app") as string,
  });
});

test.each([
  ["internal_error", "later"],
  ["fatal_error", "later"],
  ["service_unavailable", "later"],
  ["request_timeout", "later"],
  ["team_added_to_org", "later"],
  ["missing_scope", "refused"],
  ["restricted_action", "refused"],
  ["some_error_that_is_new", "refused"],
])("%s, which Slack answers with status 200, means %s", async (error, problem) => {
  const origin = await useAnswer(200, JSON.stringify({ ok: false, error }));
  const failure = await failureOf(botAt(origin).send(sampleNotification(), options()));
  expect(failure).toMatchObject({ problem, message: expect.stringContaining(error) as string });
});

test.each(["ratelimited", "rate_limited"])("%s says when to try again", async (error) => {
  const headers = { "retry-after": retryAfter };
  const origin = await useAnswer(200, JSON.stringify({ ok: false, error }), headers);
  const failure = await failureOf(botAt(origin).send(sampleNotification(), options()));
  expect(failure).toMatchObject({ problem: "later", retryAfterMs: 30_000 });
});

test("too many requests are reported with the time to wait", async () => {
  const { bot, webhook, posted } = await useSlack({ most: 1 });
  await webhook.send(sampleNotification(), options());
  for (const notifier of [webhook, bot()]) {
    const failure = await failureOf(notifier.send(sampleNotification(), options()));
    expect(failure).toMatchObject({ problem: "later", retryAfterMs: 30_000 });
  }
  expect(posted).toHaveLength(1);
});

test.each([
  [400, "invalid_payload", "refused"],
  [403, "action_prohibited", "refused"],
  [404, "no_service", "refused"],
  [410, "channel_is_archived", "refused"],
  [500, "rollup_error", "later"],
  [200, "no_service", "refused"],
])("a webhook's answer %i %s means %s", async (status, said, problem) => {
  const notifier = webhookAt(await useAnswer(status, said));
  const failure = await failureOf(notifier.send(sampleNotification(), options()));
  expect(failure).toMatchObject({ problem, message: expect.stringContaining(said) as string });
});

test("an error that is not a word is not repeated", async () => {
  const said = `the address ${hookPath} has an error`;
  for (const status of [200, 400, 500]) {
    const failure = await failureOf(webhookAt(await useAnswer(status, said)).send(sampleNotification(), options()));
    expect(failure.message).not.toContain("has an error");
    const answer = JSON.stringify({ ok: false, error: said });
    const other = await failureOf(botAt(await useAnswer(status, answer)).send(sampleNotification(), options()));
    expect(other.message).not.toContain("has an error");
  }
});

const hostile = [
  "<!channel> <!here|here> <@U123> <#C01> <!subteam^S1> @everyone &lt;!channel&gt;",
  "*bold* _italic_ ~gone~ `code` ```block``` > quote",
  "[a](https://evil.example.com) <https://evil.example.com|git.example.com>",
  "# header\r\n\u2028second line\n<!channel>\u0000\u202eesrever :tada: \ud800",
].join("\n");

test("hostile text mentions nobody, has no markup and no links, and stays on its line", async () => {
  const { bot, posted } = await useSlack();
  const message = sampleNotification({
    title: hostile,
    facts: [{ label: hostile, value: hostile }],
    lines: [{ name: hostile, state: "failed", text: hostile }],
    links: [
      { label: `${hostile}|x`, url: "https://git.example.com/?a=1&b=<!channel>|<@U123>" },
      { label: "script", url: "javascript:alert(1)" },
      { label: "none", url: "no address" },
    ],
    cluster: hostile,
  });
  const sent = await bot().send(message, options());
  await bot().send(message, options({ sent, announce: true }));
  expect(posted).toHaveLength(2);
  for (const { body } of posted) {
    expect(markupOf(body).filter((inside) => !inside.startsWith("!date^"))).toEqual([]);
    const links = runsOf(body).filter(({ type }) => type !== "text");
    expect(links.every(({ url = "" }) => url.startsWith("https://git.example.com/"))).toBe(true);
    expect(shown(body)).toContain("<!channel> <!here|here> <@U123>");
    // Only our own time is formatted, and the text that is shown where blocks are not.
    const formatted = textsOf(body)
      .slice(1)
      .filter(({ type }) => type === "mrkdwn");
    expect(formatted.every(({ text: content }) => /^<!date[^<>]*>$/.test(content))).toBe(true);
    expect(shown(body)).not.toMatch(/[\r\u2028\u202e\u0000]|javascript/);
    expect(body.text).not.toMatch(/\n(?!❌)/);
    for (const { text: content } of runsOf(body)) expect(content).toMatch(/^(?:\n|[^\n]+)$/);
    expect(JSON.stringify(body)).not.toContain("\\ud800");
  }
});

test.each(["x", "&", "<", '"', "漢", "👩", "\\", "\u0001x"])(
  "a message of 200 lines and 100 000 times %j stays within all limits",
  async (character) => {
    const { bot, webhook, posted } = await useSlack();
    const longest = character.repeat(100_000);
    const long = longest.slice(0, 3_000);
    const message: Notification = sampleNotification({
      title: `title ${longest}`,
      facts: Array.from({ length: 50 }, (_, index) => ({ label: long, value: index === 0 ? longest : long })),
      lines: Array.from({ length: 200 }, (_, index) => ({
        ...{ name: `first/line-${index} ${long}`, text: index === 0 ? longest : long },
        state: index % 2 === 0 ? "failed" : "waiting",
      })),
      linesLeftOut: 7,
      links: Array.from({ length: 50 }, () => ({
        label: long,
        url: `https://git.example.com/${long.slice(0, 1_500)}`,
      })),
      cluster: long,
    });
    const sent = await bot().send(message, options());
    await bot().send(message, options({ sent, announce: true }));
    await webhook.send(message, options());
    expect(posted).toHaveLength(3);
    for (const { body } of posted) {
      const [first] = body.blocks ?? [];
      expect(first && shownIn(first)).toMatch(/^❌ title /);
      expect(shown(body)).toContain("❌ first/line-0");
      expect(JSON.stringify(body)).not.toMatch(/\\ud[89a-f]/);
    }
    const all = shown(posted[0]?.body ?? {});
    const lines = all.match(/^\S+ first\/line-/gm)?.length ?? 0;
    const inBrief = posted[0]?.body.text?.match(/first\/line/g)?.length ?? 0;
    expect(all).toContain(`and ${207 - (lines - inBrief)} more`);
  },
);

test("twenty ordinary lines are all shown", async () => {
  const { bot, posted } = await useSlack();
  const lines = Array.from({ length: 20 }, (_, index) => ({
    ...{ name: `shop/deployment-${index}`, state: "failed" as const },
    text: `deploy failed with 3 errors: ConfigMap/settings-${index}: ${"is invalid because of the limit ".repeat(5)}`,
  }));
  await bot().send(sampleNotification({ lines }), options());
  expect(shown(posted[0]?.body ?? {})).toContain("deployment-19");
});

test.each(["", "\u0000", "\u202e"])(
  "a title that is empty, such as %j, does not prevent the message",
  async (title) => {
    const { bot, posted } = await useSlack();
    const message = sampleNotification({ title, lines: [{ name: "a/b", state: "failed", text: "" }], cluster: "" });
    await bot().send(message, options());
    const { blocks: [first] = [], attachments: [attachment] = [] } = posted[0]?.body ?? {};
    expect(first && shownIn(first)).toBe("❌ deploy");
    expect(attachment?.blocks?.map(shownIn)).toEqual(["❌ a/b", "Commit"]);
  },
);

test.each(both)("an endless response of %s is not read to its end", async (_, notifierAt) => {
  const origin = await useTarget((req, res) => {
    req.resume();
    res.writeHead(200);
    flood(res);
  });
  const failure = await failureOf(notifierAt(origin).send(sampleNotification(), options()));
  expect(failure.problem).toBe("refused");
});

test.each(both)("a redirect by %s is not followed", async (_, notifierAt) => {
  let followed = 0;
  const elsewhere = await useTarget((req, res) => {
    followed++;
    req.resume();
    res.end("ok");
  });
  const origin = await useAnswer(307, "", { location: elsewhere });
  const failure = await failureOf(notifierAt(origin).send(sampleNotification(), options()));
  expect(failure.problem).toBe("refused");
  expect(followed).toBe(0);
});

test.each(both)("%s that cannot be reached is tried later", async (_, notifierAt) => {
  const origin = await unreachableTarget();
  const failure = await failureOf(notifierAt(origin).send(sampleNotification(), options()));
  expect(failure).toMatchObject({ problem: "later", message: expect.stringContaining("ECONNREFUSED") as string });
});

test.each(both)("an aborted signal ends the request to %s with its reason", async (_, notifierAt) => {
  const controller = new AbortController();
  const origin = await useTarget(() => controller.abort(new Error("stopping")));
  const send = () => notifierAt(origin).send(sampleNotification(), { signal: controller.signal });
  await expect(send()).rejects.toThrow("stopping");
  await expect(send()).rejects.toThrow("stopping");
});
