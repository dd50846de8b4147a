/** The schema of `notifications`: who is notified of what. A part of config/schema.ts. */
import { z } from "zod";
import { noticeEvents, noticeKinds, noticeStates, notifierKinds } from "../model/notification.ts";
import { parseSigningKey } from "../kit/signing-key.ts";
import { integer, secretText, text, token } from "./schema-parts.ts";
import { Secret } from "./secret.ts";

const path = text;
const listOf = <Item extends z.ZodType>(item: Item) => z.array(item, { error: "must be a list" });

const targetId = text
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must consist of lower-case letters, digits and -")
  .max(40, "must have at most 40 characters");

/** The message does not quote the value: the addresses of many targets are secrets. */
const targetUrl = secretText
  .refine((value) => /^(?:https?|smtps?):$/.test(URL.parse(value)?.protocol ?? ""), {
    error: "must be a URL that begins with https://, http://, smtps:// or smtp://",
  })
  .transform((value) => new Secret(value));

const signingKey = secretText
  .refine((value) => parseSigningKey(value) !== undefined, "must be whsec_ followed by 24 to 64 bytes in base64")
  .transform((value) => new Secret(value));

const timeOfDay = text.regex(/^(?:[01]\d|2[0-3]):[0-5]\d$/, 'must be a time like "22:00"');
const timeZone = text.refine((name) => isTimeZone(name), 'must be the name of a time zone like "Europe/Berlin"');
const mailbox = text
  .max(320, "must have at most 320 characters")
  .regex(/^[^\r\n]*@[^\r\n@\s]+$/, 'must be an address like "team@example.com"');
/** `*` is a wildcard. */
const pattern = text.max(300, "must have at most 300 characters");

function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

const words = <const Words extends readonly [string, ...string[]]>(list: Words) =>
  z.enum(list, { error: `must be one of ${list.join(", ")}` });

/** Names are checked where the target is used: the texts are its own. */
const ownWordsSchema = z.strictObject({
  kinds: listOf(words(noticeKinds)).prefault([]).meta({ description: "Kinds of messages; default: all." }),
  states: listOf(words(noticeStates)).prefault([]).meta({ description: "States of messages; default: all." }),
  title: text.max(200, "must have at most 200 characters").optional().meta({
    description: "Replaces the title; `{{title}}` and other names are as in `body`.",
  }),
  note: text.max(500, "must have at most 500 characters").optional().meta({
    description: "Added to the message, for example the address of a runbook.",
  }),
});

export const targetSchema = z
  .strictObject({
    id: targetId.meta({ description: "Unique name of the target, for routes, annotations and `towline notify`." }),
    kind: words(notifierKinds).meta({ description: "Kind of target." }),
    url: targetUrl.optional().meta({
      secret: true,
      description:
        "Address: the webhook's URL, the base URL of Alertmanager, or `smtp://user:password@host:587`. For a Slack bot that of the API, by default Slack's own.",
    }),
    urlFile: path.optional().meta({ description: "File to read the address from." }),
    token: token.optional().meta({
      secret: true,
      description: "A Slack app's bot token, or a token that is sent as `Authorization: Bearer`.",
    }),
    tokenFile: path.optional().meta({ description: "File to read the token from." }),
    signingKeys: listOf(signingKey).prefault([]).meta({
      secret: true,
      description:
        "Keys (`whsec_…`) that sign the messages of kinds `webhook` and `cloudevents`. With two, each message has both signatures, to change the key.",
    }),
    signingKeyFiles: listOf(path).prefault([]).meta({ description: "Files with signing keys, one per line." }),
    channel: text.max(200, "must have at most 200 characters").optional().meta({
      description: "Channel for a Slack bot, such as `#shop`.",
    }),
    channels: listOf(pattern).optional().meta({
      defaultText: "all for a Slack bot, none for others",
      description:
        "Channels, or e-mail addresses, that annotations of deployments may name instead; `*` is a wildcard.",
    }),
    from: mailbox.optional().meta({ description: "Sender of e-mails." }),
    to: listOf(mailbox).prefault([]).meta({ description: "Recipients of e-mails." }),
    labels: z
      .record(z.string().regex(/^[a-zA-Z_]\w*$/, "must be the name of a label"), text, { error: "must be a mapping" })
      .prefault({})
      .meta({ description: "Labels added to alerts of Alertmanager." }),
    body: z.unknown().optional().meta({
      description: "The body for kind `webhook`, as a value with `{{title}}` and other names in its texts.",
    }),
    words: listOf(ownWordsSchema).prefault([]).meta({
      description: "Other words for some messages, for every kind of target. The first entry that fits is used.",
    }),
    perHour: integer(1, 1_000)
      .prefault(60)
      .meta({ description: "Maximum number of new messages per hour. What is more arrives as one message." }),
    quietHours: z
      .strictObject({
        from: timeOfDay.meta({ description: "Beginning of the quiet hours." }),
        to: timeOfDay.meta({ description: "End of the quiet hours." }),
        timeZone: timeZone.prefault("UTC").meta({ description: "Time zone of these times." }),
      })
      .optional()
      .meta({ description: "Hours in which only errors are sent. The rest arrives as one message at their end." }),
  })
  .superRefine((target, ctx) => {
    // An invalid address is reported already, and is then still a text.
    const isSound = target.url === undefined || target.url instanceof Secret;
    for (const [key, message] of isSound ? problemsOf(target) : [])
      ctx.addIssue({ code: "custom", path: [key], message });
  });

/** Keys that a kind needs or does not have. */
function problemsOf(target: z.output<typeof targetSchema>): [string, string][] {
  const { kind, url, token, channel, from, to, body } = target;
  const problems: [string, string][] = [];
  const isMail = /^smtps?:/.test(url?.reveal() ?? "");
  if (kind === "slack") {
    if (url === undefined && token === undefined)
      problems.push(["url", "is missing: set the URL of an incoming webhook, or the token of a bot and a channel"]);
    if (token !== undefined && channel === undefined) problems.push(["channel", "is missing: a bot needs a channel"]);
    if (token === undefined && url !== undefined && channel !== undefined)
      problems.push(["channel", "has no effect on an incoming webhook: remove it, or use a bot's token"]);
  } else if (url === undefined) problems.push(["url", "is missing: set it, or urlFile"]);
  if (url !== undefined && isMail !== (kind === "email"))
    problems.push(["url", `must begin with ${kind === "email" ? "smtps:// or smtp://" : "https:// or http://"}`]);
  if (kind === "email") {
    if (from === undefined) problems.push(["from", "is missing: e-mails need a sender"]);
    if (to.length === 0) problems.push(["to", "is empty: e-mails need recipients"]);
  }
  if (body !== undefined && kind !== "webhook") problems.push(["body", "is supported for kind webhook only"]);
  if (/^https?:$/.test(URL.parse(url?.reveal() ?? "")?.protocol ?? "") && hasLogin(url))
    problems.push(["url", "must not contain credentials: use the token"]);
  return problems;
}

function hasLogin(url: Secret | undefined): boolean {
  const { username = "", password = "" } = URL.parse(url?.reveal() ?? "") ?? {};
  return username !== "" || password !== "";
}

export const routeSchema = z.strictObject({
  target: targetId.meta({ description: "The target's `id`." }),
  channel: text.max(200, "must have at most 200 characters").optional().meta({
    description: "Another channel than the target's own, or other recipients.",
  }),
  namespaces: listOf(pattern).prefault([]).meta({ description: "Namespaces of deployments; `*` is a wildcard." }),
  names: listOf(pattern).prefault([]).meta({ description: "Names of deployments; `*` is a wildcard." }),
  labels: z
    .record(z.string(), text, { error: "must be a mapping" })
    .prefault({})
    .meta({ description: "Labels that a deployment must have." }),
  repositories: listOf(pattern).prefault([]).meta({
    description: "Repositories that deployments follow, such as `github.com/acme/*`; `*` is a wildcard.",
  }),
  events: listOf(words(noticeEvents)).optional().meta({
    defaultText: "all but `started`",
    description: "What is reported.",
  }),
});

export const notificationsSchema = z.strictObject({
  targets: listOf(targetSchema).prefault([]).meta({ description: "Where notifications are sent." }),
  routes: listOf(routeSchema).prefault([]).meta({
    description: "Which target receives what. A target that no route names receives everything.",
  }),
});
