import { once } from "node:events";
import { type AddressInfo, type Socket, createServer } from "node:net";
import { buffer } from "node:stream/consumers";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { type ParsedMail, simpleParser } from "mailparser";
import { SMTPServer, type SMTPServerDataStream, type SMTPServerOptions, type SMTPServerSession } from "smtp-server";
import { describe, expect, onTestFinished, test } from "vitest";
import { createCertificateAuthority } from "../../../dev/parts/certificates.ts";
import { createEmailNotifier } from "../../../src/notify/email/notifier.ts";
import { failureOf as failureWithout } from "../../support/notify-targets.ts";
import { sampleNotification } from "../../support/sample-notification.ts";

const user = "towline@example.com";
const password = "canary/pass:word@1";
const credentials = `${encodeURIComponent(user)}:${encodeURIComponent(password)}@`;
const from = "Towline <towline@example.com>";
const to = ["ops@example.com"];
const never = new AbortController().signal;

/** An address with which the same server does not count as loopback. */
const elsewhere = "0.0.0.0";

/** RFC 5322: octets of a line without its end. */
const longestLine = 998;
/** RFC 5321: recipients that every server accepts; this one accepts no more. */
const mostRecipients = 100;
/** Gmail hides what is beyond in the HTML. */
const mostHtmlBytes = 102_000;
const onlyOnce = ["from", "to", "subject", "message-id", "in-reply-to", "references", "date", "auto-submitted"];

interface Received {
  readonly mail: ParsedMail;
  readonly recipients: readonly string[];
  readonly secure: boolean;
  readonly user: unknown;
}

interface MailServerOptions extends SMTPServerOptions {
  readonly host?: string;
}

/** A mail server that rejects what breaks the limits of RFC 5321 and 5322. */
async function useMailServer({ host = "127.0.0.1", ...options }: MailServerOptions = {}) {
  const received: Received[] = [];
  const logins: string[] = [];
  let connections = 0;

  async function receive(stream: SMTPServerDataStream, session: SMTPServerSession): Promise<Error | null> {
    const raw = (await buffer(stream)).toString("latin1");
    if (stream.sizeExceeded) return smtpError(552, "5.3.4 Message too large");
    const problem = findProblem(raw);
    if (problem !== undefined) return smtpError(554, `5.6.0 ${problem}`);
    const { secure, envelope, user: who } = session as SMTPServerSession & { readonly user?: unknown };
    const recipients = envelope.rcptTo.map(({ address }) => address);
    received.push({ mail: await simpleParser(raw), recipients, secure, user: who });
    return null;
  }

  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS"],
    size: 300_000,
    disableReverseLookup: true,
    onConnect(_session, done) {
      connections++;
      done();
    },
    onAuth({ username, password: given }, _session, done) {
      logins.push(String(given));
      if (username === user && given === password) done(null, { user });
      else done(smtpError(535, "5.7.8 Authentication failed for towline@example.com"));
    },
    onRcptTo(_address, { envelope }, done) {
      done(envelope.rcptTo.length < mostRecipients ? null : smtpError(452, "4.5.3 Too many recipients"));
    },
    onData: (stream, session, reply) => void receive(stream, session).then(reply),
    ...options,
  });
  server.on("error", () => undefined); // such as a client that does not trust the certificate
  const listening = server.listen(0, host);
  await once(listening, "listening");
  onTestFinished(() => new Promise<void>((resolve) => server.close(() => resolve())));
  const { port } = listening.address() as AddressInfo;
  return { received, logins, port, host, connections: () => connections, url: `smtp://127.0.0.1:${port}` };
}

function findProblem(raw: string): string | undefined {
  const [head = ""] = raw.split("\r\n\r\n", 1);
  const names = [...head.matchAll(/^([^\s:]+):/gm)].map(([, name = ""]) => name.toLowerCase());
  if (raw.split("\r\n").some((line) => line.length > longestLine)) return "line too long";
  if (/[^\r]\n|\r[^\n]/.test(raw)) return "bare line break";
  if (/[^\x00-\x7f]/.test(head)) return "header is not ASCII";
  const missing = onlyOnce.find((name) => names.filter((other) => other === name).length !== 1);
  if (missing !== undefined) return `header ${missing} is missing or there twice`;
  if (names.includes("bcc") || names.includes("x-injected")) return "injected header";
  return undefined;
}

function smtpError(responseCode: number, message: string) {
  return Object.assign(new Error(message), { responseCode });
}

/** The certificates of a server that this process trusts until the test ends. */
function useTrustedCertificate() {
  const authority = createCertificateAuthority("authority");
  const before = getCACertificates("default");
  setDefaultCACertificates([...before, authority.cert]);
  onTestFinished(() => setDefaultCACertificates(before));
  return authority.issueServer("mail", ["127.0.0.1", elsewhere]);
}

/** The login, and all addresses. */
const secrets = /canary|@example\.com|example\.org/;

async function failureOf(sending: Promise<unknown>) {
  const { problem, message } = await failureWithout(sending, secrets);
  return { problem, message };
}

function firstOf({ received }: { readonly received: readonly Received[] }): Received {
  const [first] = received;
  if (first === undefined) throw new Error("nothing was received");
  return first;
}

const htmlOf = ({ mail }: Received) => mail.html || "";
const tagsIn = (html: string) =>
  [...new Set([...html.matchAll(/<([a-z][^\s>/]*)/gi)].map(([, tag]) => tag))].toSorted();

test("a notification arrives as plain text and as HTML, marked as generated, with ids derived from its own", async () => {
  const server = await useMailServer();
  const sent = await createEmailNotifier({ url: server.url, from, to }).send(sampleNotification(), { signal: never });
  expect(sent).toBe("<m-1f0c@example.com>");
  const { mail, recipients } = firstOf(server);
  expect(recipients).toEqual(to);
  expect(mail).toMatchObject({
    messageId: sent,
    subject: "❌ shop: 3f2c1ab failed in 1 of 3 deployments",
    from: { text: '"Towline" <towline@example.com>' },
    to: { text: "ops@example.com" },
    inReplyTo: "<thread.t-77ab@example.com>",
    references: "<thread.t-77ab@example.com>",
  });
  expect(mail.headers.get("auto-submitted")).toBe("auto-generated");
  expect(mail.headers.has("x-mailer")).toBe(false);
  expect(mail.text).toBe(`❌ Failed
shop/prod: deploy failed with 1 errors: ConfigMap/settings: is invalid

⏳ In progress
shop/dev

Commit: 3f2c1ab Raise the limit
Author: Ada
Succeeded: 1 deployment
Cluster: test
Time: 2026-11-26 12:00 UTC

Commit: https://git.example.com/shop/commit/3f2c1ab

Sent by Towline.
`);
});

test("lines of one state need no heading: each has the sign of the state", async () => {
  const server = await useMailServer();
  const notifier = createEmailNotifier({ url: server.url, from, to });
  const lines = ["prod", "staging"].map((name) => ({ name: `shop/${name}`, state: "warning" as const, text: "1 del" }));
  await notifier.send(sampleNotification({ lines, linesLeftOut: 2, sample: true }), { signal: never });
  const received = firstOf(server);
  const begin = "Only a sample: nothing happened.\n\n⚠️ shop/prod: 1 del\n⚠️ shop/staging: 1 del\n\nand 2 more\n\n";
  expect(received.mail.text?.slice(0, begin.length)).toBe(begin);
  expect(htmlOf(received)).not.toContain("<h2");
  expect(htmlOf(received)).toContain(
    '<span role="img" aria-label="needs attention">⚠️</span> <strong>shop/prod</strong>',
  );
});

test("without lines, a mail says that nothing needs to be done, instead of its subject once more", async () => {
  const server = await useMailServer();
  const notifier = createEmailNotifier({ url: server.url, from, to });
  const title = "shop: no longer differs from git";
  const closed = { kind: "drift", state: "closed", severity: "info", title, lines: [], facts: [], links: [] } as const;
  await notifier.send(sampleNotification(closed), { signal: never });
  const { mail } = firstOf(server);
  expect(mail.subject).toBe(`✅ ${title}`);
  expect(mail.text).toMatch(/^Nothing needs to be done\.\n\nCluster: test\n/);
  expect(mail.text).not.toContain(title);
});

test("the HTML has a language, headings and lists, and sets no colors and loads nothing", async () => {
  const server = await useMailServer();
  await createEmailNotifier({ url: server.url, from, to }).send(sampleNotification(), { signal: never });
  const html = htmlOf(firstOf(server));
  expect(html).toContain('<html lang="en">');
  expect(html).toContain('<meta name="color-scheme" content="light dark">');
  expect(html).toContain("<strong>shop/prod</strong>: deploy failed with 1 errors");
  expect(html).toContain('<a href="https://git.example.com/shop/commit/3f2c1ab">Commit</a>');
  expect(html).toContain('<div dir="auto"><span style="opacity: 0.7">Author:</span> Ada</div>');
  expect(html).not.toMatch(/(?<![-\w])(?:color|background|background-color|bgcolor)\s*[:=]|src=|url\(|@import/);
  const known = ["a", "body", "div", "h2", "head", "html", "li", "meta", "p", "small", "span", "strong", "style"];
  expect(tagsIn(html)).toEqual([...known, "title", "ul"]);
});

test("a later state of the same subject is a reply to the earlier one, and both belong to one thread", async () => {
  const server = await useMailServer();
  const notifier = createEmailNotifier({ url: server.url, from, to });
  expect(notifier.edits).toBe(false);
  const sent = await notifier.send(sampleNotification(), { signal: never });
  const later = sampleNotification({ id: "m-2", state: "recovered", title: "shop: deployed 4a4a4a4" });
  await notifier.send(later, { sent, signal: never });
  expect(server.received.map(({ mail }) => mail.messageId)).toEqual(["<m-1f0c@example.com>", "<m-2@example.com>"]);
  expect(server.received[1]?.mail).toMatchObject({
    inReplyTo: "<m-1f0c@example.com>",
    references: ["<thread.t-77ab@example.com>", "<m-1f0c@example.com>"],
  });
});

test("if the server replaces the Message-ID, later states refer to the server's", async () => {
  const server = await useMailServer({
    hideENHANCEDSTATUSCODES: true,
    onData: (stream, _session, done) =>
      void stream.resume().on("end", () => done(null, "2.0.0 OK <b1@AB1.eurprd.prod.outlook.com> [Hostname=AB1]")),
  });
  const notifier = createEmailNotifier({ url: server.url, from, to });
  expect(await notifier.send(sampleNotification(), { signal: never })).toBe("<b1@AB1.eurprd.prod.outlook.com>");
});

test("a stored id that is not one is ignored", async () => {
  const server = await useMailServer();
  const sent = "<a@b>\r\nX-Injected: yes";
  await createEmailNotifier({ url: server.url, from, to }).send(sampleNotification(), { sent, signal: never });
  expect(firstOf(server).mail.references).toBe("<thread.t-77ab@example.com>");
});

describe("recipients", () => {
  test("a channel replaces the target's recipients", async () => {
    const server = await useMailServer();
    const channel = "shop@example.com, Team <team@example.com>";
    await createEmailNotifier({ url: server.url, from, to }).send(sampleNotification(), { channel, signal: never });
    expect(firstOf(server).recipients).toEqual(["shop@example.com", "team@example.com"]);
  });

  test.each([
    ["empty", ""],
    ["the name of a chat's channel", "#example.org"],
    ["an address with a second header", "a@example.com\r\nBcc: b@example.com"],
    ["an address with a second command", "a@example.com>\r\nRCPT TO:<b@example.com"],
    ["an address with parameters", "a@example.com> NOTIFY=NEVER"],
    ["a group", "everybody: a@example.com;"],
    ["an incomplete list", "a@example.com,"],
    ["a list that is too long", Array.from({ length: 101 }, (_, i) => `u${i}@example.com`).join()],
  ])("a channel that is %s is refused without a connection", async (_, channel) => {
    const server = await useMailServer();
    const notifier = createEmailNotifier({ url: server.url, from, to });
    const failure = await failureOf(notifier.send(sampleNotification(), { channel, signal: never }));
    expect(failure).toEqual({
      problem: "refused",
      message: `127.0.0.1:${server.port}: the channel must be 1 to 100 e-mail addresses`,
    });
    expect(server.connections()).toBe(0);
  });

  test("as many recipients as every server accepts receive one message", async () => {
    const server = await useMailServer();
    const many = Array.from({ length: 100 }, (_, i) => `u${i}@example.com`);
    await createEmailNotifier({ url: server.url, from, to: many }).send(sampleNotification(), { signal: never });
    expect(firstOf(server).recipients).toEqual(many);
  });

  test("if only some recipients are rejected, the message counts as sent, except for a sample", async () => {
    const server = await useMailServer({
      onRcptTo: ({ address }, _session, done) =>
        done(address.startsWith("gone") ? smtpError(550, `5.1.1 ${address} is unknown`) : null),
    });
    const notifier = createEmailNotifier({ url: server.url, from, to: ["gone@example.com", ...to] });
    await notifier.send(sampleNotification(), { signal: never });
    expect(firstOf(server).recipients).toEqual(to);
    const sample = sampleNotification({ sample: true });
    expect(await failureOf(notifier.send(sample, { signal: never }))).toMatchObject({
      problem: "refused",
      message: expect.stringContaining("1 of 2 recipients are rejected") as string,
    });
    expect(server.received[1]?.mail.text).toContain("Only a sample: nothing happened.");
  });
});

describe("texts from users", () => {
  const attack =
    "x\r\nBcc: victim@example.com\r\nX-Injected: yes\r\n\r\n<script>alert(1)</script><img src=x onerror=alert(1)>" +
    "\"><a href='https://evil.example.org'>Log in</a>\u202e\u0000\u2028@channel &amp; =?utf-8?Q?=0D=0ABcc:_b=40c.d?=";

  test("no text adds a header, a recipient, markup or a link, or changes the writing direction", async () => {
    const server = await useMailServer();
    const message = sampleNotification({
      title: attack,
      facts: [{ label: attack, value: attack }],
      lines: [{ name: attack, state: "failed", text: attack }],
      links: [
        { label: attack, url: "https://git.example.com/\"><script>'" },
        { label: "no address", url: "javascript:alert(1)" },
      ],
      cluster: attack,
    });
    await createEmailNotifier({ url: server.url, from, to }).send(message, { signal: never });
    const received = firstOf(server);
    expect(received.recipients).toEqual(to);
    const { subject = "", text = "" } = received.mail;
    expect(subject).toContain("x Bcc: victim@example.com X-Injected: yes <script>");
    for (const shown of [subject, text, htmlOf(received)]) expect(shown).not.toMatch(/[\u202e\u2028\0\r]/);
    expect(text.split("\n").filter((line) => line.startsWith("X-Injected"))).toEqual([]);
    const html = htmlOf(received);
    for (const tag of ["script", "img"]) expect(tagsIn(html)).not.toContain(tag);
    expect([...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href)).toEqual([
      "https://git.example.com/%22%3E%3Cscript%3E&#39;",
    ]);
  });

  test("an encoded word in a title is shown as it was written", async () => {
    const server = await useMailServer();
    const title = "=?utf-8?Q?=0D=0ABcc:_victim=40example.org?= ü";
    await createEmailNotifier({ url: server.url, from, to }).send(sampleNotification({ title }), { signal: never });
    expect(firstOf(server).mail.subject).toBe(`❌ ${title}`);
  });

  test("endless texts and 200 lines become a message of limited size that keeps the beginning", async () => {
    const server = await useMailServer();
    const long = "🚀<".repeat(50_000);
    const message = sampleNotification({
      title: long,
      facts: Array.from({ length: 200 }, (_, i) => ({ label: `Fact ${i}`, value: long })).slice(0, 5),
      lines: Array.from({ length: 200 }, (_, i) => ({ name: `shop/d${i}`, state: "failed" as const, text: long })),
      linesLeftOut: 3,
      links: [{ label: "Too long", url: `https://example.org/${"a".repeat(100_000)}` }],
    });
    await createEmailNotifier({ url: server.url, from, to }).send(message, { signal: never });
    const received = firstOf(server);
    expect([...(received.mail.subject ?? "")]).toHaveLength(202);
    expect(received.mail.text).toContain("❌ shop/d0: 🚀");
    expect(received.mail.text).toContain("\nand 183 more\n");
    expect(Buffer.byteLength(htmlOf(received))).toBeLessThan(mostHtmlBytes);
  });
});

describe("encryption", () => {
  test("smtps and a login that needs escapes in the address", async () => {
    const server = await useMailServer({ secure: true, ...useTrustedCertificate() });
    const url = `smtps://${credentials}127.0.0.1:${server.port}`;
    await createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(firstOf(server)).toMatchObject({ secure: true, user });
  });

  test("with a login, smtp is encrypted before the password is sent", async () => {
    const server = await useMailServer({ host: elsewhere, disabledCommands: [], ...useTrustedCertificate() });
    const url = `smtp://${credentials}${elsewhere}:${server.port}`;
    await createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(firstOf(server)).toMatchObject({ secure: true, user });
  });

  test("without a login, smtp is encrypted if the server offers it", async () => {
    const server = await useMailServer({ disabledCommands: [], ...useTrustedCertificate() });
    await createEmailNotifier({ url: server.url, from, to }).send(sampleNotification(), { signal: never });
    expect(firstOf(server).secure).toBe(true);
  });

  test("a server that offers no encryption never receives the password or the message", async () => {
    const server = await useMailServer({ host: elsewhere });
    const url = `smtp://${credentials}${elsewhere}:${server.port}`;
    const sending = createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toEqual({
      problem: "refused",
      message: `${elsewhere}:${server.port}: the server does not encrypt the connection (500)`,
    });
    expect(server).toMatchObject({ logins: [], received: [] });
  });

  test("a loopback server may receive the password without encryption", async () => {
    const server = await useMailServer();
    const url = `smtp://${credentials}127.0.0.1:${server.port}`;
    await createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(firstOf(server)).toMatchObject({ secure: false, user });
  });

  test.each([
    ["smtps", { secure: true }],
    ["smtp", { disabledCommands: [] }],
  ])("with %s, a server whose certificate is not trusted receives nothing", async (protocol, options) => {
    const server = await useMailServer({
      ...options,
      ...createCertificateAuthority("unknown").issueServer("mail", ["127.0.0.1"]),
    });
    const url = `${protocol}://${credentials}127.0.0.1:${server.port}`;
    const sending = createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toEqual({
      problem: "later",
      message: `127.0.0.1:${server.port}: no connection (UNABLE_TO_VERIFY_LEAF_SIGNATURE)`,
    });
    expect(server).toMatchObject({ logins: [], received: [] });
  });

  test("a certificate for another name is not accepted", async () => {
    useTrustedCertificate();
    const authority = createCertificateAuthority("authority");
    setDefaultCACertificates([authority.cert]);
    const server = await useMailServer({ secure: true, ...authority.issueServer("mail", ["mail.example.com"]) });
    const url = `smtps://${credentials}127.0.0.1:${server.port}`;
    const sending = createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toMatchObject({
      problem: "later",
      message: expect.stringContaining("ERR_TLS_CERT_ALTNAME_INVALID") as string,
    });
    expect(server).toMatchObject({ logins: [], received: [] });
  });
});

describe("a server's answer decides whether another attempt may help", () => {
  const at = "127.0.0.1:<port>";
  const fails = (code: number, words: string) => (_: unknown, __: unknown, done: (error: Error) => void) =>
    done(smtpError(code, `${words} for ops@example.com`));

  test.each<[string, SMTPServerOptions, { problem: string; message: string }]>([
    [
      "a recipient that is deferred",
      { onRcptTo: fails(450, "4.2.0 Greylisted") },
      { problem: "later", message: `${at}: does not accept the message now (450 4.2.0)` },
    ],
    [
      "a server that is too busy",
      { onMailFrom: fails(421, "4.7.0 Too many messages") },
      { problem: "later", message: `${at}: does not accept the message now (421 4.7.0)` },
    ],
    [
      "a server that closes the connection at once",
      { onConnect: (_session, done) => done(smtpError(421, "Too many connections")) },
      { problem: "later", message: `${at}: does not accept the message now (421)` },
    ],
    [
      "a sender that is rejected",
      { onMailFrom: fails(553, "5.7.1 Not owned by user") },
      { problem: "refused", message: `${at}: the sender or the recipients are rejected (553 5.7.1)` },
    ],
    [
      "a recipient that does not exist",
      { onRcptTo: fails(550, "5.1.1 Unknown") },
      { problem: "refused", message: `${at}: the sender or the recipients are rejected (550 5.1.1)` },
    ],
    [
      "a redirect to another address, which is not followed",
      { onRcptTo: fails(551, "5.1.6 Please try <elsewhere@example.org>") },
      { problem: "refused", message: `${at}: the sender or the recipients are rejected (551 5.1.6)` },
    ],
    [
      "a message that is classified as spam",
      { onData: (stream, _session, done) => void stream.resume().on("end", () => done(smtpError(554, "5.7.1 Spam"))) },
      { problem: "refused", message: `${at}: the message is rejected (554 5.7.1)` },
    ],
    [
      "a message that is too large",
      { size: 500, hideSize: true },
      { problem: "refused", message: `${at}: the message is rejected (552 5.3.4)` },
    ],
    [
      "a disk that is full",
      { onData: (stream, _session, done) => void stream.resume().on("end", () => done(smtpError(452, "4.3.1 Full"))) },
      { problem: "later", message: `${at}: does not accept the message now (452 4.3.1)` },
    ],
    [
      "a login that is rejected",
      { onAuth: fails(535, "5.7.8 Rejected") },
      { problem: "refused", message: `${at}: the login is rejected (535 5.7.8)` },
    ],
    [
      "a login that cannot be checked now",
      { onAuth: fails(454, "4.7.0 Temporary failure") },
      { problem: "later", message: `${at}: does not accept the message now (454 4.7.0)` },
    ],
    [
      "a server without logins",
      { disabledCommands: ["STARTTLS", "AUTH"] },
      { problem: "refused", message: `${at}: the login is rejected (500)` },
    ],
    [
      "a server that serves nobody",
      { onConnect: (_session, done) => done(smtpError(554, "No service here")) },
      { problem: "refused", message: `${at}: the connection is rejected (554)` },
    ],
  ])("%s", async (_, options, expected) => {
    const server = await useMailServer(options);
    const url = `smtp://${credentials}127.0.0.1:${server.port}`;
    const sending = createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    const { problem, message } = await failureOf(sending);
    expect({ problem, message: message.replace(String(server.port), "<port>") }).toEqual(expected);
    expect(server.received).toEqual([]);
    expect(server.connections()).toBeLessThanOrEqual(1);
  });
});

describe("a connection that leads nowhere", () => {
  async function useSocketServer(greet: (socket: Socket) => void): Promise<string> {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => undefined);
      greet(socket);
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    return `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  test("a refused connection is tried again later", async () => {
    const sending = createEmailNotifier({ url: "smtp://127.0.0.1:1", from, to }).send(sampleNotification(), {
      signal: never,
    });
    expect(await failureOf(sending)).toEqual({
      problem: "later",
      message: "127.0.0.1:1: no connection (ECONNREFUSED)",
    });
  });

  test("a name that does not exist is tried again later", async () => {
    const sending = createEmailNotifier({ url: "smtp://mail.invalid", from, to }).send(sampleNotification(), {
      signal: never,
    });
    expect(await failureOf(sending)).toMatchObject({
      problem: "later",
      message: expect.stringMatching(/^mail\.invalid: no connection \(E[A-Z_]+\)$/) as string,
    });
  });

  test("a connection that is closed without an answer is tried again later", async () => {
    const url = await useSocketServer((socket) => void socket.end());
    const sending = createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toMatchObject({ problem: "later" });
  });

  test.each([
    ["answer", "220-more\r\n"],
    ["line", "2"],
  ])("an endless %s ends the attempt", async (_, piece) => {
    const url = await useSocketServer((socket) => {
      const pour = () => {
        while (socket.writable && socket.write(piece.repeat(10_000)));
      };
      socket.on("drain", pour);
      pour();
    });
    const sending = createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: never });
    expect(await failureOf(sending)).toMatchObject({ problem: "later" });
  });

  test("an aborted signal ends an attempt at once, with the signal's reason", async () => {
    const stop = new AbortController();
    const reason = new Error("stopped");
    const url = await useSocketServer((socket) => {
      socket.once("close", () => closed.resolve());
      stop.abort(reason);
    });
    const closed = Promise.withResolvers<void>();
    const sending = createEmailNotifier({ url, from, to }).send(sampleNotification(), { signal: stop.signal });
    await expect(sending).rejects.toBe(reason);
    await closed.promise;
  });

  test("an attempt that is aborted before it begins does not connect", async () => {
    const server = await useMailServer();
    const notifier = createEmailNotifier({ url: server.url, from, to });
    const reason = new Error("stopped");
    await expect(notifier.send(sampleNotification(), { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(server.connections()).toBe(0);
  });
});

describe("an option that cannot be used is named, without its value", () => {
  test.each([
    ["another protocol", { url: `https://${credentials}mail.example.com` }, /^url: must look like smtps/],
    ["no host", { url: "smtp:" }, /^url: /],
    ["a password with a slash", { url: "smtp://user:1/canary@mail.example.com" }, /^url: /],
    ["a password with a number sign", { url: "smtp://user:1#canary@mail.example.com" }, /^url: /],
    ["a password with a percent sign", { url: "smtp://user:canary%@mail.example.com" }, /^url: /],
    ["a user without a password", { url: "smtp://canary@mail.example.com" }, /^url: /],
    ["a sender that is not an address", { from: "canary" }, /^from: must be an address/],
    ["a sender with a second header", { from: "a@example.com\r\nBcc: canary@example.com" }, /^from: /],
    ["no recipients", { to: [] }, /^to: must be 1 to 100 addresses/],
    ["a recipient that is not an address", { to: ["canary"] }, /^to: /],
  ])("%s", (_, options, expected) => {
    const create = () => createEmailNotifier({ url: "smtp://mail.example.com", from, to, ...options });
    expect(create).toThrow(expected);
    expect(create).not.toThrow(/canary/);
  });
});
