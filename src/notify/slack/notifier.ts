/**
 * Notifications in Slack: through an incoming webhook, which can only send, or by a bot, which can also change what it
 * sent.
 */
import { z } from "zod";
import { NotifyError } from "../../errors.ts";
import { parseJson } from "../../kit/json.ts";
import type { Notification } from "../../model.ts";
import type { Notifier, SendOptions } from "../../ports.ts";
import { bearerOf, checkAddress } from "../address.ts";
import { post } from "../post.ts";
import { renderMessage, renderReply } from "./message.ts";
import { findError, gone, toSlackError } from "./problems.ts";

export interface SlackOptions {
  /** The address of an incoming webhook, which is a secret. */
  readonly url?: string | undefined;
  /** A bot token with the scope `chat:write`. If it is present, no webhook is used. */
  readonly token?: string | undefined;
  /** Name or ID; only for a bot, since a webhook has a channel of its own. */
  readonly channel?: string | undefined;
  /** `https://slack-gov.com/api` for GovSlack. */
  readonly apiUrl?: string | undefined;
}

const publicApiUrl = "https://slack.com/api";
const withoutPreviews = { unfurl_links: false, unfurl_media: false };
/** No text contains a name or an address that Slack should find; `chat.update` searches for them by default. */
const withoutParsing = { parse: "none", link_names: false };

const Answer = z.discriminatedUnion("ok", [
  z.object({ ok: z.literal(true), channel: z.string(), ts: z.string() }),
  z.object({ ok: z.literal(false), error: z.string() }),
]);

/** `to`: the channel as it was configured; `channel`: its ID, which is needed to change the message. */
const Sent = z.object({ channel: z.string(), ts: z.string(), to: z.string() });

/** Errors that are not thrown. */
const none: ReadonlySet<string> = new Set();

/** Throws an Error if an option is missing or cannot be used. */
export function createSlackNotifier({ url, token, channel, apiUrl = publicApiUrl }: SlackOptions): Notifier {
  if (token !== undefined) return createBot({ token, channel, apiUrl });
  if (url !== undefined) return createWebhook(url);
  throw new Error("Slack needs the address of an incoming webhook, or the token of a bot.");
}

function createWebhook(url: string): Notifier {
  const host = checkAddress(url);
  return {
    edits: false,
    async send(message, { signal }) {
      const body = renderMessage(message, withoutPreviews) ?? refuse(host);
      const { text, headers } = await post({ url, body, signal, findWords: (answer) => findError(answer.text) });
      if (text.trim() !== "ok") throw toSlackError(text, host, headers);
      return undefined;
    },
  };
}

interface Bot {
  readonly token: string;
  readonly channel: string | undefined;
  readonly apiUrl: string;
}

function createBot({ token, channel: ownChannel, apiUrl }: Bot): Notifier {
  const host = checkAddress(apiUrl);
  const login = bearerOf(token);

  /** Returns which message was sent or changed; `undefined` for an error that the caller expects. */
  async function call(method: string, body: string | undefined, signal: AbortSignal, expected = none) {
    const url = `${apiUrl.replace(/\/+$/, "")}/${method}`;
    const { json, headers } = await post({
      ...{ url, body: body ?? refuse(host), signal },
      headers: { ...login, "content-type": "application/json; charset=utf-8" },
    });
    const answer = Answer.safeParse(json).data;
    if (answer?.ok === true) return answer;
    if (answer !== undefined && expected.has(answer.error)) return undefined;
    throw toSlackError(answer?.error ?? "", host, headers);
  }

  async function create(message: Notification, to: string, signal: AbortSignal): Promise<string | undefined> {
    const body = renderMessage(message, { channel: to, ...withoutPreviews, ...withoutParsing });
    const sent = await call("chat.postMessage", body, signal);
    return sent && JSON.stringify({ channel: sent.channel, ts: sent.ts, to } satisfies z.infer<typeof Sent>);
  }

  /** Returns whether the message was still there. It can be repeated if the reply failed. */
  async function change(
    message: Notification,
    { channel, ts }: z.infer<typeof Sent>,
    { announce = false, signal }: SendOptions,
  ): Promise<boolean> {
    const body = renderMessage(message, { channel, ts, ...withoutParsing });
    const changed = await call("chat.update", body, signal, gone);
    if (changed === undefined || !announce) return changed !== undefined;
    const thread = { channel, thread_ts: ts, reply_broadcast: true };
    const reply = renderReply(message, { ...thread, ...withoutPreviews, ...withoutParsing });
    return (await call("chat.postMessage", reply, signal, gone)) !== undefined;
  }

  return {
    edits: true,
    async send(message, options) {
      const to = options.channel ?? ownChannel;
      if (to === undefined) throw new NotifyError("refused", `${host}: no channel is configured for the bot`);
      const sent = Sent.safeParse(parseJson(options.sent ?? "")).data;
      const isThere = sent !== undefined && [sent.to, sent.channel].includes(to);
      if (isThere && (await change(message, sent, options))) return options.sent;
      return create(message, to, options.signal);
    },
  };
}

function refuse(host: string): never {
  throw new NotifyError("refused", `${host}: the message is too large`);
}
