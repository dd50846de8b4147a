import { expect, test } from "vitest";
import { SourceError } from "../../../src/errors.ts";
import { explain, isDamaged } from "../../../src/source/explain.ts";
import { GitFailure } from "../../../src/source/git.ts";
import { toRemote } from "../../../src/source/remote.ts";
import { cpuMs } from "../../support/cpu-time.ts";

const credential = { host: "h.test", secretName: "git-login", username: "deploy", password: "s3cret" };
const remote = toRemote({ url: "https://h.test/shop", credentials: [credential] }, ["https"]);

test.each([
  [
    "unauthorized",
    "fatal: could not read Username for 'https://h.test': terminal prompts disabled",
    'authentication failed (secret git-login, user "deploy")',
  ],
  ["unauthorized", "fatal: Authentication failed for 'https://h.test/shop/'", "authentication failed"],
  [
    "unauthorized",
    "fatal: unable to access 'https://h.test/shop/': The requested URL returned error: 403",
    "access is denied",
  ],
  [
    "unauthorized",
    "git@h.test: Permission denied (publickey).\r\nfatal: Could not read from remote repository.",
    "authentication failed",
  ],
  [
    "unauthorized",
    "Host key verification failed.\r\nfatal: Could not read from remote repository.",
    "put it into known_hosts",
  ],
  [
    "unauthorized",
    "@  WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!  @\r\nHost key verification failed.\r\nfatal: Could not read",
    "find out why",
  ],
  [
    "not-found",
    "remote: Repository not found.\nfatal: repository 'https://h.test/shop/' not found",
    "no such repository",
  ],
  ["not-found", "ERROR: Repository not found.\nfatal: Could not read from remote repository.", "no such repository"],
  ["not-found", "fatal: https://h.test/shop/info/refs not valid: is this a git repository?", "not a git repository"],
  [
    "unreachable",
    "fatal: protocol error: bad line length character: <htm",
    "git protocol error: fatal: protocol error: bad line length character: <htm",
  ],
  ["unreachable", "fatal: invalid server response; got 'go away'", "invalid server response; got 'go away'"],
  ["unreachable", "fatal: expected flush after ref listing", "git protocol error"],
  ["refused", "fatal: transport 'ext' not allowed", "transport 'ext' not allowed"],
  ["refused", "fatal: unable to access 'https://h.test/': The requested URL returned error: 301", "redirects"],
  [
    "unreachable",
    "fatal: unable to access 'https://h.test/': Could not resolve host: h.test",
    "Could not resolve host",
  ],
  [
    "unreachable",
    "fatal: unable to access 'https://h.test/': Failed to connect to h.test port 443 after 1 ms: Couldn't connect to server",
    "Failed to connect",
  ],
  [
    "unreachable",
    "fatal: unable to access 'https://h.test/': SSL certificate problem: self-signed certificate",
    "SSL certificate problem",
  ],
  ["unreachable", "error: RPC failed; curl 28 Operation too slow. Less than 1 bytes/sec", "does not respond in time"],
  ["unreachable", "fatal: unable to access 'https://h.test/': The requested URL returned error: 502", "502"],
  ["unreachable", "error: RPC failed; curl 18 transfer closed\nfatal: early EOF", "early EOF"],
  ["disk", "fatal: write error: No space left on device", "No space left"],
])("%s: %s", (problem, stderr, text) => {
  const error = explain(new GitFailure(Buffer.from(stderr), undefined), remote);
  expect(error).toBeInstanceOf(SourceError);
  expect((error as SourceError).problem).toBe(problem);
  expect((error as SourceError).message).toContain(text);
  expect((error as SourceError).message).toContain("h.test/shop");
});

test("no login, control character or long text gets into the message", () => {
  const stderr = `fatal: unable to access 'https://u:pw@h.test/': \u001b[31ms3cret\u0007 ${"x".repeat(9_000)}`;
  const { message } = explain(new GitFailure(Buffer.from(stderr), undefined), remote) as SourceError;
  expect(message).not.toMatch(/u:pw|s3cret|\p{Cc}/u);
  expect(message.length).toBeLessThan(600);
});

test("a token in place of a user name is not shown", () => {
  const token = { ...credential, username: "ghp_token", password: "x-oauth-basic" };
  const other = toRemote({ url: "https://h.test/shop", credentials: [token] }, ["https"]);
  const { message } = explain(
    new GitFailure(Buffer.from("fatal: Authentication failed"), undefined),
    other,
  ) as SourceError;
  expect(message).toBe("cannot read h.test/shop: authentication failed (secret git-login)");
});

test("an incomplete login is named with what is missing", () => {
  const other = toRemote({ url: "https://h.test/shop", credentials: [{ ...credential, username: "*" }] }, ["https"]);
  const { message } = explain(
    new GitFailure(Buffer.from("fatal: Authentication failed"), undefined),
    other,
  ) as SourceError;
  expect(message).toContain("secret git-login has no username, and the URL contains no user");
});

test("damage of a mirror is distinguished from a stopped git and from a failing remote", () => {
  const failure = (text: string, stopped?: Error): GitFailure => new GitFailure(Buffer.from(text), stopped);
  expect(isDamaged(failure("fatal: loose object abc is corrupt"))).toBe(true);
  expect(isDamaged(failure("error: cannot lock ref 'refs/heads/main': Unable to create 'x.lock': File exists."))).toBe(
    true,
  );
  expect(isDamaged(failure("fatal: loose object abc is corrupt", new Error("aborted")))).toBe(false);
  expect(isDamaged(failure("fatal: unable to access 'https://h.test/': Could not resolve host: h.test"))).toBe(false);
  expect(isDamaged(failure("fatal: Authentication failed"))).toBe(false);
});

test("other errors stay unchanged", () => {
  const bug = new TypeError("x is not a function");
  expect(explain(bug, remote)).toBe(bug);
});

test("any output of the remote is parsed in less than a second", () => {
  const stderr = `remote: ${"strange port ".repeat(100_000)}\nfatal: https://u:sec@ret@h.test/shop is gone`;
  const startedAt = cpuMs();
  const error = explain(new GitFailure(Buffer.from(stderr), undefined), remote) as Error;
  expect(cpuMs() - startedAt).toBeLessThan(1_000);
  expect(error.message).toContain("https://h.test/shop is gone");
});
