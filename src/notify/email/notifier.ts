/** Notifies by e-mail, one message per state; the states of one subject form a thread. */
import { domainToASCII } from "node:url";
import type { NodemailerError, SendMailOptions } from "nodemailer";
import { NotifyError } from "../../errors.ts";
import { withTimeout } from "../../kit/deadline.ts";
import type { Notifier } from "../../ports.ts";
import { type MailServer, type Mailbox, findMailbox, isLoopback, parseMailServer } from "./addresses.ts";
import { renderMail } from "./message.ts";

export interface EmailOptions {
  /** `smtp://user:password@host:587` or `smtps://…:465`; without user and password, no login. */
  readonly url: string;
  /** `towline@example.com` or `Towline <towline@example.com>`. */
  readonly from: string;
  readonly to: readonly string[];
}

/** RFC 5321 grants each command minutes. A notification that takes longer than this is sent again later. */
const timeoutMs = 60_000;
/** RFC 5321: every server accepts at least this many. */
const mostRecipients = 100;
/** RFC 5321: answers consist of lines of at most 512 bytes; that to EHLO has one for each extension. */
const mostAnswerBytes = 64_000;

/** Throws an Error if an option cannot be used; it does not contain the option's value. */
export function createEmailNotifier({ url, from, to }: EmailOptions): Notifier {
  const server = parseMailServer(url);
  const sender = findMailbox(from);
  if (sender === undefined) throw new Error("from: must be an address like team@example.com");
  const recipients = findMailboxes(to);
  if (recipients === undefined) throw new Error(`to: must be 1 to ${mostRecipients} addresses like team@example.com`);
  const domain = domainToASCII(sender.address.split("@").at(-1) ?? "") || "localhost";

  return {
    edits: false,
    async send(message, { sent, channel, signal }) {
      signal.throwIfAborted();
      const receivers = channel === undefined ? recipients : findMailboxes(channel.split(","));
      if (receivers === undefined)
        throw new NotifyError("refused", `${server.name}: the channel must be 1 to ${mostRecipients} e-mail addresses`);
      // Ids contain no dot: a message and a thread cannot have the same.
      const messageId = `<${message.id}@${domain}>`;
      const thread = `<thread.${message.thread}@${domain}>`;
      const earlier = sent !== undefined && /^<[\x21-\x7e]+>$/.test(sent) ? [sent] : [];
      const { rejected, serverMessageId } = await deliver(
        server,
        {
          from: sender,
          to: [...receivers],
          messageId,
          inReplyTo: earlier[0] ?? thread,
          references: [thread, ...earlier],
          headers: { "Auto-Submitted": "auto-generated" },
          xMailer: false,
          ...renderMail(message),
        },
        signal,
      );
      // A sample is sent to find such mistakes. Otherwise, the next attempt would reach the other recipients again.
      if (message.sample && rejected.length > 0) {
        const count = `${rejected.length} of ${receivers.length} recipients`;
        throw new NotifyError("refused", `${server.name}: ${count} are rejected; the others received the message`);
      }
      return serverMessageId ?? messageId;
    },
  };
}

function findMailboxes(texts: readonly string[]): readonly Mailbox[] | undefined {
  const found = texts.map(findMailbox).filter((mailbox) => mailbox !== undefined);
  return found.length === texts.length && found.length > 0 && found.length <= mostRecipients ? found : undefined;
}

async function deliver(server: MailServer, mail: SendMailOptions, signal: AbortSignal) {
  const transport = await createTransport(server);
  const inTime = withTimeout(timeoutMs, signal);
  try {
    return await transport.sendMail({ ...mail, signal: inTime });
  } catch (error) {
    signal.throwIfAborted();
    if (inTime.aborted) throw new NotifyError("later", `${server.name}: not accepted within ${timeoutMs / 1_000} s`);
    throw toNotifyError(error as NodemailerError, server.name);
  }
}

async function createTransport({ host, port, secure, login }: MailServer) {
  // Most installations send no e-mails: they do not load the package.
  const nodemailer = await import("nodemailer");
  return nodemailer.createTransport({
    host,
    port,
    secure,
    // Without it, an attacker on the way can remove the server's offer of STARTTLS, and read the password.
    requireTLS: !secure && login !== undefined && !isLoopback(host),
    // Even if NODE_TLS_REJECT_UNAUTHORIZED says otherwise.
    tls: { rejectUnauthorized: true },
    // Without forceAuth, the login is omitted if the server does not offer one.
    ...(login !== undefined && { auth: { ...login }, forceAuth: true }),
    maxResponseSize: mostAnswerBytes,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** What nodemailer's codes mean if the server's answer is final. */
const refusals: Readonly<Record<string, string>> = {
  EAUTH: "the login is rejected",
  ETLS: "the server does not encrypt the connection",
  EENVELOPE: "the sender or the recipients are rejected",
  EMESSAGE: "the message is rejected",
};
/** Codes that are final even without an answer: nodemailer found the mistake itself. */
const finalCodes = ["EAUTH", "EENVELOPE", "EMESSAGE"];

/** Of the server's answer, only the numbers are used: its words often contain addresses. */
function toNotifyError(error: NodemailerError, server: string): NotifyError {
  const { code = "unknown error", originalCode = code, response = "", responseCode = 0 } = error;
  const [, status, detail] = /^(\d{3})(?:[ -](\d\.\d{1,3}\.\d{1,3})\b)?/.exec(response) ?? [];
  const numbers = [status, detail].filter((part) => part !== undefined).join(" ");
  if (responseCode >= 400 && responseCode < 500)
    return new NotifyError("later", `${server}: does not accept the message now (${numbers})`);
  if (responseCode >= 500 || finalCodes.includes(code)) {
    const what = refusals[code] ?? "the connection is rejected";
    return new NotifyError("refused", `${server}: ${what}${numbers === "" ? "" : ` (${numbers})`}`);
  }
  return new NotifyError("later", `${server}: no connection (${originalCode})`);
}
